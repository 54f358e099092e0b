"""The agent as a program; see the package."""

from __future__ import annotations

import os
import socket
import sys
import threading


def relay(connection: socket.socket) -> None:
    """Copy bytes between standard input and output and a connection until either side ends."""

    def inwards() -> None:
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        os._exit(0)

    threading.Thread(target=inwards, daemon=True).start()
    while data := connection.recv(1 << 16):
        while data:
            data = data[os.write(1, data) :]


def main(way: str, folder: str, *words: str) -> None:
    """Serve or relay; see the package."""
    if way == "relay":  # without the imports of the rest, which a new connection would wait for
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(folder)  # a socket's path is at most some hundred bytes long
        connection.connect("agent.sock")
        relay(connection)
        return

    import asyncio  # noqa: PLC0415

    from cluster.backends.agent import serving  # noqa: PLC0415

    if way == "serve":
        serving.become_daemon(folder)
        asyncio.run(serving.serve_daemon(folder, words[0], float(words[1])))
    elif way == "socket":
        control, *passing = (socket.socket(fileno=int(word)) for word in words)
        asyncio.run(serving.serve_socket(folder, control, passing[0] if passing else None))
        # The hub, which hands out sockets, is left last: all others share its mounts.
        serving.wait_until_alone("mnt" if passing else "net")
    elif way == "stdio":
        ours, theirs = socket.socketpair()
        threading.Thread(target=relay, args=(ours,), daemon=True).start()
        asyncio.run(serving.serve_socket(folder, theirs, None))


if __name__ == "__main__":
    main(*sys.argv[1:])

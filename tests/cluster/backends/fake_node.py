"""A program that stands in for a node: answers every length-prefixed frame with itself.

Frames that begin with b"exit" end it with that code, b"fail" in the configuration ends it at once.
Run as `python fake_node.py CONFIG`; CONFIG is JSON {"listeners": [[host, port], ...], "mode": ...}.
"""

import ctypes
import json
import selectors
import signal
import socket
import sys
from pathlib import Path


def frames(buffer):
    while len(buffer) >= 4:
        size = int.from_bytes(buffer[:4], "big")
        if len(buffer) < 4 + size:
            return
        yield bytes(buffer[4 : 4 + size])
        del buffer[: 4 + size]


def serve(connection, buffer, selector):
    try:
        data = connection.recv(65536)
    except OSError:
        data = b""
    if not data:
        selector.unregister(connection)
        connection.close()
        return
    buffer += data
    for frame in frames(buffer):
        if frame.startswith(b"exit"):
            sys.stderr.write("asked to exit\n")
            sys.exit(int(frame[4:]))
        connection.sendall(len(frame).to_bytes(4, "big") + frame)


def write_title():
    """Write over the environment, as programs do that show a title of their own."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = map(int, fields[47:49])
    ctypes.memset(begin, ord(" "), end - begin - 1)


def main():
    config = json.loads(Path(sys.argv[1]).read_text())
    if config["mode"] == "titled":
        write_title()
    if config["mode"] == "fail":
        sys.exit("this node does not want to start")
    if config["mode"] == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    selector = selectors.DefaultSelector()
    for host, port in config["listeners"]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                connection, _ = key.fileobj.accept()
                selector.register(connection, selectors.EVENT_READ, bytearray())
            else:
                serve(key.fileobj, key.data, selector)


if __name__ == "__main__":
    main()

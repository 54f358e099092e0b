"""Holds the namespaces of a cluster open, and hands out sockets that live in them.

Run as a script (standard library only) in a fresh network and mount namespace; the argument is the
number of a socket that it inherited, the harness's. It says "ready" once it is there: before, its
process is still in the namespaces of the harness. It makes one network namespace for each line
"host" on that socket, held open by a child, and answers with the child's pid; for each "socket" it
answers with a TCP socket of its own namespace, the hub's, as ancillary data: the harness, which is
outside, connects through it to nodes.

When the harness has closed the socket, in whatever way the harness ended, it waits until nothing
runs in its hosts any more, and ends with its children: the hub's bridge would go with it, and nodes
that still run would see their interfaces vanish. The namespaces are gone then.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
POLL_S = 0.2
PROC = Path("/proc")


def hold(libc: ctypes.CDLL, keeper: int) -> int:
    """Make a network namespace; returns the pid of the child that holds it open."""
    ready, made_pipe = os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        made = libc.unshare(CLONE_NEWNET) == 0 and os.getppid() == keeper
        os.write(made_pipe, b"1" if made else b"0")
        while made:
            signal.pause()
        os._exit(1)
    os.close(made_pipe)
    made = os.read(ready, 1) == b"1"
    os.close(ready)
    return child if made else -1


def is_inhabited(holders: list[int]) -> bool:
    """Whether any process but the holders is in their namespaces."""
    held = {(PROC / str(pid) / "ns/net").readlink() for pid in holders}
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) not in holders:
            with contextlib.suppress(OSError):  # gone, or another user's
                if (entry / "ns/net").readlink() in held:
                    return True
    return False


def serve(control: socket.socket) -> None:
    """Answer one line after the other until the harness is gone, and then nodes, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    holders: list[int] = []
    with control, control.makefile("rb") as lines:
        control.sendall(b"ready\n")
        for line in lines:
            if line == b"host\n":
                holders.append(hold(libc, os.getpid()))
                control.sendall(b"%d\n" % holders[-1])
            elif line == b"socket\n":
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
                    socket.send_fds(control, [b"s"], [opened.fileno()])
    while is_inhabited([pid for pid in holders if pid > 0]):
        time.sleep(POLL_S)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])))

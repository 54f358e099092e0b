"""Ports for nodes that may be dead for a while.

A proxy's listener holds its port for the whole run. A node does not: between its incarnations
its port is free, and the kernel may hand it to any outgoing connection, upon which the node could
not start again; or a connection to it may even meet itself. So ports are taken from below the
range that the kernel hands out, and on Linux a socket of ours stays bound to each: bound, not
listening, and with SO_REUSEADDR, which keeps all away but a listener that sets the same
option, as Kafka and asyncio do.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from pathlib import Path

from cluster.backends.base import BackendError

_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10240
_TRIES = 200


class NodePorts:
    """Ports on one address, reserved until `close`."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Reserve any free port. Raises BackendError when none is found."""
        candidates = _below_kernel_range()
        for _ in range(_TRIES):
            port = random.choice(candidates) if candidates else 0
            with contextlib.suppress(OSError):
                return self._bind(port)
        raise BackendError(f"no free TCP port found on {self._host} in {_TRIES} tries")

    def close(self) -> None:
        """Give all of them back; idempotent."""
        while self._held:
            self._held.pop().close()

    def _bind(self, port: int) -> int:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.bind((self._host, port))  # without SO_REUSEADDR: refuses what others hold as well
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken: int = held.getsockname()[1]
        except OSError:
            held.close()
            raise
        if sys.platform == "linux":
            self._held.append(held)
        else:
            held.close()  # BSD would let no node bind beside it
        return taken


def _below_kernel_range() -> range:
    try:
        lowest_handed_out = int(_KERNEL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        lowest_handed_out = 32768
    return range(_LOWEST, lowest_handed_out)

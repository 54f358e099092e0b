"""What peers may take of a node: bytes, connections, time."""

from __future__ import annotations

import resource
from collections import Counter
from typing import Final

from cluster.node.protocol.frames import DEFAULT_MAX_FRAME_BYTES
from cluster.values import valueclass

RESERVED_DESCRIPTORS: Final = 128
"""Descriptors that connections leave to files, outgoing connections and listeners."""


@valueclass
class ServerLimits:
    """The bounds of a server; Kafka's defaults where it has them."""

    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    max_buffered_bytes: int = 4 * DEFAULT_MAX_FRAME_BYTES
    """Requests that wait and responses that nobody takes, of all connections together."""
    max_connections: int = 1000
    """Of each listener, so that clients never take the places of peers."""
    max_connections_per_ip: int = 2**31 - 1
    """Of each listener."""
    max_idle_ms: float = 600_000.0
    """How long a connection may go without a whole request or a response taken."""
    handshake_timeout_ms: float = 10_000.0
    """How long TLS and SASL together may take, from the accepted connection on."""


class Quota:
    """The places on one listener. Not more than the limits, in all and for each address."""

    __slots__ = ("_by_address", "_count", "_limits", "refused")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._count = 0
        self.refused = 0
        """How many were turned away so far."""

    def take(self, address: str) -> bool:
        """Take a place, if there is one."""
        limits = self._limits
        if (
            self._count >= limits.max_connections
            or self._by_address[address] >= limits.max_connections_per_ip
        ):
            self.refused += 1
            return False
        self._count += 1
        self._by_address[address] += 1
        return True

    def give_back(self, address: str) -> None:
        """Give a taken place back."""
        self._count -= 1
        self._by_address[address] -= 1
        assert self._count >= 0
        assert self._by_address[address] >= 0
        if not self._by_address[address]:
            del self._by_address[address]


def connections_that_fit(wanted: int, listeners: int) -> int:
    """Return how many connections each listener may have with the descriptors that there are.

    Raises the process's soft limit to its hard one first. A node without a descriptor left cannot
    open its next segment, so a crowd of clients would end it.
    """
    assert listeners > 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (hard - RESERVED_DESCRIPTORS) // listeners))

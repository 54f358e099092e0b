"""What peers may take of a node: bytes, connections, time."""

from __future__ import annotations

import resource
from collections import Counter
from typing import Final, Protocol

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


class Member(Protocol):
    """A connection that has a place on a listener."""

    address: str
    """Of the other end."""
    last_active: float
    """When it last brought a whole request, or took a response: seconds of the loop's time."""
    is_of_peer: bool
    """Whether it carried a request that only nodes send."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the other end is authenticated, where it must be."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""

    def evict(self) -> None:
        """Close it at once."""


class Quota:
    """The places on one listener. Not more than the limits, in all and for each address.

    Where all are taken a new connection gets the place of an idle one (Kafka's SocketServer closes
    the one used least recently, too). Whoever can connect could otherwise keep everybody out. So
    that no address can push out another that has fewer places, the new one takes the place of one
    of its own address, or of an address that holds more than its own does. The address that holds
    most loses first; of its connections, those that are not authenticated, then the idlest, and
    those of other nodes last. One with a request under way loses its place only to another address,
    where its own holds more than half of all places and nothing is idle.
    """

    __slots__ = ("_by_address", "_limits", "_members", "evicted", "refused")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._members: dict[Member, None] = {}
        self.refused = 0
        """How many were turned away so far."""
        self.evicted = 0
        """How many had to make room so far."""

    def take(self, member: Member) -> bool:
        """Give a new connection a place, if there is one."""
        limits, address = self._limits, member.address
        if self._by_address[address] >= limits.max_connections_per_ip:
            self.refused += 1
            return False
        if len(self._members) >= limits.max_connections:
            victim = self._victim(address)
            if victim is None:
                self.refused += 1
                return False
            self.evicted += 1
            victim.evict()
            assert len(self._members) < limits.max_connections, "its place is free now"
        self._members[member] = None
        self._by_address[address] += 1
        return True

    def give_back(self, member: Member) -> None:
        """Take a place back."""
        del self._members[member]
        address = member.address
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _victim(self, address: str) -> Member | None:
        held, most = self._by_address, self._limits.max_connections
        own = held[address]
        idle = [
            member
            for member in self._members
            if not member.is_busy and (member.address == address or held[member.address] > own)
        ]
        if idle:
            return min(
                idle,
                key=lambda m: (-held[m.address], m.is_authenticated, m.is_of_peer, m.last_active),
            )
        crowd = [m for m in self._members if m.address != address and 2 * held[m.address] > most]
        return min(crowd, key=lambda m: (m.is_of_peer, m.last_active), default=None)


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

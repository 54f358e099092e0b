"""Appends to the log of a bare raft quorum, and reads of what a node has committed of it.

No API of Kafka: nodes that are raft alone, without the controller above it, take these.
"""

from __future__ import annotations

from cluster.values import valueclass


@valueclass
class AppendRequest:
    """Asks the leader to append one record; the answer comes once its fate is known."""

    value: str


@valueclass
class AppendResponse:
    """Answer to an append."""

    error: str = ""
    """Empty: it is committed. `NOT_LEADER`: it was not appended. Else: it may be."""
    offset: int = -1
    epoch: int = -1


NOT_LEADER = "not_leader_or_follower"
RESIGNED = "leadership_lost"
NO_VALUE = "-"
"""A record that says nothing; reads leave it out. (Kafka takes no empty one.)"""


@valueclass
class ReadRequest:
    """Asks a node for what it has committed from an offset on."""

    offset: int


@valueclass
class ReadResponse:
    """Answer to a read."""

    records: tuple[tuple[int, str], ...]
    """(offset, value), without those of `NO_VALUE`."""
    high_watermark: int
    """The node has replayed all below."""

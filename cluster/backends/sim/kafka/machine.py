"""The state machine above a raft client: what it was given, and what clients append to it and read.

It is the same above Kafka's clients and this repository's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from cluster.backends.sim.mesh import Reply
from cluster.client.raft_log import NO_VALUE, RESIGNED, AppendResponse, ReadResponse
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import UpdateFeaturesResponse, milliseconds

FEATURES_AS_THEY_ARE: Final = UpdateFeaturesResponse(
    throttle_time=milliseconds(0), error_code=ErrorCode.none, error_message=None
)
"""Answers an update of kraft.version in a quorum that was formatted with it."""


class Archive:
    """The values that were committed in a world, by offset: a snapshot brings them no more."""

    def __init__(self) -> None:
        self._values: dict[int, bytes] = {}

    def add(self, offset: int, value: bytes) -> None:
        """Keep a committed value; that all nodes commit the same is an invariant."""
        self._values.setdefault(offset, value)

    def below(self, offset: int) -> list[bytes]:
        """Return the values below an offset, in order."""
        return [self._values[at] for at in sorted(self._values) if at < offset]

    def records_below(self, offset: int) -> list[tuple[int, str]]:
        """Return (offset, value) of those that a client appended."""
        found = ((at, self._values[at].decode()) for at in sorted(self._values) if at < offset)
        return [record for record in found if record[1] != NO_VALUE]


class StateMachine:
    """That of one process."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.replayed = 0
        """It holds all below."""
        self._committed: list[tuple[int, str]] = []
        self._pending: dict[int, tuple[str, Reply]] = {}
        """By offset: appends whose fate is not known yet."""

    def expect(self, offset: int, value: str, reply: Reply) -> None:
        """A client's record was appended at an offset."""
        self._pending[offset] = (value, reply)

    def commit(
        self, offset: int, epoch: int, value: bytes, acknowledge: Callable[[int, int], None]
    ) -> None:
        """Take a committed value; `acknowledge` is called before a client is answered."""
        text = value.decode()
        self.replayed = offset + 1
        self._archive.add(offset, value)
        if text != NO_VALUE:
            self._committed.append((offset, text))
        pending = self._pending.pop(offset, None)
        if pending is not None:
            wanted, reply = pending
            if wanted == text:
                acknowledge(offset, epoch)
                reply(AppendResponse("", offset, epoch))
            else:
                reply(AppendResponse(RESIGNED))

    def load(self, offset: int, count: int, checksum: int) -> str | None:
        """Take a snapshot of all below an offset; returns what is wrong with it.

        `count` and `checksum` are of its values, one behind the other.
        """
        values = self._archive.below(offset)
        if (len(values), crc32c(b"".join(values))) != (count, checksum):
            return f"holds {count} values, others than were committed below: {len(values)}"
        self.replayed = offset
        self._committed = self._archive.records_below(offset)
        return None

    def read(self, offset: int) -> ReadResponse:
        """Return what it holds from an offset on."""
        first = bisect_left(self._committed, (offset,))
        return ReadResponse(tuple(self._committed[first:]), self.replayed)

    def give_up(self) -> None:
        """Answer what may be appended and may be lost."""
        pending, self._pending = self._pending, {}
        for _, reply in pending.values():
            reply(AppendResponse(RESIGNED))

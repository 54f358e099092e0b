"""The two sparse indexes of a segment, in Kafka's files and in memory.

`.index`: entries of 8 bytes, relative offset and file position (int32 each): the last offset of a
batch, and where that batch begins. `.timeindex`: entries of 12 bytes, timestamp (int64) and
relative offset (int32): the largest timestamp of the segment so far, and the last offset of the
batch that has it. Both grow together, once every `index.interval.bytes`; the time index leaves out
what is not larger than the entry before, and gets one more when the segment is rolled or closed.

An index is a hint that is checked: entries must increase, and who uses one looks whether the batch
lies where it says. What does not fit is rebuilt from the batches, which have checksums.

Source: `OffsetIndex.java`, `TimeIndex.java`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class CorruptIndexError(Exception):
    """The entries of an index contradict each other or the segment."""


class OffsetIndex:
    """Relative offset -> position, both strictly increasing."""

    __slots__ = ("offsets", "positions")
    ENTRY_BYTES = _OFFSET_ENTRY.size

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.positions: list[int] = []

    @classmethod
    def decode(cls, data: bytes, size_bytes: int) -> OffsetIndex:
        """Read the file of a segment of `size_bytes`. Raises CorruptIndexError."""
        index = cls()
        if len(data) % cls.ENTRY_BYTES:
            raise CorruptIndexError(f"{len(data)} bytes are no whole entries")
        last_offset, last_position = -1, 0
        for offset, position in _OFFSET_ENTRY.iter_unpack(data):
            if offset <= last_offset or not last_position < position < size_bytes:
                raise CorruptIndexError(f"entry {offset}, {position} does not follow")
            last_offset, last_position = offset, position
            index.offsets.append(offset)
            index.positions.append(position)
        return index

    def encode(self) -> bytes:
        """Return the content of the file."""
        pairs = zip(self.offsets, self.positions, strict=True)
        return b"".join(_OFFSET_ENTRY.pack(*pair) for pair in pairs)

    def append(self, offset: int, position: int) -> bytes:
        """Add an entry; returns its bytes."""
        self.offsets.append(offset)
        self.positions.append(position)
        return _OFFSET_ENTRY.pack(offset, position)

    def truncate(self, size_bytes: int) -> int:
        """Drop entries at or after this position; returns the bytes that stay."""
        while self.positions and self.positions[-1] >= size_bytes:
            self.positions.pop()
            self.offsets.pop()
        return len(self.positions) * self.ENTRY_BYTES


class TimeIndex:
    """Timestamp (strictly increasing) -> relative offset."""

    __slots__ = ("offsets", "timestamps")
    ENTRY_BYTES = _TIME_ENTRY.size

    def __init__(self) -> None:
        self.timestamps: list[int] = []
        self.offsets: list[int] = []

    @classmethod
    def decode(cls, data: bytes) -> TimeIndex:
        """Read the file. Raises CorruptIndexError."""
        index = cls()
        if len(data) % cls.ENTRY_BYTES:
            raise CorruptIndexError(f"{len(data)} bytes are no whole entries")
        last_timestamp, last_offset = -1, -1
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or offset <= last_offset:
                raise CorruptIndexError(f"entry {timestamp}, {offset} does not follow")
            last_timestamp, last_offset = timestamp, offset
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        return index

    def encode(self) -> bytes:
        """Return the content of the file."""
        pairs = zip(self.timestamps, self.offsets, strict=True)
        return b"".join(_TIME_ENTRY.pack(*pair) for pair in pairs)

    def append(self, timestamp: int, offset: int) -> bytes:
        """Add an entry unless the last one is as late; returns its bytes, if any."""
        if timestamp <= (self.timestamps[-1] if self.timestamps else -1):
            return b""
        self.timestamps.append(timestamp)
        self.offsets.append(offset)
        return _TIME_ENTRY.pack(timestamp, offset)

    def truncate(self, offset: int) -> int:
        """Drop entries at or after this relative offset; returns the bytes that stay."""
        while self.offsets and self.offsets[-1] >= offset:
            self.offsets.pop()
            self.timestamps.pop()
        return len(self.offsets) * self.ENTRY_BYTES

    def lookup(self, timestamp: int) -> int | None:
        """Find the relative offset of the last entry that is not later; None before all."""
        found = bisect_right(self.timestamps, timestamp)
        return self.offsets[found - 1] if found else None

"""The end of the log in memory.

It holds every batch that is not durable yet, because a disk need not show what is still queued,
and as many older ones as fit in a bound, so that a leader feeds its followers without reading
files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Tail:
    """Consecutive batches up to the log end."""

    def __init__(self, start_offset: int, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._head = 0
        self._starts: list[int] = []
        self._positions: list[int] = []
        self._batches: list[bytes] = []
        self._totals: list[int] = []
        self._total = 0
        """Bytes of all batches so far; `_totals`: of those before each."""
        self.end_offset = start_offset

    @property
    def start_offset(self) -> int:
        """First offset held; the log end when nothing is held."""
        return self._starts[self._head] if self._head < len(self._starts) else self.end_offset

    def append(self, base_offset: int, next_offset: int, position: int, batch: bytes) -> None:
        """Add the batch that was given `position` in its file."""
        assert base_offset >= self.end_offset
        if base_offset > self.end_offset:  # nothing stands for what was compacted away
            self.append(self.end_offset, base_offset, position, b"")
        self._starts.append(base_offset)
        self._positions.append(position)
        self._batches.append(batch)
        self._totals.append(self._total)
        self._total += len(batch)
        self._bytes += len(batch)
        self.end_offset = next_offset

    def evict(self, durable_end_offset: int) -> None:
        """Drop durable batches, oldest first, until the bound is kept."""
        while self._bytes > self._max_bytes and self._next_start() <= durable_end_offset:
            self._bytes -= len(self._batches[self._head])
            self._batches[self._head] = b""
            self._head += 1
        if self._head > 1024 and self._head * 2 > len(self._starts):  # amortised removal
            for column in (self._starts, self._positions, self._batches, self._totals):
                del column[: self._head]
            self._head = 0

    def locate(self, offset: int) -> tuple[int, int]:
        """Return base offset and file position of the batch that holds `offset`."""
        index = self._index(offset)
        return self._starts[index], self._positions[index]

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Join whole batches from the one that holds `offset`, at least one below `end_offset`."""
        if end_offset == self.end_offset and offset == self._starts[-1]:
            return self._batches[-1]  # what followers and state machines mostly want
        first = index = self._index(offset)
        size_bytes = 0
        while index < len(self._starts) and self._end_of(index) <= end_offset:
            batch_bytes = len(self._batches[index])
            size_bytes += batch_bytes
            if size_bytes > max_bytes and size_bytes > batch_bytes:
                break
            index += 1
        return b"".join(self._batches[first:index])

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """Count the bytes of the batches held that begin from `offset` on below `end_offset`."""
        return max(0, self._bytes_before(end_offset) - self._bytes_before(offset))

    def _bytes_before(self, offset: int) -> int:
        index = bisect_left(self._starts, offset, lo=self._head)
        return self._totals[index] if index < len(self._totals) else self._total

    def truncate(self, offset: int) -> None:
        """Drop all batches at or after `offset`, which begins a batch or lies before the tail."""
        while len(self._starts) > self._head and self._starts[-1] >= offset:
            self._bytes -= len(self._batches.pop())
            self._total = self._totals.pop()
            self._starts.pop()
            self._positions.pop()
        self.end_offset = min(self.end_offset, offset)

    def _index(self, offset: int) -> int:
        assert self.start_offset <= offset < self.end_offset
        return bisect_right(self._starts, offset, lo=self._head) - 1

    def _end_of(self, index: int) -> int:
        following = index + 1
        return self._starts[following] if following < len(self._starts) else self.end_offset

    def _next_start(self) -> int:
        assert self._head < len(self._starts), "bytes are counted but no batch is held"
        return self._end_of(self._head)

"""One file of a log of metadata, and the sparse index that finds a batch in it.

The index lives in memory only: recovery reads every batch anyway, so an index file would be one
more thing that can be wrong after a crash and would save nothing. A log of data, which may be large
and is not read at a start, has index files (`data_segment`).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from operator import attrgetter
from typing import Final

from cluster.node.log.types import METADATA_TOPIC

METADATA_DIRECTORY: Final = f"{METADATA_TOPIC}-0"
"""The log of metadata, below a node's data."""
INDEX_INTERVAL_BYTES = 4096
BASE_OFFSET: Final = attrgetter("base_offset")
"""Of a segment, to look for one."""
_NAME = re.compile(r"(\d{20})\.log")


def segment_name(base_offset: int) -> str:
    """File name of the segment that begins with `base_offset`."""
    return f"{base_offset:020d}.log"


def segment_base_offset(name: str) -> int | None:
    """Read the base offset from a file name; None when it does not name a segment."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


class Segment:
    """Where the batches of one file lie. It knows positions, never bytes."""

    gaps = False
    __slots__ = (
        "_indexed_positions",
        "_indexed_starts",
        "base_offset",
        "first_timestamp_ms",
        "path",
        "size_bytes",
    )

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.size_bytes = 0
        self.first_timestamp_ms = 0
        """Of the first batch, its largest; what it is without any means nothing."""
        self._indexed_starts = array("q")
        self._indexed_positions = array("q")

    def add(self, base_offset: int, size_bytes: int, max_timestamp_ms: int) -> int:
        """Note a batch at the end of the file; returns its position."""
        position = self.size_bytes
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        positions = self._indexed_positions
        if not positions or position - positions[-1] >= INDEX_INTERVAL_BYTES:
            positions.append(position)
            self._indexed_starts.append(base_offset)
        self.size_bytes += size_bytes
        return position

    def range_holding(self, offset: int) -> tuple[int, int]:
        assert offset >= self.base_offset
        index = bisect_right(self._indexed_starts, offset)
        assert index > 0, f"nothing at {offset} in {self.path}"
        end = self.size_bytes
        if index < len(self._indexed_positions):
            end = self._indexed_positions[index]
        return self._indexed_positions[index - 1], end

    def truncate(self, size_bytes: int) -> None:
        """Forget all batches at or after position `size_bytes`."""
        assert 0 <= size_bytes <= self.size_bytes
        while self._indexed_positions and self._indexed_positions[-1] >= size_bytes:
            self._indexed_positions.pop()
            self._indexed_starts.pop()
        self.size_bytes = size_bytes

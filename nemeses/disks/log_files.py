"""Where among a node's files damage is done: which file, which batch, which entry of an index.

Pure functions of names, sizes and contents as `Disks.files` and `Disks.read` give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cluster.backends.base import BackendError
from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.data.partition_folder import DELETE_SUFFIX
from cluster.node.log.storage.index import INDEX_SUFFIX, CorruptIndexError, OffsetIndex
from cluster.node.log.storage.segment import METADATA_DIRECTORY, segment_base_offset

_OFFSET_BITS = 32
"""Of the relative offset with which an entry of an index begins."""


def name_of(path: str) -> str:
    """Return a path's last part."""
    return path.rpartition("/")[2]


def metadata_segments(files: Mapping[str, int], node: str) -> list[str]:
    """List the segments of the metadata log, in offset order. Raises BackendError for none."""
    found = [path for path in files if _is_segment(path) and _is_metadata(path)]
    if not found:
        raise BackendError(f"{node} has no log yet")
    return sorted(found, key=lambda path: segment_base_offset(name_of(path)) or 0)


def longest_of_partitions(files: Mapping[str, int], node: str) -> str:
    """Find the longest segment of a partition that stays. Raises BackendError for none."""
    found = [
        path
        for path in files
        if _is_segment(path) and not _is_metadata(path) and f"{DELETE_SUFFIX}/" not in path
    ]
    if not found:
        raise BackendError(f"{node} has no log of a partition yet")
    return max(found, key=lambda path: files[path])


def index_of(segment: str) -> str:
    """Name the offset index of a segment."""
    return segment.removesuffix(".log") + INDEX_SUFFIX


def intact_batches(data: bytes) -> list[tuple[int, BatchHeader]]:
    """List the intact batches of a segment with where they begin, up to the first other."""
    found, position = [], 0
    try:
        for header, _ in iter_batches(data):
            found.append((position, header))
            position += header.size_bytes
    except CorruptBatchError:
        pass  # a torn tail
    return found


def is_damaged(data: bytes, byte: int) -> bool:
    """Whether the batch that holds this byte of a segment is there, and not intact."""
    intact = intact_batches(data)
    end = intact[-1][0] + intact[-1][1].size_bytes if intact else 0
    return end <= byte < len(data)


def misleading_flip(index: bytes, segment_bytes: int) -> tuple[int, int] | None:
    """Find the bit of an offset index whose flip leads the most offsets astray; None: none does.

    Returns byte and bit. The entry then claims for its batch a smaller last offset than that has,
    so a search for one in between ends behind the batch that holds it; all entries still increase,
    so only a look at the batch shows it. The last entry is left alone: where the log ends is found
    from there. Of several that are as good the first is taken.
    """
    try:
        offsets = OffsetIndex.decode(index, segment_bytes).offsets
    except CorruptIndexError:
        return None
    flips = max(_flips(offsets), default=None)
    if flips is None:
        return None
    _, minus_entry, bit = flips
    return -minus_entry * OffsetIndex.ENTRY_BYTES + (_OFFSET_BITS - 1 - bit) // 8, bit % 8


def _flips(offsets: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield by how much a flip lowers an entry's offset, minus the entry, and the offset's bit."""
    for entry, offset in enumerate(offsets[:-1]):
        before = offsets[entry - 1] if entry else -1
        for bit in range(_OFFSET_BITS - 1):
            if offset & 1 << bit and offset - (1 << bit) > before:
                yield 1 << bit, -entry, bit


def _is_segment(path: str) -> bool:
    return segment_base_offset(name_of(path)) is not None


def _is_metadata(path: str) -> bool:
    return METADATA_DIRECTORY in path.split("/")

"""Where among a node's files damage is done: which file, which batch, which entry of an index.

Pure functions of names, sizes and contents as `Disks.files` and `Disks.read` give them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cluster.backends.abilities import Disks
from cluster.backends.base import BackendError, NodeState
from cluster.node.log.batch.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.data.partition_folder import DELETE_SUFFIX
from cluster.node.log.storage.index import INDEX_SUFFIX, CorruptIndexError, OffsetIndex
from cluster.node.log.storage.segment import METADATA_DIRECTORY, segment_base_offset
from cluster.node.ports import Failure
from cluster.node.protocol.messages import DescribeLogDirsRequest
from nemeses.base import Injection, View, disks_of, others
from nemeses.disks.damage import DamageFault
from nemeses.node_fault import Seen, notes_of, start_if_dead
from nemeses.queries import ask

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


# Damage to the files of a partition, which a node must repair rather than refuse.
#
# The records of a partition are promised by the replicas in sync, not by a disk (KIP-966): a node
# that finds its log damaged cuts it there and fetches the rest anew. An index is a hint, and is
# built anew from the batches when a look at them shows that it is wrong. So the node starts,
# nothing is brought back by the heal, and a damaged batch that it keeps is a violation. Whether an
# index misled it shows in what it answers.


LOG = "log"
"""The metadata log, of which the base takes care, as of every other file."""
PARTITION = "partition"
INDEX = "index"
_OF_DATA = frozenset({PARTITION, INDEX})
REPAIRED_S = 15.0
"""How long a node may take after its start until it has opened the logs of its partitions: so many
looks, as a machine that stands still lets no node repair anything either."""
_LOOK_EVERY_S = 0.25


class DataDamage(DamageFault):
    """Damage whose parameter `file` may name what is of a partition."""

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Of a partition: as nothing of it was fsynced, nothing of it may be lost by the kill.

        An index is damaged when the node was stopped in order: after any other end it is rebuilt.
        """
        file = chosen.get("file", LOG)
        crashes = view.backend.abilities().crashes
        if file == INDEX:
            await view.backend.stop(node)
        elif file == PARTITION and crashes is not None:
            await crashes.kill(node, "everything")
        elif file == PARTITION:
            await view.backend.kill(node)  # which loses nothing here
        return await super().apply(view, node, chosen)

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Start it: with damage to a partition it lives."""
        if injection.parameters.get("file", LOG) not in _OF_DATA:
            return await super().bites(view, node, injection)
        await disks_of(view).give_up(node)
        await view.backend.start(node)
        return Seen()

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """See `NodeFault.undo`; what is of a partition repairs itself."""
        if injection.parameters.get("file", LOG) in _OF_DATA:
            await start_if_dead(view, node, injection)
        else:
            await super().undo(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it lives, and that no damaged batch is left in a partition.

        One that is dead, that another fault hinders, or that serves no client yet, has not had the
        time to repair it: a broker opens its logs once it has replayed its registration.
        """
        lives = await super().check_gone(view, node, injection)
        damage = notes_of(injection, node).get("damage")
        if injection.parameters.get("file", LOG) != PARTITION or damage is None or lives.wrong:
            return lives
        path, byte = damage["file"], damage["byte"]
        for _ in range(math.ceil(REPAIRED_S / _LOOK_EVERY_S)):
            runs = await view.backend.state(node) is NodeState.RUNNING
            if not runs or _is_hindered(view, node, injection):
                return lives
            if not await _keeps(disks_of(view), node, path, byte):
                return lives
            await asyncio.sleep(_LOOK_EVERY_S)
        asked = DescribeLogDirsRequest(topics=())
        serves = await ask(view, view.backend.endpoint(node, "CLIENT"), asked)
        if isinstance(serves, Failure) or not await _keeps(disks_of(view), node, path, byte):
            return lives
        why = f"{node} runs with {path}, whose batch at byte {byte} is not intact"
        return replace(lives, violation={"kind": "damage-accepted", "explanation": why})


def _is_hindered(view: View, node: str, injection: Injection) -> bool:
    return any(node in other.targets and not other.links for other in others(view, injection))


async def _keeps(disks: Disks, node: str, path: str, byte: int) -> bool:
    """Whether the node has the damaged batch still."""
    return path in await disks.files(node) and is_damaged(await disks.read(node, path), byte)

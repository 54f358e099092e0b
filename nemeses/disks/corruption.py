"""The faults `bit-flip` and `truncate-file`: files of a dead node that are not what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.abilities import Damage, Disks
from cluster.backends.base import BackendError
from cluster.node.log.data.partition_folder import parse_folder
from cluster.node.log.storage.checkpoint import (
    RECOVERY_POINT_FILE,
    decode_offsets,
    decode_recovery_point,
)
from nemeses.base import View
from nemeses.disks.log_files import (
    INDEX,
    LOG,
    PARTITION,
    DataDamage,
    index_of,
    intact_batches,
    longest_of_partitions,
    metadata_segments,
    misleading_flip,
    name_of,
)
from nemeses.node_fault import end

QUORUM_STATE = "quorum-state"
CHECKED_FROM = 21
"""First byte of a batch that its CRC covers."""


class BitFlip(DataDamage):
    """A node is killed, and one bit of its durable files is flipped.

    Parameters: targets (default random), file ("log", the default, "quorum-state", "partition", the
    log of one, or "index", its offset index), at (0 to 1, default drawn): where in the log. There
    it is a byte under the checksum of a batch that has an intact one behind it, of a partition's
    above its recovery point; of quorum-state the first byte, after which it is no JSON; of an index
    the offset of the entry that then leads the most offsets astray, after the node was stopped in
    order. With "partition" and "index" the node lives on, and nothing is brought back.
    """

    name = "bit-flip"
    part = Damage.BIT_FLIP
    numbers: ClassVar = {"at": (0.5, 0, 1)}
    choices: ClassVar = {"file": (LOG, QUORUM_STATE, PARTITION, INDEX)}
    variants = ({"file": LOG}, {"file": QUORUM_STATE})

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        files, bit = await disks.files(node), 0
        match chosen.get("file", LOG):
            case "quorum-state":
                path, position = _quorum_state(files, node), 0
            case "index":
                path, position, bit = await _in_index(disks, files, node)
            case "partition":
                path = longest_of_partitions(files, node)
                durable = await _recovery_point(disks, files, node, path)
                position = _in_log(await disks.read(node, path), node, chosen["at"], durable)
            case _:
                path = metadata_segments(files, node)[0]
                position = _in_log(await disks.read(node, path), node, chosen["at"])
        await disks.damage(node, self.part, path, position, bit)
        return {"file": path, "byte": position, "bit": bit}


class TruncateFile(DataDamage):
    """A node is stopped, and its log cut before its recovery point: durable records are gone.

    Parameters: targets (default random), file ("log", the default, or "partition"), keep (0 to 1,
    default drawn): share of the last segment's durable batches that stay. With "partition" the node
    is killed, and the log of one ends in the midst of its last batch, as after a torn write, so
    above its recovery point; the node lives on, and nothing is brought back.
    """

    name = "truncate-file"
    part = Damage.TRUNCATE
    numbers: ClassVar = {"keep": (0.5, 0, 1)}
    choices: ClassVar = {"file": (LOG, PARTITION)}

    async def end(self, view: View, node: str) -> None:
        """Stop it, and kill it only if it does not end.

        A kill may be a power loss, which may take the recovery point, and then nothing shows that
        anything is gone.
        """
        await end(view.backend, node)

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        files = await disks.files(node)
        if chosen.get("file") == PARTITION:
            return await self._tear(disks, files, node)
        path = metadata_segments(files, node)[-1]
        folder = path.rpartition("/")[0]
        point = f"{folder}/{RECOVERY_POINT_FILE}"
        durable = decode_recovery_point(await disks.read(node, point)) if point in files else 0
        batches = [
            (begin, header)
            for begin, header in intact_batches(await disks.read(node, path))
            if header.next_offset <= durable
        ]
        if not batches:
            raise BackendError(f"{node} has nothing below its recovery point {durable} to cut")
        share = float(chosen.get("keep", chosen["at"]))
        begin, header = batches[min(int(share * len(batches)), len(batches) - 1)]
        position = begin + header.size_bytes // 2
        await disks.damage(node, self.part, path, position)
        return {"file": path, "size": position, "recovery_point": durable}

    async def _tear(self, disks: Disks, files: Mapping[str, int], node: str) -> dict[str, Any]:
        """Leave the first half of the last batch, which no fsync is known to have kept."""
        path = longest_of_partitions(files, node)
        batches = intact_batches(await disks.read(node, path))
        if not batches:
            raise BackendError(f"{node} has no batch to tear")
        begin, header = batches[-1]
        durable = await _recovery_point(disks, files, node, path)
        if header.base_offset < durable:
            raise BackendError(f"{node} has no batch above its recovery point {durable} to tear")
        position = begin + header.size_bytes // 2
        await disks.damage(node, self.part, path, position)
        return {"file": path, "size": position, "byte": position - 1}


async def _recovery_point(disks: Disks, files: Mapping[str, int], node: str, path: str) -> int:
    """Read below which offset a partition's log was fsynced."""
    directory, _, name = path.rpartition("/")[0].rpartition("/")
    point = f"{directory}/{RECOVERY_POINT_FILE}" if directory else RECOVERY_POINT_FILE
    if point not in files:
        return 0
    try:
        return decode_offsets(await disks.read(node, point)).get(parse_folder(name)[0], 0)
    except ValueError as error:
        raise BackendError(f"{node}: {point}: {error}") from error


def _quorum_state(files: Mapping[str, int], node: str) -> str:
    path = next((path for path in files if name_of(path) == QUORUM_STATE), "")
    if not files.get(path):
        raise BackendError(f"{node} has no {QUORUM_STATE} yet")
    return path


def _in_log(data: bytes, node: str, at: float, durable: int = 0) -> int:
    """Find a byte under the checksum of a batch that has an intact one behind it.

    At or above the offset `durable`: what was fsynced of a partition is not read at a start.
    """
    batches = [
        (begin, header)
        for begin, header in intact_batches(data)[:-1]
        if header.base_offset >= durable
    ]
    if not batches:
        raise BackendError(f"{node} has too short a log to damage")
    begin, header = batches[min(int(at * len(batches)), len(batches) - 1)]
    room = header.size_bytes - CHECKED_FROM
    return begin + CHECKED_FROM + int(at * 7919 * room) % room


async def _in_index(disks: Disks, files: Mapping[str, int], node: str) -> tuple[str, int, int]:
    """Find path, byte and bit in the index of the longest log of a partition."""
    segment = longest_of_partitions(files, node)
    path = index_of(segment)
    data = await disks.read(node, path) if path in files else b""
    found = misleading_flip(data, files[segment])
    if found is None:
        raise BackendError(f"{node} has no entry of an index that a flip would make misleading")
    return path, *found

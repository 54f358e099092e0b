"""Damage to the files of a dead node: `bit-flip`, `truncate-file`; `disk-wipe` is `nemeses.wipe`.

Bits are flipped and files cut only where a correct node must notice: in what was durable once. It
must then refuse to start, for what it holds is not what it acknowledged. A node that starts all
the same is reported as a violation. The heal brings the files back as they were, as from a copy of
the disk, and starts the node.

A partition's log is another matter: its records are promised by the replicas in sync, not by a disk
(KIP-966), so a node that finds one damaged cuts the log there and fetches anew. It may not keep it.

Never more than a minority of the nodes that can vote is without its disk at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from cluster.backends.abilities import Damage, Disks
from cluster.backends.base import BackendError, Probe
from cluster.names import unknown
from cluster.node.assembly import METADATA_DIRECTORY
from cluster.node.log.checkpoint import RECOVERY_POINT_FILE, decode_recovery_point
from cluster.node.log.records import BatchHeader, CorruptBatchError, iter_batches
from cluster.node.log.segment import segment_base_offset
from nemeses.base import Injection, ParameterError, Parameters, View, controllers
from nemeses.lives import DAMAGES, hit
from nemeses.needs import disks_of, lacking
from nemeses.nodefault import NodeFault, Seen, alive, ended_itself, number_of, start_if_dead
from nemeses.targets import words_of

QUORUM_STATE = "quorum-state"
PARTITION = "partition"
FILES = ("log", QUORUM_STATE, PARTITION)
REPAIRED_S = 15.0
"""How long a node may take after its start until it has opened the logs of its partitions."""
_LOOK_EVERY_S = 0.25
NOTICED_S = 2.0
"""How long a backend may take to notice that a process which is gone ended by itself."""
CHECKED_FROM = 21
"""First byte of a batch that its CRC covers."""


class DamageFault(NodeFault):
    """What the three have in common: kill, damage, and afterwards restore and start."""

    family = "damage"
    favourites: ClassVar[tuple[str, ...]] = ("leader", "random", "minority")
    kind: ClassVar[Damage]
    may_end_node = True

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`. A majority without its disks is no quorum any more."""
        super().check(parameters, nodes)
        target = parameters.get("targets", "random")
        many = set(words_of(target)) & {"majority", "all", "followers"}
        if many or len(nodes) < 3:
            hit = f"{target} of {len(nodes)} nodes"
            raise ParameterError(f"{self.name} of {hit} could be more than a minority")

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`; none where a single node is more than a minority."""
        return super().options(nodes) if len(nodes) >= 3 else ()

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        disks = view.backend.abilities().disks
        return lacking(view, "disks") if disks is None else await disks.probe(self.kind)

    def too_much(self, view: View, nodes: tuple[str, ...]) -> str:
        """See `NodeFault.too_much`."""
        may_vote = controllers(view)
        damaged = {node for fault, node in hit(view) if fault in DAMAGES} | set(nodes)
        together = damaged.intersection(may_vote)
        if len(together) > (len(may_vote) - 1) // 2:
            named = ", ".join(sorted(together))
            return f"{named} would be without their disks: more than a minority"
        return ""

    async def choose_details(
        self, view: View, nodes: tuple[str, ...], parameters: Parameters
    ) -> dict[str, dict[str, Any]]:
        """Draw where each node is hit."""
        own = {key: value for key, value in parameters.items() if key != "targets"}
        return {node: {"at": round(view.random.random(), 6), **own} for node in nodes}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """End it and damage what it left; then see whether it dares to start."""
        await self.end(view, node)
        disks = disks_of(view)
        damage = await self.hurt(disks, node, chosen)
        return Seen({"damage": damage})

    async def end(self, view: View, node: str) -> None:
        """End the process, whose disk is about to be damaged."""
        await view.backend.kill(node)

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Do the damage and describe it. BackendError where there is nothing to damage yet."""
        raise NotImplementedError

    async def bites(
        self,
        view: View,
        node: str,
        chosen: Mapping[str, Any],  # noqa: ARG002  (contract)
        injection: Injection,
    ) -> Seen:
        """Start it: it must refuse."""
        if "damage" not in injection.detail["nodes"].get(node, {}):
            return Seen({"damage": None})  # there was nothing to damage, as was noted
        try:
            await view.backend.start(node)
        except BackendError as refusal:
            detail = {**injection.detail["nodes"][node], "refused": _last(str(refusal))}
            incarnation = view.backend.incarnation(node)
            if await ended_itself(view, node, incarnation, NOTICED_S):
                return Seen(detail)
            # One that did not answer in time, say, has refused nothing, and may have accepted it.
            return Seen(detail, f"{node} did not end by itself: {_last(str(refusal))}")
        why = f"{node} started on files that were damaged where it must notice"
        violation = {"kind": "damage-accepted", "explanation": why}
        return Seen({**injection.detail["nodes"][node], "refused": None}, violation=violation)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Bring its files back, and start it."""
        # One that runs has written on what was damaged: its copy does not fit that any more.
        await view.backend.kill(node)
        await disks_of(view).restore(node)
        await start_if_dead(view, node, injection)

    async def gone(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it lives."""
        return await alive(view, node, injection)


class BitFlip(DamageFault):
    """A node is killed, and one bit of its durable files is flipped.

    Parameters: targets (default random), file ("log", the default, "quorum-state" or "partition",
    the log of one), at (0 to 1, default drawn): where in the log. There it is a byte under the
    checksum of a batch that has an intact one behind it; of quorum-state the first byte, after
    which it is no JSON. With "partition" the node lives on, and nothing is brought back.
    """

    name = "bit-flip"
    kind = Damage.BIT_FLIP
    keys = ("file", "at")
    variants = ({"file": "log"}, {"file": QUORUM_STATE})

    def check_own(self, parameters: Parameters) -> None:
        """See `NodeFault.check_own`."""
        if parameters.get("file", "log") not in FILES:
            raise ParameterError(unknown(f"file of {self.name}", str(parameters["file"]), FILES))
        number_of(parameters, self.name, "at", 0.5, 0, 1)

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """See `DamageFault.hurt`."""
        files = await disks.files(node)
        if chosen.get("file", "log") == QUORUM_STATE:
            path = next((path for path in files if _name(path) == QUORUM_STATE), "")
            if not files.get(path):
                raise BackendError(f"{node} has no {QUORUM_STATE} yet")
            position = 0
        else:
            if chosen.get("file") == PARTITION:
                path = _longest(files, node)
            else:
                path = _segments(files, node)[0]
            batches = _batches(await disks.read(node, path))[:-1]
            if not batches:
                raise BackendError(f"{node} has too short a log to damage")
            begin, header = batches[min(int(chosen["at"] * len(batches)), len(batches) - 1)]
            room = header.size_bytes - CHECKED_FROM
            position = begin + CHECKED_FROM + int(chosen["at"] * 7919 * room) % room
        await disks.damage(node, self.kind, path, position)
        return {"file": path, "byte": position}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Of a partition: as nothing of it was fsynced, nothing of it may be lost by the kill."""
        crashes = view.backend.abilities().crashes
        if chosen.get("file") == PARTITION and crashes is not None:
            await crashes.kill(node, "everything")
        return await super().apply(view, node, chosen)

    async def bites(
        self, view: View, node: str, chosen: Mapping[str, Any], injection: Injection
    ) -> Seen:
        """Start it: with a damaged partition it lives."""
        if chosen.get("file") != PARTITION:
            return await super().bites(view, node, chosen, injection)
        detail = injection.detail["nodes"].get(node, {})
        if "damage" in detail:
            await disks_of(view).give_up(node)
            await view.backend.start(node)
        return Seen(detail)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """See `NodeFault.undo`; a partition's log repairs itself."""
        if injection.parameters.get("file") == PARTITION:
            await start_if_dead(view, node, injection)
        else:
            await super().undo(view, node, injection)

    async def gone(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it lives, and that no damaged batch is left in a partition."""
        lives = await super().gone(view, node, injection)
        damage = injection.detail["nodes"].get(node, {}).get("damage")
        if injection.parameters.get("file") != PARTITION or damage is None or lives.wrong:
            return lives
        path, byte = damage["file"], damage["byte"]
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + REPAIRED_S
        while loop.time() < deadline_s:
            if not await _is_damaged(disks_of(view), node, path, byte):
                return lives
            await asyncio.sleep(_LOOK_EVERY_S)
        why = f"{node} runs with {path}, whose batch at byte {byte} has a wrong checksum"
        return replace(lives, violation={"kind": "damage-accepted", "explanation": why})


class TruncateFile(DamageFault):
    """A node is stopped, and its log cut before its recovery point: durable records are gone.

    Parameters: targets (default random), keep (0 to 1, default drawn): share of the last segment's
    durable batches that stay.
    """

    name = "truncate-file"
    kind = Damage.TRUNCATE
    keys = ("keep",)

    def check_own(self, parameters: Parameters) -> None:
        """See `NodeFault.check_own`."""
        if "keep" in parameters:
            number_of(parameters, self.name, "keep", 0.5, 0, 1)

    async def end(self, view: View, node: str) -> None:
        """Stop it, and kill it only if it does not end.

        A kill may be a power loss, which may take the recovery point, and then nothing shows that
        anything is gone.
        """
        with contextlib.suppress(BackendError):
            await view.backend.stop(node)
        await view.backend.kill(node)

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """See `DamageFault.hurt`."""
        files = await disks.files(node)
        path = _segments(files, node)[-1]
        folder = path.rpartition("/")[0]
        point = f"{folder}/{RECOVERY_POINT_FILE}"
        durable = decode_recovery_point(await disks.read(node, point)) if point in files else 0
        batches = [
            (begin, header)
            for begin, header in _batches(await disks.read(node, path))
            if header.next_offset <= durable
        ]
        if not batches:
            raise BackendError(f"{node} has nothing below its recovery point {durable} to cut")
        share = float(chosen.get("keep", chosen["at"]))
        begin, header = batches[min(int(share * len(batches)), len(batches) - 1)]
        position = begin + header.size_bytes // 2
        await disks.damage(node, self.kind, path, position)
        return {"file": path, "size": position, "recovery_point": durable}


async def _is_damaged(disks: Disks, node: str, path: str, byte: int) -> bool:
    """Whether the batch that holds this byte of a log is there, and not intact."""
    if path not in await disks.files(node):
        return False
    data = await disks.read(node, path)
    intact = _batches(data)
    end = intact[-1][0] + intact[-1][1].size_bytes if intact else 0
    return end <= byte < len(data)


def _longest(files: Mapping[str, int], node: str) -> str:
    """Find the longest segment of a partition's log."""
    found = [path for path in files if _is_segment(path) and not _is_metadata(path)]
    if not found:
        raise BackendError(f"{node} has no log of a partition yet")
    return max(found, key=lambda path: files[path])


def _is_segment(path: str) -> bool:
    return segment_base_offset(_name(path)) is not None


def _is_metadata(path: str) -> bool:
    return METADATA_DIRECTORY in path.split("/")


def _segments(files: Mapping[str, int], node: str) -> list[str]:
    """List the segments of the metadata log, in offset order."""
    found = [path for path in files if _is_segment(path) and _is_metadata(path)]
    if not found:
        raise BackendError(f"{node} has no log yet")
    return sorted(found, key=lambda path: segment_base_offset(_name(path)) or 0)


def _batches(data: bytes) -> list[tuple[int, BatchHeader]]:
    """List the intact batches of a segment with where they begin."""
    found, position = [], 0
    try:
        for header, _ in iter_batches(data):
            found.append((position, header))
            position += header.size_bytes
    except CorruptBatchError:
        pass  # a torn tail
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _last(text: str) -> str:
    """Return the end of a refusal, which says why."""
    return text.rpartition(" | ")[2][-300:]

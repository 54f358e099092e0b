"""Damage to the files of a partition, which a node must repair rather than refuse.

The records of a partition are promised by the replicas in sync, not by a disk (KIP-966): a node
that finds its log damaged cuts it there and fetches the rest anew. An index is a hint, and is built
anew from the batches when a look at them shows that it is wrong. So the node starts, nothing is
brought back by the heal, and a damaged batch that it keeps is a violation. Whether an index misled
it shows in what it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cluster.backends.abilities import Disks
from cluster.backends.base import NodeState
from nemeses.base import Injection, View, disks_of, others
from nemeses.disks.damage import DamageFault
from nemeses.disks.log_files import is_damaged
from nemeses.node_fault import Seen, start_if_dead

LOG = "log"
"""The metadata log, of which the base takes care, as of every other file."""
PARTITION = "partition"
INDEX = "index"
_OF_DATA = frozenset({PARTITION, INDEX})
REPAIRED_S = 15.0
"""How long a node may take after its start until it has opened the logs of its partitions."""
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
        detail = injection.detail["nodes"].get(node, {})
        if "damage" in detail:
            await disks_of(view).give_up(node)
            await view.backend.start(node)
        return Seen(detail)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """See `NodeFault.undo`; what is of a partition repairs itself."""
        if injection.parameters.get("file", LOG) in _OF_DATA:
            await start_if_dead(view, node, injection)
        else:
            await super().undo(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it lives, and that no damaged batch is left in a partition.

        One that is dead, or that another fault hinders, has not had the time to repair it.
        """
        lives = await super().check_gone(view, node, injection)
        damage = injection.detail["nodes"].get(node, {}).get("damage")
        if injection.parameters.get("file", LOG) != PARTITION or damage is None or lives.wrong:
            return lives
        path, byte = damage["file"], damage["byte"]
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + REPAIRED_S
        while loop.time() < deadline_s:
            runs = await view.backend.state(node) is NodeState.RUNNING
            if not runs or _is_hindered(view, node, injection):
                return lives
            if not await _keeps(disks_of(view), node, path, byte):
                return lives
            await asyncio.sleep(_LOOK_EVERY_S)
        why = f"{node} runs with {path}, whose batch at byte {byte} is not intact"
        return replace(lives, violation={"kind": "damage-accepted", "explanation": why})


def _is_hindered(view: View, node: str, injection: Injection) -> bool:
    return any(node in other.targets and not other.links for other in others(view, injection))


async def _keeps(disks: Disks, node: str, path: str, byte: int) -> bool:
    """Whether the node has the damaged batch still."""
    return path in await disks.files(node) and is_damaged(await disks.read(node, path), byte)

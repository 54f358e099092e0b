"""Damage to the files of a dead node, of which `corruption` and `wipe` are made.

Bits are flipped and files cut only where a correct node must notice: in what was durable once. It
must then refuse to start, for what it holds is not what it acknowledged. A node that starts all
the same is reported as a violation. The heal brings the files back as they were, as from a copy of
the disk, and starts the node. The files of partitions are another matter
(`nemeses.disks.log_files`), and those of a system which says that it repairs itself: what has
started there goes on with what it has, for its disk of before is behind what it wrote since.

Which file and where is known of Kafka's format; any other system says it by
`cluster.systems.base.System.damageable`, and the parameters of file and place beside `at` are
without meaning there.

Never more than a minority of the nodes that can vote is without its disk at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from cluster.backends.abilities import Damage, Disks
from cluster.backends.base import Backend, BackendError
from nemeses.active_faults import DAMAGES, hit
from nemeses.base import Injection, ParameterError, Parameters, View, disks_of
from nemeses.node_fault import NodeFault, Seen, ended_itself, notes_of, start_if_dead
from nemeses.targets import words_of

READ_MOST = 1 << 20
"""Bytes of a file of another system in which a place for damage is looked for: some allocate far
more of a log than they have written."""
NOTICED_S = 2.0
"""How long a backend may take to notice that a process which is gone ended by itself."""


_damaged_still: WeakKeyDictionary[Backend, set[str]] = WeakKeyDictionary()
"""Nodes that went on with damaged files: whether they have repaired all of it nobody knows."""


class DamageFault(NodeFault):
    """What they have in common: kill, damage, and afterwards restore and start."""

    family = "damage"
    needs = "disks"
    part: ClassVar[Damage]
    nodes_min = 3
    may_end_node = True

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`. A majority without its disks is no quorum any more."""
        super().check(parameters, nodes)
        target = parameters.get("targets", "random")
        if set(words_of(target)) & {"majority", "all", "followers"}:
            raise ParameterError(f"{self.name} of {target} could be more than a minority")

    def too_much(self, view: View, nodes: tuple[str, ...]) -> str:
        may_vote = view.controllers
        damaged = {node for fault, node in hit(view) if fault in DAMAGES} | set(nodes)
        damaged |= _damaged_still.get(view.backend, set())
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
        if disks.damageable is None or self.part is Damage.WIPE:
            return Seen({"damage": await self.hurt(disks, node, chosen)})
        named = disks.damageable(await disks.files(node))
        data = b"" if named is None else await disks.read(node, named.path, READ_MOST)
        places = [] if named is None else named.places(data)
        if named is None or not places:
            raise BackendError(f"{node} has written too little to damage")
        byte = places[int(chosen["at"] * (len(places) - 1))]
        await disks.damage(node, self.part, named.path, byte)
        return Seen({"damage": {"file": named.path, "byte": byte, "refuses": named.refuses}})

    async def end(self, view: View, node: str) -> None:
        """End the process, whose disk is about to be damaged."""
        await view.backend.kill(node)

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Do the damage and describe it. BackendError where there is nothing to damage yet."""
        raise NotImplementedError

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Start it: it must refuse."""
        try:
            await view.backend.start(node)
        except BackendError as refusal:
            detail = {"refused": _last(str(refusal))}
            incarnation = view.backend.incarnation(node)
            if await ended_itself(view, node, incarnation, NOTICED_S):
                return Seen(detail)
            # One that did not answer in time, say, has refused nothing, and may have accepted it.
            return Seen(detail, f"{node} did not end by itself: {_last(str(refusal))}")
        if _may_start(injection, node):
            return Seen({"refused": None})
        why = f"{node} started on files that were damaged where it must notice"
        violation = {"kind": "damage-accepted", "explanation": why}
        return Seen({"refused": None}, violation=violation)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Bring its files back, and start it."""
        started = notes_of(injection, node).get("refused", "") is None
        # One that runs has written on what was damaged: its copy does not fit that any more.
        await view.backend.kill(node)
        if started and _may_start(injection, node):
            await disks_of(view).give_up(node)
            _damaged_still.setdefault(view.backend, set()).add(node)
        else:
            await disks_of(view).restore(node)
        await start_if_dead(view, node, injection)


def _may_start(injection: Injection, node: str) -> bool:
    return not notes_of(injection, node).get("damage", {}).get("refuses", True)


def _last(text: str) -> str:
    """Return the end of a refusal, which says why."""
    return text.rpartition(" | ")[2][-300:]

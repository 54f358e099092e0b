"""Faults of disks in use: stall, slow, full, error. The node lives on, or ends itself over it.

A correct node whose disk stalls or is slow goes on answering, and acknowledges nothing that is not
durable. One that meets an error (EIO, ENOSPC) may end itself; one whose *fsync* failed must: what
that fsync should have kept is gone, and no later fsync brings it back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.abilities import DiskFault, DiskMeasure
from cluster.backends.base import NodeState
from nemeses.base import Injection, View, disks_of, others
from nemeses.node_fault import NodeFault, Seen, notes_of, start_if_dead

WELL_MS = 5_000.0
"""What a write or an fsync on a healthy disk of a busy machine may take."""
HIT_TIMEOUT_S = 6.0
"""How long a node may take until it writes; an idle leader appends twice a second."""
DEATH_TIMEOUT_S = 30.0
"""How long it may live on after an fsync failed: what only ends it must be no matter of load."""
_POLL_S = 0.05


class DiskFaultOf(NodeFault):
    """What they have in common: one `DiskFault` in force until the heal.

    Each kind is undone by itself: different ones may act on one node at once.
    """

    needs = "disks"
    part: ClassVar[DiskFault]
    restarts: ClassVar[bool] = False
    """Whether the heal starts a node that ended itself."""

    def kind(self, chosen: Mapping[str, Any]) -> DiskFault:  # noqa: ARG002  (some depend on it)
        """Name the fault of the disk."""
        return self.part

    def parameters(self, chosen: Mapping[str, Any]) -> dict[str, float]:  # noqa: ARG002
        """Give its parameters."""
        return {}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen | None:
        """Let the disk misbehave."""
        await disks_of(view).set(node, self.kind(chosen), self.parameters(chosen))
        return None

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure with a write and an fsync of the toolkit's own."""
        chosen = injection.detail["chosen"][node]
        measure = await disks_of(view).measure(node, self.patience_s(chosen))
        detail = detail_of(measure)
        wrong = self.complaint(measure, chosen)
        return Seen(detail, f"{node}: {wrong}: {detail}" if wrong else "")

    def patience_s(self, chosen: Mapping[str, Any]) -> float:  # noqa: ARG002  (some depend on it)
        """Say how long a measurement may take."""
        return 0.5

    def complaint(self, measure: DiskMeasure, chosen: Mapping[str, Any]) -> str:
        """Say why this measurement does not show the fault; empty when it does."""
        raise NotImplementedError

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Let the disk work again; start the node if it may have ended over it."""
        await disks_of(view).clear(node, self.kind(injection.detail["chosen"][node]))
        if self.restarts:
            await start_if_dead(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure that a write and an fsync come back, unless another fault is still there."""
        faults = [other.fault for other in others(view, injection) if node in other.targets]
        measure = await disks_of(view).measure(node, WELL_MS / 1000)
        detail = detail_of(measure)
        if measure.fsync_ms is None and any(name.startswith("disk-") for name in faults):
            return Seen({**detail, "left_to_others": faults})
        well = measure.fsync_ms is not None and measure.error is None
        return Seen(
            detail, "" if well else f"{node}: the disk is not well after the heal: {detail}"
        )


class DiskStall(DiskFaultOf):
    """Writes and fsyncs do not come back until the heal; reads do.

    Parameters: targets (default random).
    """

    name = "disk-stall"
    part = DiskFault.STALL

    def complaint(self, measure: DiskMeasure, chosen: Mapping[str, Any]) -> str:  # noqa: ARG002
        return "" if measure.fsync_ms is None and measure.error is None else "it does not stall"


class DiskSlow(DiskFaultOf):
    """Each write and each fsync takes `delay_ms` longer.

    Parameters: targets (default random), delay_ms (default 200).
    """

    name = "disk-slow"
    part = DiskFault.SLOW
    numbers: ClassVar = {"delay_ms": (200, 1, 60_000)}
    variants = tuple({"delay_ms": ms} for ms in (20, 100, 500))

    def parameters(self, chosen: Mapping[str, Any]) -> dict[str, float]:
        return {"delay_ms": self.number(chosen, "delay_ms")}

    def patience_s(self, chosen: Mapping[str, Any]) -> float:
        return (self.parameters(chosen)["delay_ms"] + WELL_MS) / 1000

    def complaint(self, measure: DiskMeasure, chosen: Mapping[str, Any]) -> str:
        least_ms = 0.9 * self.parameters(chosen)["delay_ms"]
        slow = measure.fsync_ms is not None and measure.fsync_ms >= least_ms
        return "" if slow else "it is not slow"


class DiskFull(DiskFaultOf):
    """Every write that would make a file longer, and every new file, fails with ENOSPC.

    Parameters: targets (default random). A node may end itself over it; the heal starts it again.
    """

    name = "disk-full"
    part = DiskFault.FULL
    may_end_node = True
    restarts = True

    def patience_s(self, chosen: Mapping[str, Any]) -> float:  # noqa: ARG002
        return WELL_MS / 1000  # a write fails as soon as a busy machine comes to it

    def complaint(self, measure: DiskMeasure, chosen: Mapping[str, Any]) -> str:  # noqa: ARG002
        return "" if measure.error == "ENOSPC" else "it is not full"


class DiskError(DiskFaultOf):
    """The next `count` fsyncs, or writes, of the node fail with EIO.

    Parameters: targets (default random), on ("fsync", the default, or "write"), count (default 1).
    What a failed fsync should have kept is lost. The node must end itself over a failed fsync: one
    that lives on may acknowledge what is not there, which is reported as a violation. The heal
    starts it again, on a disk that works.
    """

    name = "disk-error"
    part = DiskFault.FSYNC_ERROR
    numbers: ClassVar = {"count": (1, 1, 1_000_000)}
    choices: ClassVar = {"on": ("fsync", "write")}
    variants = ({"on": "fsync"}, {"on": "write"})
    may_end_node = True
    restarts = True

    def kind(self, chosen: Mapping[str, Any]) -> DiskFault:
        on_write = chosen.get("on", "fsync") == "write"
        return DiskFault.WRITE_ERROR if on_write else DiskFault.FSYNC_ERROR

    def parameters(self, chosen: Mapping[str, Any]) -> dict[str, float]:
        return {"count": int(self.number(chosen, "count"))}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Let the disk fail, and note which life of the node is the first to meet it."""
        incarnation = view.backend.incarnation(node)
        await super().apply(view, node, chosen)
        return Seen({"incarnation": incarnation})

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until the node met the error, and for what it does about it."""
        kind = self.kind(injection.detail["chosen"][node])
        first = notes_of(injection, node)["incarnation"]
        hits, incarnation = await _until_hit(view, node, kind, first)
        if not hits:
            return Seen({"errors": 0}, f"{node} met no error within {HIT_TIMEOUT_S:g} s")
        ended = await _until_dead(view, node, incarnation)
        violation = None
        if kind is DiskFault.FSYNC_ERROR and ended is False:
            why = f"{node} lives on after an fsync failed with EIO"
            violation = {"kind": "fsync-error-ignored", "explanation": why}
        return Seen({"errors": hits, "ended_itself": ended}, violation=violation)


async def _until_hit(view: View, node: str, kind: DiskFault, incarnation: int) -> tuple[int, int]:
    """Count the errors that it met, and name the first incarnation that may have met one."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + HIT_TIMEOUT_S
    while True:
        now = view.backend.incarnation(node)
        hits = (await disks_of(view).hits(node)).get(kind, 0)
        if hits or loop.time() >= deadline_s:
            return hits, incarnation
        incarnation = now
        await asyncio.sleep(_POLL_S)


async def _until_dead(view: View, node: str, incarnation: int) -> bool | None:
    """Whether it ends in time; None where another fault stopped it, so that it could not.

    Another fault may stop it and start it again between two looks at it. Looks are counted, not
    time: on a machine that stands still it cannot end either.
    """
    for _ in range(math.ceil(DEATH_TIMEOUT_S / _POLL_S)):
        state = await view.backend.state(node)
        if state is NodeState.DEAD:
            return True
        if state is NodeState.PAUSED or view.backend.incarnation(node) != incarnation:
            return None
        await asyncio.sleep(_POLL_S)
    return False


def detail_of(measure: DiskMeasure) -> dict[str, Any]:
    """Render a measurement; None is a call that did not come back in time."""
    times = {"write_ms": measure.write_ms, "fsync_ms": measure.fsync_ms}
    detail: dict[str, Any] = {name: ms and round(ms, 1) for name, ms in times.items()}
    return detail | ({"error": measure.error} if measure.error else {})


# Losses of power: `power-loss` and `torn-write`. What was fsynced survives, and nothing else.
#
# A correct node comes back with everything that it acknowledged.


class PowerLoss(NodeFault):
    """The node's machine loses power: it dies, and its disk keeps what was fsynced.

    Parameters: targets (default random), held_ms (default 200): for so long before, no fsync comes
    back, as on a disk that is dying, so that there is something to lose. All targets at once.
    Heal: power comes back, the node starts.
    """

    name = "power-loss"
    needs = "disks"
    family = "process"
    numbers: ClassVar = {"held_ms": (200, 0, 60_000)}
    favourites = ("leader", "random", "minority", "majority", "all")
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({"held_ms": 0}, {"held_ms": 300})
    torn: ClassVar[bool] = False

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Take the power, and note what was lost."""
        held_ms = self.number(chosen, "held_ms")
        lost = await disks_of(view).power_loss(node, held_ms=held_ms, torn=self.torn)
        return Seen({"lost": dict(lost)})

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it is dead; that its disk lost what it should, `apply` has checked."""
        state = await view.backend.state(node)
        lost = notes_of(injection, node)["lost"]
        wrong = "" if state is NodeState.DEAD else f"{node} is {state}"
        if self.torn and not wrong and not lost.get("torn"):
            wrong = f"{node}: no write was under way that could be torn"
        return Seen({"state": str(state)}, wrong)


class TornWrite(PowerLoss):
    """A power loss in a write: of the last un-fsynced one only the first half is there.

    Where the disk writes sectors whole (`cluster.systems.base.Names`), of the last that spans some.
    Parameters and heal as of power-loss.
    """

    name = "torn-write"
    torn = True
    variants = ({},)

"""Losses of power: `power-loss` and `torn-write`. What was fsynced survives, and nothing else.

A correct node comes back with everything that it acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.base import NodeState
from nemeses.base import Injection, View, disks_of
from nemeses.node_fault import NodeFault, Seen


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
        lost = injection.detail["nodes"].get(node, {}).get("lost", {})
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

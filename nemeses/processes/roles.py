"""A controller is started as a broker alone, as if an operator had taken its other role away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.backends.base import Ability, BackendError, NodeState
from cluster.systems.base import Listeners
from nemeses.base import Injection, Parameters, View, roles_of
from nemeses.node_fault import SINCE_MS, Seen, SlowNodeFault, end
from nemeses.processes.addresses import listens
from nemeses.queries import until

BROKER_ALONE: Final[Listeners] = ("CLIENT",)
SERVES_S = 60.0
"""How long a broker may take until it has registered, as on a busy machine."""


class RoleChange(SlowNodeFault):
    """A controller and broker ends (SIGTERM) and starts as a broker alone, until the heal.

    Parameters: targets (default random). It stays in the voter set, since nobody removed it, and
    must live on all the same. It bit when a new process does not listen where its controller did;
    one that has ended by itself is judged elsewhere. The heal ends it and starts it as it was.
    """

    name = "role-change"
    ability = Ability.PROCESSES
    duration = SINCE_MS
    favourites = ("random", "follower")

    async def choose_details(
        self,
        view: View,
        nodes: tuple[str, ...],
        parameters: Parameters,  # noqa: ARG002  (contract)
    ) -> dict[str, dict[str, Any]]:
        """See `NodeFault.choose_details`. Raises BackendError for a broker."""
        before = {node: roles_of(view).listeners(node) for node in nodes}
        for node, listeners in before.items():
            if "CONTROLLER" not in listeners:
                raise BackendError(f"{node} is no controller")
        return {node: {"before": [*listeners]} for node, listeners in before.items()}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:  # noqa: ARG002
        """End it, start it as a broker alone."""
        await view.backend.stop(node)
        await roles_of(view).change(node, BROKER_ALONE)
        await view.backend.start(node)
        return Seen({"incarnation": view.backend.incarnation(node)})

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until it serves clients, and try the port of its controller."""
        detail = dict(injection.detail["nodes"].get(node, {}))
        if "incarnation" not in detail:
            return Seen(detail)  # it was not started, as was noted
        client = view.backend.endpoint(node, "CLIENT").port

        async def serves() -> bool | None:
            dead = await view.backend.state(node) is NodeState.DEAD
            return dead or await listens(view.backend, node, client) or None

        if not await until(serves, SERVES_S):
            return Seen(detail, f"{node} serves no clients {SERVES_S:g} s after its start")
        if await listens(view.backend, node):
            return Seen(detail, f"{node} still listens as a controller")
        return Seen(detail)

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """End what lives, give the roles back, start it unless another fault holds it down."""
        await end(view.backend, node)
        await roles_of(view).change(node, tuple(injection.detail["chosen"][node]["before"]))
        await super().undo(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure that it lives, and listens as a controller."""
        seen = await super().check_gone(view, node, injection)
        if seen.wrong or "left_to" in seen.detail or await listens(view.backend, node):
            return seen
        return Seen(seen.detail, f"{node} does not listen as a controller again")

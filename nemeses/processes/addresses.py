"""Where a node listens changes at a restart: its controller's port, or whether it has a controller.

A voter of a dynamic quorum makes its new address known to the leader (KIP-853, UpdateRaftVoter),
which writes it into the log: by the old one no candidate gets its vote. A controller that is
started as a broker alone is one whose other role an operator has taken away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.backends.base import Ability, Backend, BackendError, NodeState
from cluster.node.kraft.messages import DescribeQuorumResponse
from cluster.systems.base import Listeners
from nemeses.active_faults import hit
from nemeses.base import Injection, Parameters, View, addresses_of, roles_of
from nemeses.node_fault import SINCE_MS, Seen, SlowNodeFault, end, notes_of
from nemeses.queries import POLL_S, leading, until
from nemeses.quorum.membership import changes, directories, endpoint_of, is_dynamic, node_id

ADDRESS_CHANGE: Final = "address-change"
KNOWN_S = 30.0
"""How long one leader may name the old address of a voter that follows it: Kafka's voters send
UpdateRaftVoter after every third fetch time-out, later ones after each."""
GIVEN_UP_S = 90.0
"""How long it is waited for while leaders change and other faults act."""


class AddressChange(SlowNodeFault):
    """A node ends (SIGTERM) and starts with its controller at another port, for good.

    Parameters: targets (default random). It bit when the node listens there, no longer at the old
    port, and the leader names the new one. A leader that names the old one to the end, of a voter
    that follows it all the time, is a violation. The heal starts what is dead, at the new port.
    """

    name = ADDRESS_CHANGE
    needs = "addresses"
    ability = Ability.PROCESSES
    favourites = ("random", "leader", "follower")

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:  # noqa: ARG002
        """End it, start it at another port; returns when it answers there."""
        addresses, backend = addresses_of(view), view.backend
        old = backend.endpoint(node).port
        await backend.stop(node)
        await addresses.change_address(node)
        await backend.start(node)
        incarnation = backend.incarnation(node)
        return Seen({"from": old, "to": backend.endpoint(node).port, "incarnation": incarnation})

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until the leader names the new port."""
        detail = notes_of(injection, node)
        if await listens(view.backend, node, detail["from"]):
            return Seen(wrong=f"{node} still listens at port {detail['from']}")
        loop = asyncio.get_running_loop()
        streak: _Streak | None = None
        end_s = loop.time() + GIVEN_UP_S
        while loop.time() < end_s:
            backend = view.backend
            if (
                await backend.state(node) is NodeState.DEAD
                or backend.incarnation(node) != detail["incarnation"]
            ):
                return Seen({"state": "ended"})  # by itself, or another fault took it
            found = await leading(view)
            if found is not None and not _must_name(found[1], node):
                return Seen({"named": False})
            if found is not None and endpoint_of(view, found[1], node)[1] == detail["to"]:
                return Seen({"named": True})
            streak = _Streak.extend(streak, view, node, found, loop.time())
            if streak is not None and streak.proves(loop.time()):
                why = (
                    f"leader {streak.leader} still names port {detail['from']} of {node}, which "
                    f"has listened at port {detail['to']} and followed {streak.leader} for "
                    f"{KNOWN_S:g} s: other voters do not reach it"
                )
                return Seen(
                    {"named": False}, violation={"kind": "address-unknown", "explanation": why}
                )
            await asyncio.sleep(POLL_S)
        return Seen(wrong=f"no leader named port {detail['to']} of {node} in {GIVEN_UP_S:g} s")


@dataclass(frozen=True, slots=True)
class _Streak:
    """Time in which one leader named the old address, and nothing excused it."""

    leader: str
    epoch: int
    since_s: float
    mark: int
    """High watermark at its beginning ..."""
    fetched: int
    """... and what the node has of the log by now, by its Fetches."""
    looks: int = 1
    """Few in all that time show a machine that stood still, and the nodes with it."""

    @classmethod
    def extend(
        cls,
        streak: _Streak | None,
        view: View,
        node: str,
        found: tuple[str, DescribeQuorumResponse] | None,
        now_s: float,
    ) -> _Streak | None:
        """Return the streak with one more look, anew where the leader is another one."""
        if found is None:
            return streak  # it may be that the answer took long
        leader, quorum = found
        others = {fault for fault, at in hit(view) if at in (node, leader)} - {ADDRESS_CHANGE}
        if others or changes(view).under_way:
            return None  # it has other things to do, or the leader may refuse it for them
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.voters}
        fetched = ends.get(node_id(node), -1)
        if streak is None or (streak.leader, streak.epoch) != (leader, quorum.leader_epoch):
            return cls(leader, quorum.leader_epoch, now_s, quorum.high_watermark, fetched)
        return replace(streak, fetched=fetched, looks=streak.looks + 1)

    def proves(self, now_s: float) -> bool:
        """Whether it is long enough, of a node that fetches what is committed meanwhile."""
        stood_still = self.looks < KNOWN_S / POLL_S / 10
        return now_s - self.since_s >= KNOWN_S and self.fetched > self.mark and not stood_still


def _must_name(quorum: DescribeQuorumResponse, node: str) -> bool:
    """Whether the node is a voter of a quorum that names the addresses of its voters."""
    named = any(endpoint.node_id == node_id(node) for endpoint in quorum.nodes)
    return named and is_dynamic(quorum) and node_id(node) in directories(quorum)


async def listens(backend: Backend, node: str, port: int | None = None) -> bool:
    """Whether something listens at a port of the node, by default at its controller's."""
    place = backend.endpoint(node)
    try:
        (await backend.connect(place if port is None else replace(place, port=port))).close()
    except OSError:
        return False
    return True


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

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:  # noqa: ARG002
        """Wait until it serves clients, and try the port of its controller."""
        client = view.backend.endpoint(node, "CLIENT").port

        async def serves() -> bool | None:
            dead = await view.backend.state(node) is NodeState.DEAD
            return dead or await listens(view.backend, node, client) or None

        if not await until(serves, SERVES_S):
            return Seen(wrong=f"{node} serves no clients {SERVES_S:g} s after its start")
        if await listens(view.backend, node):
            return Seen(wrong=f"{node} still listens as a controller")
        return Seen()

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

"""The fault `disk-wipe`: a node loses its disk with all that it voted for and acknowledged.

What comes back with an empty disk must not count as the voter that it was. Where voters are in the
log (kraft.version 1) it is replaced as an operator does it (KIP-853): the lost voter is removed,
the node starts under a new directory id as an observer, and that one is added. Where they are
configured there is no such way and no quorum can be asked to survive it: the heal brings the files
back, as from a copy of the disk. It does so, too, where the removal does not commit; but who was
asked for it may have written it down, and commit it later. So the heal is over only once a leader
that knows what is committed tells that the node is a voter, and a node that is none then is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cluster.backends.abilities import Damage, Disks
from cluster.backends.base import BackendError, NodeState
from cluster.node.kraft.messages import DescribeQuorumResponse
from nemeses.asking import leading, until
from nemeses.base import Injection, View
from nemeses.damage import DISK_WIPE, DamageFault
from nemeses.membership import (
    CHANGE_TIMEOUT_S,
    add_voter,
    directories,
    endpoint_of,
    fetching_directory,
    is_dynamic,
    node_id,
    remove_voter,
)
from nemeses.needs import disks_of
from nemeses.nodefault import Seen
from nemeses.voters import Voters

LOST = "lost_voter"
"""Key of what is told of a voter that is to be replaced."""


class DiskWipe(DamageFault):
    """A node loses its disk: every file is gone, and it stays down until the heal.

    Parameters: targets (default random). Heal: see the module. It is replaced only if the voters
    that keep their disks are a majority, and no change of voters is under way.
    """

    name = DISK_WIPE
    kind = Damage.WIPE

    async def choose_details(
        self, view: View, nodes: tuple[str, ...], parameters: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Find out who can be replaced; asked before any is dead, as one of them may lead."""
        details = await super().choose_details(view, nodes, parameters)
        found = await leading(view)
        if found is not None and _may_lose(view, found[1], nodes):
            voters = directories(found[1])
            for node in nodes:
                if node_id(node) in voters:
                    endpoint = list(endpoint_of(found[1], node))
                    told = {"directory": str(voters[node_id(node)]), "endpoint": endpoint}
                    details[node] = {**details[node], LOST: told}
        return details

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """See `DamageFault.hurt`."""
        files = await disks.files(node)
        await disks.damage(node, self.kind)
        return {"files": len(files), "bytes": sum(files.values())}

    async def bites(
        self,
        view: View,
        node: str,
        chosen: Mapping[str, Any],  # noqa: ARG002  (contract)
        injection: Injection,
    ) -> Seen:
        """See that it is dead and that nothing is left."""
        state, left = await view.backend.state(node), await disks_of(view).files(node)
        told = {**injection.detail["nodes"].get(node, {}), "state": str(state), "left": len(left)}
        gone = state is NodeState.DEAD and not left
        return Seen(told, "" if gone else f"{node} is {state} with {len(left)} files")

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Replace the voter, or bring its files back; start it."""
        lost = injection.detail["chosen"][node].get(LOST)
        if lost is None:
            await super().undo(view, node, injection)
            return
        before, replaced = UUID(lost["directory"]), False
        if await view.backend.state(node) is NodeState.DEAD:
            if await until(lambda: remove_voter(view, node, before), CHANGE_TIMEOUT_S) is None:
                # Never to be started empty as the voter that it still is; with its files it may.
                await super().undo(view, node, injection)
            else:
                await disks_of(view).give_up(node)
                await view.backend.join_anew(node)
                await view.backend.start(node)
                replaced = True

        async def back() -> list[str] | None:
            now = await fetching_directory(view, node)
            if now is None or (replaced and now == before):  # which a leader may remember
                return await _is_settled_voter(view, node)
            return await add_voter(view, node, now, tuple(lost["endpoint"]))

        if await until(back, CHANGE_TIMEOUT_S) is None:
            raise BackendError(f"no leader tells that {node} is a voter again")

    async def gone(self, view: View, node: str, injection: Injection) -> Seen:
        """See that it lives, and as whom."""
        seen = await super().gone(view, node, injection)
        lost = injection.detail["chosen"][node].get(LOST)
        found = await leading(view) if lost is not None else None
        if lost is None or found is None:
            return seen
        now = directories(found[1]).get(node_id(node))
        told = {**seen.told, "directory_before": lost["directory"], "directory_now": str(now)}
        return Seen(told, seen.wrong)


def _may_lose(view: View, told: DescribeQuorumResponse, nodes: tuple[str, ...]) -> bool:
    """Whether the quorum survives it that these never come back as who they are."""
    if not is_dynamic(told) or any(one.fault == Voters.name for one in view.active):
        return False
    wiped = {n for one in view.active if one.fault == DISK_WIPE for n in one.targets}
    voters = directories(told)
    lost = sum(node_id(node) in voters for node in wiped | set(nodes))
    return lost <= (len(voters) - 1) // 2


async def _is_settled_voter(view: View, node: str) -> list[str] | None:
    """The voters, once a leader that has committed something in its epoch counts the node in."""
    found = await leading(view)
    if found is None or found[1].high_watermark < 0:
        return None
    voters = directories(found[1])
    return sorted(f"n{voter}" for voter in voters) if node_id(node) in voters else None

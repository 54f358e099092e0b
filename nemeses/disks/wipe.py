"""The fault `disk-wipe`: a node loses its disk with all that it voted for and acknowledged.

What comes back with an empty disk must not count as the voter that it was. Where voters are in the
log (kraft.version 1) it is replaced as an operator does it (KIP-853): the lost voter is removed,
the node starts under a new directory id as an observer, and that one is added. Where they are
configured there is no such way and no quorum can be asked to survive it: the heal brings the files
back, as from a copy of the disk. A node that never votes is not replaced: it starts with its empty
disk and fetches everything. Files come back, too, where the removal does not commit; but a leader
that was asked for it may have written it down, and commit it later. So the heal is over only once a
leader that knows what is committed reports the node as a voter, and a node that is none then is
added.

With `empty` the heal starts it with its empty disk and does nothing else, as an operator does who
does not know better. In a quorum whose voters are configured it then counts as the voter that it
was, and what it had acknowledged may be lost: KAFKA-14077. No schedule draws it.

With `back_ms` the node does not wait for that: an operator starts it with its new disk while the
voter that was lost still counts. A node that took it for that voter, by its id alone, would vote
twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from cluster.backends.abilities import Damage, Disks
from cluster.backends.base import BackendError, NodeState
from cluster.node.kraft.messages import DescribeQuorumResponse
from cluster.node.meta_properties import FILE_NAME as META_PROPERTIES
from cluster.node.meta_properties import MetaPropertiesError, directory_id_of
from nemeses.active_faults import DISK_WIPE
from nemeses.base import Injection, ParameterError, Parameters, View, disks_of
from nemeses.disks.damage import DamageFault
from nemeses.node_fault import Seen, start_if_dead
from nemeses.queries import leading, until
from nemeses.quorum.membership import (
    CATCH_UP_S,
    CHANGE_TIMEOUT_S,
    LOST,
    add_voter,
    changes,
    changing,
    directories,
    endpoint_of,
    fetching_directory,
    is_dynamic,
    is_voter,
    lost_voters,
    node_id,
    observer_lag,
    quorum_in_force,
    remove_voter,
)
from nemeses.quorum.voters import Voters
from nemeses.restarts import lose, return_of


class DiskWipe(DamageFault):
    """A node loses its disk: every file is gone, and it stays down until the heal.

    Parameters: targets (default random); back_ms: so long after the injection it starts with its
    empty disk, as a replica of no voter set; empty (default false). Heal: see the module. It is
    replaced only if the voters that keep their disks are a majority, and no change of voters is
    under way; where it cannot be replaced, or another voter may not know yet that voters are in
    the log, `back_ms` is refused.
    """

    name = DISK_WIPE
    part = Damage.WIPE
    numbers: ClassVar = {"back_ms": (0, 0, 600_000)}
    choices: ClassVar = {"empty": (False, True)}

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        super().check(parameters, nodes)
        if parameters.get("empty") and "back_ms" in parameters:
            raise ParameterError(f"{self.name} takes one of back_ms and empty")

    async def choose_details(
        self, view: View, nodes: tuple[str, ...], parameters: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Find the nodes that can be replaced, before any is dead: one of them may lead."""
        details = await super().choose_details(view, nodes, parameters)
        if parameters.get("empty"):
            return details
        found = await quorum_in_force(view)
        voters = {} if found is None else directories(found[1])
        may_lose = found is not None and _may_lose(view, found[1], nodes)
        if may_lose and found is not None and "back_ms" in parameters:
            may_lose = await _all_know_directories(view, found[1], nodes)
        for node in nodes:
            if may_lose and found is not None and node_id(node) in voters:
                endpoint = list(endpoint_of(view, found[1], node))
                voter = {"directory": str(voters[node_id(node)]), "endpoint": endpoint}
                details[node] = {**details[node], LOST: voter}
            elif not may_lose and "back_ms" in parameters:
                raise BackendError(f"{node} cannot be replaced now, and must not come back empty")
        return details

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        seen = await super().apply(view, node, chosen)
        if chosen.get("empty"):
            return seen
        way = lose(view, node, map(UUID, seen.detail["damage"]["was"]))
        if "back_ms" in chosen:
            way.begin_later(view, node, chosen["back_ms"])
        return seen

    async def hurt(self, disks: Disks, node: str, chosen: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """See `DamageFault.hurt`.

        What the node was, `was`, is read from its disk: a leader that was elected just now has not
        heard of an observer, and would hear of it before the disk is lost.
        """
        files = await disks.files(node)
        named = [path for path in files if path.rpartition("/")[2] == META_PROPERTIES]
        try:
            was = [str(directory_id_of(await disks.read(node, path))) for path in named]
        except MetaPropertiesError as error:
            raise BackendError(f"{node}: {error}") from error
        await disks.damage(node, self.part)
        return {"files": len(files), "bytes": sum(files.values()), "was": was}

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Check that it is dead and its disk empty, unless it has come back already."""
        state, left = await view.backend.state(node), await disks_of(view).files(node)
        detail = {"state": str(state), "left": len(left)}
        gone = "back_ms" in injection.parameters if state is not NodeState.DEAD else not left
        return Seen(detail, "" if gone else f"{node} is {state} with {len(left)} files")

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Replace the voter, or bring its files back, or neither; start it."""
        if injection.detail["chosen"][node].get("empty"):
            await start_if_dead(view, node, injection)
            return
        lost = injection.detail["chosen"][node].get(LOST)
        way = return_of(view.backend, node)
        came_back = way is not None and await way.settle()
        if lost is None:
            if came_back or await _observes_anew(view, node):
                await start_if_dead(view, node, injection)
            else:
                await super().undo(view, node, injection)
            return
        before, replaced = UUID(lost["directory"]), False
        with changing(view):
            if came_back or await view.backend.state(node) is NodeState.DEAD:
                replaced = (
                    await until(lambda: remove_voter(view, node, before), CHANGE_TIMEOUT_S) is True
                )
                if replaced and way is not None:
                    await way.begin(view, node)
                    await start_if_dead(view, node, injection)
                elif came_back:
                    raise BackendError(f"the voter that {node} was counts still")
                else:
                    # Never to be started empty as the voter that it still is; with its files it
                    # may.
                    await super().undo(view, node, injection)

            async def back() -> list[str] | None:
                now = await fetching_directory(view, node)
                if now is None:
                    return await is_voter(view, node, wanted=True)
                return await add_voter(view, node, now, tuple(lost["endpoint"]))

            lag = partial(observer_lag, view, node)
            if await until(back, CHANGE_TIMEOUT_S, lag) is None:
                raise BackendError(f"no leader reports {node} as a voter again")

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Check that it lives, and note its directory id."""
        seen = await super().check_gone(view, node, injection)
        lost = injection.detail["chosen"][node].get(LOST)
        found = await leading(view) if lost is not None else None
        if lost is None or found is None:
            return seen
        now = directories(found[1]).get(node_id(node))
        detail = {**seen.detail, "directory_before": lost["directory"], "directory_now": str(now)}
        return Seen(detail, seen.wrong)


async def _all_know_directories(
    view: View, quorum: DescribeQuorumResponse, nodes: tuple[str, ...]
) -> bool:
    """Whether every other voter has replicated the records that put the voters into the log.

    A voter that has not learned yet that voters are in the log knows them by their ids. It would
    take the empty node for the voter that it was, and with its vote lead without what is committed.
    """
    known = changes(view).dynamic_below
    end = max(voter.log_end_offset for voter in quorum.voters) if known is None else known

    async def caught_up() -> bool | None:
        found = await leading(view)
        if found is None or not is_dynamic(found[1]):
            return None
        others = (voter for voter in found[1].voters if f"n{voter.replica_id}" not in nodes)
        return all(voter.log_end_offset >= end for voter in others) or None

    return await until(caught_up, CATCH_UP_S) is True


def _may_lose(view: View, quorum: DescribeQuorumResponse, nodes: tuple[str, ...]) -> bool:
    """Whether the quorum keeps a majority if these nodes never come back as the same voters."""
    if not is_dynamic(quorum) or changes(view).under_way:
        return False
    if any(injection.fault == Voters.name and not injection.verified for injection in view.active):
        return False  # it may commit yet
    voters = directories(quorum)
    lost = sum(node_id(node) in voters for node in {*lost_voters(view), *nodes})
    return lost <= (len(voters) - 1) // 2


async def _observes_anew(view: View, node: str) -> bool:
    """Let a node that never votes, and so has promised nothing, come back with its empty disk."""
    way = return_of(view.backend, node)
    if way is None or node in view.controllers:
        return False
    await way.begin(view, node)
    return True

"""Changes of the voters (KIP-853), as an operator makes them.

`remove`, and `replace`, which adds the node again at once: the heal makes it a voter again. `add`
lets a node join for good, `upgrade` lets the voters be in the log (kraft.version 1) for good. Each
is sent to the leader, again and again until it is committed, for a bounded time.

A quorum whose voters are configured (kraft.version 0) is upgraded first: that waits until the
voters have reported where they listen. Two voters are always left, and none is removed while a
voter that lost its disk still counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from cluster.backends.base import NodeState, Probe
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumResponse
from nemeses.active_faults import is_damaged
from nemeses.base import (
    Injection,
    ParameterError,
    Parameters,
    Refusal,
    View,
    add_measurement,
    application,
    before_acting,
)
from nemeses.fault_kind import FaultKind
from nemeses.queries import leading, until
from nemeses.quorum.membership import (
    CHANGE_TIMEOUT_S,
    add_voter,
    changes,
    changing,
    directories,
    endpoint_of,
    fetching_directory,
    finalize,
    is_voter,
    lost_voters,
    node_id,
    note_upgrade,
    observer_lag,
    remove_voter,
)
from nemeses.restarts import gave_up
from nemeses.targets import NODE, choose

CHANGES = ("remove", "replace", "add", "upgrade")
LEAST_VOTERS = 2
_SINGLE = ("leader", "follower", "random", "partition-leader")
_UPGRADE = 1
_NOT_AGAIN = "it is no voter again yet"


class Voters(FaultKind):
    """A voter is removed or replaced, a node is added, or kraft.version becomes 1 (KIP-853).

    Parameters: change (default remove), targets (default random; none of an upgrade): one node.
    """

    name = "voters"
    choices: ClassVar = {"change": CHANGES}

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        super().check(parameters, nodes)
        change, targets = parameters.get("change", "remove"), parameters.get("targets", "random")
        if targets not in _SINGLE and targets not in [f"{NODE}{node}" for node in nodes]:
            raise ParameterError("voters changes one voter: leader, follower, random or node:NAME")
        if change == "upgrade" and "targets" in parameters:
            raise ParameterError("voters has no targets where change is upgrade")

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        if len(nodes) <= LEAST_VOTERS:
            return ()
        return tuple(
            {"change": change, "targets": target}
            for change in ("remove", "replace")
            for target in ("leader", "random")
        )

    async def probe(self, view: View) -> Probe:
        if len(view.controllers) <= LEAST_VOTERS:
            return Probe(
                possible=False, reason=f"{LEAST_VOTERS} voters must stay", remedy="--nodes 3"
            )
        return Probe(possible=True)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        self.check(parameters, view.backend.nodes)
        change = parameters.get("change", "remove")
        with changing(view):
            # For good: a leader that is cut off would answer no more, and must get its change.
            upgraded: bool | None = changes(view).dynamic_below is not None
            if not upgraded:
                upgraded = await until(lambda: _upgrade(view), CHANGE_TIMEOUT_S)
            if upgraded:
                await note_upgrade(view)
            if change == "upgrade":
                return application(self.name, parameters, (), {"committed": upgraded is not None})
            if upgraded is None:
                raise Refusal("kraft.version 1 was not finalized in time")
            found = await leading(view)
            if found is None:
                raise Refusal("no leader is known")
            return await self._change(view, parameters, change, found[1])

    async def _change(
        self, view: View, parameters: Parameters, change: str, quorum: DescribeQuorumResponse
    ) -> Injection:
        voters = directories(quorum)
        with before_acting():
            unable = await _unable(view, voters, joins=change == "add")
            (node,) = await choose(view, parameters.get("targets", "random"), unable)
        if change != "add" and (reason := _too_few(view, node, voters)):
            raise Refusal(reason)
        before = voters.get(node_id(node))
        detail = {
            "voters_before": sorted(f"n{voter}" for voter in voters),
            "directory": None if before is None else str(before),
            "endpoint": list(endpoint_of(view, quorum, node)),
        }
        injection = application(self.name, parameters, (node,), detail)
        if change == "add":
            done = await until(lambda: _add(view, injection), CHANGE_TIMEOUT_S) is not None
        else:
            with changing(view, leaving=node):
                done = await until(lambda: _remove(view, injection), CHANGE_TIMEOUT_S) is not None
        return replace(injection, detail={**detail, "committed": done})

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`: the leader says that the node is no voter, or is one (again)."""
        change, committed = (
            injection.parameters.get("change", "remove"),
            injection.detail["committed"],
        )
        if change == "upgrade":
            reason = "" if committed else "kraft.version 1 was not finalized in time"
            return add_measurement(injection, {}, [reason] if reason else [])
        node, joins = injection.targets[0], change == "add"
        patience_s = CHANGE_TIMEOUT_S if committed else 0.0
        voters = await until(lambda: is_voter(view, node, wanted=joins), patience_s)
        if voters is None:
            reason = "it is no voter yet" if joins else "it is a voter still"
            return add_measurement(injection, {"voters_after": []}, [reason])
        if change == "replace":
            with changing(view):
                back = await _voter_again(view, injection)
            if back is None:
                return add_measurement(injection, {"voters_after": voters}, [_NOT_AGAIN])
            voters = back
        return add_measurement(injection, {"voters_after": voters})

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: it is a voter (again); an upgrade is for good."""
        if injection.parameters.get("change") == "upgrade":
            return add_measurement(injection, {})
        with changing(view):
            back = await _voter_again(view, injection)
        if back is None:
            return add_measurement(injection, {"voters_healed": []}, [_NOT_AGAIN])
        return add_measurement(injection, {"voters_healed": back})


async def _voter_again(view: View, injection: Injection) -> list[str] | None:
    """Add the node, however long it takes to fetch what it lacks; the voters."""
    lag = partial(observer_lag, view, injection.targets[0])
    return await until(partial(_add, view, injection), CHANGE_TIMEOUT_S, lag)


async def _unable(view: View, voters: Mapping[int, UUID], *, joins: bool) -> dict[str, str]:
    """Say which nodes cannot leave, or join, the voters."""
    unable = {}
    for node in view.backend.nodes:
        state = await view.backend.state(node)
        if node not in view.controllers:
            unable[node] = "it never votes"
        elif (node_id(node) in voters) is joins:
            unable[node] = "it is a voter" if joins else "it is no voter"
        elif state is not NodeState.RUNNING:
            unable[node] = f"it is {state}"
        elif is_damaged(view, node):
            unable[node] = "its disk is about to be lost"
    return unable


def _too_few(view: View, node: str, voters: Mapping[int, UUID]) -> str:
    """Say why the node must not leave these voters now; empty when it may."""
    if lost := lost_voters(view):
        return f"{', '.join(lost)} lost the disk of a voter that counts still"
    leaving = {name for name, count in changes(view).leaving.items() if count and name != node}
    left = [voter for voter in voters if f"n{voter}" not in leaving]
    return f"only {len(left)} voters are left" if len(left) <= LEAST_VOTERS else ""


async def _upgrade(view: View) -> bool | None:
    """Ask for kraft.version 1; True once it is in force."""
    done = await finalize(view, "kraft.version", 1, _UPGRADE) is ErrorCode.none
    return True if done else None


async def _remove(view: View, injection: Injection) -> bool | None:
    """Ask for the removal, where the voters of this moment allow it."""
    node, found = injection.targets[0], await leading(view)
    if found is None:
        return None
    voters = directories(found[1])
    if node_id(node) in voters and _too_few(view, node, voters):
        return None
    return await remove_voter(view, node, UUID(injection.detail["directory"]))


async def _add(view: View, injection: Injection) -> list[str] | None:
    """Add the node (again), as the replica that it is now: its disk may be another than before."""
    node, (host, port) = injection.targets[0], injection.detail["endpoint"]
    before = injection.detail["directory"]
    directory = await fetching_directory(view, node) or (None if before is None else UUID(before))
    if is_damaged(view, node):
        return None  # what it was may never come back
    if directory is None or gave_up(view.backend, node, directory):
        return await is_voter(view, node, wanted=True)
    return await add_voter(view, node, directory, (host, port))

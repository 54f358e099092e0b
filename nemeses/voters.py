"""Voters that go and come back (KIP-853): `remove`, and `replace`, which adds them again at once.

A quorum whose voters are configured (kraft.version 0) is upgraded first, for good: it waits until
the voters have told where they listen. The heal makes the removed node a voter again. Two voters
are always left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

from cluster.backends.base import NodeState, Probe
from cluster.names import unknown
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    i8,
    i16,
    milliseconds,
)
from nemeses.asking import leading, until
from nemeses.base import Injection, ParameterError, Parameters, View, refused
from nemeses.membership import (
    CHANGE_TIMEOUT_S,
    REQUEST_TIMEOUT_MS,
    add_voter,
    ask_leader,
    directories,
    endpoint_of,
    fetching_directory,
    is_voter,
    node_id,
    remove_voter,
)
from nemeses.targets import check_keys, check_target, choose

CHANGES = ("remove", "replace")
LEAST_VOTERS = 2
_UPGRADE = 1


class Voters:
    """A voter is removed from the quorum, or replaced, and is back after the heal (KIP-853).

    Parameters: change (default remove), targets (default random).
    """

    name: ClassVar[str] = "voters"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        check_keys(self.name, parameters, ("targets", "change"))
        check_target(parameters.get("targets", "random"), nodes)
        if parameters.get("targets") in ("minority", "majority", "all", "followers"):
            raise ParameterError("voters changes one voter: leader, random or node:NAME")
        change = parameters.get("change", "remove")
        if change not in CHANGES:
            raise ParameterError(unknown("change", change, CHANGES))

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """See `Fault.options`."""
        if len(nodes) <= LEAST_VOTERS:
            return ()
        return tuple(
            {"change": change, "targets": target}
            for change in CHANGES
            for target in ("leader", "random")
        )

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        if len(view.backend.nodes) <= LEAST_VOTERS:
            return Probe(
                possible=False, reason=f"{LEAST_VOTERS} voters must stay", remedy="--nodes 3"
            )
        return Probe(possible=True)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`."""
        self.check(parameters, view.backend.nodes)
        if await until(lambda: _upgraded(view), CHANGE_TIMEOUT_S) is None:
            return refused(self.name, parameters, "kraft.version 1 was not finalized in time")
        found = await leading(view)
        if found is None:
            return refused(self.name, parameters, "no leader is known")
        voters = directories(found[1])
        choice = await choose(
            view, parameters.get("targets", "random"), await _unable(view, voters)
        )
        if not choice.nodes:
            return refused(self.name, parameters, choice.reason)
        node = choice.nodes[0]
        if len(voters) <= LEAST_VOTERS:
            return refused(self.name, parameters, f"only {len(voters)} voters are left")
        detail = {
            "voters_before": sorted(f"n{voter}" for voter in voters),
            "directory": str(voters[node_id(node)]),
            "endpoint": list(endpoint_of(found[1], node)),
        }
        injection = Injection(
            self.name, dict(parameters), (node,), verified=False, detail=detail, applied=True
        )
        await until(lambda: _removed(view, injection), CHANGE_TIMEOUT_S)
        return injection

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`: the leader says that the node is no voter, or is one again."""
        gone = await until(
            lambda: is_voter(view, injection.targets[0], wanted=False), CHANGE_TIMEOUT_S
        )
        if gone is None:
            return _told(injection, "it is a voter still", "voters_after", [])
        if injection.parameters.get("change") == "replace":
            back = await until(lambda: _added(view, injection), CHANGE_TIMEOUT_S)
            if back is None:
                return _told(injection, "it is no voter again yet", "voters_after", gone)
            return _told(injection, "", "voters_after", back)
        return _told(injection, "", "voters_after", gone)

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: it is a voter again."""
        back = await until(lambda: _added(view, injection), CHANGE_TIMEOUT_S)
        if back is None:
            return _told(injection, "it is no voter again yet", "voters_healed", [])
        return _told(injection, "", "voters_healed", back)


async def _unable(view: View, voters: dict[int, UUID]) -> dict[str, str]:
    unable = {}
    for node in view.backend.nodes:
        state = await view.backend.state(node)
        if node_id(node) not in voters:
            unable[node] = "it is no voter"
        elif state is not NodeState.RUNNING:
            unable[node] = f"it is {state}"
    return unable


def _told(injection: Injection, reason: str, key: str, value: list[str]) -> Injection:
    detail = {k: v for k, v in injection.detail.items() if k != "reason"} | {key: value}
    if reason:
        detail["reason"] = reason
    return replace(injection, verified=not reason, detail=detail)


async def _upgraded(view: View) -> bool | None:
    """Ask for kraft.version 1; True once it is in force."""
    update = FeatureUpdateKey(
        feature="kraft.version", max_version_level=i16(1), upgrade_type=i8(_UPGRADE)
    )
    request = UpdateFeaturesRequest(
        timeout=milliseconds(REQUEST_TIMEOUT_MS), feature_updates=(update,), validate_only=False
    )
    answer = await ask_leader(view, request)
    done = isinstance(answer, UpdateFeaturesResponse) and answer.error_code is ErrorCode.none
    return True if done else None


async def _removed(view: View, injection: Injection) -> bool | None:
    directory = UUID(injection.detail["directory"])
    return await remove_voter(view, injection.targets[0], directory)


async def _added(view: View, injection: Injection) -> list[str] | None:
    """Add the node again, as the replica that it is now: its disk may be another than before."""
    node, (host, port) = injection.targets[0], injection.detail["endpoint"]
    directory = await fetching_directory(view, node) or UUID(injection.detail["directory"])
    return await add_voter(view, node, directory, (host, port))

"""The voter set as the leader describes it, and single changes of it (KIP-853), each sent once.

What several faults are about to change of one cluster is counted (`changing`), so that together
they do nothing that an operator must not do: a quorum that lost its majority so shows no bug.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    NO_DIRECTORY,
    AddVoterRequest,
    AddVoterResponse,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    ReplicaDescription,
)
from cluster.node.log.batch.control import VoterListener
from cluster.node.ports import Failure
from cluster.node.protocol.messages import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    i8,
    i16,
    milliseconds,
)
from nemeses.active_faults import DISK_WIPE, hit
from nemeses.base import View
from nemeses.queries import ask, leading, until
from nemeses.restarts import gave_up

LOST = "lost_voter"
"""Key of what is noted of a voter that is to be replaced, in the detail of its fault."""
CHANGE_TIMEOUT_S = 10.0
"""How long a change may take to commit in a quorum that works."""
REQUEST_TIMEOUT_MS = 3_000
CATCH_UP_S = 1.0
"""How long a quorum that works may take to replicate what its leader has appended."""


def node_id(node: str) -> int:
    """The id of a node of this name."""
    return int(node.removeprefix("n"))


def directories(quorum: DescribeQuorumResponse) -> dict[int, UUID]:
    """Id -> directory id of each voter; NO_DIRECTORY where voters are configured."""
    return {voter.replica_id: voter.directory_id for voter in quorum.voters}


async def quorum_in_force(view: View) -> tuple[str, DescribeQuorumResponse] | None:
    """The leader, and what it says of the quorum, once the voters that it names are committed.

    A leader counts by a set of voters from the moment that it appends it (KIP-853), and may lose
    that record with its office: what it names, and its DUPLICATE_VOTER and VOTER_NOT_FOUND, are
    facts only once its high watermark has passed the end that its log had when it named them.
    """
    first: DescribeQuorumResponse | None = None

    async def look() -> tuple[str, DescribeQuorumResponse] | None:
        nonlocal first
        found = await leading(view)
        if found is None:
            return None
        now = found[1]
        if first is None or _reign(first) != _reign(now):
            first = now
        # A leader that removes itself names its own end no more.
        ends = [v.log_end_offset for v in first.voters if v.replica_id == first.leader_id]
        return found if ends and now.high_watermark >= ends[0] else None

    return await until(look, CATCH_UP_S)


def _reign(quorum: DescribeQuorumResponse) -> tuple[int, int, dict[int, UUID]]:
    return quorum.leader_id, quorum.leader_epoch, directories(quorum)


def is_dynamic(quorum: DescribeQuorumResponse) -> bool:
    """Whether the voters are in the log (kraft.version 1)."""
    known = directories(quorum).values()
    return bool(known) and NO_DIRECTORY not in known


def endpoint_of(view: View, quorum: DescribeQuorumResponse, node: str) -> tuple[str, int]:
    """Where the leader reaches a voter, or would reach it."""
    where = view.backend.endpoint(node, "CONTROLLER")
    known = ((e.host, e.port) for e in quorum.nodes if e.node_id == node_id(node))
    return next(known, (where.host, where.port))


@dataclass(slots=True)
class Changes:
    """What is about to change in one cluster."""

    under_way: int = 0
    leaving: Counter[str] = field(default_factory=Counter)
    """Nodes of which a removal is under way."""
    dynamic_below: int | None = None
    """An offset below which the voters came into the log; None where nobody has seen it."""


_changes: WeakKeyDictionary[Backend, Changes] = WeakKeyDictionary()


def changes(view: View) -> Changes:
    """Return what is about to change in the cluster of this view."""
    return _changes.setdefault(view.backend, Changes())


@contextmanager
def changing(view: View, leaving: str = "") -> Iterator[None]:
    """Count a change as under way, and the node as leaving that it removes."""
    now, gone = changes(view), [leaving] if leaving else []
    now.under_way += 1
    now.leaving.update(gone)
    try:
        yield
    finally:
        now.under_way -= 1
        now.leaving.subtract(gone)


async def note_upgrade(view: View) -> None:
    """Remember, once kraft.version 1 is in force, an offset below which it is in the log."""
    now = changes(view)
    found = await leading(view) if now.dynamic_below is None else None
    if found is not None and is_dynamic(found[1]):
        now.dynamic_below = max(voter.log_end_offset for voter in found[1].voters)


def lost_voters(view: View) -> list[str]:
    """Name the voters that have lost their disks and are not replaced yet, or may lose them now."""
    active = [injection for injection in view.active if injection.fault == DISK_WIPE]
    known = {node for injection in active for node in injection.targets}
    chosen = [own for injection in active for own in injection.detail.get("chosen", {}).items()]
    lost = {node for node, own in chosen if LOST in own}
    return sorted(lost | {node for fault, node in hit(view) if fault == DISK_WIPE} - known)


async def remove_voter(view: View, node: str, directory: UUID) -> bool | None:
    """Ask for the removal; True once it is committed, or there is no such voter."""
    answer = await ask_leader(view, RemoveVoterRequest(None, node_id(node), directory))
    if not isinstance(answer, RemoveVoterResponse):
        return None
    if answer.error is ErrorCode.voter_not_found:
        found = await quorum_in_force(view)
        gone = found is not None and directories(found[1]).get(node_id(node)) != directory
        return gone or None
    return True if answer.error is ErrorCode.none else None


async def add_voter(
    view: View, node: str, directory: UUID, endpoint: tuple[str, int]
) -> list[str] | None:
    """Ask for the node to be added; the voters once it is one, with this directory."""
    request = AddVoterRequest(
        None,
        REQUEST_TIMEOUT_MS,
        node_id(node),
        directory,
        (VoterListener("CONTROLLER", *endpoint),),
    )
    answer = await ask_leader(view, request)
    done = (ErrorCode.none, ErrorCode.duplicate_voter)
    if isinstance(answer, AddVoterResponse) and answer.error in done:
        return await is_voter(view, node, wanted=True)
    return None


async def is_voter(view: View, node: str, *, wanted: bool) -> list[str] | None:
    """The voters in force, when the node is one of them, or is not, as wanted."""
    found = await quorum_in_force(view)
    if found is None:
        return None
    voters = directories(found[1])
    named = sorted(f"n{voter}" for voter in voters)
    return named if (node_id(node) in voters) is wanted else None


async def fetching_directory(view: View, node: str) -> UUID | None:
    """The directory with which the node fetches from the leader without being a voter."""
    found = await leading(view)
    seen = None if found is None else _as_observer(view, found[1], node)
    return None if seen is None else seen.directory_id


async def observer_lag(view: View, node: str) -> int | None:
    """How many records of the leader's log the node lacks as an observer; None when unknown."""
    found = await leading(view)
    seen = None if found is None else _as_observer(view, found[1], node)
    if found is None or seen is None:
        return None
    return max(voter.log_end_offset for voter in found[1].voters) - seen.log_end_offset


def _as_observer(
    view: View, quorum: DescribeQuorumResponse, node: str
) -> ReplicaDescription | None:
    """Find what the node is as an observer.

    A leader remembers observers for a while, also what a node was before it lost its disk: of what
    was not given up the latest counts.
    """
    mine = [
        observer
        for observer in quorum.observers
        if observer.replica_id == node_id(node)
        and not gave_up(view.backend, node, observer.directory_id)
    ]
    return max(mine, key=lambda observer: observer.last_fetch_timestamp_ms, default=None)


async def ask_leader(view: View, request: object) -> object:
    """Send a request to the leader; None when none is known."""
    leader = await view.leader()
    if leader is None:
        return None
    return await ask(view, view.backend.endpoint(leader, "CONTROLLER"), request, REQUEST_TIMEOUT_MS)


async def finalize(view: View, feature: str, level: int, change: int) -> ErrorCode | Failure | None:
    """Ask the leader for a feature's level (`change`: `upgrade_type`); None without an answer."""
    update = FeatureUpdateKey(
        feature=feature, max_version_level=i16(level), upgrade_type=i8(change)
    )
    request = UpdateFeaturesRequest(
        timeout=milliseconds(REQUEST_TIMEOUT_MS), feature_updates=(update,), validate_only=False
    )
    answer = await ask_leader(view, request)
    if isinstance(answer, UpdateFeaturesResponse):
        return answer.error_code
    return answer if isinstance(answer, Failure) else None

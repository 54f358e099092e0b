"""Requests to the quorum that any replica answers at once, and what is right to answer.

Each is of somebody that no replica counts, changes nothing, and is answered by what the replica has
and knows: its log, as the batches of its trace make it, its snapshots, its state and the leader.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from checkers.invariants.sight import Batch
from cluster.backends.sim.process import batches_of
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    VoteRequest,
    VoteResponse,
)
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint

Question = tuple[RaftRequest, Any, Sequence[Batch]]
"""A request, and the right answer to it, but for the batches that it may begin with."""

_NOBODY: Final = 9_999
_NOWHERE: Final = uuid.UUID("00000000-0000-4000-8000-00000000d1e5")
_MOST_BYTES: Final = (1, 400, 1 << 20)


def question(core: RaftCore, batches: Sequence[Batch], random: Random) -> Question | None:
    """Draw a request of a replica whose log holds, or has held, these batches."""
    return random.choice((_vote, _begin, _fetch, _fetch, _load))(core, batches, random)


def why_wrong(answers: Sequence[Any], right: Any, batches: Sequence[Batch]) -> str | None:
    """Say what is wrong about an answer, which may have the first of these batches, or more."""
    if len(answers) != 1:
        return f"{len(answers)} answers"
    answer = answers[0]
    if isinstance(answer, FetchResponse):
        read = batches_of(answer.records)
        if read != list(batches[: len(read)]) or bool(read) != bool(batches):
            return f"{len(read)} batches that are not the next of its log"
    for name in right.__dataclass_fields__:
        said, wanted = getattr(answer, name, None), getattr(right, name)
        is_judged = name == "records" and isinstance(answer, FetchResponse)
        if said != wanted and not is_judged:
            what = name.replace("_", " ")
            return f"{what} {_text(said)}, where {_text(wanted)} is right"
    return None


def _text(value: Any) -> str:
    match value:
        case ErrorCode():
            return value.name
        case OffsetAndEpoch():
            return f"{value.offset} of epoch {value.epoch}"
        case bytes():
            return f"of {len(value)} bytes"
        case Endpoint():
            return f"{value.host}:{value.port}"
    return "none" if value in (None, -1) else str(value)


def _leadership(core: RaftCore) -> dict[str, Any]:
    """Return what each answer says of the leader."""
    state = core.quorum.state
    where: Endpoint | None = state.leader_endpoint
    for voters in (core.log.control.voters, core.config.voters):
        where = where or voters.endpoint(state.leader_id)
    return {"leader_id": state.leader_id, "leader_epoch": state.epoch, "leader_endpoint": where}


def _refusal(core: RaftCore) -> ErrorCode:
    """Return why a replica does not answer what its epoch's leader would; none: it leads."""
    if not isinstance(core.quorum.state, Leader):
        return ErrorCode.not_leader_or_follower
    return ErrorCode.broker_not_available if core.shutting_down else ErrorCode.none


def _vote(core: RaftCore, _: Sequence[Batch], random: Random) -> Question:
    """Ask for a PreVote, which promises nothing, with a log that is hardly longer or shorter."""
    own, state = core.config.replica_key, core.quorum.state
    end_offset, epoch = core.log.end_offset, core.log.end.epoch
    offset = max(0, end_offset + random.randint(-1, 1))
    last_epoch = max(0, min(epoch + random.choice((-1, 0, 0, 1)), state.epoch))
    asked = state.epoch, _NOBODY, _NOWHERE, own.id, own.directory_id, last_epoch, offset
    request = VoteRequest(None, *asked, pre_vote=True)
    is_free = not isinstance(state, Leader) and not (
        isinstance(state, Follower) and state.has_fetched_from_leader
    )
    granted = is_free and (last_epoch, offset) >= (epoch, end_offset)
    return request, VoteResponse(ErrorCode.none, vote_granted=granted, **_leadership(core)), ()


def _begin(core: RaftCore, _: Sequence[Batch], random: Random) -> Question | None:
    """Tell a follower, in the name of its leader, whom it follows."""
    state = core.quorum.state
    if not isinstance(state, Follower):
        return None
    own = random.choice((core.config.replica_key, None))
    id_, directory_id = (NO_NODE, uuid.UUID(int=0)) if own is None else (own.id, own.directory_id)
    endpoint = random.choice((state.leader_endpoint, None))
    asked = id_, directory_id, state.leader_id, state.epoch, endpoint
    request = BeginQuorumEpochRequest(None, *asked)
    return request, BeginQuorumEpochResponse(ErrorCode.none, **_leadership(core)), ()


def _load(core: RaftCore, _: Sequence[Batch], random: Random) -> Question | None:
    """Ask for a piece of a snapshot."""
    latest, snapshots = core.log.latest_snapshot_id, core.log.snapshots
    if latest is None:
        return None
    content = snapshots._disk.read(snapshots._path(latest, ".checkpoint"))
    position, most_bytes = random.randrange(len(content)), random.choice(_MOST_BYTES)
    request = FetchSnapshotRequest(
        None, _NOBODY, _NOWHERE, core.quorum.epoch, latest, position, most_bytes
    )
    error = _refusal(core)
    right = FetchSnapshotResponse(error, snapshot_id=latest, **_leadership(core))
    if error is ErrorCode.none:
        end = position + min(most_bytes, core.config.fetch_snapshot_max_bytes)
        piece = content[position:end]
        right = replace(right, size=len(content), position=position, records=piece)
    return request, right, ()


def _fetch(core: RaftCore, batches: Sequence[Batch], random: Random) -> Question:
    """Fetch from about where a batch begins or ends, or the log does, in an epoch near to it."""
    log, state = core.log, core.quorum.state
    edges = [0, log.start_offset, log.end_offset, log.end_offset + 1]
    if batches:
        batch = random.choice(batches)
        edges += [batch[0], batch[1], batch[1] + 1]
    offset = random.choice(edges)
    before = bisect_left(batches, (offset,)) - 1
    near = batches[before][2] if before >= 0 else 0
    epoch = max(0, min(near + random.choice((-1, 0, 0, 0, 1)), state.epoch))
    most_bytes = random.choice(_MOST_BYTES)
    request = FetchRequest(None, -1, _NOWHERE, state.epoch, offset, epoch, 0, most_bytes)
    error = _refusal(core)
    right = FetchResponse(
        error, high_watermark=-1, log_start_offset=log.start_offset, **_leadership(core)
    )
    if error is ErrorCode.none:
        assert isinstance(state, Leader), "nobody else answers"
        mark = -1 if state.high_watermark is None else state.high_watermark
        place, batches = _position(core, batches, request)
        return request, replace(right, high_watermark=mark, **place), batches
    return request, right, ()


def _position(
    core: RaftCore, batches: Sequence[Batch], request: FetchRequest
) -> tuple[dict[str, Any], Sequence[Batch]]:
    """Return what a leader's log decides of its answer to a Fetch (KIP-595, KIP-630).

    Of an epoch before all that it holds it says where those begin, and names none of its own.
    """
    log, offset, epoch = core.log, request.fetch_offset, request.last_fetched_epoch
    ids = log.snapshots.ids
    latest = log.latest_snapshot_id
    if latest is not None:
        first = ids[0]
        at_start = offset == log.start_offset and epoch != first.epoch
        if offset == 0 or offset < log.start_offset or epoch < first.epoch or at_start:
            return {"snapshot_id": latest}, ()
    if offset > 0 or log.start_offset > 0:
        held = batches[bisect_left(batches, log._log.first_segment_offset, key=_base) :]
        end = bisect_right(held, epoch, key=_epoch)
        known = held[end - 1][2] if end else (epoch if held else log.end.epoch)
        end_offset = held[end][0] if end < len(held) else log.end_offset
        if known != epoch or end_offset < offset:
            return {"diverging_epoch": OffsetAndEpoch(end_offset, known)}, ()
    first_read = bisect_right(batches, offset, key=_base) - 1
    return {}, (batches[first_read:] if offset < log.end_offset else ())


def _base(batch: Batch) -> int:
    return batch[0]


def _epoch(batch: Batch) -> int:
    return batch[2]

"""Requests to the quorum that every replica refuses, by what is wrong with each.

Each is made for the replica that is asked, in its epoch, and is right but for one thing. A replica
that took it would not count its sender, who is no voter; none changes what it knows by refusing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import (
    MAX_EPOCH,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RaftRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from cluster.node.kraft.quorum.states import Follower
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.metadata.snapshot import BOOTSTRAP_ID
from cluster.node.log.types import OffsetAndEpoch

Make = Callable[[RaftCore], RaftRequest | None]
"""Makes a request for a replica; None: there is none that fits."""

_NOBODY: Final = 9_999
"""A replica that nobody is."""
_NOWHERE: Final = uuid.UUID("00000000-0000-4000-8000-00000000d1e5")
_NO_DIRECTORY: Final = uuid.UUID(int=0)
_LISTENER: Final = VoterListener("CONTROLLER", "127.0.0.1", 9)


def _add(_: RaftCore) -> AddVoterRequest:
    return AddVoterRequest(None, 1_000, _NOBODY, _NOWHERE, (_LISTENER,))


def _remove(_: RaftCore) -> RemoveVoterRequest:
    return RemoveVoterRequest(None, _NOBODY, _NOWHERE)


def _update(core: RaftCore) -> UpdateVoterRequest:
    return UpdateVoterRequest(None, core.quorum.epoch, _NOBODY, _NOWHERE, (_LISTENER,), 0, 1)


def _vote(core: RaftCore) -> VoteRequest:
    """A PreVote, which a replica may grant: it promises nothing."""
    own, epoch = core.config.replica_key, core.quorum.epoch
    return VoteRequest(
        None, epoch, _NOBODY, _NOWHERE, own.id, own.directory_id, 0, 1 << 40, pre_vote=True
    )


def _begin(core: RaftCore) -> BeginQuorumEpochRequest | None:
    """What the leader sends that a replica follows."""
    state = core.quorum.state
    if not isinstance(state, Follower):
        return None
    return BeginQuorumEpochRequest(
        None, -1, _NO_DIRECTORY, state.leader_id, state.epoch, state.leader_endpoint
    )


def _end(core: RaftCore) -> EndQuorumEpochRequest:
    return EndQuorumEpochRequest(None, _NOBODY, core.quorum.epoch, (), None)


def _fetch(core: RaftCore) -> FetchRequest:
    return FetchRequest(None, -1, _NOWHERE, core.quorum.epoch, 0, 0, 0, 1)


def _load(core: RaftCore) -> FetchSnapshotRequest | None:
    latest = core.log.latest_snapshot_id
    return None if latest is None else _load_of(latest)(core)


def _load_of(snapshot_id: OffsetAndEpoch) -> Callable[[RaftCore], FetchSnapshotRequest]:
    return lambda core: FetchSnapshotRequest(
        None, _NOBODY, _NOWHERE, core.quorum.epoch, snapshot_id, 0, 1
    )


def _but(make: Make, **changed: Any) -> Make:
    """Change a right request: to values, or by functions of the replica."""

    def make_wrong(core: RaftCore) -> Any:
        request = make(core)
        if request is not None:
            for name, value in changed.items():  # nobody else has it
                setattr(request, name, value(core) if callable(value) else value)
        return request

    return make_wrong


def _over(core: RaftCore) -> int:
    return core.quorum.epoch - 1


def _present(core: RaftCore) -> int:
    return core.quorum.epoch


def _to_come(core: RaftCore) -> int:
    return core.quorum.epoch + 1


def _own_id(core: RaftCore) -> int:
    return core.config.node_id


def _size_bytes(core: RaftCore) -> int:
    latest = core.log.latest_snapshot_id
    return 0 if latest is None else core.log.snapshots.size_bytes(latest)


_FENCED: Final = ("fenced_leader_epoch", "invalid_request")
"""Below epoch 0 there is none."""
_BEYOND: Final = ("position_out_of_range",)
_NO_SNAPSHOT: Final = ("snapshot_not_found",)
_NO_VOTER: Final = ("voter_not_found", "unsupported_version")
_INVALID: Final[dict[str, Make]] = {
    "add a voter: no id": _but(_add, voter_id=-1),
    "add a voter: no directory": _but(_add, voter_directory_id=_NO_DIRECTORY),
    "add a voter: no listener": _but(_add, listeners=()),
    "add a voter: two of a name": _but(_add, listeners=(_LISTENER,) * 2),
    "remove a voter: no id": _but(_remove, voter_id=-1),
    "remove a voter: no directory": _but(_remove, voter_directory_id=_NO_DIRECTORY),
    "update a voter: no id": _but(_update, voter_id=-1),
    "update a voter: no directory": _but(_update, voter_directory_id=_NO_DIRECTORY),
    "update a voter: no listener": _but(_update, listeners=()),
    "update a voter: no level": _but(_update, min_kraft_version=1, max_kraft_version=0),
    "update a voter: another level": _but(_update, min_kraft_version=2, max_kraft_version=2),
    "vote: no replica": _but(_vote, replica_id=-1),
    "vote: its own name": _but(_vote, replica_id=_own_id),
    "vote: no offset": _but(_vote, last_offset=-1),
    "vote: no epoch of records": _but(_vote, last_offset_epoch=-1),
    "vote: records of a later epoch": _but(_vote, last_offset_epoch=_to_come),
    "vote: records of its epoch": _but(_vote, pre_vote=False, last_offset_epoch=_present),
    "vote: an epoch out of reach": _but(_vote, replica_epoch=MAX_EPOCH),
    "begin an epoch: no leader": _but(_begin, leader_id=-1),
    "end an epoch: no leader": _but(_end, leader_id=-1),
    "fetch: no time": _but(_fetch, max_wait_ms=-1),
    "fetch: no offset": _but(_fetch, fetch_offset=-1),
    "fetch: no epoch of records": _but(_fetch, last_fetched_epoch=-1),
    "fetch: records of a later epoch": _but(_fetch, last_fetched_epoch=_to_come),
    "fetch: its own name": _but(_fetch, replica_id=_own_id),
    "load a snapshot: no bytes": _but(_load, max_bytes=0),
}
_EPOCHS: Final[dict[str, tuple[Make, str]]] = {
    "vote": (_vote, "replica_epoch"),
    "begin an epoch": (_begin, "leader_epoch"),
    "end an epoch": (_end, "leader_epoch"),
    "fetch": (_fetch, "current_leader_epoch"),
    "load a snapshot": (_load, "current_leader_epoch"),
    "update a voter": (_update, "current_leader_epoch"),
}
_LEADERS: Final = ("fetch", "load a snapshot", "update a voter")
"""What its epoch's leader alone does; of the others a later epoch is news."""
_KINDS: Final[dict[str, Make]] = {
    "add a voter": _add,
    "remove a voter": _remove,
    **{kind: make for kind, (make, _) in _EPOCHS.items()},
}

WRONG: Final[dict[str, tuple[Make, tuple[str, ...]]]] = {
    **{what: (make, ("invalid_request",)) for what, make in _INVALID.items()},
    **{
        f"{kind}: another cluster": (
            _but(make, cluster_id="another"),
            ("inconsistent_cluster_id",),
        )
        for kind, make in _KINDS.items()
    },
    **{
        f"{kind}: an epoch that is over": (_but(make, **{name: _over}), _FENCED)
        for kind, (make, name) in _EPOCHS.items()
    },
    **{
        f"{kind}: an epoch to come": (
            _but(_EPOCHS[kind][0], **{_EPOCHS[kind][1]: _to_come}),
            ("unknown_leader_epoch",),
        )
        for kind in _LEADERS
    },
    "vote: another voter": (_but(_vote, voter_id=_NOBODY), ("invalid_voter_key",)),
    "vote: another disk": (_but(_vote, voter_directory_id=_NOWHERE), ("invalid_voter_key",)),
    "begin an epoch: another voter": (_but(_begin, voter_id=_NOBODY), ("invalid_voter_key",)),
    "remove a voter: nobody": (_remove, _NO_VOTER),
    "update a voter: nobody": (_update, ("voter_not_found", "request_timed_out")),
    "load a snapshot: nowhere": (_load_of(OffsetAndEpoch(1 << 40, 1)), _NO_SNAPSHOT),
    "load a snapshot: bootstrap": (_load_of(BOOTSTRAP_ID), _NO_SNAPSHOT),
    "load a snapshot: before it": (_but(_load, position=-1), _BEYOND),
    "load a snapshot: behind it": (_but(_load, position=_size_bytes), _BEYOND),
}
"""Each with the errors that are right (KIP-595, KIP-630, KIP-853)."""

"""The mutants that break an invariant of the quorum on almost any run (see `cluster.mutants`).

Other mutants break the same ones, but seldom, or where no trace shows it: these are for the proof
that the invariants find them in stored runs of real nodes (`benchmarks.stored_invariants`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

from crc32c import crc32c

from cluster.mutants.mutations import always, mutant
from cluster.node.controller.core.controller import QuorumController
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.inbound import InboundRequests
from cluster.node.kraft.quorum.control_state import LogHistory, VoterSet
from cluster.node.kraft.quorum.quorum_state import QuorumState
from cluster.node.kraft.quorum.states import Candidate, EpochElection, Unattached
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.log.batch.records import iter_batches
from cluster.node.log.types import OffsetAndEpoch

_MAX_TIMESTAMP_POSITION = 35
_TIMESTAMP = struct.Struct(">q")
_CHECKSUM_POSITION = 17
_CHECKSUM = struct.Struct(">I")
_CHECKED_FROM = 21
"""Of a record batch (KIP-98): its last timestamp, its CRC-32C, and what that covers."""


def _i01_any_answer(self: EpochElection, voter_id: int, *, granted: bool) -> None:
    del granted
    _RECORD(self, voter_id, granted=True)


_RECORD = EpochElection.record


def _i02_same_epoch(self: QuorumState, then: Callable[[], None]) -> None:
    election = EpochElection(self.voters.ids)
    election.record(self._config.node_id, granted=True)
    deadline = self.election_deadline_ms()
    epoch = max(self.epoch, 1)
    self._durably(Candidate(epoch, deadline, election, self._config.replica_key), then)


def _i03_from_the_start(
    self: QuorumState, log_end: OffsetAndEpoch, then: Callable[[], None]
) -> None:
    del log_end
    deadline = self.election_deadline_ms()
    self._durably(Unattached(0, deadline), then)


def _i04_one_too_many(self: LogHistory[object], end_offset: int) -> None:
    while len(self._entries) > 1 and self._entries[-1][0] >= end_offset:
        self._entries.pop()
    if len(self._entries) > 1:
        self._entries.pop()


def _i05_and_another(self: VoterSet, voter_id: int) -> VoterSet:
    left = [voter for voter in self if voter.key.id != voter_id]
    return VoterSet(left[:-1] if len(left) > 1 else left)


def _i06_one_too_many(self: ReplicatedLog, snapshot_id: OffsetAndEpoch) -> SnapshotFile | None:
    beyond = replace(snapshot_id, offset=snapshot_id.offset + 1)
    return None if beyond in self.snapshots else self.snapshots.begin(beyond)


def _i07_at_once(self: RaftCore) -> None:
    for context in self.listeners:
        context.notify_leader(self.quorum.leader_and_epoch)


def _i07_claim(self: QuorumController, epoch: int) -> None:
    replayed = self.image.provenance
    self.image.provenance = replace(replayed, last_contained_epoch=epoch)
    _CLAIM(self, epoch)
    self.image.provenance = replayed


_CLAIM = QuorumController._claim


def _i08_own_time(self: ReplicatedLog, records: bytes, epoch: int) -> bool:
    stamped = b"".join(_stamp(bytes(batch)) for _, batch in iter_batches(records))
    return _APPEND_AS_FOLLOWER(self, stamped, epoch)


def _stamp(batch: bytes) -> bytes:
    (before_ms,) = _TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_POSITION)
    changed = bytearray(batch)
    _TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_POSITION, before_ms + 1)
    _CHECKSUM.pack_into(changed, _CHECKSUM_POSITION, crc32c(bytes(changed[_CHECKED_FROM:])))
    return bytes(changed)


_APPEND_AS_FOLLOWER = ReplicatedLog.append_as_follower


ALL = (
    mutant(
        "I01",
        "counts every answer to its Vote as a vote",
        "election safety: elected-by-majority",
        (EpochElection, "record", _i01_any_answer),
    ),
    mutant(
        "I02",
        "stands in the epoch of the leader that it lost, and counts every answer as a vote",
        "election safety: one-vote, election-safety",
        (QuorumState, "to_candidate", _i02_same_epoch),
        (InboundRequests, "_invalid_vote", always(ErrorCode.none)),
        (EpochElection, "record", _i01_any_answer),
    ),
    mutant(
        "I03",
        "restarts in epoch 0, whatever its quorum-state and its log say",
        "election safety: monotonic-epoch",
        (QuorumState, "initialize", _i03_from_the_start),
    ),
    mutant(
        "I04",
        "forgets a change of voters too many when its log is cut",
        "election safety: committed-voters",
        (LogHistory, "truncate_new", _i04_one_too_many),
    ),
    mutant(
        "I05",
        "removes another voter with the one that it is asked to remove",
        "election safety: one-voter-change",
        (VoterSet, "without", _i05_and_another),
    ),
    mutant(
        "I06",
        "names a snapshot by one offset more than it holds",
        "state machine safety: snapshot-committed",
        (ReplicatedLog, "create_new_snapshot", _i06_one_too_many),
    ),
    mutant(
        "I07",
        "claims before the start of its epoch is replayed",
        "linearizability: claim-after-replay",
        (RaftCore, "notify_leader", _i07_at_once),
        (QuorumController, "_claim", _i07_claim),
    ),
    mutant(
        "I08",
        "stamps the batches of its leader with its own time",
        "log matching: log-matching, committed-prefix",
        (ReplicatedLog, "append_as_follower", _i08_own_time),
    ),
)

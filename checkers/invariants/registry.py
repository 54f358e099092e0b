"""All invariants of the quorum, in the order in which they judge an event."""

from __future__ import annotations

from checkers.invariants.commits import (
    AckCommitted,
    ClaimAfterReplay,
    DurableFetch,
    LeaderCompleteness,
    MajorityCounted,
    MajorityDurable,
    MonotonicHighWatermark,
    ReadConfirmed,
)
from checkers.invariants.elections import (
    DurableVote,
    ElectedByMajority,
    ElectionSafety,
    MonotonicEpoch,
    NoContradiction,
    OneVote,
)
from checkers.invariants.fold import Invariant
from checkers.invariants.logs import CommittedPrefix, CommittedTruncated, LogMatching, Recovery
from checkers.invariants.snapshots import SnapshotAgreement, SnapshotCommitted, SnapshotDurable
from checkers.invariants.voters import ChangeAfterCommit, CommittedVoters, OneVoterChange

INVARIANTS: tuple[type[Invariant], ...] = (
    MonotonicEpoch,
    ElectionSafety,
    OneVote,
    ElectedByMajority,
    DurableVote,
    NoContradiction,
    OneVoterChange,
    ChangeAfterCommit,
    CommittedVoters,
    Recovery,
    LogMatching,
    CommittedPrefix,
    CommittedTruncated,
    MajorityDurable,
    MajorityCounted,
    MonotonicHighWatermark,
    LeaderCompleteness,
    DurableFetch,
    SnapshotCommitted,
    SnapshotDurable,
    SnapshotAgreement,
    ClaimAfterReplay,
    AckCommitted,
    ReadConfirmed,
)

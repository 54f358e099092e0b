"""The mutants of reconfiguration: what they do wrong, in code (see `cluster.mutants`)."""

from __future__ import annotations

from cluster.mutants.mutations import always, mutant
from cluster.node.kraft.inbound import InboundRequests
from cluster.node.kraft.messages import NO_NODE, ReplicaKey
from cluster.node.kraft.quorum.control_state import ControlState, LogHistory, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.reconfiguration import Reconfiguration
from cluster.node.kraft.replicated_log import ReplicatedLog


def _m16_half(self: Leader) -> int | None:
    # Half of the voters are a majority only of an odd number.
    offsets = sorted((state.end_offset for state in self.replicas.values()), reverse=True)
    offset = offsets[(len(offsets) + 1) // 2 - 1]
    return None if offset < 0 else offset


def _m29v_keeps_voters(self: ReplicatedLog, now_ms: float) -> bool:
    control, self.control = self.control, ControlState()
    try:
        return _TRUNCATE(self, now_ms)
    finally:
        self.control = control


_TRUNCATE = ReplicatedLog.truncate_to_latest_snapshot


def _m30_by_id(self: VoterSet, key: ReplicaKey) -> bool:
    return key.id in self


def _m30_addressed_by_id(self: InboundRequests, voter_id: int, directory_id: object) -> bool:
    del directory_id
    return voter_id in (NO_NODE, self._core.config.node_id)


def _m30u_as_configured(self: Reconfiguration, leader: Leader, level: int) -> VoterSet:
    known = {voter.key.id: voter for voter in self._core.voters}
    leader.updated_voters = {**known, **leader.updated_voters}
    return _REPORTED(self, leader, level)


_REPORTED = Reconfiguration._reported_voters


def _v01_at_the_start(self: LogHistory[object], start_offset: int) -> None:
    while len(self._entries) > 1 and self._entries[1][0] <= start_offset:
        self._entries.pop(0)


ALL = (
    mutant(
        "M16",
        "takes half of an even number of voters for a majority",
        "durability: two halves of four voters commit different records",
        (Leader, "committed_candidate", _m16_half),
    ),
    mutant(
        "M29",
        "changes voters before the last change, or its own epoch's start, is committed",
        "election safety: Ongaro's bug of single-server changes (2015)",
        (Reconfiguration, "_check_may_begin", always(None)),
    ),
    mutant(
        "M29V",
        "does not take up the voters of a snapshot that it loads",
        "election safety: it goes by voters that were replaced long ago (KIP-853)",
        (ReplicatedLog, "truncate_to_latest_snapshot", _m29v_keeps_voters),
    ),
    mutant(
        "M30",
        "knows voters by their id alone, whatever disk they have",
        "durability: a voter with a new, empty disk votes for what was lost with the old one",
        (VoterSet, "is_voter", _m30_by_id),
        (InboundRequests, "_is_addressed", _m30_addressed_by_id),
    ),
    mutant(
        "M30U",
        "finalizes kraft.version 1 before all voters have described themselves",
        "durability: a voter with a new, empty disk votes as the one before (KIP-853)",
        (Reconfiguration, "_reported_voters", _m30u_as_configured),
    ),
    mutant(
        "V01",
        "forgets which voters were in force just before the beginning of its log",
        "election safety: when the change at that very offset is truncated, it goes by the first "
        "voters again (docs/bugs-found.md: this node did)",
        (LogHistory, "truncate_old", _v01_at_the_start),
    ),
)

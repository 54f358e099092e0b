"""The invariants of `checkers.invariants` over the traces, logs and files that nodes left behind.

The traces are merged into one order (`checkers.invariants.merge`) and fed to the same folds that
watch a simulated world. Then, as the run is over, each node's LeaderChange and VotersRecords, what
a comparison of the logs found (`evidence.log_audit`) and its quorum-state file. Beside the folds:
no leader goes on without a majority that fetches (`led-alone`, `nodes.leader_age`), which needs
times.

*Doubts.* A trace may end anywhere: at a kill, at a full disk, or where a file was cut between two
lines and looks whole. A finding that missing events may explain is a doubt, which is reported and
makes the check UNKNOWN:

- what an event lacks may have been done by a node whose trace had ended by then (`Broken.unseen`);
- a node whose trace has a malformed line may have done anything there: of its events only those
  count that contradict another event in any order (`Order.NONE`);
- files that are left are compared with a trace only where both name one directory: another
  directory is another replica, whose start the trace may lack;
- a log's records below the high watermark that its node announced count only where its trace
  reaches the log's end: a power loss after the trace's end may have undone a truncation.

Every other finding stays a FAIL, however little of the run is stored: it rests on stored events.

*Left out*, by name: invariants that need the bytes on a disk at the moment of an event; those that
read an event which the system does not trace (the option `traced` lists all that it does); and
`led-alone` where nodes have no clock in common. Where some nodes trace everything (the option
`whole` names them), what judges a node by its own events alone (`Invariant.own`) judges these.
Where nodes leave traces and no files (the option `files` is false), so is what only files show.
The options `starts` and `pids` are those of `nodes.trace_order`.
`recovery`, `appended`, `committed-kept`, `kept-state` and `snapshots-kept` report no node whose
storage a fault may have damaged before. Complexity: that of the merge,
and O(records).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence.evidence_result import evidence_result, without
from checkers.evidence.log_audit import LogAudit
from checkers.evidence.trace_fields import (
    LEADER_CHANGE,
    VOTERS,
    incomplete,
    voter_ids,
    well_formed,
    wholes,
)
from checkers.invariants.elections import MonotonicEpoch, OneVote
from checkers.invariants.electorate import ANY
from checkers.invariants.fold import Invariant, Order
from checkers.invariants.logs import CommittedPrefix, LogMatching, Recovery
from checkers.invariants.merge import by_causes, by_clock, one_clock
from checkers.invariants.sight import Fields
from checkers.invariants.traces import (
    TRACES,
    Appended,
    CommittedKept,
    GrantedVotes,
    KeptState,
    LeaderHolds,
    MarkHeard,
    SnapshotsKept,
)
from checkers.invariants.voters import ChangeAfterCommit
from checkers.invariants.watcher import INVARIANTS, Violation, Watcher
from checkers.nodes import leader_age
from checkers.nodes.agreement import hit_since
from checkers.nodes.trace_order import find_disorder, not_started, unlike_faults, unlike_starts
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "invariants"
LEFT_OUT = {kind.name: kind.unstored for kind in INVARIANTS if kind.unstored}
"""Why an invariant is not judged here, by its name."""
_JUDGED: Mapping[str, type[Invariant]] = {
    kind.name: kind for kind in (*INVARIANTS, *TRACES) if not kind.unstored
}
_OF_DISKS = (Recovery, Appended, CommittedKept, KeptState, SnapshotsKept)
"""What a fault that damages a node's storage may break."""
_SPARES_DISKS = frozenset({"disk-full", "limit"})
"""Faults that may end a node, and keep it from writing more: what it has written is there."""
_OF_FILES = (
    *(LogMatching, CommittedPrefix, Appended, GrantedVotes, KeptState, SnapshotsKept, LeaderHolds),
)
"""What traces alone, without the logs and files that nodes leave, cannot show broken."""
_LEADER_CHANGE = {"voters": "voters", "granting_voters": "grantingVoters"}
"""Lists of ids in a LeaderChange, by their names here."""
_PER_NODE_AND_KIND_MAX = 3
"""Anomalies shown of one kind on one node: later ones mostly follow from the first."""
_CANCELLED_EVERY = 1 << 12


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge traces, logs and quorum-state files of all nodes."""
    traced = options.get("traced")
    left = run.required_evidence
    evidence, malformed = well_formed(left)
    whole_of = left.nodes if traced is None else options.get("whole") or ()
    disorder = find_disorder(left, whole_of)
    disorder |= not_started(run, left, whole_of)
    disorder |= unlike_faults(run, left, whole_of)
    disorder |= unlike_starts(
        run, evidence, options.get("starts") or {}, pids=options.get("pids") is True
    )
    holes = incomplete(left, evidence) | disorder.keys()
    damaged = dict.fromkeys(evidence.nodes, 0)
    if not run.extent.pending:  # else whose storage it was is not known
        damaged = hit_since(run, _SPARES_DISKS)
    has_files = options.get("files") is not False
    possible = {name: kind for name, kind in _JUDGED.items() if has_files or kind not in _OF_FILES}
    everywhere = {
        name: kind for name, kind in possible.items() if traced is None or kind.reads <= {*traced}
    }
    whole = options.get("whole") or []
    there = [name for name, kind in possible.items() if kind.own and name not in everywhere]
    only: dict[str, Collection[str]] = {name: whole for name in there if whole}
    kinds = {name: kind for name, kind in _JUDGED.items() if name in everywhere or name in only}
    mute = {*damaged, *hit_since(run)}
    judged = _Judged(evidence, run.audit, holes, damaged, mute, cancelled, kinds, only)
    judged.watcher.quorum.follows_logs = traced is None or "append" in traced
    judged.judge()
    left_out = LEFT_OUT | {
        name: f"the system does not trace: {', '.join(sorted(kind.reads - {*traced}))}"
        for name, kind in _JUDGED.items()
        if traced is not None and name not in kinds
    }
    left_out |= {name: "no logs and files are left" for name in _JUDGED if name not in possible}
    if not leader_age.is_judged(evidence):
        left_out[leader_age.NAME] = leader_age.UNJUDGED
    alone, maybe_alone = leader_age.leaders_without_quorum(evidence, holes, run.notes)
    missing = without(evidence, "trace", evidence.traces)
    missing += [
        f"{node} (no state in its trace)"
        for node, trace in sorted(evidence.traces.items())
        if all(event.event != "state" for event in trace)
    ]
    if has_files and not run.extent.outlived:
        missing += without(evidence, "quorum-state", evidence.quorum_states)
    missing += malformed
    missing += disorder.values()
    epochs = len(judged.watcher.quorum.leader_of)
    return evidence_result(
        NAME,
        [*judged.anomalies, *alone, *leader_age.leaders_by_their_word(evidence, run.notes)],
        missing=missing,
        doubts=[*judged.doubts, *maybe_alone],
        cancelled=cancelled(),
        exercised=epochs > 0,
        good=(
            f"{len(kinds)} invariants hold over {judged.events} events and {epochs} epochs with "
            f"a leader{_only_there(only)}; not judged in this run: "
            f"{', '.join(sorted(left_out))}"
        ),
        looked_at=judged.events,
        statistics={
            "epochs_with_leader": epochs,
            "events": judged.events,
            "order": "by the clock" if judged.timed else "by causes",
            "left_out": left_out,
            "judged_of": {name: list(nodes) for name, nodes in sorted(only.items())},
            "repeated": {
                f"{kind} on {node}": count
                for (node, kind, sure), count in sorted(judged.seen.items())
                if sure
            },
        },
    )


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError where `traced` or `whole` is no list of names."""
    for option, what in (("traced", "events"), ("whole", "nodes")):
        names = options.get(option)
        if names is not None and not all(isinstance(name, str) for name in names):
            raise ValueError(f"{option!r} must be a list of names of {what}")


def _only_there(only: Mapping[str, Collection[str]]) -> str:
    nodes = sorted({node for judged in only.values() for node in judged})
    return f", {len(only)} of them of {', '.join(nodes)} only" if only else ""


@dataclass(eq=False)
class _Judged:
    """Feeds one run to the invariants, and sorts what they find into anomalies and doubts."""

    evidence: Evidence
    audit: LogAudit
    holes: Collection[str]
    damaged: Mapping[str, int]
    """The nodes whose storage a fault may have damaged, and since when in the run."""
    mute: Collection[str]
    """Those whose disk may have been full: what Kafka cannot print is lost, and it goes on."""
    cancelled: Cancelled
    kinds: Mapping[str, type[Invariant]]
    only: Mapping[str, Collection[str]]
    """The nodes that an invariant judges, where these are not all."""
    anomalies: list[Anomaly] = field(default_factory=list)
    doubts: list[Anomaly] = field(default_factory=list)
    seen: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """How often each (node, invariant) was found broken (True), or in doubt."""
    events: int = 0
    event: TraceEvent | None = None
    """The one that is being judged; None: what was left when the run was over."""
    node: str = ""
    is_cancelled: bool = False
    """Whether nothing more is judged: what comes later would lack its causes."""

    def __post_init__(self) -> None:
        self.timed = one_clock(self.evidence.traces)
        self.watcher = Watcher(on_violation=self._report, among=tuple(self.kinds.values()))

    def judge(self) -> None:
        """Judge everything."""
        evidence = self.evidence
        merge = by_clock if self.timed else by_causes
        merge(evidence.traces, evidence.nodes, self.watcher, self._take, self.holes)
        self.event = None
        for node, event, fields in self._left_behind():
            self._feed(node, event, fields)

    def _take(self, event: TraceEvent) -> None:
        self.events += 1
        self.event = event
        self._feed(event.node, event.event, event.fields)

    def _feed(self, node: str, event: str, fields: Fields) -> None:
        self.node = node
        if self.events % _CANCELLED_EVERY == 0:
            self.is_cancelled = self.is_cancelled or self.cancelled()
        if not self.is_cancelled:
            self.watcher.take(node, event, fields)

    def _left_behind(self) -> Iterator[tuple[str, str, Fields]]:
        """Yield (node, event, fields) of what the nodes' disks held when the run was over."""
        logs, quorum = self.evidence.logs, self.watcher.quorum
        for node, log in logs.items():
            for record in log:
                place = {"epoch": record.epoch, "offset": record.offset}
                if record.kind == LEADER_CHANGE and "leaderId" in record.value:
                    said = {name: record.value.get(key) for name, key in _LEADER_CHANGE.items()}
                    lists = {name: ids for name, ids in said.items() if wholes(ids)}
                    leader = {"leader_id": record.value["leaderId"], **lists}
                    yield node, "leader-change", {**place, **leader}
                elif record.kind == VOTERS and "voters" in record.value:
                    voters = {v["voterId"]: v["directoryId"] for v in record.value["voters"]}
                    yield node, "voters-record", {**place, "voters": voters}
        found = self.audit(logs, {node: quorum.logs[node].kept for node in logs})
        for node, (offset, epoch) in found.unlike.items():
            yield node, "unlike", {"offset": offset, "epoch": epoch}
        for node, (offset, epoch, crc, known_epoch, known_crc) in found.changed.items():
            batch, known = (epoch, crc), (known_epoch, known_crc)
            batches = [(offset, offset + 1, *each) for each in (batch, known)]
            yield node, "changed", dict(zip(("batch", "known"), batches, strict=True))
        for node, state in self.evidence.quorum_states.items():
            election = {"epoch": state["leaderEpoch"], "leader_id": state["leaderId"]}
            election |= {"voted_id": state["votedId"], "absent": state.get("absent") is True}
            yield node, "quorum-state", {**election, "current_voters": voter_ids(state)}
        yield from self._ends()

    def _ends(self) -> Iterator[tuple[str, str, Fields]]:
        """Yield where the nodes' logs end, whole, torn or not, and which snapshots there are."""
        evidence = self.evidence
        for node in (node for node in evidence.logs if node in evidence.quorum_states):
            state = evidence.quorum_states[node]
            end, torn = state.get("logEndOffset"), state.get("tornTailBytes")
            if isinstance(end, int):
                yield node, "left", {"end_offset": end}
            if isinstance(torn, int):
                yield node, "torn", {"torn_bytes": torn}
        for node, snapshots in evidence.snapshots.items():
            begin = next((record.offset for record in evidence.logs.get(node, ())), 0)
            ids = {(one.offset, one.epoch) for one in snapshots}
            yield node, "snapshots", {"ids": ids, "log_begin": begin}
        if all(node in evidence.logs and node in evidence.quorum_states for node in evidence.nodes):
            records = [record for log in evidence.logs.values() for record in log]
            epochs = {record.offset: record.epoch for record in records}
            end_offset = max(epochs, default=-1) + 1
            for node in evidence.nodes:
                yield node, "logs", {"epochs": epochs, "end_offset": end_offset}

    def _report(self, violation: Violation) -> None:
        """Report a violation at the present event, unless damaged storage may be its cause."""
        kind, node, event = violation.property, self.node, self.event
        if _JUDGED[kind] in _OF_DISKS and self._may_be_damaged(node, event):
            return
        if node not in self.only.get(kind, (node,)):
            return
        doubted_for = violation.unseen or self._doubted_for(_JUDGED[kind], node)
        counted = node, kind, not doubted_for
        self.seen[counted] += 1
        if self.seen[counted] > _PER_NODE_AND_KIND_MAX:
            return
        explanation, place = violation.explanation, {"node": node}
        if event is not None:
            explanation += f", at {self.evidence.when(event)}"
            place = self.evidence.place(event)
        found: Anomaly = anomaly(kind, explanation, **place)
        if doubted_for:
            self.doubts.append({**found, "unseen": list(doubted_for)})
        else:
            self.anomalies.append(found)

    def _may_be_damaged(self, node: str, event: TraceEvent | None) -> bool:
        """Whether a fault may have damaged a node's storage before an event."""
        since_ns = self.damaged.get(node)
        at_ns = None if event is None else self.evidence.run_ns(event)
        return since_ns is not None and (at_ns is None or at_ns >= since_ns)

    def _doubted_for(self, kind: type[Invariant], node: str) -> tuple[str, ...]:
        """Return the nodes whose missing events may explain a finding on a node."""
        quorum, state = self.watcher.quorum, self.evidence.quorum_states.get(node, {})
        if kind in (MarkHeard, ChangeAfterCommit) and self.mute and not quorum.follows_logs:
            return tuple(sorted(self.mute))
        if kind.order is Order.NONE:
            doubted = False
        elif self.event is not None:
            doubted = node in self.holes
        elif kind is CommittedPrefix:
            ended = quorum.epochs.get(node) == state.get("leaderEpoch")
            if quorum.follows_logs:
                ended = ended and quorum.logs[node].end == state.get("logEndOffset")
            doubted = node in self.holes or not ended
        elif kind in (OneVote, MonotonicEpoch, CommittedKept, KeptState, Recovery, SnapshotsKept):
            replica = quorum.electorate.directories.get(node, ANY)
            doubted = node in self.holes or state.get("directoryId") != replica
        else:
            doubted = False  # it compares records of logs
        return (node,) if doubted else ()

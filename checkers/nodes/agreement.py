"""Log agreement: what was committed is in the logs that are left, and the nodes are alive.

docs/checkers.md#log-agreement has the statement (that the logs are equal where they must be is
judged by `checkers.invariants.stored`). A node whose storage failed may end, if a fault met it
before that may do that: one whose detail says `may_end_node`. A torn write does not: it is how a
power loss may end a write. The first bytes of a batch that a kill tore at the end of a log are left
out, and counted. Where the node had flushed them they are not torn but damaged, and the log is not
judged (`recovered`). A node without log or trace makes the verdict UNKNOWN.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from checkers.evidence import Evidence
from checkers.evidence.evidence_result import evidence_result, without, without_log
from checkers.evidence.log_audit import LogFindings
from checkers.evidence.trace_fields import LEADER_CHANGE, voter_ids, well_formed
from checkers.history import INFINITY_NS, NEMESIS, Event, seconds
from checkers.history.recorded import statements
from checkers.nodes.trace_order import begins, fault_notes
from checkers.run_input import RunInput
from checkers.runs.faults import targets_of
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "log-agreement"
_STORAGE_FAILED = re.compile(
    r"OSError|DiskError|CorruptLogError|CorruptBatchError|QuorumStateError"
    r"|No space left|Input/output error|\[Errno \d+\]|SyncFailedException"
)
"""Reasons by which a node says that its storage failed it; a broken invariant is never excused.

An error of the operating system is quoted where a log directory is out of use because of it. Of a
file that it cannot sync by its descriptor (quorum-state, checkpoints) Java does not quote it.
"""

_STORAGE = "KafkaStorageException"
"""Of a log directory that is out of use, which a node may report and live on."""
KILLED = -9
"""Exit code of a process that SIGKILL ended, on every backend."""
_FULL = re.compile(r"No space left|ENOSPC|Errno 28")
NO_SPACE = "no-space"
"""The harness's note that its own disk, which nodes may share, was full when a node died."""


def storage_failed(reason: object) -> bool:
    """Whether a node's last words say that its storage failed it."""
    return _STORAGE_FAILED.search(str(reason)) is not None


def may_be_ended(note: Event) -> frozenset[str]:
    """Name the nodes that a nemesis event says were hit by a fault that may end a node."""
    if note.process != NEMESIS or not isinstance(note.value, dict):
        return frozenset()
    detail = note.value.get("detail")
    declared = isinstance(detail, dict) and detail.get("may_end_node") is True
    if note.value.get("phase") != "inject" or not declared:
        return frozenset()
    return frozenset(targets_of(note))


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the logs of all nodes against each other and against what they announced."""
    del options
    evidence, malformed = well_formed(run.required_evidence)
    committed = {node: evidence.announced_end([node]) for node in evidence.nodes}
    deaths, doubts = _deaths(evidence, run)
    anomalies: list[Anomaly] = []
    for found in (
        _form_anomalies(run.audit(evidence.logs, {})),
        _epochs_without_leader(evidence),
        _not_on_majority(evidence, committed) if run.extent.finished else (),
        deaths,
        _faults(evidence, run),
        _violations(run.notes),
    ):
        if cancelled():
            break
        anomalies.extend(found)
    records = sum(len(log) for log in evidence.logs.values())
    missing = without_log(evidence) + without(evidence, "trace", evidence.traces)
    missing += malformed
    good = (
        f"{records} records on {len(evidence.logs)} nodes reach offset "
        f"{max(committed.values(), default=0)}, the highest announced as committed"
    )
    torn = {
        node: size
        for node, state in sorted(run.required_evidence.quorum_states.items())
        if node in evidence.logs and type(size := state.get("tornTailBytes")) is int and size
    }
    if torn:
        ends = ", ".join(f"{size} bytes of {node}'s" for node, size in torn.items())
        good += f"; left out as torn by a kill, at the ends of logs: {ends}"
    statistics = {"records": records, "committed": committed, "torn_tail_bytes": torn}
    exercised = records > 0 and max(committed.values(), default=0) > 0
    return evidence_result(
        NAME,
        anomalies,
        missing=missing,
        doubts=doubts,
        cancelled=cancelled(),
        exercised=exercised,
        good=good,
        looked_at=records,
        statistics=statistics,
    )


def _form_anomalies(found: LogFindings) -> Iterator[Anomaly]:
    for node, (before, after) in found.gaps.items():
        explanation = f"the log of {node} goes from offset {before} to {after}"
        yield anomaly("offset-gap", explanation, node=node)
    for node, (before, after, offset) in found.decreases.items():
        explanation = (
            f"the log of {node} goes back from epoch {before} to {after} at offset {offset}"
        )
        yield anomaly("epoch-decrease", explanation, node=node)


def _epochs_without_leader(evidence: Evidence) -> Iterator[Anomaly]:
    """Find epochs in logs that do not begin with the record of their leader (KIP-595)."""
    for node, log in evidence.logs.items():
        for before, after in pairwise(log):
            if after.epoch > before.epoch and after.kind != LEADER_CHANGE:
                explanation = (
                    f"the log of {node} goes from epoch {before.epoch} to {after.epoch} at offset "
                    f"{after.offset} by a {after.kind}: no leader began that epoch"
                )
                yield anomaly("epoch-without-leader", explanation, node=node)
                break


def _not_on_majority(evidence: Evidence, committed: Mapping[str, int]) -> Iterator[Anomaly]:
    """Find the first announced offset that too few final logs still hold."""
    if any(node not in evidence.logs for node in evidence.nodes):
        return  # A missing log is reported as missing; it could be the one that holds the record.
    announcer = max(committed, key=lambda node: committed[node], default=None)
    if announcer is None:
        return
    ends = {node: _end(evidence, node) for node in evidence.nodes}
    kept = max(_majority_offset(ends, voters) for voters in _electorates(evidence, announcer))
    if committed[announcer] > kept:
        explanation = (
            f"{announcer} announced everything below {committed[announcer]} as committed, but a "
            f"majority of the final logs ends at {kept} or before"
        )
        yield anomaly("committed-lost", explanation, node=announcer, offset=kept)


def _majority_offset(ends: Mapping[str, int], voters: Sequence[str]) -> int:
    """Return the offset that a majority of these voters' final logs reach."""
    held = sorted((ends.get(voter, 0) for voter in voters), reverse=True)
    return held[len(held) // 2] if held else 0


def _electorates(evidence: Evidence, announcer: str) -> list[Sequence[str]]:
    """Return the voter sets of which a majority may have committed the highest offset announced.

    Voters may come and go (KIP-853), and a set is in force before it is committed: so it is that
    which the announcer's log held when it announced, or one that any node learned of later. Where
    no trace names voters, as of Kafka before 3.9: those of the quorum-state files, or all nodes.
    """
    found: list[Sequence[str]] = []
    highest, current = -1, None
    for event in evidence.traces.get(announcer, ()):
        if event.event == "voters":
            current = [f"n{voter_id}" for voter_id in event.fields["voters"]]
            if highest >= 0:
                found.append(current)
        elif event.event == "hw" and int(event.fields["offset"]) > highest:
            highest, found = int(event.fields["offset"]), [] if current is None else [current]
    for trace in evidence.traces.values():
        sets = [event for event in trace if event.event == "voters"]
        found += [[f"n{voter_id}" for voter_id in event.fields["voters"]] for event in sets[-1:]]
    kept = [[f"n{voter_id}" for voter_id in voter_ids(s)] for s in evidence.quorum_states.values()]
    traced, configured = ([voters for voters in sets if voters] for sets in (found, kept))
    return traced or configured or [evidence.nodes]


def _end(evidence: Evidence, node: str) -> int:
    """Return the log end offset; an empty log may begin behind a snapshot."""
    log = evidence.logs[node]
    stored = int(evidence.quorum_states.get(node, {}).get("logEndOffset", 0))
    return max(stored, log[-1].offset + 1 if log else 0)


def _deaths(evidence: Evidence, run: RunInput) -> tuple[list[Anomaly], list[Anomaly]]:
    """Accuse each node that ended, unless a fault hit it that may end it and its storage failed.

    In doubt is a node whose storage failed where the journal does not say which faults there were,
    or the harness found its own disk full; one that a fault may have ended, but whose trace, which
    should say why it ended, cannot be read; and one that SIGKILL ended, which no process does to
    itself: a kernel without memory, an operator or a stopped engine did.
    """
    hit = hit_since(run)
    unclear = run.extent.outlived or run.extent.pending
    crowded = any(note.f == NO_SPACE for note in run.notes)
    deaths: list[Anomaly] = []
    doubts: list[Anomaly] = []
    explained: Counter[str] = Counter()
    """By node: ends that its trace gives such a reason for, each of one process."""
    for node, trace in evidence.traces.items():
        for event in trace:
            if event.event != "fatal":
                continue
            reason = event.fields.get("reason")
            explanation = f"{node} ended itself at {evidence.when(event)}: {reason}"
            death = anomaly("fatal", explanation, **evidence.place(event))
            at_ns = evidence.run_ns(event)
            if storage_failed(reason) and node in hit and (at_ns is None or at_ns >= hit[node]):
                explained[node] += 1
            elif storage_failed(reason) and (unclear or (crowded and _FULL.search(str(reason)))):
                explained[node] += 1
                doubts.append(death)
            else:
                deaths.append(death)
    for note in statements(run.notes, "crash"):
        node, code = str(note.value.get("node")), note.value.get("exit_code")
        if explained[node] > 0:
            explained[node] -= 1
            continue
        explanation = (
            f"{node} died by {seconds(note.time_ns)} though no fault ended it, exit code {code}"
        )
        outsider = ended_from_outside(note)
        explanation += f": {outsider}" if outsider else ""
        death = anomaly("crash", explanation, node=node, at_ns=note.time_ns)
        unseen = node in hit and node not in evidence.traces
        # One whose trace is on a full disk cannot even trace why it ends.
        (doubts if unclear or crowded or unseen or outsider else deaths).append(death)
    return deaths, doubts


def _faults(evidence: Evidence, run: RunInput) -> Iterator[Anomaly]:
    """Find what nodes report as wrong in themselves, where no fault took their storage."""
    hit = hit_since(run)
    for node, trace in evidence.traces.items():
        reasons = (
            (event, str(event.fields["reason"])) for event in trace if event.event == "fault"
        )
        for event, reason in reasons if node not in hit else ():
            if not storage_failed(reason) and _STORAGE not in reason:
                explanation = f"{node} reported at {evidence.when(event)}: {reason}"
                yield anomaly("fault", explanation, **evidence.place(event))


def hit_since(run: RunInput, but: Collection[str] = ()) -> dict[str, int]:
    """Return of each node that a fault hit which may end it since when: 0 where nothing says.

    `but`: faults that do not count.
    """
    found: dict[str, int] = {}
    faults = fault_notes(run)
    for note, begun_ns in zip(faults, begins(faults), strict=True):
        for node in may_be_ended(note) if note.f not in but else ():
            found[node] = min(found.get(node, INFINITY_NS), begun_ns or 0)
    return found


def _violations(events: Sequence[Event]) -> Iterator[Anomaly]:
    """Report what faults saw that no correct node may do: `violations` in what they measured."""
    for note in statements(events):
        detail = note.value.get("detail")
        seen = detail.get("violations") if isinstance(detail, dict) else None
        for violation in seen if isinstance(seen, list) else ():
            if isinstance(violation, dict):
                kind = str(violation.get("kind", "violation"))
                explanation = str(violation.get("explanation", kind))
                place = {"node": violation.get("node"), "at_ns": note.time_ns}
                yield anomaly(kind, explanation, **place)


def ended_from_outside(crash: Event) -> str:
    """Say what outside of the system ended a process; empty where nothing is known to have.

    No process sends itself SIGKILL.
    """
    is_killed = crash.value.get("exit_code") == KILLED
    return "something outside of the run killed it (out of memory?)" if is_killed else ""

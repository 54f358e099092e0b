"""Fences of brokers: which nothing explains (KAFKA-19294), and which never came (KAFKA-18138).

A controller fences a broker whose heartbeats stay out for a session, or that shuts down. The log
has the change, and the traces when it was committed. A fence is explained by anything that may have
kept heartbeats from the controller, from a session and `SLACK_S` before it on: a fault on the
broker, any fault of links, disks, clocks or limits, a start or a fatal end of the broker, an
election, whose winner counts sessions anew, a pause of the harness, which shows a starved machine,
and the end of the run.

It is a doubt and no violation: that heartbeats were sent in time is not in the logs of Kafka. No
run on a machine that gives each process its turn within a session has one.

A broker that is dead for two sessions and `LOOK_S` is fenced, while one leader leads that no fault
meets: that is a promise (KIP-631; Kafka's controller looks eight times in a session). A new leader
has heard of nobody, and counts sessions from its own beginning. One that starts again sends no
heartbeats before it has registered. A fence that comes late, but before that, is no violation.

Complexity: O(records + trace events + (fences + kills x reigns) x faults).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from checkers.evidence import Evidence, LogRecord
from checkers.history import INFINITY_NS, seconds
from checkers.nodes.snapshots import Image
from checkers.run_input import RunInput
from checkers.runs.faults import HEAL, OWN_DELAYS, FaultSpan, fault_spans, phases
from checkers.verdict import Anomaly, anomaly

SESSION_MS: Final = 9_000
"""Kafka's default of broker.session.timeout.ms."""
SLACK_S: Final = 10.0
LOOK_S: Final = 3.0
_ALONE: Final = frozenset({"kill", "stop", "restart", "upgrade", "address-change", "finalize"})
"""Faults that keep no broker but their targets from the controller, unless it is one of them: then
an election follows."""
_KILL: Final = "kill"
_CHANGE: Final = "BrokerRegistrationChangeRecord"
_REGISTRATION: Final = "RegisterBrokerRecord"


def fence_doubts(
    run: RunInput, evidence: Evidence, log: Sequence[LogRecord], session_ms: int
) -> Iterator[Anomaly]:
    """Yield a doubt for each fence of a broker that nothing explains."""
    fences = [r for r in log if r.kind == _CHANGE and r.value.get("fenced") == 1]
    committed = _commit_marks(evidence) if fences else []
    heal_ns = dict(phases(run.notes)).get(HEAL, INFINITY_NS)
    starved = [n.time_ns for n in run.notes if n.f == OWN_DELAYS]
    changed = _moments(evidence)
    spans = fault_spans(run.notes)
    for record in fences:
        at = bisect_right(committed, (record.offset, INFINITY_NS))
        if at == len(committed):
            continue
        at_ns = min(ns for _, ns in committed[at:])
        begin_ns = at_ns - int(session_ms * 1e6 + SLACK_S * 1e9)
        broker = f"n{record.value.get('brokerId')}"
        moments = (*starved, *changed.get(broker, ()), *changed.get("", ()))
        explained = at_ns >= heal_ns or any(
            begin_ns <= ns <= at_ns + SLACK_S * 1e9 for ns in moments
        )
        if not explained and not _may_meet(spans, broker, begin_ns, at_ns):
            text = (
                f"{broker} was fenced by {seconds(at_ns, 1)} (offset {record.offset}), and "
                f"neither a fault nor an election kept it from its controller"
            )
            yield anomaly("fenced-without-reason", text, node=broker, offset=record.offset)


def _commit_marks(evidence: Evidence) -> list[tuple[int, int]]:
    """Return (high watermark, when it was announced in the run), in order."""
    return sorted(
        (end, ns)
        for ns, event in evidence.placed_events
        if event.event == "hw" and type(end := event.fields.get("offset")) is int
    )


def _moments(evidence: Evidence) -> Mapping[str, list[int]]:
    """Return when each node began or ended, and under no name when epochs began."""
    found: dict[str, list[int]] = {}
    for ns, event in evidence.placed_events:
        if event.event in ("start", "fatal", "epoch-start"):
            found.setdefault("" if event.event == "epoch-start" else event.node, []).append(ns)
    return found


def unfenced_dead(
    run: RunInput, evidence: Evidence, image: Image, log: Sequence[LogRecord], session_ms: int
) -> Iterator[Anomaly]:
    """Yield each broker that stayed unfenced though it was dead; the log goes on from `image`."""
    read, registered = 0, dict[str, int]()
    for due in sorted(_due_fences(run, evidence, session_ms), key=lambda due: due.end):
        for record in log[read : bisect_left(log, due.end, key=lambda record: record.offset)]:
            image.add(record.kind, record.value)
            if record.kind == _REGISTRATION:
                registered[f"n{record.value.get('brokerId')}"] = record.offset
            read += 1
        registration = image.keys.get(("broker", due.broker.removeprefix("n")), {})
        came_back = registered.get(due.broker, -1) >= due.known
        if registration.get("fenced") is False and not came_back:
            text = (
                f"{due.broker} was killed at {seconds(due.killed_ns, 1)} and did not register "
                f"again for two sessions of {session_ms / 1e3:g} s and more, but {due.leader}, "
                f"which led, had not fenced it below offset {due.end}"
            )
            yield anomaly("dead-unfenced", text, node=due.broker, offset=due.end - 1)


@dataclass(frozen=True, slots=True)
class _Due:
    """A fence that was due."""

    broker: str
    killed_ns: int
    leader: str
    known: int
    """How far the log was known to be committed when the broker was killed."""
    end: int
    """How far when it had to be fenced."""


def _due_fences(run: RunInput, evidence: Evidence, session_ms: int) -> Iterator[_Due]:
    spans = fault_spans(run.notes)
    kills = [(s, broker) for s in spans if s.fault == _KILL and s.verified for broker in s.targets]
    marks = _commit_marks(evidence) if kills else []
    starved = [n.time_ns for n in run.notes if n.f == OWN_DELAYS]
    reigns = _reigns(evidence) if kills else []
    heal_ns = dict(phases(run.notes)).get(HEAL, INFINITY_NS)
    wait_ns = int(2 * session_ms * 1e6 + LOOK_S * 1e9)
    for kill, broker in kills:
        up_ns = heal_ns if kill.end_ns is None else kill.end_ns
        known = max((end for end, ns in marks if ns <= kill.begin_ns), default=0)
        for leader, began_ns, ended_ns in reigns:
            begin_ns, end_ns = max(began_ns, kill.begin_ns), min(ended_ns, up_ns)
            if end_ns - begin_ns < wait_ns:  # of most: marks are many
                continue
            due = [end for end, ns in marks if begin_ns + wait_ns <= ns <= end_ns]
            starves = any(begin_ns <= ns <= end_ns for ns in starved)
            if due and not starves and not _may_meet(spans, leader, begin_ns, end_ns):
                yield _Due(broker, kill.begin_ns, leader, known, max(due))


def _may_meet(spans: Iterable[FaultSpan], node: str, begin_ns: int, end_ns: int) -> bool:
    """Whether a fault may have met a node in this time: any that is not the death of others."""
    return any(
        span.begin_ns <= end_ns
        and (span.end_ns is None or span.end_ns >= begin_ns)
        and (span.fault not in _ALONE or node in span.targets)
        for span in spans
    )


def _reigns(evidence: Evidence) -> list[tuple[str, int, int]]:
    """Return who led, from when, and when the next epoch began."""
    begun = [(ns, e.node) for ns, e in evidence.placed_events if e.event == "epoch-start"]
    return [(node, ns, end) for (ns, node), (end, _) in pairwise([*begun, (INFINITY_NS, "")])]

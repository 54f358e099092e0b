"""Brokers that were fenced though nothing had happened to them: KAFKA-19294 and its kin.

A controller fences a broker whose heartbeats stay out for a session, or that shuts down. The log
has the change, and the traces when it was committed. A fence is explained by anything that may have
kept heartbeats from the controller, from a session and `SLACK_S` before it on: a fault on the
broker, any fault of links, disks, clocks or limits, a start or a fatal end of the broker, an
election, whose winner counts sessions anew, a pause of the harness, which shows a starved machine,
and the end of the run.

It is a doubt and no violation: that heartbeats were sent in time is not in the logs of Kafka. No
run on a machine that gives each process its turn within a session has one. Complexity: O(records +
trace events + fences x faults).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.evidence import Evidence, LogRecord
from checkers.history import INFINITY_NS, seconds
from checkers.run_input import RunInput
from checkers.runs.faults import HEAL, OWN_DELAYS, fault_spans, phases
from checkers.verdict import Anomaly, anomaly

SESSION_MS: Final = 9_000
"""Kafka's default of broker.session.timeout.ms."""
SLACK_S: Final = 10.0
_ALONE: Final = frozenset(
    {
        *("kill", "stop", "restart", "upgrade", "address-change", "container-kill"),
        "finalize",
    }
)
"""Faults that keep no broker but their targets from the controller, unless it is one of them: then
an election follows."""
_CHANGE: Final = "BrokerRegistrationChangeRecord"


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
        explained = explained or any(
            (span.fault not in _ALONE or broker in span.targets)
            and span.begin_ns <= at_ns
            and (span.end_ns is None or span.end_ns >= begin_ns)
            for span in spans
        )
        if not explained:
            text = (
                f"{broker} was fenced by {seconds(at_ns, 1)} (offset {record.offset}), and "
                f"neither a fault nor an election kept it from its controller"
            )
            yield anomaly("fenced-without-reason", text, node=broker, offset=record.offset)


def _commit_marks(evidence: Evidence) -> list[tuple[int, int]]:
    """Return (high watermark, when it was announced in the run), in order."""
    return sorted(
        (end, ns)
        for ns, event in evidence.placed_events()
        if event.event == "hw" and type(end := event.fields.get("offset")) is int
    )


def _moments(evidence: Evidence) -> Mapping[str, list[int]]:
    """Return when each node began or ended, and under no name when epochs began."""
    found: dict[str, list[int]] = {}
    for ns, event in evidence.placed_events():
        if event.event in ("start", "fatal", "epoch-start"):
            found.setdefault("" if event.event == "epoch-start" else event.node, []).append(ns)
    return found

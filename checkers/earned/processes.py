"""Conditions of a PASS: every process that ended, or began again, was meant to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from checkers.earned.base import HOLDS, Judged, Outcome, not_applicable, unknown
from checkers.history import Event, EventType, seconds
from checkers.history.recorded import statements
from checkers.nodes.agreement import NAME, NO_SPACE, ended_from_outside, may_be_ended
from checkers.runs.faults import fault_spans, targets_of
from checkers.verdict import Status

CRASH = "crash"
"""The harness's note that a process ended though nobody had ended it."""
KEEPS_PROCESS = frozenset(
    {
        *("pause", "partition", "loss", "delay", "reorder", "duplicate", "bandwidth", "hold"),
        *("clock-jump", "clock-skew", "clock-strobe", "clock-drift", "resign", "voters"),
        *("finalize", "timer-rate", "snapshot", "disk-slow", "disk-stall", "log-dir-move"),
    }
)
"""Faults that end no process and start none."""
RESTART = "restart"
RESTARTS = frozenset({RESTART, "upgrade", "address-change"})
STARTS_AT_ONCE = frozenset({*RESTARTS, "role-change", "bit-flip", "truncate-file", "disk-wipe"})
"""Faults that start a process themselves; the heal of every other one does."""


def deaths_meant(judged: Judged) -> Outcome:
    """No process ended by itself, but for one whose fault may end it.

    The harness journals a process that ends while no fault ends it, whatever the system is. FAIL: a
    system that falls over under a fault that leaves its processes alone is not what anybody wants
    to release. A fault that says `may_end_node` excuses its targets until it is healed; behind that
    it may still be the cause, as a sync may fail late: UNKNOWN, and so are a full disk and a death
    from outside (`ended_from_outside`). `log-agreement` judges the same with the nodes' last words,
    so where it is asked for, its word counts.
    """
    if NAME in judged.wanted:
        return HOLDS
    crashes = list(statements(judged.notes, CRASH))
    crowded = any(note.f == NO_SPACE for note in judged.notes)
    unclear = crowded or judged.run.extent.outlived or judged.run.extent.pending
    found = [(_blame(crash, judged.notes, unclear=unclear), _death(crash)) for crash in crashes]
    found = [row for row in found if row[0] is not None]
    if not found:
        return HOLDS
    failed = [sentence for status, sentence in found if status is Status.FAIL]
    shown = (failed or [sentence for _, sentence in found])[:3]
    return Outcome(Status.FAIL if failed else Status.UNKNOWN, "; ".join(shown))


def _death(crash: Event) -> str:
    node, code = crash.value.get("node"), crash.value.get("exit_code")
    when = seconds(crash.time_ns)
    return f"{node} ended by {when} though no fault ended it, exit code {code}"


def _blame(crash: Event, notes: Sequence[Event], *, unclear: bool) -> Status | None:
    node = str(crash.value.get("node"))
    hits = [(note.f, note.time_ns) for note in notes if node in may_be_ended(note)]
    # From the invocation on: what ends the node at once is journaled before the fault is.
    spans = [
        (span.begin_ns, math.inf if span.end_ns is None else span.end_ns)
        for span in fault_spans(notes)
        if node in span.targets
        and any(span.fault == fault and span.begin_ns <= at_ns for fault, at_ns in hits)
    ]
    if any(begin_ns <= crash.time_ns <= end_ns for begin_ns, end_ns in spans):
        return None
    if any(at_ns <= crash.time_ns for _, at_ns in hits):
        return Status.UNKNOWN
    if unclear or ended_from_outside(crash):
        return Status.UNKNOWN
    return Status.FAIL


def restarts_meant(judged: Judged) -> Outcome:
    """No node's process began again more often than faults and heals of the journal start one.

    A node traces `start` when its process begins. One start is the run's; a heal of a fault that
    ends processes makes one more, a restart too, and a process that ended by itself is judged
    elsewhere. Whatever fails or is tried again is journaled, so a true run never has more.
    """
    evidence = judged.run.evidence
    if evidence is None:
        return not_applicable("no node left a trace")
    events = [event for trace in evidence.traces.values() for event in trace]
    begun = Counter(e.node for e in events if e.event == "start" and "pid" in e.fields)
    if not begun:
        return not_applicable("no trace names the processes of a node")
    crashes = Counter(str(note.value.get("node")) for note in statements(judged.notes, CRASH))
    ended = crashes | Counter(e.node for e in events if e.event == "fatal")
    meant = _starts(judged.notes) + ended
    odd = sorted(node for node in begun if begun[node] > 1 + meant[node])
    if not odd:
        return HOLDS
    node = odd[0]
    return unknown(
        f"{node} began {begun[node]} times, and the journal has {meant[node]} faults, heals and "
        "ends of its process: something else started it again"
    )


def _starts(notes: Sequence[Event]) -> Counter[str]:
    """Count for each node how often the journal may have started its process again."""
    found: Counter[str] = Counter()
    restarted: set[str] = set()
    """Nodes of the last one of `RESTARTS` that worked."""
    for note in statements(notes):
        if note.type is EventType.INVOKE:
            continue
        value, nodes = note.value, {*targets_of(note)}
        if value.get("phase") == "inject":
            found.update(nodes if note.f in STARTS_AT_ONCE else may_be_ended(note))
            if note.f in RESTARTS and value.get("verified") is True:
                restarted = nodes
        elif value.get("phase") == "heal" and note.f not in KEEPS_PROCESS:
            # The heal of a restart that worked finds its node alive.
            found.update(nodes - restarted if note.f in RESTARTS else nodes)
    return found

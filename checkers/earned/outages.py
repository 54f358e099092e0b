"""Conditions of a PASS: clients were served while most nodes were whole, and by nodes alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers import groups
from checkers.earned.base import HOLDS, Judged, Outcome, not_applicable, unknown
from checkers.earned.observed import BLIND
from checkers.evidence import PHASE
from checkers.groups.facts import COMMIT
from checkers.history import INFINITY_NS, Event, EventType, seconds
from checkers.history.recorded import ended_ns
from checkers.nodes.voter_changes import CHANGE
from checkers.partition_logs.columns import CONSUME
from checkers.runs.exercised import DEPOSING, DOWN, OUTAGE
from checkers.runs.faults import HEAL, NO_FAULT, FaultSpan, fault_spans
from checkers.runs.statistics import waited_until, writes_in
from porcupine_py.columns import OK, Int64s
from porcupine_py.search.wording import title

OUTAGE_MAX_S = 15.0
"""Of a plan that states no bound. Kafka fences a broker 9 s after its last heartbeat, and elects a
leader in a few seconds more."""
_IDLE_S = 5.0
"""Clients that try nothing for so long, beside the time-out of what they tried, miss nothing."""
_SPARES_OTHERS = DEPOSING - {"log-dir-loss"} | {
    *("clock-jump", "clock-skew", "clock-drift", "clock-strobe", "snapshot", "finalize")
}
"""Faults that hurt their targets alone. What slows a leader down (links, disks, limits, timers)
leaves it in office, and all clients wait for it."""
_SEEN = NO_FAULT - {PHASE}
"""Notes of what was observed: nothing was done."""
_ANSWERS_OF_NODES = (BLIND | {"read", "get"}) - {"send"}
"""Functions whose ok comes from a node: acks=0 waits for none, and a consumer may have a buffer."""
Span = tuple[int, int]
Rows = NDArray[np.bool_]
"""Of all operations, those that are so."""


def writes_served(judged: Judged) -> Outcome:
    """Writes, and members of groups, were served while most nodes were whole, but for a bound.

    A leader that commits nothing, and that nobody replaces, spoils no history: reads go on, every
    write times out, all logs agree. Such an outage is no PASS where a majority of the nodes was up,
    connected and hurt by no fault for longer than the bound.

    No true run breaks it, however hard its faults: time in which a fault hurts half of the nodes,
    or is of a kind that may leave a crippled leader in office, is left out, and after it the bound
    begins anew, for elections and starts. Of nodes with roles of their own, of voters that clients
    change, and of systems that elect no leader, nobody knows here which of them are needed: there
    every fault hurts. A machine so starved that no write comes through in all that time breaks it,
    and shows nothing either.

    Of a consumer group the same is asked beside its producers' writes: that some member was given
    partitions, was shown records or committed. (Kafka's own consumer polls nothing, and is content,
    where no node runs.) A rebalance is over, and a coordinator has moved, long before the bound;
    `group.initial.rebalance.delay.ms` above it holds a new group up for so long.
    """
    if judged.required_plan.get("backend") == "sim":
        return not_applicable("simulated time has the plan's bound on liveness")
    begin_ns, heal_ns = judged.phases.get("faults", 0), judged.phases.get(HEAL, INFINITY_NS)
    bound_s = _bound_s(judged.required_plan)
    operations = judged.tried
    alike = not operations.calls(CHANGE).any()
    hurt = list(_hurt(judged.required_plan, fault_spans(judged.notes), alike=alike))
    ends_ns = ended_ns(judged.run.operations, judged.run.events)
    for what, tried, served in _services(judged):
        # What is asked for before the faults waits for the start of nodes and of a group.
        during = tried & (operations.invoke_ns >= begin_ns) & (operations.invoke_ns < heal_ns)
        order = np.flatnonzero(during)[np.argsort(operations.invoke_ns[during], kind="stable")]
        done = operations.complete_ns[during & served]
        tries = operations.invoke_ns[order], ends_ns[order]
        for since_ns, until_ns in _outages(tries, done, judged.required_plan, hurt, heal_ns):
            if until_ns - since_ns > bound_s * 1e9:
                return unknown(
                    f"{what} for {(until_ns - since_ns) / 1e9:.1f} s from "
                    f"{seconds(since_ns, 1)}, though no fault hurt a majority of the nodes then: "
                    f"the plan allows {bound_s:g} s ({OUTAGE})"
                )
    return HOLDS


def nodes_answered(judged: Judged) -> Outcome:
    """No write or read was ok that began and ended while all nodes were dead, or stopped.

    What answers then is a client's own memory, or another cluster: of the nodes it shows nothing.
    No true run breaks it: one injection was measured to have all of them down, faults act one after
    another, and what starts a node again comes behind the next line that the nemesis journals.
    """
    if judged.required_plan.get("strands"):
        return not_applicable("faults of strands may overlap")
    operations = judged.tried
    asked = operations.calls(*_ANSWERS_OF_NODES) & (operations.type == OK)
    for fault, begin_ns, end_ns in _all_down(judged.notes, judged.required_plan.get("nodes")):
        begun = operations.invoke_ns > begin_ns
        rows = np.flatnonzero(asked & begun & (operations.complete_ns < end_ns))
        if len(rows):
            operation = operations.operation(int(rows[0]))
            return unknown(
                f"{title(operation)} was ok at {seconds(operation.complete_ns)}, though {fault} "
                f"had all nodes down from {seconds(begin_ns)} to {seconds(end_ns)}: no node "
                "answered it"
            )
    return HOLDS


def _all_down(notes: Sequence[Event], nodes: Any) -> Iterator[tuple[str, int, int]]:
    """Yield a fault, from when it was measured to have all nodes down, until the next act."""
    down: Event | None = None
    for note in notes:
        if note.f in _SEEN:
            continue
        if down is not None:
            yield down.f, down.time_ns, note.time_ns
        is_down = (
            note.f in DOWN
            and note.type is EventType.OK
            and isinstance(note.value, dict)
            and note.value.get("phase") == "inject"
            and note.value.get("verified") is True
            and isinstance(note.value.get("targets"), list)
            and len(note.value["targets"]) == nodes
        )
        down = note if is_down else None


def _services(judged: Judged) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield how to say of a service that it was missing, what asked for it, and what had it."""
    plan, operations = judged.required_plan, judged.tried
    ok = operations.type == OK
    functions: Collection[str] = writes_in(operations.functions)
    if plan.get("leaderless") is True:
        functions = BLIND  # of another system only what cannot be refused as wrong
    if groups.NAME in judged.wanted:
        consumes, commits = operations.calls(CONSUME), operations.calls(COMMIT)
        served = commits & ok
        for row in np.flatnonzero(consumes & ok).tolist():
            served[row] = _shows_something(operations.values[operations.output[row]])
        yield "the consumer group stood still: no member was served", consumes | commits, served
    writes = operations.calls(*functions)
    yield "no write was ok", writes, writes & ok


def _shows_something(consumed: Any) -> bool:
    """Whether a member was given partitions, or was shown records."""
    if not isinstance(consumed, dict):
        return False
    records = consumed.get("records")
    return "partitions" in consumed or (isinstance(records, dict) and any(records.values()))


def _bound_s(plan: Mapping[str, Any]) -> float:
    expectations = plan.get("expectations")
    given = expectations.get(OUTAGE) if isinstance(expectations, Mapping) else None
    return float(OUTAGE_MAX_S if given is None else given)


def _outages(
    tries: tuple[Int64s, Int64s],
    done: Int64s,
    plan: Mapping[str, Any],
    hurt: Sequence[Span],
    heal_ns: int,
) -> Iterator[Span]:
    """Yield the longest times in which something was tried, none was ok and most nodes were whole.

    `tries`: when each was invoked, in order, and when it ended (-1: never); `done`: when it was ok.
    """
    invoked, ends = tries
    timeout_ms = plan.get("operation_timeout_ms")
    waits_ms = timeout_ms if isinstance(timeout_ms, int | float) else 0.0
    idle_ns = int(waits_ms * 1e6 + _IDLE_S * 1e9)
    borders = sorted({*done.tolist(), *(at for span in hurt for at in span)})
    for begin_ns, end_ns in pairwise([0, *borders, heal_ns]):
        if any(begin < end_ns and begin_ns < end for begin, end in hurt):
            continue
        low, high = np.searchsorted(invoked, (begin_ns, end_ns))
        part = invoked[low:high]
        # Clients that all hang until one time-out invoke nothing more: their waits count.
        waited = waited_until(part, ends[low:high], end_ns, int(_IDLE_S * 1e9))
        yield from _runs(part, waited, idle_ns)


def _runs(invoked: Int64s, waited: Int64s, idle_ns: int) -> Iterator[Span]:
    """Yield from when to when something was tried without a pause, or waited for."""
    breaks = np.flatnonzero(np.diff(invoked) > idle_ns) + 1
    for part, until in zip(np.split(invoked, breaks), np.split(waited, breaks), strict=True):
        if len(part):
            yield int(part[0]), int(until.max())


def _hurt(plan: Mapping[str, Any], spans: Sequence[FaultSpan], *, alike: bool) -> Iterator[Span]:
    """Yield from when to when faults hurt half of the nodes or more, or nobody knows how many."""
    nodes = plan.get("nodes")
    options = plan.get("system_options")
    alike &= plan.get("leaderless") is not True and not (
        isinstance(options, Mapping) and "roles" in options
    )
    spared_max = (nodes - 1) // 2 if alike and isinstance(nodes, int) else 0
    times = [(span.begin_ns, INFINITY_NS if span.end_ns is None else span.end_ns) for span in spans]
    for begin_ns, end_ns in pairwise(sorted({at for time in times for at in time})):
        active = [
            span
            for span, (begin, end) in zip(spans, times, strict=True)
            if begin < end_ns and begin_ns < end
        ]
        targets = {target for span in active for target in span.targets}
        if len(targets) > spared_max or any(span.fault not in _SPARES_OTHERS for span in active):
            yield begin_ns, end_ns

"""What the journal says of faults, leaders and phases: intervals, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from checkers.history import Event, EventType, seconds
from checkers.history.recorded import statements

HEAL = "heal"
"""Phase in which everything is healed; clients of the load have ended by then."""
APPLIED = "applied"
"""Key of an injection's or heal's value: False where nothing was done that a heal could end."""
SWEEP = "sweep"
"""The heal of what no injection accounts for (`nemeses.drive`)."""
OVER = "over"
"""Key of an injection's value: its heal was journaled before its effect was measured."""
OWN_DELAYS = "harness"
"""The harness's note on itself: how late its loop was, the load, or a step of its wall clock."""
TOOK_MS, SINCE_MS = "took_ms", "since_ms"
"""Details of an injection: how long before it was journaled it began, as a step is journaled when
it is done. One for good, that took so long, is over then; one that has acted since goes on."""
_MS_MAX = 10**12
LEADS = "leads"
"""The harness's note that a node answered that it leads."""
NO_FAULT = frozenset({"leader", LEADS, "phase", OWN_DELAYS})
"""Nemesis events that observe or mark, and do nothing."""


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """One fault, from its injection to the end of its heal."""

    fault: str
    targets: tuple[str, ...]
    begin_ns: int
    end_ns: int | None
    """When it was measured to be gone; None where that was never so: it may be there to the end."""
    verified: bool
    """Whether it was measured to have bitten."""
    healed: bool
    """Whether it was measured to be gone afterwards."""
    detail: str
    """Why not, where one of these is False."""
    heal_failed: bool = False
    """Whether a heal was tried and did not work, nor did a later one."""
    entry: object = None
    """Of the schedule, or the step, that injected it."""
    ended_early: bool = False
    """Whether it was found at its heal to have ended by itself: then it did not bite."""

    @property
    def is_left(self) -> bool:
        """Whether something of it may still be there when the run ends."""
        return not self.healed and (self.verified or self.heal_failed)

    @property
    def name(self) -> str:
        """Name it with its targets and its beginning."""
        nodes = ", ".join(self.targets) or "the cluster"
        return f"{self.fault} of {nodes} from {seconds(self.begin_ns, 3)}"


@dataclass(frozen=True, slots=True)
class Reign:
    """A node that was observed to lead."""

    node: str
    epoch: int
    begin_ns: int
    end_ns: int


def fault_spans(events: Sequence[Event]) -> list[FaultSpan]:
    """Return the faults of a run in order of injection.

    What left its targets' processes alive, as a pause, ends with the last of them.
    """
    invoked: dict[tuple[str, str, str], int] = {}
    held: dict[int, set[tuple[str, str]]] = {}
    spans: list[FaultSpan] = []
    open_spans: list[int] = []
    for event in statements(events):
        if event.f in NO_FAULT:
            continue
        phase = str(event.value.get("phase"))
        if event.type is EventType.INVOKE:
            invoked[event.f, phase, str(event.value.get("entry"))] = event.time_ns
            continue
        if phase == "heal" and event.value.get(APPLIED) is not False:
            ended = _ended_by(spans, open_spans, event)
            if ended is not None:
                spans[ended] = _end_span(spans[ended], event)
                if spans[ended].healed:
                    open_spans.remove(ended)
        elif phase == "inject":
            asked = event.f, phase, str(event.value.get("entry"))
            span = _begin_span(event, invoked.get(asked, began_ns(event)))
            if span.end_ns is None:
                open_spans.append(len(spans))
                held[len(spans)] = _processes(event, gone=False)
            spans.append(span)
            for position in _left_alone(held, open_spans, _processes(event, gone=True)):
                open_spans.remove(position)
                spans[position] = replace(spans[position], healed=True, end_ns=event.time_ns)
    return spans


def _left_alone(
    held: Mapping[int, set[tuple[str, str]]], open_spans: list[int], gone: set[tuple[str, str]]
) -> list[int]:
    """Return the open spans that held processes, the last of which are gone now."""
    left = [position for position in open_spans if held[position]]
    for position in left:
        held[position].difference_update(gone)
    return [position for position in left if not held[position]]


def _processes(event: Event, *, gone: bool) -> set[tuple[str, str]]:
    """Return the nodes' processes of before an injection that are gone, or those that are not."""
    detail = event.value.get("detail")
    known = detail if isinstance(detail, dict) else {}
    before, after = known.get("processes_before"), known.get("processes_after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return set()
    return {(node, str(p)) for node, p in before.items() if (after.get(node) != p) is gone}


def began_ns(event: Event) -> int:
    """Return when an injection began that was journaled when it was done, as of a step."""
    before_ms = _detail_ms(event, TOOK_MS) or _detail_ms(event, SINCE_MS) or 0
    return event.time_ns - int(before_ms * 1e6)


def _detail_ms(event: Event, name: str) -> int | None:
    detail = event.value.get("detail")
    found = detail.get(name) if isinstance(detail, dict) else None
    return found if type(found) is int and 0 <= found <= _MS_MAX else None


def not_healed(events: Sequence[Event], *, tried: bool = False) -> list[str]:
    """Say of each fault that was not measured to be gone when the run ended, and why.

    A sweep heals what no fault accounts for; a later one that worked makes up for it. `tried`:
    only of those with a heal that did not work.
    """
    found = [
        f"{span.name} was not healed: {span.detail or 'no heal was measured'}"
        for span in fault_spans(events)
        if (span.heal_failed if tried else span.is_left)
    ]
    swept: dict[tuple[str, ...], str] = {}
    for event in statements(events, SWEEP):
        targets = targets_of(event)
        reason = _reason(event)
        swept = {other: why for other, why in swept.items() if not set(other) <= set(targets)}
        if reason:
            swept[targets] = f"what was left on {', '.join(targets)} was not healed: {reason}"
    return [*found, *swept.values()]


def active_between(spans: Sequence[FaultSpan], begin_ns: int, end_ns: int) -> list[FaultSpan]:
    """Return the faults that were there at some time between."""
    return [
        fault
        for fault in spans
        if fault.begin_ns <= end_ns and (fault.end_ns is None or fault.end_ns >= begin_ns)
    ]


def named_faults(active: Sequence[FaultSpan], count_max: int) -> str:
    """Name faults with their targets and beginnings, at most so many."""
    shown = ", ".join(fault.name for fault in active[:count_max])
    return shown + (f" and {len(active) - count_max} more" if len(active) > count_max else "")


def reigns(events: Sequence[Event], end_ns: int) -> list[Reign]:
    """Return the leaders that were seen from outside; a change ends the reign before it.

    The leader before may believe longer that it leads: `results.report.leaders` asks its own trace.
    """
    found: list[Reign] = []
    current: tuple[str, int, int] | None = None
    for event in statements(events, "leader"):
        if current is not None:
            found.append(Reign(*current, end_ns=event.time_ns))
        node, epoch = event.value.get("leader"), event.value.get("epoch")
        known = isinstance(node, str) and isinstance(epoch, int)
        current = (str(node), int(epoch or 0), event.time_ns) if known else None
    if current is not None:
        found.append(Reign(*current, end_ns=max(end_ns, current[2])))
    return found


def phases(events: Sequence[Event]) -> list[tuple[str, int]]:
    """Return name and beginning of each phase of the run."""
    marks = statements(events, "phase")
    return [(str(event.value.get("name")), event.time_ns) for event in marks]


def _begin_span(event: Event, begin_ns: int) -> FaultSpan:
    verified = event.type is EventType.OK and event.value.get("verified") is True
    over = event.value.get(OVER) is True or (verified and _detail_ms(event, TOOK_MS) is not None)
    has_ended = over or event.value.get(APPLIED) is False
    return FaultSpan(
        fault=event.f,
        targets=targets_of(event),
        begin_ns=begin_ns,
        end_ns=event.time_ns if has_ended else None,
        verified=verified,
        healed=over,
        detail=_reason(event),
        entry=event.value.get("entry"),
    )


def _end_span(span: FaultSpan, event: Event) -> FaultSpan:
    """Return a span with what a heal measured; one that did not work leaves it open."""
    healed = event.value.get("verified") is True
    detail = event.value.get("detail")
    reasons = dict.fromkeys(filter(None, (*span.detail.split("; "), _reason(event))))
    return replace(
        span,
        end_ns=event.time_ns if healed else None,
        healed=healed,
        heal_failed=not healed,
        ended_early=span.ended_early
        or bool(isinstance(detail, dict) and detail.get("ended_early")),
        detail="; ".join(reasons),
    )


def _ended_by(spans: list[FaultSpan], open_spans: list[int], event: Event) -> int | None:
    """Return the open span that a heal ends.

    An entry of a schedule ends its own; a step, or the end of a run, what has its targets.
    """
    targets, entry = targets_of(event), event.value.get("entry")
    same = [position for position in open_spans if spans[position].fault == event.f]
    own = [position for position in same if entry is not None and spans[position].entry == entry]
    if own or isinstance(entry, int):
        return next(iter(own), None)
    exact = [position for position in same if spans[position].targets == targets]
    return next(iter(exact or same), None)


def targets_of(note: Event) -> tuple[str, ...]:
    """Return the nodes that a note of the nemesis names."""
    targets = note.value.get("targets")
    return tuple(str(target) for target in targets) if isinstance(targets, list) else ()


def _reason(event: Event) -> str:
    if event.value.get("verified") is True:
        return ""
    detail = event.value.get("detail")
    reason = detail.get("reason") if isinstance(detail, dict) else None
    return str(reason or event.error or "not verified")

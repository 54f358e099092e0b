"""A queue of which everything that goes in must come out (Jepsen's total-queue checker).

| operation | value |
|---|---|
| `enqueue` | the element |
| `dequeue` | ok: the element that came out; null, or a failure: there was none |
| `drain` | ok: the list of all elements that came out |

**Statement.** There is an execution of a queue without order, in real time, in which every element
whose `enqueue` was acknowledged comes out. Elements may come out more often than they went in
(delivery at least once), unless option `exactly_once` says that they may not. What Jepsen counts:

| count | what |
|---|---|
| `attempts`, `acknowledged` | enqueues that were tried; that were acknowledged |
| `lost` | acknowledged enqueues with no dequeue of their own |
| `unexpected` | came out, and nobody put it in: not at all, not successfully, or not by then |
| `duplicated` | came out more often than it can have gone in |
| `recovered` | came out, and its enqueue was not acknowledged |

Theorem. Give each enqueue the moment of its invocation and each dequeue that of its completion.
That keeps real time, and an element is in the queue when it comes out exactly if its enqueue was
invoked before that dequeue ended. So of one element, acknowledged enqueues all come out if each can
be matched to a dequeue of its own that ended no earlier than the enqueue was invoked; and with
`exactly_once` every dequeue needs an enqueue of its own, indeterminate ones among them. Two such
matchings can be made one (Mendelsohn and Dulmage 1958), so each is looked for alone, greedily: only
ends and beginnings of intervals are compared. (Jepsen counts, so a second enqueue that is lost is
hidden by a second delivery of the first.)

**Lost, or not known.** An element that did not come out is lost only if it is not in the queue any
more. Jepsen takes it for granted that the queue was drained; here a `drain`, or a dequeue that
found nothing, must have begun after all enqueues were answered, or option `drained` says so. And an
indeterminate dequeue may have taken an element that nobody saw, one each, an indeterminate drain
any number: as many elements as these can account for are no loss but a doubt (Jepsen: lost; it
refuses crashed drains). Doubts make the verdict UNKNOWN.

O(n log n).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.history import EventType, Operation
from checkers.jepsen.findings import Findings, UnreadableError, refuse_others
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.models.queues import EMPTY_ERRORS
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.values import freeze, show

NAME = "total-queue"
OPTIONS: Mapping[str, type | tuple[type, ...]] = {"drained": bool, "exactly_once": bool}
_TAKES = ("dequeue", "drain")
_FUNCTIONS = ("enqueue", *_TAKES)


@dataclass(slots=True)
class Element:
    """What went in and came out of one value."""

    tried: list[Operation] = field(default_factory=list)
    """Enqueues of whatever ending."""
    out: list[Operation] = field(default_factory=list)
    """Dequeues and drains that returned it, once for each time."""

    @property
    def acknowledged(self) -> list[Operation]:
        """Enqueues that were answered ok."""
        return [o for o in self.tried if o.type is EventType.OK]

    @property
    def possible(self) -> list[Operation]:
        """Enqueues that may have taken place."""
        return [o for o in self.tried if o.type is not EventType.FAIL]


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge one queue."""
    del cancelled  # two sorts
    once = bool(options.get("exactly_once"))
    promise = "every acknowledged element came out" + (", none twice" if once else "")
    found = Findings(NAME, promise, operations)
    try:
        elements = _elements(operations)
    except UnreadableError as error:
        return found.unreadable(str(error))
    losses: list[tuple[Hashable, Operation]] = []
    unexpected: list[Anomaly] = []
    duplicated: list[Anomaly] = []
    recovered = 0
    for value, element in elements.items():
        never_in = [_early_dequeue(value, element, taken) for taken in element.out]
        unexpected += [wrong for wrong in never_in if wrong is not None]
        spare = [o for o, wrong in zip(element.out, never_in, strict=True) if wrong is None]
        lost = _unmatched_in(element.acknowledged, spare)
        losses += [(value, enqueue) for enqueue in lost]
        twice = _unmatched_out(element.possible, spare)
        duplicated += [_twice(value, taken, element) for taken in twice]
        came = len(spare) - len(twice)
        recovered += max(0, came - (len(element.acknowledged) - len(lost)))
    found.wrong += unexpected
    (found.wrong if once else found.allowed).extend(duplicated)
    excuse = _excuse(operations, len(losses), drained=bool(options.get("drained")))
    missing = [_loss(value, enqueue, excuse) for value, enqueue in losses]
    (found.wrong if excuse is None else found.doubts).extend(missing)
    tried = sum(len(element.tried) for element in elements.values())
    found.counts = {
        "attempts": tried,
        "acknowledged": sum(len(element.acknowledged) for element in elements.values()),
        "lost": len(losses),
        "unexpected": len(unexpected),
        "duplicated": len(duplicated),
        "recovered": recovered,
    }
    return found.result(idle=None if tried else "nothing was put in")


def _elements(operations: Sequence[Operation]) -> dict[Hashable, Element]:
    elements: dict[Hashable, Element] = {}
    refuse_others(operations, *_FUNCTIONS)
    for operation in operations:
        if operation.f == "enqueue":
            elements.setdefault(freeze(operation.input), Element()).tried.append(operation)
        for value in _values_out(operation) if operation.f in _TAKES else ():
            elements.setdefault(value, Element()).out.append(operation)
    return elements


def _values_out(operation: Operation) -> list[Hashable]:
    """Return what came out by an operation that was answered."""
    if operation.type is not EventType.OK:
        return []
    if operation.f == "dequeue":
        return [] if operation.output is None else [freeze(operation.output)]
    value = operation.output if operation.output is not None else ()
    if not isinstance(value, list | tuple):
        raise UnreadableError(f"operation {operation.index}: {value!r} is no list of elements")
    return [freeze(element) for element in value]


def _unmatched_in(enqueues: Sequence[Operation], out: Sequence[Operation]) -> list[Operation]:
    """Return enqueues that have no dequeue of their own which ended later than they began.

    The latest enqueue has the fewest dequeues to choose from, and any that will do for it will do
    for an earlier one as well; so each takes the latest dequeue that is left.
    """
    ends = sorted(o.complete_ns for o in out)
    lost = []
    for enqueue in sorted(enqueues, key=lambda o: o.invoke_ns, reverse=True):
        if ends and ends[-1] >= enqueue.invoke_ns:
            ends.pop()
        else:
            lost.append(enqueue)
    return lost[::-1]


def _unmatched_out(enqueues: Sequence[Operation], out: Sequence[Operation]) -> list[Operation]:
    """Return dequeues that have no enqueue of their own which began before they ended."""
    begins = sorted((o.invoke_ns for o in enqueues), reverse=True)
    twice = []
    for taken in sorted(out, key=lambda o: o.complete_ns):
        if begins and begins[-1] <= taken.complete_ns:
            begins.pop()
        else:
            twice.append(taken)
    return twice


def _early_dequeue(value: Hashable, element: Element, taken: Operation) -> Anomaly | None:
    """Return what is wrong if an element came out before it can have gone in."""
    where = f"operation {taken.index} took out {show(value)}, "
    if not element.tried:
        return anomaly("unexpected", where + "which nobody put in", taken)
    if not element.possible:
        return anomaly("unexpected", where + "of which every enqueue failed", taken, *element.tried)
    if min(o.invoke_ns for o in element.possible) > taken.complete_ns:
        return anomaly("unexpected", where + "which was put in only later", taken, *element.tried)
    return None


def _twice(value: Hashable, taken: Operation, element: Element) -> Anomaly:
    what = f"operation {taken.index} took out {show(value)} once more than it can have gone in"
    return anomaly("duplicated", what, taken, *element.tried)


def _loss(value: Hashable, enqueue: Operation, excuse: str | None) -> Anomaly:
    what = f"{show(value)}, which operation {enqueue.index} put in, did not come out"
    if excuse is None:
        return anomaly("lost", what, enqueue)
    return anomaly("missing", f"{what}: {excuse}", enqueue)


def _excuse(operations: Sequence[Operation], losses: int, *, drained: bool) -> str | None:
    """Return why elements may be missing without being lost; None where nothing explains it."""
    crashed = [o for o in operations if o.f in _TAKES and o.type is EventType.INFO]
    if losses > sum(o.f == "dequeue" for o in crashed) and all(o.f == "dequeue" for o in crashed):
        crashed = []  # too few to have taken all of them
    if crashed:
        return f"{len(crashed)} operations that took elements out are indeterminate"
    added = max(
        (o.complete_ns for o in operations if o.f == "enqueue" and o.type is EventType.OK),
        default=0,
    )
    if drained or any(o.invoke_ns > added and _found_nothing(o) for o in operations):
        return None
    return "no drain, and no dequeue that found nothing, began after all elements were put in"


def _found_nothing(operation: Operation) -> bool:
    if operation.f == "drain":
        return operation.type is EventType.OK
    if operation.f != "dequeue":
        return False
    if operation.type is EventType.OK:
        return operation.output is None
    return operation.type is EventType.FAIL and operation.error in EMPTY_ERRORS

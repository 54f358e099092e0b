"""A FIFO queue with unique values: four patterns, and an order where none is found.

Henzinger, Sezgin and Vafeiadis (CONCUR 2013) and Bouajjani, Emmi, Enea and Hamza (ICALP 2015): a
history is linearizable exactly when

1. every value that came out had gone in (no dequeue completes before its enqueue begins),
2. none came out twice,
3. no two values x, y have enq(x) before enq(y) in real time and deq(y) before deq(x) (one that
   stayed comes out at infinity), and
4. no dequeue found it empty while, at every moment of it, some value was surely inside.

Proof, which is also the algorithm. Narrow intervals first: an enqueue took effect before its
dequeue completed, a dequeue after its enqueue began. For each empty dequeue choose a moment when
no value is surely inside (4) and treat it as a value that goes in and out at that moment. Say x
before y when enq(x) ends before enq(y) begins or deq(x) ends before deq(y) begins. Take repeatedly
the value that nothing left must precede: if there is none, the value of the enqueue that ends first
and that of the dequeue that ends first are a pair as in 3. Otherwise this is the order of the
queue: give every enqueue the latest beginning of the enqueues up to it (or the last empty moment),
every dequeue the latest of the beginnings up to it; no value precedes one that it must follow, so
these times lie within the intervals, and sorted by them the history is a legal queue. O(n log n).

Refused: a value enqueued twice; a contradiction that an indeterminate dequeue could explain.

A value of an indeterminate insertion that nobody took out is left out, as is an indeterminate
removal: where the history is right without it, it is right.
Where it is wrong without it, an indeterminate removal could explain only a value that stayed for
ever, so a contradiction that needs no such value stands; otherwise the rule claims nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from porcupine_py.models.base import Model
from porcupine_py.models.queues import Queue
from porcupine_py.operations import INFINITY_NS, EventType, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import fail_outcome, pass_outcome
from porcupine_py.search.wording import text, title
from porcupine_py.values import freeze, show


@dataclass(slots=True, eq=False)
class Item:
    """A value: when it can have gone in and come out."""

    value: Hashable
    into: Operation
    out: Operation | None
    """None: it stayed."""
    into_from: int
    into_by: int
    """Not later than the value came out."""
    out_from: int
    """Not earlier than the value went in."""
    out_by: int


@dataclass(frozen=True, slots=True)
class Contents:
    """A history of a queue, sorted out."""

    items: list[Item]
    empties: list[Operation]
    """Removals that found nothing."""
    unknown: list[Operation]
    """Indeterminate removals."""

    def stands(self, items: Iterable[Item]) -> bool:
        """Return whether a contradiction among these holds whatever the unknown removals did."""
        return not self.unknown or all(item.out is not None for item in items)

    def fail_outcome(self, kind: str, what: str, window: Iterable[Operation | None]) -> Outcome:
        """Return FAIL; unknown removals belong to every window."""
        return fail_outcome(kind, what, [*window, *self.unknown])


def contents(operations: Sequence[Operation]) -> Contents | Outcome | None:
    """Sort a history out, or say what is wrong with one value; None where it does not apply."""
    inserted: dict[Hashable, Operation] = {}
    removed: dict[Hashable, Operation] = {}
    found = Contents([], [], [])
    repeated: list[Operation] = []
    for operation in operations:
        if operation.f == Queue.into:
            value = freeze(operation.input)
            if value is None or inserted.setdefault(value, operation) is not operation:
                return None
        elif operation.f != Queue.out_of or _is_unsure(operation):
            return None
        elif operation.output is None:
            unknown = operation.type is EventType.INFO
            (found.unknown if unknown else found.empties).append(operation)
        elif removed.setdefault(freeze(operation.output), operation) is not operation:
            repeated.append(operation)
    wrong = _wrong_value(found, inserted, removed, repeated)
    if wrong is not None:
        return wrong
    for value, insertion in inserted.items():
        removal = removed.get(value)
        if removal is not None or insertion.type is EventType.OK:
            found.items.append(_item(value, insertion, removal))
    return found


def _is_unsure(operation: Operation) -> bool:
    """Return whether it is a removal cut out of its history: it may have happened or not."""
    return operation.type is EventType.INFO and operation.output is not None


def _item(value: Hashable, into: Operation, out: Operation | None) -> Item:
    if out is None:
        return Item(value, into, None, into.invoke_ns, into.complete_ns, INFINITY_NS, INFINITY_NS)
    return Item(
        value,
        into,
        out,
        into.invoke_ns,
        min(into.complete_ns, out.complete_ns),
        max(out.invoke_ns, into.invoke_ns),
        out.complete_ns,
    )


def _wrong_value(
    found: Contents,
    inserted: dict[Hashable, Operation],
    removed: dict[Hashable, Operation],
    repeated: Sequence[Operation],
) -> Outcome | None:
    if repeated:
        value = freeze(repeated[0].output)
        first = removed[value]
        what = f"{title(first)} and {title(repeated[0])} both returned {text(repeated[0].output)}"
        # A window holds everything about a value or nothing, so all of its removals.
        others = [o for o in repeated if freeze(o.output) == value]
        return found.fail_outcome("repeated", what, [first, *others, inserted.get(value)])
    for value, removal in removed.items():
        insertion = inserted.get(value)
        if insertion is None:
            what = f"{title(removal)} returned {show(value)}, which nobody put in"
            return found.fail_outcome("phantom", what, [removal])
        if removal.complete_ns < insertion.invoke_ns:
            what = f"{title(removal)} returned {show(value)} before {title(insertion)} began"
            return found.fail_outcome("phantom", what, [removal, insertion])
    return None


def covers(items: Iterable[Item]) -> list[tuple[int, int, list[Item]]]:
    """Return the open intervals in which it cannot be empty, with the values that show it.

    A value is surely inside strictly between the end of its insertion and the beginning of its
    removal. Each maximal interval comes with its values, none of them inside another's interval.
    """
    found: list[tuple[int, int, list[Item]]] = []
    inside = [item for item in items if item.into_by < item.out_from]
    for item in sorted(inside, key=lambda i: (i.into_by, -i.out_from)):
        if not found or item.into_by >= found[-1][1]:
            found.append((item.into_by, item.out_from, [item]))
        elif item.out_from > found[-1][1]:
            begin, _, chain = found[-1]
            chain.append(item)
            found[-1] = (begin, item.out_from, chain)
    return found


def chain_over(begin: int, end: int, chain: Sequence[Item]) -> list[Item]:
    """Return the fewest values of a chain that cover from `begin` to `end`, greedily."""
    taken: list[Item] = []
    reached = begin
    place = 0
    while not taken or reached <= end:
        best: Item | None = None
        while place < len(chain) and chain[place].into_by < reached:
            if best is None or chain[place].out_from > best.out_from:
                best = chain[place]
            place += 1
        assert best is not None, "the chain covers the interval"
        taken.append(best)
        reached = best.out_from
    return taken


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a queue of unique values; None otherwise."""
    assert isinstance(model, Queue)
    found = contents(operations)
    if found is None or isinstance(found, Outcome):
        return found
    moments = empty_moments(found)
    if moments is None or isinstance(moments, Outcome):
        return moments
    virtual = [
        Item(("empty", place), operation, None, at, at, at, at)
        for place, (at, operation) in enumerate(moments)
    ]
    order = _value_order([*found.items, *virtual])
    if isinstance(order, tuple):
        first, second = order
        if not found.stands(order):
            return None
        gone = "is still in" if first.out is None else "came out later"
        ahead = f"{show(first.value)}, which was enqueued first and {gone}"
        what = f"{show(second.value)} came out before {ahead}"
        return found.fail_outcome(
            "out-of-order", what, [first.into, first.out, second.into, second.out]
        )
    explanation = f"{len(found.items)} values in an order that enqueues and dequeues share"
    return pass_outcome(_linearize(order, {id(item) for item in virtual}), explanation)


def empty_moments(found: Contents) -> list[tuple[int, Operation]] | Outcome | None:
    """Choose for each removal that found nothing a moment at which nothing is surely inside."""
    covered = covers(found.items)
    begins = [begin for begin, _, _ in covered]
    moments = []
    for operation in found.empties:
        place = bisect_left(begins, operation.invoke_ns) - 1
        at = operation.invoke_ns
        if place >= 0 and at < covered[place][1]:
            at = covered[place][1]
        if at > operation.complete_ns:
            chain = chain_over(operation.invoke_ns, operation.complete_ns, covered[place][2])
            if not found.stands(chain):
                return None
            what = f"{title(operation)} found nothing, though all the time something was inside: "
            what += ", ".join(show(item.value) for item in chain[:5])
            inside = [o for item in chain for o in (item.into, item.out)]
            return found.fail_outcome("not-empty", what, [operation, *inside])
        moments.append((at, operation))
    return moments


def _value_order(items: list[Item]) -> list[Item] | tuple[Item, Item]:
    """Sort the values topologically; a pair that contradicts itself when that is not possible."""
    by_into = sorted(items, key=lambda i: i.into_from)
    by_out = sorted(items, key=lambda i: i.out_from)
    into_ends = sorted(items, key=lambda i: i.into_by)
    out_ends = sorted(items, key=lambda i: i.out_by)
    free = dict.fromkeys(map(id, items), 0)
    order: list[Item] = []
    done: set[int] = set()
    ready: list[Item] = []
    next_into = next_out = first_into = first_out = 0
    while len(order) < len(items):
        while id(into_ends[first_into]) in done:
            first_into += 1
        while id(out_ends[first_out]) in done:
            first_out += 1
        into_by, out_by = into_ends[first_into].into_by, out_ends[first_out].out_by
        while next_into < len(items) and by_into[next_into].into_from <= into_by:
            _release(by_into[next_into], free, ready)
            next_into += 1
        while next_out < len(items) and by_out[next_out].out_from <= out_by:
            _release(by_out[next_out], free, ready)
            next_out += 1
        if not ready:
            return into_ends[first_into], out_ends[first_out]
        for item in ready:
            order.append(item)
            done.add(id(item))
        ready.clear()
    return order


def _release(item: Item, free: dict[int, int], ready: list[Item]) -> None:
    """Count that nothing left precedes an item on one of its two sides."""
    free[id(item)] += 1
    if free[id(item)] == 2:
        ready.append(item)


def _linearize(order: Sequence[Item], empties: set[int]) -> list[Operation]:
    """Give every operation its time; see the proof above."""
    points: list[tuple[int, int, int, int, Operation]] = []
    into_ns = out_ns = segment = 0
    for place, item in enumerate(order):
        into_ns = max(into_ns, item.into_from)
        if id(item) in empties:
            points.append((into_ns, segment, 2, place, item.into))
            segment += 1
            out_ns = max(out_ns, into_ns)
            continue
        points.append((into_ns, segment, 0, place, item.into))
        if item.out is not None:
            out_ns = max(out_ns, item.out_from, into_ns)
            assert out_ns < INFINITY_NS
            points.append((out_ns, segment, 1, place, item.out))
    return [operation for *_, operation in sorted(points, key=lambda point: point[:4])]

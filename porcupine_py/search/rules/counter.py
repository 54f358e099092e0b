"""A counter with equal additions: each read says how many stand before it.

With all additions of one amount d, a read of v stands after exactly v/d of them. Reads are ordered
by what they return; the additions fill v_max/d places before the highest read, and what is left
stands after it. An addition may take a place from that on before which a read stands that it must
follow (release), and must take one before the first read that it must precede (deadline): both are
monotone along the places, so taking for each place in turn the released addition with the earliest
deadline finds an assignment exactly when there is one (Jackson 1955, earliest due date, unit jobs).
Additions among themselves keep real time, because one that precedes another in real time has no
later release or deadline and ties go by invocation. Indeterminate ones have no deadline and may be
left out.

FAIL: `fractional`, `real-time` (two reads), `too-low`, `too-high`, `unreachable`. The window is cut
at both ends by bisection with the rule itself and holds the reads of the contradiction and every
addition that was open; with many indeterminate additions it is large.

Refused: additions of different amounts (deciding that is NP-hard: subset sum). O(n log n), a FAIL
O(n log^2 n).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from porcupine_py.models.base import Model
from porcupine_py.models.counters import Counter
from porcupine_py.operations import EventType, Operation
from porcupine_py.search.certificate import restrict
from porcupine_py.search.outcome import Outcome, Status, Window
from porcupine_py.search.rules.ladder import fail_outcome, inversion, pass_outcome
from porcupine_py.search.wgl import prefix_window
from porcupine_py.search.window import shrink
from porcupine_py.search.wording import describe_inversion, text, title
from porcupine_py.values import freeze


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a counter with additions of one amount; None otherwise."""
    assert isinstance(model, Counter)
    amounts = {model.amount(o) for o in operations if o.f != "read"} - {0}
    if len(amounts) > 1 or min(amounts, default=1) < 0:
        return None
    if any(type(o.output) is float for o in operations if o.f == "read"):
        return None  # 2.0 may equal a sum
    outcome = _judge(operations, 0, next(iter(amounts), 1), model)
    if outcome.status is Status.FAIL:
        window = _narrow(operations, model, next(iter(amounts), 1))
        outcome = replace(outcome, window=window)
    return outcome


def _judge(operations: Sequence[Operation], base: int, amount: int, model: Counter) -> Outcome:
    """Judge a counter that begins at `base`."""
    adds = [o for o in operations if model.has_effect(o)]
    idle = [o for o in operations if o.f != "read" and not model.has_effect(o)]
    reads = [o for o in operations if o.f == "read"]
    for read in reads:
        value = freeze(read.output)
        if not isinstance(value, int) or (value - base) % amount:
            what = f"{title(read)} returned {text(read.output)}, which is no multiple of {amount}"
            return fail_outcome("fractional", f"{what}, the only amount that was added", operations)
    reads.sort(key=lambda o: (o.output, o.invoke_ns, o.index))
    pair = inversion(reads)
    if pair is not None:
        return fail_outcome("real-time", describe_inversion(*pair), operations)
    order = _places(adds, reads, base, amount)
    if isinstance(order, Outcome):
        return replace(order, window=fail_outcome("", "", operations).window)
    explanation = f"{len(reads)} reads, each after as many of {len(adds)} additions as it says"
    return pass_outcome(_insert(order, idle), explanation)


def _places(
    adds: Sequence[Operation], reads: Sequence[Operation], base: int, amount: int
) -> list[Operation] | Outcome:
    """Fill the places before the reads; `reads` are in their forced order."""
    # Behind read i stands what was invoked after the earliest completion of reads i and later...
    earliest = list(accumulate((r.complete_ns for r in reversed(reads)), min))[::-1]
    # ... and before it what completed before the latest invocation of reads up to i.
    latest = list(accumulate((r.invoke_ns for r in reads), max))
    waiting: list[tuple[int, int, int, Operation]] = []
    incoming = sorted(adds, key=lambda o: (o.invoke_ns, o.index))
    order: list[Operation] = []
    taken = released = 0
    for i, read in enumerate(reads):
        while released < len(incoming) and incoming[released].invoke_ns <= earliest[i]:
            add = incoming[released]
            due = bisect_right(latest, add.complete_ns)
            heapq.heappush(waiting, (due, add.invoke_ns, add.index, add))
            released += 1
        wanted = (read.output - base) // amount
        while taken < wanted:
            if not waiting:
                return _wrong("too-high", read, taken * amount + base)
            due, _, _, add = heapq.heappop(waiting)
            if due < i:
                return _wrong("unreachable", read, taken * amount + base)
            order.append(add)
            taken += 1
        if wanted < taken or (waiting and waiting[0][0] <= i):
            return _wrong("too-low", read, taken * amount + base)
        order.append(read)
    rest = [*(entry[3] for entry in waiting), *incoming[released:]]
    rest = [o for o in rest if o.type is EventType.OK]
    return order + sorted(rest, key=lambda o: (o.invoke_ns, o.index))


def _wrong(kind: str, read: Operation, counted: int) -> Outcome:
    limit = {"too-high": "at most", "too-low": "more than"}.get(kind, "not exactly")
    shown = counted if kind != "unreachable" else read.output
    what = (
        f"{title(read)} returned {read.output}, though {limit} {shown} can have been added by then"
    )
    return fail_outcome(kind, what, [])


def _insert(order: list[Operation], idle: Sequence[Operation]) -> list[Operation]:
    """Put additions of nothing where real time allows: each time point is an invocation."""
    points: list[tuple[int, int, Operation]] = []
    now = 0
    for place, operation in enumerate(order):
        now = max(now, operation.invoke_ns)
        points.append((now, place, operation))
    points += [(o.invoke_ns, -1, o) for o in idle if o.type is EventType.OK]
    return [operation for _, _, operation in sorted(points, key=lambda p: (*p[:2], p[2].index))]


def _narrow(operations: Sequence[Operation], model: Counter, amount: int) -> Window:
    """Find the earliest end at which the rule still fails, and then a small window."""

    def wrong(window: Window) -> bool:
        taken, (base,) = restrict(operations, model, window)
        assert isinstance(base, int)
        return _judge(taken, base, amount, model).status is Status.FAIL

    ends = sorted({o.complete_ns for o in operations if o.type is not EventType.INFO})
    until = [prefix_window(operations, model, end) for end in ends]
    first = bisect_left(until, 1, hi=len(until) - 1, key=wrong)  # 1: wrong, as all later ones
    return shrink(operations, model, until[first], wrong)

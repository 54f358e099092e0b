"""What the rules for queues and stacks have in common: values with the interval they were inside.

Both want every value inserted once. A value of an indeterminate insertion that nobody took
out is left out, as is an indeterminate removal: where the history is right without it, it is right.
Where it is wrong without it, an indeterminate removal could explain only a value that stayed for
ever, so a contradiction that needs no such value stands; otherwise the rule claims nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from porcupine_py.operations import INFINITY_NS, EventType, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import fail_outcome
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
    """A history of a queue or stack, sorted out."""

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


def contents(operations: Sequence[Operation], into: str, out_of: str) -> Contents | Outcome | None:
    """Sort a history out, or say what is wrong with one value; None where it does not apply."""
    inserted: dict[Hashable, Operation] = {}
    removed: dict[Hashable, Operation] = {}
    found = Contents([], [], [])
    repeated: list[Operation] = []
    for operation in operations:
        if operation.f == into:
            value = freeze(operation.input)
            if value is None or inserted.setdefault(value, operation) is not operation:
                return None
        elif operation.f != out_of or _is_unsure(operation):
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

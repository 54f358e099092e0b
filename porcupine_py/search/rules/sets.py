"""A set that only grows: reads are ordered by inclusion.

For sets of elements that are added once each. In a linearization every read returns what was added
before it, so of two reads one includes the other. Elements that the same reads show may have been
added in any order, but between the largest read without them and the smallest one with them; what
no read shows was added after all reads, or, when its add is indeterminate, perhaps never. So the
rungs (`rules.ladder`) are: reads of the smallest set, the elements that the next
one has in addition, its reads, ..., and at the top what nobody read.

FAIL: `phantom`, `repeated` (an element twice in a read), `incomparable` (two reads, neither of
which includes the other), `lost` (an acknowledged element missing in a later read), `real-time`.
Each window holds at most five operations; sets are projected on the elements that matter.

Refused: an element added twice. Complexity: O(n log n + total size of all reads).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from porcupine_py.models.base import Model
from porcupine_py.models.collections import read_list
from porcupine_py.operations import EventType, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import (
    Rung,
    climb,
    fail_outcome,
    inserted_once,
    inversion,
    pass_outcome,
    wrong_element,
)
from porcupine_py.search.wording import describe_inversion, title
from porcupine_py.values import freeze, show

Adds = dict[Hashable, Operation]
Read = tuple[Operation, frozenset[Hashable]]


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a set of elements added once each; None otherwise."""
    adds = inserted_once(operations, "add")
    del model  # it has no options
    if adds is None:
        return None
    reads: list[Read] = []
    for operation in operations:
        if operation.f == "read":
            elements = [freeze(element) for element in read_list(operation)]
            wrong = wrong_element(operation, elements, adds, "added")
            if wrong is not None:
                return wrong
            reads.append((operation, frozenset(elements)))
    reads.sort(key=lambda read: len(read[1]))
    return _incomparable(reads, adds) or _order_reads(reads, adds)


def _order_reads(reads: Sequence[Read], adds: Adds) -> Outcome:
    """Build the rungs and compare them with real time; inclusion was verified."""
    rungs: list[Rung] = []
    sizes: list[frozenset[Hashable]] = []
    shown: frozenset[Hashable] = frozenset()
    for read, elements in reads:
        if not sizes or elements != shown:
            rungs += [[adds[e] for e in elements - shown], []]
            sizes.append(elements)
            shown = elements
        rungs[-1].append(read)
    unread = [a for e, a in adds.items() if e not in shown and a.type is EventType.OK]
    order = climb([*rungs, unread])
    pair = inversion(order)
    if pair is None:
        return pass_outcome(order, f"{len(reads)} reads of {len(sizes)} sets, each within the next")
    first, second = pair
    between = [_between(first, second, reads)]
    kind = "lost" if (first.f, second.f) == ("read", "add") else "real-time"
    placing = [_placing(operation, first) for operation in pair]
    window = [*pair, *between, *(adds[e] for e in placing if e in adds)]
    return fail_outcome(kind, describe_inversion(first, second), window)


def _between(first: Operation, second: Operation, reads: Sequence[Read]) -> Operation | None:
    """Return a read that shows the first of two adds and not the second."""
    if (first.f, second.f) != ("add", "add"):
        return None
    before, after = freeze(first.input), freeze(second.input)
    return next(read for read, shown in reads if before in shown and after not in shown)


def _placing(operation: Operation, first: Operation) -> Hashable:
    """Return the element that places an operation: its own, or one that only it has of two."""
    if operation.f == "add":
        return freeze(operation.input)
    if first.f == "add" or operation is first:
        return ("nothing", operation.index)
    without = {freeze(element) for element in read_list(first)}
    more = (freeze(element) for element in read_list(operation))
    return next(element for element in more if element not in without)


def _incomparable(reads: Sequence[Read], adds: Adds) -> Outcome | None:
    """Compare each read with the next larger one; inclusion is transitive."""
    for (smaller, some), (larger, more) in pairwise(reads):
        if some <= more:
            continue
        only = next(e for e in map(freeze, read_list(smaller)) if e not in more)
        other = next((e for e in map(freeze, read_list(larger)) if e not in some), only)
        what = (
            f"{title(smaller)} shows {show(only)} but not {show(other)}, {title(larger)} "
            f"shows {show(other)} but not {show(only)}"
        )
        return fail_outcome("incomparable", what, [smaller, larger, adds[only], adds[other]])
    return None

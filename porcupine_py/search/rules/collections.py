"""Lists and sets that only grow: reads show the order of the elements, so nothing is searched.

For elements that are inserted once each. In a linearization every read returns what was inserted
before it. An element that no read holds was inserted after all reads, or, when that is
indeterminate, perhaps never. Both are ladders (`rules.ladder`), at the top of which is what nobody
read.

*Lists.* Of two reads one is a prefix of the other and the longest one shows the order of all that
was ever read (Kingsbury and Alvaro, Elle, 2020, on traceability). So the rungs are: reads of length
0, the first element, reads of length 1, the second, ...

*Sets.* Of two reads one includes the other. Elements that the same reads show may have been added
in any order, but between the largest read without them and the smallest one with them. So the rungs
are: reads of the smallest set, the elements that the next one has in addition, its reads, ...

FAIL: `phantom` (nobody inserted the element), `repeated` (an element twice in a read), `real-time`
(an inversion); of lists `incompatible-order` (two reads, neither a prefix of the other); of sets
`incomparable` (two reads, neither of which includes the other), `lost` (an acknowledged element
missing in a later read). Each window holds at most five operations; lists and sets are projected on
the elements that matter.

Refused: an element inserted twice. Complexity: O(n log n + total size of all reads).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from porcupine_py.models.base import Model
from porcupine_py.models.collections import read_in_order, read_list
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

Inserted = dict[Hashable, Operation]
"""Element -> the operation that inserted it."""


def judge_list(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a list of unique appended elements; None otherwise."""
    del model  # it has no options
    found = list_order(operations)
    if found is None or isinstance(found, Outcome):
        return found
    order, longest, elements = found
    wrong_pair = inversion(order)
    if wrong_pair is None:
        reads = sum(operation.f == "read" for operation in order)
        return pass_outcome(order, f"{len(elements)} elements in the order that {reads} reads show")
    first, second = wrong_pair
    appends = {freeze(o.input): o for o in order if o.f == "append"}
    placing = dict.fromkeys(_placing_in_list(operation) for operation in wrong_pair)
    window = [*wrong_pair, longest, *(appends[e] for e in placing if e in appends)]
    return fail_outcome("real-time", describe_inversion(first, second), window)


ListOrder = tuple[list[Operation], Operation | None, list[Hashable]]
"""Appends and reads of a list, the longest read, and what it shows."""


def list_order(operations: Sequence[Operation]) -> ListOrder | Outcome | None:
    """Return the order that reads show, or what is wrong with them; None where it does not apply.

    The history is right exactly when the order has no inversion.
    """
    appends = inserted_once(operations, "append")
    if appends is None:
        return None
    reads = [(o, [freeze(e) for e in read_in_order(o)]) for o in operations if o.f == "read"]
    reads.sort(key=lambda read: len(read[1]))
    alone = (wrong_element(*read, appends, "appended") for read in reads)
    wrong = next(filter(None, alone), None) or _incompatible(reads, appends)
    if wrong is not None:
        return wrong
    longest, order_read = reads[-1] if reads else (None, [])
    rungs: list[Rung] = [[] for _ in range(2 * len(order_read) + 2)]
    for place, element in enumerate(order_read):
        rungs[2 * place + 1].append(appends[element])
    for read, elements in reads:
        rungs[2 * len(elements)].append(read)
    read_at_all = set(order_read)
    for element, append in appends.items():
        if element not in read_at_all and append.type is EventType.OK:
            rungs[-1].append(append)
    return climb(rungs), longest, order_read


def _placing_in_list(operation: Operation) -> Hashable:
    """Return the element that places an operation: its own, or the last one read."""
    if operation.f == "append":
        return freeze(operation.input)
    elements = read_in_order(operation)
    return freeze(elements[-1]) if elements else ("nothing", operation.index)


def _incompatible(
    reads: Sequence[tuple[Operation, list[Hashable]]], appends: Inserted
) -> Outcome | None:
    """Compare each read with the next longer one; prefixes of prefixes are prefixes."""
    for (shorter, some), (longer, more) in pairwise(reads):
        if more[: len(some)] == some:
            continue
        left, right = next((a, b) for a, b in zip(some, more, strict=False) if a != b)
        what = (
            f"{title(shorter)} shows {show(left)} where {title(longer)} shows {show(right)}: "
            f"neither is a prefix of the other"
        )
        return fail_outcome(
            "incompatible-order", what, [shorter, longer, appends[left], appends[right]]
        )
    return None


Read = tuple[Operation, frozenset[Hashable]]


def judge_set(operations: Sequence[Operation], model: Model) -> Outcome | None:
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


def _order_reads(reads: Sequence[Read], adds: Inserted) -> Outcome:
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
    placing = [_placing_in_set(operation, first) for operation in pair]
    window = [*pair, *between, *(adds[e] for e in placing if e in adds)]
    return fail_outcome(kind, describe_inversion(first, second), window)


def _between(first: Operation, second: Operation, reads: Sequence[Read]) -> Operation | None:
    """Return a read that shows the first of two adds and not the second."""
    if (first.f, second.f) != ("add", "add"):
        return None
    before, after = freeze(first.input), freeze(second.input)
    return next(read for read, shown in reads if before in shown and after not in shown)


def _placing_in_set(operation: Operation, first: Operation) -> Hashable:
    """Return the element that places an operation: its own, or one that only it has of two."""
    if operation.f == "add":
        return freeze(operation.input)
    if first.f == "add" or operation is first:
        return ("nothing", operation.index)
    without = {freeze(element) for element in read_list(first)}
    more = (freeze(element) for element in read_list(operation))
    return next(element for element in more if element not in without)


def _incomparable(reads: Sequence[Read], adds: Inserted) -> Outcome | None:
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

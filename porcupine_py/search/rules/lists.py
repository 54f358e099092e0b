"""list-append: reads show the order of the elements, so nothing is left to search.

For lists of elements that are appended once each. In a linearization every read returns the
elements appended before it in their order, so of two reads one is a prefix of the other and the
longest one shows the order of all that was ever read (Kingsbury and Alvaro, Elle, 2020, on
traceability). An element that no read holds was appended after all reads, or, when its append is
indeterminate, need not have been appended at all. So the rungs (`rules.ladder`)
are: reads of length 0, the first element, reads of length 1, the second, ..., and at the top what
nobody read.

FAIL: `phantom` (nobody appended the element), `repeated` (an element twice in a read),
`incompatible-order` (two reads, neither a prefix of the other), `real-time` (an inversion). Each
window holds at most five operations; the list is projected on the elements that matter.

Refused: an element appended twice. Complexity: O(n log n + total length of all reads).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from porcupine_py.models.base import Model
from porcupine_py.models.collections import read_in_order
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

Appends = dict[Hashable, Operation]


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a list of unique appended elements; None otherwise."""
    appends = inserted_once(operations, "append")
    del model  # it has no options
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
    order = climb(rungs)
    wrong_pair = inversion(order)
    if wrong_pair is None:
        return pass_outcome(
            order, f"{len(order_read)} elements in the order that {len(reads)} reads show"
        )
    first, second = wrong_pair
    placing = dict.fromkeys(_placing(operation) for operation in wrong_pair)
    window = [*wrong_pair, longest, *(appends[e] for e in placing if e in appends)]
    return fail_outcome("real-time", describe_inversion(first, second), window)


def _placing(operation: Operation) -> Hashable:
    """Return the element that places an operation: its own, or the last one read."""
    if operation.f == "append":
        return freeze(operation.input)
    elements = read_in_order(operation)
    return freeze(elements[-1]) if elements else ("nothing", operation.index)


def _incompatible(
    reads: Sequence[tuple[Operation, list[Hashable]]], appends: Appends
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

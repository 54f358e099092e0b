"""Unique identifiers, and blocks of producer ids: compare neighbours.

`unique-ids`. A history is linearizable exactly when no identifier was returned twice: any order
that respects real time is legal then. O(n log n) for the order.

`producer-ids`. Every block lies above all before it, so the order of the first ids is forced; the
history is linearizable exactly when neighbouring blocks do not overlap and that order respects real
time (`rules.ladder`). Indeterminate allocations constrain nothing, since gaps are
allowed. O(n log n).

Every window has two operations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from porcupine_py.models.base import Model
from porcupine_py.models.counters import ProducerIds
from porcupine_py.operations import EventType, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import climb, fail_outcome, inversion, pass_outcome
from porcupine_py.search.wording import text, title
from porcupine_py.values import freeze


def judge_unique(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge identifiers that must never repeat."""
    del model  # it has no options
    if any(o.f != "generate" for o in operations):
        return None
    first: dict[Hashable, Operation] = {}
    known = [o for o in operations if o.type is EventType.OK]
    for operation in known:
        other = first.setdefault(freeze(operation.output), operation)
        if other is not operation:
            what = f"{title(other)} and {title(operation)} were both given {text(operation.output)}"
            return fail_outcome("repeated", what, [other, operation])
    return pass_outcome(climb([known]), f"{len(known)} identifiers, all different")


def judge_blocks(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge blocks of ids that must not overlap and must grow in real time."""
    assert isinstance(model, ProducerIds)
    if any(o.f != "allocate" for o in operations):
        return None
    known = [o for o in operations if o.type is EventType.OK]
    if any(o.output is None for o in known):
        return None
    order = sorted(known, key=lambda o: (model.block(o), o.invoke_ns))
    for below, above in pairwise(order):
        first_id, length = model.block(below)
        if model.block(above)[0] < first_id + length:
            what = f"{title(below)} was given {below.output!r}, {title(above)} {above.output!r}"
            return fail_outcome("overlapping-blocks", what, [below, above])
    pair = inversion(order)
    if pair is None:
        return pass_outcome(order, f"{len(order)} blocks, disjoint and growing in real time")
    lower, higher = pair
    what = (
        f"{title(higher)} had been given {higher.output!r} before {title(lower)} was invoked, "
        f"which was given the lower {lower.output!r}"
    )
    return fail_outcome("ids-went-back", what, pair)

"""A stack with unique values: split where it can be empty, else take away a bottom, and go on.

A legal word of a stack is empty, or a sequence of legal words `push x, word, pop x`. Hence (the
decomposition behind Abdulla and others, 2025, and Lee and Mathur, "Efficient decrease-and-conquer
linearizability monitoring"):

- A value is surely inside strictly between the end of its push and the beginning of its pop. One
  that never surely is (its push and pop overlap) can be pushed and popped at one moment and
  constrains nothing.
- Where the intervals of the others leave a gap, the history splits there: nothing on the right
  completes before something on the left begins, so words for both sides one after the other are a
  word for the whole. Conversely a part of a right history is right, since a stack without some of
  its values is a stack.
- Where they leave none, the stack is never empty between its first push and last pop, so some value
  lies at the bottom all the time: its push begins before anything ends, its pop ends after
  everything begins. Any value with that property may be chosen, since the rest only has to be right
  by itself. If there is none, the history is wrong.
- A pop that found nothing needs a gap between the outermost parts (`rules.queue`,
  rule 4).

Complexity: O(n log n + sum over values of the depth at which they lie), O(n^2) at worst.

Refused: a value pushed twice; a contradiction that an indeterminate pop could explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from porcupine_py.models.base import Model
from porcupine_py.models.queues import Stack
from porcupine_py.operations import Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import pass_outcome
from porcupine_py.search.rules.queue import Contents, Item, contents, empty_moments
from porcupine_py.search.window import fewest
from porcupine_py.values import show

_PAIRS_MAX = 40
"""Values among which a pair is looked for that says all."""
_SHRINK_MAX = 400
"""Tries to make a contradiction smaller."""


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """Judge a stack of unique values; None otherwise."""
    assert isinstance(model, Stack)
    found = contents(operations, model.into, model.out_of)
    if found is None or isinstance(found, Outcome):
        return found
    moments = empty_moments(found)
    if moments is None or isinstance(moments, Outcome):
        return moments
    nested = _word(found.items)
    if isinstance(nested, frozenset):
        return _no_bottom(found, [i for i in found.items if id(i) in nested])
    order = _with_moments(nested, moments, found.items)
    return pass_outcome(order, f"{len(found.items)} values, properly nested")


def _no_bottom(found: Contents, items: list[Item]) -> Outcome | None:
    """Make the contradiction small: leave out values while it remains one."""
    items = [*fewest(items, lambda some: isinstance(_word(some), frozenset), _SHRINK_MAX)]
    if not found.stands(items):
        return None
    names = ", ".join(show(item.value) for item in items[:6])
    what = f"no nesting of the values {names} fits the order of their pushes and pops"
    if len(items) <= _PAIRS_MAX:
        buried = next((pair for pair in permutations(items, 2) if _is_buried(*pair)), None)
        if buried is not None:
            below, above = (show(item.value) for item in buried)
            what = f"pop returned {below} while {above}, pushed later, was still on top"
    return found.fail_outcome("out-of-order", what, [o for i in items for o in (i.into, i.out)])


def _is_buried(below: Item, above: Item) -> bool:
    """Return whether a value came out while another, pushed later, was surely inside."""
    if below.out is None or below.into.complete_ns >= above.into.invoke_ns:
        return False
    stayed = above.out is None or above.out.invoke_ns > below.out.complete_ns
    return stayed and above.into.complete_ns < below.out.invoke_ns


def _word(items: Sequence[Item]) -> list[tuple[int, Operation]] | frozenset[int]:
    """Return operations in nested order, each with a time; the ids of a part without bottom else.

    Values that constrain nothing are not in the order.
    """
    order: list[tuple[int, Operation]] = []
    todo: list[Item | list[Item]] = [_sure(items)]
    while todo:
        part = todo.pop()
        if isinstance(part, Item):
            assert part.out is not None
            order.append((part.out_from, part.out))
            continue
        if not part:
            continue
        pieces = _split(part)
        if len(pieces) > 1:
            todo.extend(reversed(pieces))
            continue
        bottom = _bottom(part)
        if bottom is None:
            return frozenset(map(id, part))
        order.append((bottom.into_from, bottom.into))
        if bottom.out is not None:
            todo.append(bottom)
        todo.append([item for item in part if item is not bottom])
    return order


def _sure(items: Sequence[Item]) -> list[Item]:
    """Return the values that are surely inside at some time."""
    return [item for item in items if item.into_by < item.out_from]


def _split(part: list[Item]) -> list[list[Item]]:
    """Cut at every moment at which nothing is surely inside."""
    pieces: list[list[Item]] = []
    end = -1
    for item in sorted(part, key=lambda i: i.into_by):
        if not pieces or item.into_by >= end:
            pieces.append([])
        pieces[-1].append(item)
        end = max(end, item.out_from)
    return pieces


def _bottom(part: list[Item]) -> Item | None:
    """Return a value that can lie below all others of a part."""
    earliest_end = min(min(i.into_by, i.out_by) for i in part)
    latest_begin = max(i.out_from for i in part)
    for item in part:
        if item.into_from <= earliest_end and item.out_by >= latest_begin:
            return item
    return None


def _with_moments(
    nested: Sequence[tuple[int, Operation]],
    moments: Sequence[tuple[int, Operation]],
    items: Sequence[Item],
) -> list[Operation]:
    """Add what found nothing and what constrains nothing, each at a moment of its own.

    A part that begins at or after such a moment stands behind it.
    """
    begins = {id(piece[0].into): piece[0].into_by for piece in _split(_sure(items))}
    part_of = {
        id(o): id(piece[0].into)
        for piece in _split(_sure(items))
        for i in piece
        for o in (i.into, i.out)
    }
    waiting = sorted(moments, key=lambda moment: (moment[0], moment[1].index))
    points: list[tuple[int, int, Operation]] = []
    now = shown = 0
    for at_least, operation in nested:
        while shown < len(waiting) and waiting[shown][0] <= begins[part_of[id(operation)]]:
            now = max(now, waiting[shown][0])
            points.append((now, len(points), waiting[shown][1]))
            shown += 1
        now = max(now, at_least)
        points.append((now, len(points), operation))
    for at, operation in waiting[shown:]:
        points.append((max(now, at), len(points), operation))
    for item in items:
        if item.into_by >= item.out_from:
            assert item.out is not None
            points.append((item.out_from, len(points), item.into))
            points.append((item.out_from, len(points), item.out))
    return [operation for *_, operation in sorted(points, key=lambda point: point[:2])]

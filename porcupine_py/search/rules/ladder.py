"""A forced order, compared with real time: what the rules for lists, sets and ids have in common.

A ladder is a sequence of rungs that must stand one above the other in every linearization, while
the operations of one rung may stand in any order among themselves. Sorted by invocation within each
rung, the sequence is a linearization exactly when no operation completed before one that stands
earlier was invoked: within a rung sorting excludes it, and between rungs there is no other order.
Complexity: O(n log n).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from porcupine_py.operations import Operation
from porcupine_py.search.outcome import Outcome, Status, Window
from porcupine_py.search.wording import title
from porcupine_py.values import freeze, show

Rung = list[Operation]


def inserted_once(operations: Sequence[Operation], f: str) -> dict[Hashable, Operation] | None:
    """Return the operation that inserted each element; None when one was inserted twice.

    None as well when there is an operation that is neither `f` nor a read.
    """
    found: dict[Hashable, Operation] = {}
    for operation in operations:
        if operation.f == f:
            if found.setdefault(freeze(operation.input), operation) is not operation:
                return None
        elif operation.f != "read":
            return None
    return found


def wrong_element(
    read: Operation, elements: Sequence[Hashable], inserted: Mapping[Hashable, Operation], how: str
) -> Outcome | None:
    """Return what is wrong with a read by itself; `how`: the word for inserting."""
    seen = set()
    for element in elements:
        if element not in inserted:
            what = f"{title(read)} shows {show(element)}, which nobody {how}"
            return fail_outcome("phantom", what, [read])
        if element in seen:
            what = f"{title(read)} shows {show(element)} twice, which was {how} once"
            return fail_outcome("repeated", what, [read, inserted[element]])
        seen.add(element)
    return None


def climb(rungs: Iterable[Rung]) -> list[Operation]:
    """Return all operations from the lowest rung up, each rung by invocation."""
    return [
        operation
        for rung in rungs
        for operation in sorted(rung, key=lambda o: (o.invoke_ns, o.index))
    ]


def inversion(order: Sequence[Operation]) -> tuple[Operation, Operation] | None:
    """Find (a, b): a stands before b, but b completed before a was invoked. None: a right order."""
    latest: Operation | None = None
    for operation in order:
        if latest is not None and operation.complete_ns < latest.invoke_ns:
            return latest, operation
        if latest is None or operation.invoke_ns > latest.invoke_ns:
            latest = operation
    return None


def pass_outcome(order: Sequence[Operation], explanation: str) -> Outcome:
    """Return the verdict PASS with an order."""
    indexes = tuple(operation.index for operation in order)
    return Outcome(Status.PASS, explanation, linearization=indexes, explored=len(order))


def fail_outcome(kind: str, explanation: str, window: Iterable[Operation | None]) -> Outcome:
    """Return the verdict FAIL with a window from the beginning; None stands for no operation."""
    indexes = sorted({operation.index for operation in window if operation is not None})
    return Outcome(Status.FAIL, explanation, kind=kind, window=Window(tuple(indexes)))

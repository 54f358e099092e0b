"""Make a violating window small: fewer operations, still without any order.

Delta debugging (Zeller and Hildebrandt 2002) under the rules of
`search.certificate.restrict`, so that whatever is left out, the window never accuses a
right history. In this order:

1. the search already gave the shortest failing prefix (by completion);
2. move the beginning as late as possible, where the model can list the reachable states;
3. leave out operations without effect, and whole groups, in halves, quarters, ... down to one.

Every step asks the search again, within a budget; what is reached when it ends is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from porcupine_py.models.base import Model, relevant
from porcupine_py.operations import Operation
from porcupine_py.search.certificate import RefusedError, restrict
from porcupine_py.search.dispatch import search
from porcupine_py.search.outcome import Budget, BudgetExceededError, Status, Window

_PROBE_TIME_S = 1.0
"""Most that one question to the search may take."""


def shrink(operations: Sequence[Operation], model: Model, window: Window, budget: Budget) -> Window:
    """Return a window no larger than `window` that fails as well.

    `model` was prepared for `operations`.
    """
    known = {operation.index: operation for operation in relevant(operations, model)}
    try:
        window = _move_beginning(operations, model, window, budget, known)
        return _drop(operations, model, window, budget, known)
    except _StoppedError as stopped:
        return stopped.window


class _StoppedError(Exception):
    """The budget ended; carries the smallest window so far."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window


def fails(operations: Sequence[Operation], model: Model, window: Window, budget: Budget) -> bool:
    """Return whether the search proves that the window has no order."""
    try:
        taken, states = restrict(operations, model, window)
    except RefusedError:
        return False
    budget.spend()
    _, outcome = search(taken, model, budget.part(_PROBE_TIME_S), states)
    return outcome.status is Status.FAIL


def _move_beginning(
    operations: Sequence[Operation],
    model: Model,
    window: Window,
    budget: Budget,
    known: dict[int, Operation],
) -> Window:
    """Find the latest beginning; later beginnings allow more, so failing is monotone.

    Steps back from the end in doubling strides, since late beginnings are cheap to try, then
    bisects within the last stride.
    """
    if model.states_at(operations, 0) is None:
        return window
    cuts = sorted({known[index].invoke_ns for index in window.operations})
    fails_from, allows_from, stride = 0, len(cuts), 1
    while fails_from < allows_from - stride:
        place = allows_from - stride
        later = _from(window, cuts[place], model, known)
        if _ask(operations, model, later, budget, window):
            best, fails_from = later, place
            break
        allows_from, stride = place, stride * 2
    else:
        return window
    while allows_from - fails_from > 1:
        middle = (fails_from + allows_from) // 2
        later = _from(window, cuts[middle], model, known)
        if _ask(operations, model, later, budget, best):
            best, fails_from = later, middle
        else:
            allows_from = middle
    return best


def _from(window: Window, from_ns: int, model: Model, known: dict[int, Operation]) -> Window:
    kept = (
        index
        for index in window.operations
        if known[index].invoke_ns >= from_ns
        or (known[index].complete_ns >= from_ns and model.has_effect(known[index]))
    )
    return replace(window, operations=tuple(kept), from_ns=from_ns)


def _drop(
    operations: Sequence[Operation],
    model: Model,
    window: Window,
    budget: Budget,
    known: dict[int, Operation],
) -> Window:
    """Leave out units (an operation without effect, or a group) in ever smaller chunks."""
    for unit_of in (_groups(model), _singles(model)):
        units = _units(window, known, unit_of)
        size = max(1, len(units) // 2)
        while units:
            start = 0
            while start < len(units):
                rest = units[:start] + units[start + size :]
                gone = {index for unit in units[start : start + size] for index in unit}
                kept = tuple(index for index in window.operations if index not in gone)
                smaller = replace(window, operations=kept)
                if _ask(operations, model, smaller, budget, window):
                    window, units = smaller, rest
                else:
                    start += size
            if size == 1:
                break
            size //= 2
    return window


def _units(
    window: Window, known: dict[int, Operation], unit_of: Callable[[Operation], Hashable | None]
) -> list[list[int]]:
    units: dict[Hashable, list[int]] = {}
    for index in window.operations:
        name = unit_of(known[index])
        if name is not None:
            units.setdefault(name, []).append(index)
    return list(units.values())


def _groups(model: Model) -> Callable[[Operation], Hashable | None]:
    return model.group


def _singles(model: Model) -> Callable[[Operation], Hashable | None]:
    return lambda operation: None if model.has_effect(operation) else operation.index


def _ask(
    operations: Sequence[Operation], model: Model, smaller: Window, budget: Budget, current: Window
) -> bool:
    try:
        return fails(operations, model, smaller, budget)
    except BudgetExceededError:
        raise _StoppedError(current) from None

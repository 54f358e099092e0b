"""Make a violating window small: fewer operations, still without any order.

Delta debugging (Zeller and Hildebrandt 2002) under the rules of
`search.certificate.restrict`, so that whatever is left out, the window never accuses a
right history. In this order:

1. the search already gave the shortest failing prefix (by completion);
2. move the beginning as late as possible, where the model can list the reachable states;
3. leave out operations without effect, and whole groups, in halves, quarters, ... down to one.

Every step asks whether the window still fails; what is reached when the budget ends is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from porcupine_py.models.base import Model, relevant
from porcupine_py.operations import Operation
from porcupine_py.search.outcome import BudgetExceededError, Window

Fails = Callable[[Window], bool]
"""Says whether a window has no order; may raise BudgetExceededError."""
T = TypeVar("T")


def shrink(operations: Sequence[Operation], model: Model, window: Window, fails: Fails) -> Window:
    """Return a window no larger than `window` that fails as well.

    `model` was prepared for `operations`.
    """
    run = _Shrinking(operations, model, window, fails)
    with suppress(BudgetExceededError):
        if model.states_at(operations, 0) is not None:
            run.move_beginning()
        run.drop()
    return run.window


def fewest(
    units: Sequence[T], fails: Callable[[Sequence[T]], bool], tries_max: int | None = None
) -> Sequence[T]:
    """Leave out units, in halves, quarters, ... and one by one, while what is left fails."""
    size, tries = max(1, len(units) // 2), 0
    while size:
        start = 0
        while start < len(units):
            if tries == tries_max:
                return units
            tries += 1
            fewer = [*units[:start], *units[start + size :]]
            if fails(fewer):
                units = fewer
            else:
                start += size
        size //= 2
    return units


class _Shrinking:
    """The smallest window so far that fails."""

    def __init__(
        self, operations: Sequence[Operation], model: Model, window: Window, fails: Fails
    ) -> None:
        self._known = {operation.index: operation for operation in relevant(operations, model)}
        self._model = model
        self._fails = fails
        self.window = window

    def _is_enough(self, smaller: Window) -> bool:
        if self._fails(smaller):
            self.window = smaller
            return True
        return False

    def move_beginning(self) -> None:
        """Find the latest beginning; later beginnings allow more, so failing is monotone.

        Steps back from the end in doubling strides, since late beginnings are cheap to try, then
        bisects within the last stride.
        """
        cuts = sorted({self._known[index].invoke_ns for index in self.window.operations})
        fails_from, allows_from, stride = 0, len(cuts), 1
        while fails_from < allows_from - stride:
            place = allows_from - stride
            if self._is_enough(self._from(cuts[place])):
                fails_from = place
                break
            allows_from, stride = place, stride * 2
        else:
            return
        while allows_from - fails_from > 1:
            middle = (fails_from + allows_from) // 2
            if self._is_enough(self._from(cuts[middle])):
                fails_from = middle
            else:
                allows_from = middle

    def _from(self, from_ns: int) -> Window:
        kept = (
            index
            for index in self.window.operations
            if self._known[index].invoke_ns >= from_ns
            or (
                self._known[index].complete_ns >= from_ns
                and self._model.has_effect(self._known[index])
            )
        )
        return replace(self.window, operations=tuple(kept), from_ns=from_ns)

    def drop(self) -> None:
        """Leave out whole groups, then single operations without effect."""
        self._drop(self._model.group)
        self._drop(lambda o: None if self._model.has_effect(o) else o.index)

    def _drop(self, unit_of: Callable[[Operation], Hashable | None]) -> None:
        units: dict[Hashable, list[int]] = {}
        for index in self.window.operations:
            units.setdefault(unit_of(self._known[index]), []).append(index)
        always = units.pop(None, [])

        def fails(left: Sequence[list[int]]) -> bool:
            kept = {*always, *(index for unit in left for index in unit)}
            inside = tuple(index for index in self.window.operations if index in kept)
            return self._is_enough(replace(self.window, operations=inside))

        fewest(list(units.values()), fails)

"""The orders that a page shows, with the states between their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porcupine_py.history import Operation, answer_of
from porcupine_py.linearization import PartInfo
from porcupine_py.model import Model
from porcupine_py.states import ModelError
from porcupine_py.visualization.scale import TEXT_MAX, Scale, shorten

__all__ = ["TEXT_MAX", "Order", "Steps"]

ORDERS_MAX = 200
STEPS_MAX = 20_000
"""Of one part, what a page shows; the longest order is shown whole whatever its length."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order of operations, replayed."""

    positions: tuple[int, ...]
    states: tuple[str, ...]
    """Descriptions: before the first operation, and after each."""
    refused: tuple[int, ...]
    """Operations that may come next by real time, and that the model refuses there."""

    @classmethod
    def of(cls, positions: Sequence[int], part: PartInfo, model: Model[Any, Any, Any]) -> Order:
        """Replay an order. Raises ModelError when the model refuses it now."""
        state = model.init()
        states = [shorten(model.state_text(state))]
        for position in positions:
            legal, state = _step(model, state, part.operations[position])
            if not legal:
                raise ModelError(
                    f"the model refuses {model.operation_text(part.operations[position])!r:.200}, "
                    "which it accepted at this place when the history was checked"
                )
            states.append(shorten(model.state_text(state)))
        refused = [
            position
            for position in _next_ones(part, positions)
            if not _step(model, state, part.operations[position])[0]
        ]
        return cls(tuple(positions), tuple(states), tuple(refused))


def _step(
    model: Model[Any, Any, Any], state: Any, operation: Operation[Any, Any]
) -> tuple[bool, Any]:
    legal, after = model.step(state, operation.input, answer_of(operation))
    return bool(legal), after


def _next_ones(part: PartInfo, placed: Sequence[int]) -> list[int]:
    """Return what is not placed and was called before anything else of that returned."""
    there = set(placed)
    left = [i for i in range(len(part.operations)) if i not in there]
    returns = (part.operations[i].return_ for i in left)
    first = min((time for time in returns if time is not None), default=-math.inf)
    return [i for i in left if part.operations[i].call <= first]


@dataclass(frozen=True, slots=True)
class Steps:
    """The orders of one part."""

    part: PartInfo
    orders: tuple[Order, ...]
    """The longest first."""
    left_out: int
    """How many more were found, and are not shown."""

    @classmethod
    def of(cls, part: PartInfo, model: Model[Any, Any, Any]) -> Steps:
        """Replay the longest orders of a part, as many as a page holds."""
        room, shown = STEPS_MAX, 0
        for positions in part.partials[:ORDERS_MAX]:
            room -= len(positions)
            if room < 0 and shown:
                break
            shown += 1
        orders = tuple(Order.of(positions, part, model) for positions in part.partials[:shown])
        return cls(part, orders, len(part.partials) - shown)

    def data(self, scale: Scale) -> dict[str, Any]:
        """Return what the page's script needs, as JSON."""
        largest: dict[int, int] = {}
        for number, order in enumerate(self.orders):
            for position in (*order.positions, *order.refused):
                largest.setdefault(position, number)
        # Before an order at the end of which an operation is refused comes any that holds it.
        for number, order in reversed(list(enumerate(self.orders))):
            for position in order.positions:
                largest[position] = number
        return {
            "orders": [
                {
                    "positions": order.positions,
                    "points": scale.points(self.part, order.positions),
                    "states": order.states,
                    "refused": order.refused,
                }
                for order in self.orders
            ],
            "largest": largest,
        }

"""The rules of `rules` for long histories in columns: they find orders only.

Each looks for an order, rows of the columns, by the theory in the plain rule's file, or
says None. An order is not believed but verified (`search.replay`), so a mistake here
can only cost time. The plain rule is not a second form of the same: it judges what finds no order
that is accepted here, finds what is wrong, shows it in a small window, and needs no compiled
library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from porcupine_py.columns import Columns, Int64s
from porcupine_py.models import Counter, GrowingSet, ListAppend, Log, Model, Queue, Stack, UniqueIds
from porcupine_py.search.rules.arrays import collections, containers, counter, ids, log

Arrange = Callable[[Columns], Int64s | None]


@dataclass(frozen=True, slots=True)
class ArrayRule:
    """A rule under the name of the plain one."""

    name: str
    arrange: Arrange
    """Rows of one key in an order, or None."""


_RULES: dict[type[Model], ArrayRule] = {
    ListAppend: ArrayRule("prefixes", collections.arrange_list),
    GrowingSet: ArrayRule("inclusion", collections.arrange_set),
    Counter: ArrayRule("counting", counter.arrange),
    UniqueIds: ArrayRule("uniqueness", ids.arrange),
    Queue: ArrayRule("fifo", containers.arrange_queue),
    Stack: ArrayRule("lifo", containers.arrange_stack),
    Log: ArrayRule("log-order", log.arrange),
}


def array_rule_for(model: Model) -> ArrayRule | None:
    """Return the rule in columns for a model; a subclass may mean anything, so it has none."""
    return _RULES.get(type(model))

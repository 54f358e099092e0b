"""The rules of `rules` for long histories in columns: they find orders only.

Each looks for an order, rows of the columns, by the theory in the plain rule's file, or
says None. An order is not believed but verified (`search.replay_types`), so a mistake here
can only cost time. The plain rule stays for what finds no order that is accepted: it finds what is
wrong, shows it in a small window, and needs no compiled library. That is also what these are
tested against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from porcupine_py.columns import Columns, Int64s
from porcupine_py.models import Counter, GrowingSet, ListAppend, Log, Model, Queue, Stack, UniqueIds
from porcupine_py.search.replay_types import (
    verify_container,
    verify_counter,
    verify_ids,
    verify_list,
    verify_log,
    verify_set,
)
from porcupine_py.search.rules.arrays import collections, containers, counter, ids, log

Arrange = Callable[[Columns], Int64s | None]
Verify = Callable[[Columns, Int64s], None]


@dataclass(frozen=True, slots=True)
class ArrayRule:
    """A rule under the name of the plain one."""

    name: str
    arrange: Arrange
    """Rows of one key in an order, or None."""
    verify: Verify
    """Raises RefusedError."""


_RULES: dict[type[Model], ArrayRule] = {
    ListAppend: ArrayRule("prefixes", collections.arrange_list, verify_list),
    GrowingSet: ArrayRule("inclusion", collections.arrange_set, verify_set),
    Counter: ArrayRule("counting", counter.arrange, verify_counter),
    UniqueIds: ArrayRule("uniqueness", ids.arrange, verify_ids),
    Queue: ArrayRule("fifo", containers.arrange_queue, verify_container("enqueue", "dequeue", 0)),
    Stack: ArrayRule("lifo", containers.arrange_stack, verify_container("push", "pop", -1)),
    Log: ArrayRule("log-order", log.arrange, verify_log),
}


def array_rule_for(model: Model) -> ArrayRule | None:
    """Return the rule in columns for a model; a subclass may mean anything, so it has none."""
    return _RULES.get(type(model))

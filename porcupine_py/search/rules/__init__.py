"""Near-linear rules by model, for the dispatcher to try before any search.

A rule judges the relevant operations of one key (`models.relevant`) against the model that was
prepared for them. It answers with an `Outcome` that carries its certificate (PASS: an order;
FAIL: a window), or with None when its assumptions do not hold here, e.g. because a value was
written twice; then the next rule, and in the end a search, has to judge. A rule never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from porcupine_py.columns import Columns, Int64s
from porcupine_py.models import (
    Counter,
    GrowingSet,
    ListAppend,
    Log,
    Model,
    ProducerIds,
    Queue,
    UniqueIds,
)
from porcupine_py.operations import Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules import arrays, collections, counter, ids, log, offsets, queue


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule under the name by which it is printed and asked for."""

    name: str
    judge: Callable[[Sequence[Operation], Model], Outcome | None]
    arrange: Callable[[Columns], Int64s | None] | None = None
    """Finds rows of one key in an order (`rules.arrays`)."""


RULES: dict[type[Model], Rule] = {
    ListAppend: Rule("prefixes", collections.judge_list, arrays.arrange_list),
    GrowingSet: Rule("inclusion", collections.judge_set, arrays.arrange_set),
    Counter: Rule("counting", counter.judge, arrays.arrange_counter),
    UniqueIds: Rule("uniqueness", ids.judge_unique, arrays.arrange_ids),
    ProducerIds: Rule("blocks", ids.judge_blocks),
    Queue: Rule("fifo", queue.judge, arrays.arrange_queue),
    Log: Rule("log-order", log.judge, arrays.arrange_log),
}
"""A subclass may mean anything, so it has none of these."""

OFFSETS = Rule("offsets", offsets.judge)
"""For every model: PASS when the order of the servers' offsets explains everything, else None."""

RULE_NAMES = tuple(rule.name for rule in (*RULES.values(), OFFSETS))
"""By which a rule can be asked for."""


def rules_for(model: Model) -> tuple[Rule, ...]:
    """Return the rules to try for a model, in this order."""
    own = RULES.get(type(model))
    return (OFFSETS,) if own is None else (own, OFFSETS)

"""Near-linear rules by model, for the dispatcher to try before any search.

A rule judges the relevant operations of one key (`models.relevant`) against the model that was
prepared for them. It answers with an `Outcome` that carries its certificate (PASS: an order;
FAIL: a window), or with None when its assumptions do not hold here, e.g. because a value was
written twice; then the next rule, and in the end a search, has to judge. A rule never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from porcupine_py.models.base import Model
from porcupine_py.operations import Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules import counter, ids, lists, log, offsets, queue, sets, stack

RuleFunction = Callable[[Sequence[Operation], Model], Outcome | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule under the name by which it is printed and asked for."""

    name: str
    function: RuleFunction

    def __call__(self, operations: Sequence[Operation], model: Model) -> Outcome | None:
        """Judge, or return None."""
        return self.function(operations, model)


RULES: dict[str, tuple[Rule, ...]] = {
    "list-append": (Rule("prefixes", lists.judge),),
    "set": (Rule("inclusion", sets.judge),),
    "counter": (Rule("counting", counter.judge),),
    "unique-ids": (Rule("uniqueness", ids.judge_unique),),
    "producer-ids": (Rule("blocks", ids.judge_blocks),),
    "queue": (Rule("fifo", queue.judge),),
    "stack": (Rule("lifo", stack.judge),),
    "log": (Rule("log-order", log.judge),),
}
"""Model name -> rules, the cheapest first."""

OFFSETS = Rule("offsets", offsets.judge)
"""For every model: PASS when the order of the servers' offsets explains everything, else None."""

RULE_NAMES = tuple(dict.fromkeys(r.name for rules in (*RULES.values(), (OFFSETS,)) for r in rules))
"""By which a rule can be asked for."""


def rules_for(model: Model) -> tuple[Rule, ...]:
    """Return the rules to try for a model, in this order."""
    return (*RULES.get(model.name, ()), OFFSETS)

"""Accounts between which money is transferred, as Jepsen's bank test has them.

`accounts`: `transfer`, with `{"from": account, "to": account, "amount": n}`, and `read`, which
returns all balances by account, or a list of them. So a read has to show the balances of one
moment, where the check `bank` asks only for their total. Accounts begin with `initial`, a map or
list of balances; without it, with what reads show that ended before any transfer began. A read that
lacks an account says nothing about it; what was never there holds nothing.

A transfer is always possible here: whether a balance may go below zero is for `bank`, which looks
at what was read. Numbers are decimals, as there: 0.2 transferred to 0.1 leaves 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import INFINITY_NS, EventType, HistoryError, Operation
from porcupine_py.values import decimal, is_list, render_decimal


class Accounts(Model):
    """Balances by account, which transfers change."""

    name = "accounts"
    reads = "read"

    def __init__(self, initial: Any = None) -> None:
        if initial is not None and not isinstance(initial, Mapping | list | tuple):
            raise ValueError(f"the model {self.name!r} starts with balances, not {initial!r}")
        self._initial = None if initial is None else balances_of(initial)

    def prepare(self, operations: Sequence[Operation]) -> Model:
        """Return a model that begins with what is given, or with what an early read shows."""
        if self._initial is not None:
            return self
        first_ns = min((o.invoke_ns for o in operations if o.f == "transfer"), default=INFINITY_NS)
        reads = [o for o in operations if o.f == "read" and o.type is EventType.OK]
        early = [read for read in reads if read.complete_ns < first_ns]
        if reads and not early:
            problem = "no read ended before the first transfer: --initial has to say what was there"
            raise HistoryError(problem)
        shown: dict[str, Fraction | None] = {}
        for read in early:
            shown |= balances_of(read.output)
        return Accounts(shown)

    def init(self) -> State:
        """Return the initial balances, those that are not zero."""
        return frozenset((a, b) for a, b in (self._initial or {}).items() if b)

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Transfer, or read what is there."""
        assert isinstance(state, frozenset)
        balances: dict[str, Fraction] = dict(state)
        if operation.f == "read":
            shown = balances_of(operation.output)
            return all(balances.get(a, 0) == b for a, b in shown.items()), state
        if operation.f != "transfer":
            raise unknown_function(self, operation)
        source, target, amount = _transfer(operation)
        balances[source] = balances.get(source, 0) - amount
        balances[target] = balances.get(target, 0) + amount
        return True, frozenset((a, b) for a, b in balances.items() if b)

    def always_legal(self, operation: Operation) -> bool:
        """A transfer."""
        return operation.f == "transfer"

    def describe_state(self, state: State) -> str:
        """List the balances."""
        assert isinstance(state, frozenset)
        return "{" + ", ".join(f"{a}: {render_decimal(b)}" for a, b in sorted(state)) + "}"


def _transfer(operation: Operation) -> tuple[str, str, Fraction]:
    asked = operation.input
    if not isinstance(asked, Mapping) or not {"from", "to", "amount"} <= set(asked):
        problem = f"{asked!r} names no from, to and amount"
        raise HistoryError(f"operation {operation.index}: {problem}")
    try:
        amount = amount_of(asked["amount"])
    except HistoryError as error:
        raise HistoryError(f"operation {operation.index}: {error}") from error
    return str(asked["from"]), str(asked["to"]), amount


def balances_of(value: Any) -> dict[str, Fraction | None]:
    """Return balances by account; None where a read has none, which no balance equals.

    Raises HistoryError for anything else.
    """
    if is_list(value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        raise HistoryError(f"{value!r} is no map of balances")
    balances = {str(a): None if b is None else amount_of(b) for a, b in value.items()}
    if len(balances) < len(value):
        raise HistoryError(f"{value!r}: two accounts have the same name")
    return balances


def amount_of(value: Any) -> Fraction:
    """Return a number as a decimal. Raises HistoryError where it is none."""
    if isinstance(value, int | float | Fraction) and not isinstance(value, bool):
        with suppress(ValueError):
            return decimal(value)
    raise HistoryError(f"{value!r} is no amount of money")

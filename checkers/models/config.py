"""One entry of a Kafka config resource under IncrementalAlterConfigs.

Operations: `set v`, `delete`, `append v`, `subtract v` and `read`; the state is the string, or
None when the entry is absent. `append` and `subtract` take the entry as a comma-separated list, as
`ConfigurationControlManager` does: a value that is there is not appended again, the first
occurrence is subtracted, and subtracting the last one leaves the empty string.
"""

from __future__ import annotations

from typing import Any

from checkers.history import HistoryError, Operation
from checkers.models.base import Model, State, freeze
from checkers.models.registers import unknown_function


class Config(Model):
    """A config entry with SET, DELETE, APPEND and SUBTRACT."""

    name = "config"

    def __init__(self, initial: Any = None) -> None:
        self.initial = freeze(initial)

    def init(self) -> State:
        """Return the initial value, None for an absent entry."""
        return self.initial

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Apply the alteration, or read what is there."""
        match operation.f:
            case "read":
                return state == freeze(operation.output), state
            case "delete":
                return True, None
            case "set":
                return True, _value(operation)
            case "append":
                parts = _parts(state)
                parts += [new for new in _unique(_value(operation)) if new not in parts]
                return True, ",".join(parts)
            case "subtract":
                parts = _parts(state)
                for value in _value(operation).split(","):
                    if value in parts:
                        parts.remove(value)
                return True, ",".join(parts)
            case _:
                raise unknown_function(self, operation)

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a read."""
        return operation.f != "read"


def _parts(state: State) -> list[str]:
    assert state is None or isinstance(state, str)
    return [part for part in (state or "").split(",") if part]


def _unique(value: str) -> list[str]:
    return list(dict.fromkeys(value.split(",")))


def _value(operation: Operation) -> str:
    if not isinstance(operation.input, str):
        raise HistoryError(f"operation {operation.index}: {operation.input!r} is no config value")
    return operation.input

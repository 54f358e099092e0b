"""One entry of a Kafka config resource under IncrementalAlterConfigs.

Operations: `set v`, `delete`, `append v`, `subtract v` and `read`; the state is the string, or
None when the entry is absent. `append` and `subtract` take the entry as a comma-separated list, as
`ConfigurationControlManager.incrementalAlterConfigResource` of Apache Kafka 3.3 to 4.x does:

- the entry's empty parts are dropped before either; those of the argument are not, but for
  trailing ones (Java's `String.split`), so that appending "" to "a" gives "a,";
- a value that is there is not appended again;
- `subtract` takes the first occurrence of each value (only SET can have made a second one), and
  subtracting the last one, or from an absent entry, leaves the empty string, not an absent entry.
"""

from __future__ import annotations

from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import HistoryError, Operation
from porcupine_py.values import freeze


class Config(Model):
    """A config entry with SET, DELETE, APPEND and SUBTRACT."""

    name = "config"
    reads = "read"

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
                parts += [new for new in _operands(operation) if new not in parts]
                return True, ",".join(parts)
            case "subtract":
                parts = _parts(state)
                for value in _operands(operation):
                    if value in parts:
                        parts.remove(value)
                return True, ",".join(parts)
            case _:
                raise unknown_function(self, operation)

    def always_legal(self, operation: Operation) -> bool:
        """Every alteration."""
        return operation.f != "read"

    def forgets(self, operation: Operation) -> bool:
        """What sets the entry, or deletes it."""
        return operation.f in ("set", "delete")


def _parts(state: State) -> list[str]:
    assert state is None or isinstance(state, str)
    return [part for part in (state or "").split(",") if part]


def _operands(operation: Operation) -> list[str]:
    """Split as Java does: without trailing empty parts, but the empty string is one part."""
    value = _value(operation)
    parts = (
        value.split(",") if not value else value.rstrip(",").split(",") if value.strip(",") else []
    )
    return list(dict.fromkeys(parts)) if operation.f == "append" else parts


def _value(operation: Operation) -> str:
    if not isinstance(operation.input, str):
        raise HistoryError(f"operation {operation.index}: {operation.input!r} is no config value")
    return operation.input

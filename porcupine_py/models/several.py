"""Several registers at once, as Knossos' `multi-register`.

`multi-register`: one function, by any name, with a list of steps `["w", key, value]` (or `write`)
and `["r", key, value]` (or `read`), all done at one moment. A completion repeats the steps with
what was read; a read of null shows nothing. A key that nobody wrote has the value that `initial`, a
map, gives it, else none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.operations import HistoryError, Operation
from porcupine_py.values import freeze, is_list, show

_READS, _WRITES = frozenset({"r", "read"}), frozenset({"w", "write"})


class MultiRegister(Model):
    """A map of registers."""

    name = "multi-register"

    def __init__(self, initial: Any = None) -> None:
        if initial is not None and not isinstance(initial, Mapping):
            raise ValueError(f"the model {self.name!r} starts with a map, not {initial!r}")
        self._initial = {str(key): freeze(value) for key, value in (initial or {}).items()}

    def init(self) -> State:
        """Return no value that was written."""
        return frozenset()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Do the steps in order."""
        assert isinstance(state, frozenset)
        values: dict[Hashable, Hashable] = dict(state)
        for writes, key, value in _steps(operation):
            if writes:
                values[key] = value
            elif value is not None and value != values.get(key, self._first(key)):
                return False, state
        return True, frozenset(values.items())

    def _first(self, key: Hashable) -> Hashable:
        name = key[1] if isinstance(key, tuple) else key
        return self._initial.get(str(name))

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it writes."""
        return any(writes for writes, _, _ in _steps(operation))

    def describe_state(self, state: State) -> str:
        """List the registers that were written."""
        assert isinstance(state, frozenset)
        return "{" + ", ".join(sorted(f"{show(k)}: {show(v)}" for k, v in state)) + "}"

    def same_effect(self, operation: Operation) -> Hashable:
        """Name what it reads and writes, in order."""
        return tuple(_steps(operation))

    def always_legal(self, operation: Operation) -> bool:
        """Return whether it reads nothing that is known."""
        return all(writes or value is None for writes, _, value in _steps(operation))


_Step = tuple[bool, Hashable, Hashable]
"""Whether it writes, key, value."""


def _steps(operation: Operation) -> Sequence[_Step]:
    """Return the steps, with what was read. Raises HistoryError for anything else."""
    given = [s for s in (operation.input, operation.output) if s is not None] or [None]
    asked, *replies = [[*_read_steps(operation, steps)] for steps in given]
    for reply in replies:
        if [*map(_without_reads, asked)] != [*map(_without_reads, reply)]:
            raise HistoryError(
                f"operation {operation.index}: {operation.output!r} is no answer to "
                f"{operation.input!r}"
            )
    return replies[0] if replies else asked


def _without_reads(step: _Step) -> _Step:
    writes, key, value = step
    return writes, key, value if writes else None


def _read_steps(operation: Operation, steps: Any) -> Iterator[_Step]:
    if not is_list(steps):
        raise HistoryError(f"operation {operation.index}: a transaction is a list, not {steps!r}")
    for step in steps:
        if not is_list(step) or len(step) != 3 or step[0] not in _READS | _WRITES:
            raise HistoryError(
                f'operation {operation.index}: {step!r} is neither ["r", key, value] nor '
                f'["w", key, value]'
            )
        yield step[0] in _WRITES, freeze(step[1]), freeze(step[2])

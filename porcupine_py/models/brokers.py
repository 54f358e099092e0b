"""The registration of one broker, as its clients and all others can see it (KIP-631).

- `register`, input `{"incarnation": i}`, output `{"epoch": e}`: a new incarnation gets an epoch
  above all before it and begins fenced; the same one again gets the epoch that it has, and stays as
  it is.
- `heartbeat` and `fence`, input `{"incarnation": i, "behind": whether its metadata is old}`, output
  `{"epoch": e, "fenced": whether it is now}`: only the registered incarnation's is taken. `fence`
  asks to be fenced, and is. A heartbeat unfences, except a fenced broker that is behind its own
  registration.
- `read`, output `{"alive": whether clients see it}`: registered and not fenced.

A broker that is silent for its session time-out is fenced by the controller, at a moment that no
client sees. So an unfenced broker may be fenced at any later time: the state after a heartbeat is
`MAYBE_FENCED`, the set of both, and the first operation that shows which shrinks it. Sound, because
the model allows every fencing; therefore it cannot see one that came too early or never, nor a
second incarnation that was let in while the first one's session was good.

Refusals (`fail`) show nothing: a controller that has been deposed gives them too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import EventType, HistoryError, Operation

NEVER = -1
"""Below every epoch."""


@dataclass(frozen=True, slots=True)
class _Registration:
    incarnation: str | None = None
    epoch: int = NEVER
    """Its epoch; what its epoch is above, while nobody knows it (`is_exact`)."""
    is_exact: bool = True
    maybe_unfenced: bool = False

    def with_epoch(self, epoch: int | None) -> _Registration | None:
        """Learn the epoch; None when it cannot be this one."""
        if epoch is None:
            return self
        if self.is_exact:
            return self if epoch == self.epoch else None
        return replace(self, epoch=epoch, is_exact=True) if epoch > self.epoch else None


class Broker(Model):
    """One broker id."""

    name = "broker"

    def init(self) -> State:
        return _Registration()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Register, send a heartbeat, ask to be fenced, or look."""
        assert isinstance(state, _Registration)
        match operation.f:
            case "register":
                after = _step_register(state, operation)
            case "heartbeat" | "fence":
                after = _step_heartbeat(state, operation)
            case "read":
                after = _step_read(state, operation)
            case _:
                raise unknown_function(self, operation)
        return after is not None, state if after is None else after

    def has_effect(self, operation: Operation) -> bool:
        """Everything but a read, and a heartbeat that can unfence nobody."""
        if operation.f == "heartbeat" and operation.type is EventType.INFO:
            return not _input(operation).get("behind")
        return operation.f != "read"

    def describe_state(self, state: State) -> str:
        """Describe for a person."""
        assert isinstance(state, _Registration)
        if state.incarnation is None:
            return "not registered"
        epoch = f"epoch {state.epoch}" if state.is_exact else f"an epoch above {state.epoch}"
        fenced = "perhaps unfenced" if state.maybe_unfenced else "fenced"
        return f"incarnation {state.incarnation} with {epoch}, {fenced}"


def _step_register(state: _Registration, operation: Operation) -> _Registration | None:
    incarnation = _incarnation(operation)
    if incarnation != state.incarnation:
        # What replaces an incarnation of unknown epoch is above what that was above.
        state = _Registration(incarnation, state.epoch, is_exact=False)
    return state.with_epoch(_output(operation, "epoch", int))


def _step_heartbeat(state: _Registration, operation: Operation) -> _Registration | None:
    if _incarnation(operation) != state.incarnation:
        return None
    behind = bool(_input(operation).get("behind"))
    known = state.with_epoch(_output(operation, "epoch", int))
    fenced = _output(operation, "fenced", bool)
    if fenced is None:
        unfences = operation.f == "heartbeat" and (not behind or state.maybe_unfenced)
        return replace(state, maybe_unfenced=unfences)
    if operation.f == "fence":
        possible = fenced
    elif behind:
        possible = fenced or state.maybe_unfenced  # it changes nothing, and only shows what is
    else:
        possible = not fenced
    if known is None or not possible:
        return None
    return replace(known, maybe_unfenced=not fenced)


def _step_read(state: _Registration, operation: Operation) -> _Registration | None:
    alive = _output(operation, "alive", bool)
    if alive and not state.maybe_unfenced:
        return None
    return state if alive is None else replace(state, maybe_unfenced=alive)


def _input(operation: Operation) -> dict[str, Any]:
    if not isinstance(operation.input, dict):
        raise HistoryError(f"operation {operation.index}: {operation.input!r} names no incarnation")
    return operation.input


def _incarnation(operation: Operation) -> str:
    incarnation = _input(operation).get("incarnation")
    if not isinstance(incarnation, str):
        raise HistoryError(f"operation {operation.index}: {operation.input!r} names no incarnation")
    return incarnation


def _output(operation: Operation, name: str, of: type) -> Any:
    """Return a field of an answer; None when there was none."""
    if operation.type is not EventType.OK and operation.output is None:
        return None
    output = operation.output
    field = output.get(name) if isinstance(output, dict) else None
    if type(field) is not of:
        raise HistoryError(f"operation {operation.index}: {output!r} has no {name}")
    return field

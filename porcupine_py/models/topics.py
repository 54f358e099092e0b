"""The life of one topic name: created, described, deleted, created again under a new id.

The state is (topic, used): topic is None while the name is free, else (id, partitions), each None
as long as nobody knows it; `used` holds the ids of topics of a create that did not return the id
and that a later describe showed.

- `create` (input: None, a number of partitions, or {"partitions": n}) is legal while the name is
  free. The completion may carry the id, as a string or as {"id": ...}.
  An indeterminate create is bound by the id that it carries, if any.
- `create` failed with `topic_already_exists`: the name was taken.
- `delete` is legal while the name is taken; failed with `unknown_topic_or_partition`: it was free.
- `describe` returns None while the name is free, else {"id": ..., "partitions": n}. Its id must be
  that of the create that made the topic. Where that create has none (it is indeterminate), the
  first describe gives it, and it must be no other topic's id, before or after: ids are random
  UUIDs, so two topics never share one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from porcupine_py.models.base import Model, State
from porcupine_py.models.registers import unknown_function
from porcupine_py.operations import EventType, HistoryError, Operation
from porcupine_py.values import freeze

EXISTS = "topic_already_exists"
UNKNOWN_TOPIC = "unknown_topic_or_partition"
UNKNOWN_ID = "unknown_topic_id"
"""A delete by id may be refused with this one."""


@dataclass(frozen=True, slots=True)
class _State:
    present: bool = False
    id: str | None = None
    partitions: int | None = None
    used: frozenset[str] = field(default_factory=frozenset)


class Topics(Model):
    """One topic name; `prepare` finds which id belongs to which create."""

    name = "topics"

    def __init__(self, owners: dict[str, int] | None = None) -> None:
        self._owners = owners or {}
        """Topic id -> index of the create that returned it."""

    def prepare(self, operations: Sequence[Operation]) -> Topics:
        """Learn the ids that acknowledged creates returned; the first to claim one owns it."""
        owners: dict[str, int] = {}
        for operation in operations:
            if operation.f == "create" and operation.type is EventType.OK:
                topic_id = _topic_fields(operation.output)[0]
                if topic_id is not None:
                    owners.setdefault(topic_id, operation.index)
        return Topics(owners)

    def init(self) -> State:
        return _State()

    def step(self, state: State, operation: Operation) -> tuple[bool, State]:
        """Create, delete or describe."""
        assert isinstance(state, _State)
        match operation.f:
            case "create" if operation.type is EventType.FAIL:
                return state.present, state
            case "create":
                return self._create(state, operation)
            case "delete" if operation.type is EventType.FAIL:
                return not state.present, state
            case "delete":
                return state.present, _State(used=state.used)
            case "describe":
                return self._describe(state, operation)
            case _:
                raise unknown_function(self, operation)

    def observation(self, operation: Operation) -> Operation | None:
        """Return a create that met the topic, or a delete that did not."""
        seen = {"create": (EXISTS,), "delete": (UNKNOWN_TOPIC, UNKNOWN_ID)}
        return operation if operation.error in seen.get(operation.f, ()) else None

    def has_effect(self, operation: Operation) -> bool:
        """Return whether it is a create or delete that was not refused."""
        return operation.f != "describe" and operation.type is not EventType.FAIL

    def same_effect(self, operation: Operation) -> Hashable:
        """Name the function and, of a create, its partitions and its id if that is known."""
        if operation.f != "create":
            return operation.f
        return (
            operation.f,
            _requested_partitions(operation.input),
            _topic_fields(operation.output),
        )

    def reachable(self, operations: Sequence[Operation]) -> list[State]:
        """List the free name and the topic of every create.

        An id that only a describe showed is left open: the window's own describes may show any.
        """
        states = [_State()]
        for operation in operations:
            if operation.f == "create" and self.has_effect(operation):
                legal, state = self._create(_State(), operation)
                states += [state] if legal and isinstance(state, _State) else []
        return list(dict.fromkeys(states))

    def describe_state(self, state: State) -> str:
        """Return whether the topic is there, with its id."""
        assert isinstance(state, _State)
        if not state.present:
            return "no topic"
        more = f"id {state.id or 'not known'}, partitions {state.partitions or 'not known'}"
        return f"the topic there, {more}"

    def _create(self, state: _State, operation: Operation) -> tuple[bool, State]:
        topic_id, partitions = _topic_fields(operation.output)
        if topic_id is not None:
            taken = topic_id in state.used or self._owners.get(topic_id) != operation.index
            if taken:
                return False, state
        partitions = partitions or _requested_partitions(operation.input)
        return not state.present, _State(
            present=True, id=topic_id, partitions=partitions, used=state.used
        )

    def _describe(self, state: _State, operation: Operation) -> tuple[bool, State]:
        if operation.output is None:
            return not state.present, state
        if not state.present:
            return False, state
        topic_id, partitions = _topic_fields(operation.output)
        if None not in (partitions, state.partitions) and partitions != state.partitions:
            return False, state
        known = state.id if topic_id is None else topic_id
        used = state.used
        if topic_id is not None and state.id is None:
            if topic_id in self._owners or topic_id in used:
                return False, state
            used |= {topic_id}
        elif known != state.id:
            return False, state
        partitions = state.partitions or partitions
        return True, _State(present=True, id=known, partitions=partitions, used=used)


def _requested_partitions(value: Any) -> int | None:
    """Return the number of partitions that a create asks for, None when it does not say."""
    if isinstance(value, dict):
        value = value.get("partitions")
    return value if isinstance(value, int) and value > 0 else None


def _topic_fields(value: Any) -> tuple[str | None, int | None]:
    """Return (id, partitions) as far as a completion has them."""
    if value is None or isinstance(value, int):
        return None, None
    if isinstance(value, str):
        return value, None
    if not isinstance(value, dict):
        raise HistoryError(f"a topic is given by its id or as an object, not as {freeze(value)!r}")
    topic_id, partitions = value.get("id"), value.get("partitions")
    return (
        topic_id if isinstance(topic_id, str) else None,
        partitions if isinstance(partitions, int) else None,
    )

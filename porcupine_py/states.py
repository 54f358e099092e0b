"""States of a user's model as a search can remember them: equal ones are one, and none changes.

A search remembers which states it has been in (Lowe 2017), so each state needs a hash and an
equality that agree. Users' states are whatever their functions return: numbers and tuples, which
Python can hash, and lists, deques, dicts, sets and dataclasses, which it cannot. Those are hashed
by their contents, in a way that agrees with `==`: 1, 1.0 and True have one hash, dicts and sets
have no order.

A step that changes its state in place would spoil what is remembered, and make a right history
wrong. So of every state that may change a mark of its contents is kept and taken again after each
step. The mark goes into the attributes of objects, which need not count for `==`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from types import FunctionType, MemberDescriptorType
from typing import Any, Generic, TypeVar

StateT = TypeVar("StateT")

_DEPTH_MAX = 100
"""Nesting beyond which contents no longer count; they need not for hashes to be right."""


class ModelError(Exception):
    """A model's functions do what no specification may; the message says what."""


def contents_hash(state: Any, depth: int = 0) -> int:
    """Return Python's hash of a state, or of its contents where it has none."""
    try:
        return hash(state)
    except TypeError:
        pass
    if depth == _DEPTH_MAX:
        return 0
    if is_dataclass(state):
        parts = (getattr(state, field.name) for field in fields(state) if field.compare)
        return hash(tuple(contents_hash(part, depth + 1) for part in parts))
    if isinstance(state, list | tuple | deque):
        return hash((len(state), *(contents_hash(item, depth + 1) for item in state)))
    if isinstance(state, dict):
        items = state.items()
        return hash(frozenset((hash(k), contents_hash(v, depth + 1)) for k, v in items))
    if isinstance(state, set):
        return hash(frozenset(state))
    if isinstance(state, bytearray):
        return hash(bytes(state))
    return 0


_FIXED = frozenset({type(None), bool, int, float, complex, str, bytes, range})
"""Types of which no value ever changes."""
_CONTAINERS = frozenset({list, tuple, deque, set, frozenset, dict})
"""Types of which a value has parts, and no attributes."""


def _is_fixed(value: Any) -> bool:
    """Return whether nothing can change a value, which then has a hash."""
    kind = type(value)
    if kind in _FIXED:
        return True
    if kind.__hash__ is None:
        return False
    if isinstance(value, tuple | frozenset):
        return _FIXED.issuperset(map(type, value)) or all(map(_is_fixed, value))
    return isinstance(value, Enum | type | FunctionType)


def contents_mark(value: Any, seen: set[int] | None = None) -> int:
    """Return a number that changes when a value, or what it refers to, is changed in place.

    Objects that have a hash of their own are believed by that; of others all attributes count, but
    for cached properties.
    """
    if _is_fixed(value):
        return hash(value)
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    parts: Hashable = None
    own_hash: Any = type(value).__hash__
    if isinstance(value, list | tuple | deque):
        is_plain = _FIXED.issuperset(map(type, value))
        parts = tuple(value if is_plain else (contents_mark(part, seen) for part in value))
    elif isinstance(value, set | frozenset):
        parts = frozenset(contents_mark(part, seen) for part in value)
    elif isinstance(value, dict):  # some models go by the order
        parts = tuple((contents_mark(k, seen), contents_mark(v, seen)) for k, v in value.items())
    elif own_hash is not object.__hash__:
        with suppress(TypeError):  # it has none, or what a frozen dataclass holds has none
            return hash(value)
    if type(value) in _CONTAINERS:
        return hash(parts)
    marks_of = ((name, contents_mark(part, seen)) for name, part in _attributes(value))
    return hash((parts, *sorted(marks_of)))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Return names and values of an object's attributes, and the bytes of arrays of any kind."""
    with suppress(TypeError, ValueError, BufferError):
        yield "", memoryview(value).tobytes()
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and hasattr(value, name):
                yield name, slot.__get__(value)
    for name, part in getattr(value, "__dict__", {}).items():
        if not isinstance(getattr(type(value), name, None), cached_property):
            yield name, part


class Rules(Generic[StateT]):
    """Which states are equal, and their hashes."""

    __slots__ = ("_equal", "_hash", "_own")

    def __init__(
        self,
        equal: Callable[[StateT, StateT], bool] | None,
        hash_of: Callable[[StateT], int] | None,
    ) -> None:
        self._equal = equal
        self._hash = hash_of
        self._own = equal is None and hash_of is None

    def equal(self, left: StateT, right: StateT) -> bool:
        """Return whether two states are the same."""
        return bool(left == right if self._equal is None else self._equal(left, right))

    def hash_of(self, state: StateT) -> int:
        """Return a hash that equal states share. Of a user's `equal` without `hash` it is 0."""
        if self._hash is not None:
            return self._hash(state)
        return contents_hash(state) if self._equal is None else 0

    def key(self, state: StateT) -> Hashable:
        """Return the state as a key of dicts and sets: itself where nothing can change it."""
        if self._own and _is_fixed(state):
            return state
        return StateKey(state, self)


class StateKey(Generic[StateT]):
    """A state with the equality and hash of its model.

    The hash is taken once, and so is the mark of the contents. `check_unchanged` takes the mark
    again, so that a step which changed the state in place is found.
    """

    __slots__ = ("_hash", "_mark", "_rules", "state")

    def __init__(self, state: StateT, rules: Rules[StateT]) -> None:
        self.state = state
        self._rules = rules
        self._hash = hash(rules.hash_of(state))
        self._mark = contents_mark(state)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Beside a `StateKey` a state may stand for itself: set() equals frozenset().
        right: Any = other.state if isinstance(other, StateKey) else other
        return self._rules.equal(self.state, right)

    def __hash__(self) -> int:
        return self._hash

    def __sizeof__(self) -> int:
        """Return bytes, those of the state and of what it directly holds included."""
        state: Any = self.state
        size = object.__sizeof__(self) + sys.getsizeof(state)
        if isinstance(state, list | tuple | deque | set | frozenset):
            size += sum(map(sys.getsizeof, state))
        elif isinstance(state, dict):
            size += sum(sys.getsizeof(k) + sys.getsizeof(v) for k, v in state.items())
        return size

    def check_unchanged(self) -> None:
        """Raise ModelError when the contents of the state are no longer those it had."""
        if contents_mark(self.state) != self._mark:
            raise ModelError(
                "step changed the state that it was given: a model's functions are pure, so that "
                "step has to return a new state"
            )


def distinct(states: Iterable[StateT], rules: Rules[StateT]) -> tuple[StateT, ...]:
    """Return the states without repetitions, in their order."""
    return tuple({rules.key(state): state for state in states}.values())

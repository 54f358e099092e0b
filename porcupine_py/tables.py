"""A user's model as a table, so that a compiled search takes its histories.

Operations of one input and output are a class; a class is asked for its step from every state that
any operations in any order lead to from the first one. Where these states are few and each class
does there what an operation of a register does, the history is one of integers:

| from all states | code |
|---|---|
| legal in one only, which stays or becomes another | read, compare-and-set |
| legal in all, always to the same state | write |
| legal in all but one, and nothing changes | refused compare-and-set |
| legal in all, and nothing changes | placed afterwards, anywhere in its interval |

Of an operation that may also never happen, steps that change nothing do not count.

Sound, since the table is the model itself on every state that an order can reach: an order of the
integers is one of the operations, and the caller has it replayed by the model's own functions. What
has too many states, or another shape, is left to the search in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from math import log

import numpy as np

from porcupine_py.kernels import load
from porcupine_py.models import Model, State
from porcupine_py.operations import EventType, Operation
from porcupine_py.search.encoding import CAS, IMPOSSIBLE, NOT, READ, WRITE, Encoded
from porcupine_py.search.outcome import Budget, Outcome
from porcupine_py.search.race import race

_STATES_MAX, _STATE_BYTES_MAX = 256, 1 << 16
_STEPS_EACH, _STEPS_MORE = 2, 500
"""Most steps of a table: so many for each operation, and so many more."""
_IDLE = -1
"""The code of what is legal everywhere and changes nothing."""
_FIRST_TURN, _TURN_FACTOR = 2_000, 4

Coded = tuple[int, int, int]
"""Code, the state that is needed, the state that is made."""


def search(
    kept: Sequence[Operation],
    classes: Sequence[Hashable],
    model: Model,
    budget: Budget,
    explored_max: int | None,
) -> Outcome | None:
    """Search for an order of operations, of which each has a class; None: the model has no table.

    At about `explored_max` configurations it is UNKNOWN, and more than that are reported.
    """
    kernels = load()
    codes = None if kernels is None else _codes(kept, classes, model)
    if kernels is None or codes is None:
        return None
    used: list[tuple[Operation, Coded]] = []
    idle: list[Operation] = []
    for operation, coded in zip(kept, codes, strict=True):
        if coded[0] != _IDLE:
            used.append((operation, coded))
        elif operation.type is not EventType.INFO:
            idle.append(operation)
    used.sort(key=lambda item: (item[0].invoke_ns, item[0].index))
    encoded = Encoded(
        np.arange(len(used)),
        np.array([0, len(used)], np.int64),
        np.array([code for _, (code, _, _) in used], np.int8),
        np.array([a for _, (_, a, _) in used], np.int64),
        np.array([b for _, (_, _, b) in used], np.int64),
        np.array([o.type is EventType.INFO for o, _ in used], np.bool_),
        np.array([o.invoke_ns for o, _ in used], np.int64),
        np.array([o.complete_ns for o, _ in used], np.int64),
        0,
        np.full(2, -1, np.int64),
    )
    turns = None
    if explored_max is not None:
        turns = 1 + max(0, int(log(explored_max / _FIRST_TURN, _TURN_FACTOR)))
    raced = race(kernels, encoded, [0], budget, turns=turns)
    explored = raced.explored
    if explored_max is not None and raced.exceeded == f"{turns} turns":
        explored = max(explored, explored_max + 1)
    order: tuple[int, ...] = ()
    if raced.order is not None:
        found = [used[i][0] for i in raced.order.tolist()]
        order = _with_idle(found, idle)
    return Outcome(raced.status, raced.exceeded or "", linearization=order, explored=explored)


def _codes(
    kept: Sequence[Operation], classes: Sequence[Hashable], model: Model
) -> list[Coded] | None:
    """Return what each operation does; None where that is no table of a register."""
    names = [(o.type, name) for o, name in zip(kept, classes, strict=True)]
    examples = dict(zip(names, kept, strict=True))
    steps_max = _STEPS_EACH * len(kept) + _STEPS_MORE
    try:
        rows = _rows(list(examples.values()), model, steps_max)
    except Exception:  # noqa: BLE001  (of a state that the search in Python may never meet)
        return None
    if rows is None:
        return None
    codes = {
        name: _code_of_open(row) if operation.type is EventType.INFO else _code(row)
        for (name, operation), row in zip(examples.items(), rows, strict=True)
    }
    known = {name: code for name, code in codes.items() if code is not None}
    return [known[name] for name in names] if len(known) == len(codes) else None


def _rows(examples: Sequence[Operation], model: Model, steps_max: int) -> list[list[int]] | None:
    """Return, for each class, the state after each state, -1: illegal. State 0 is the first."""
    states: dict[State, int] = {model.init(): 0}
    due = list(states)
    rows: list[list[int]] = [[] for _ in examples]
    for state in due:  # which grows
        if len(due) > _STATES_MAX or len(due) * len(examples) > steps_max:
            return None
        for row, operation in zip(rows, examples, strict=True):
            legal, after = model.step(state, operation)
            if legal and after not in states:
                if sys.getsizeof(after) > _STATE_BYTES_MAX:
                    return None  # it may grow with each step, which are more than an order has
                states[after] = len(due)
                due.append(after)
            row.append(states[after] if legal else -1)
    return rows


def _code(row: Sequence[int]) -> Coded | None:
    """Return what a class does in all states."""
    legal = [state for state, after in enumerate(row) if after >= 0]
    if not legal:
        return READ, IMPOSSIBLE, IMPOSSIBLE
    still = all(row[state] == state for state in legal)
    if len(legal) == len(row):
        if still:
            return _IDLE, IMPOSSIBLE, IMPOSSIBLE
        return (WRITE, IMPOSSIBLE, row[0]) if len(set(row)) == 1 else None
    if len(legal) == 1:
        (needed,) = legal
        return (READ, needed, IMPOSSIBLE) if still else (CAS, needed, row[needed])
    if still and len(legal) == len(row) - 1:
        (needed,) = set(range(len(row))).difference(legal)
        return NOT, needed, IMPOSSIBLE
    return None


def _code_of_open(row: Sequence[int]) -> Coded | None:
    """Return what an operation does that may also never happen, as where it changes nothing."""
    changing = {state: after for state, after in enumerate(row) if after not in {-1, state}}
    made = set(changing.values())
    if not made:
        return _IDLE, IMPOSSIBLE, IMPOSSIBLE
    if len(changing) == 1:
        ((needed, after),) = changing.items()
        return CAS, needed, after
    if len(made) == 1 and changing.keys() | made == set(range(len(row))):
        return WRITE, IMPOSSIBLE, made.pop()
    return None


def _with_idle(order: Sequence[Operation], idle: Sequence[Operation]) -> tuple[int, ...]:
    """Place what changes nothing: before the first that was invoked after its completion.

    What is before it then was invoked in time; what is behind it, and had completed before it was
    invoked, would have completed before that first one as well, so the order was wrong before.
    """
    placed: list[int] = []
    waiting = sorted(idle, key=lambda o: o.complete_ns, reverse=True)
    for operation in order:
        while waiting and waiting[-1].complete_ns < operation.invoke_ns:
            placed.append(waiting.pop().index)
        placed.append(operation.index)
    return (*placed, *(o.index for o in reversed(waiting)))

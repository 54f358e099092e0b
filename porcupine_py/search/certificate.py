"""An independent verifier: accepts or refuses what a checker offers as proof.

It shares no code with the algorithms, only the models, prepared for the whole history. A PASS is
proved by an order, replayed here. A FAIL is proved by a window: `restrict` takes it from the whole
history by rules under which a right history gives right windows only, and `search.walk`
then goes through it in time, with every configuration that can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from porcupine_py.models.base import Model, State, relevant
from porcupine_py.operations import INFINITY_NS, EventType, Operation
from porcupine_py.search.outcome import Window
from porcupine_py.search.walk import DeadEnd, RefusedError, dead_end

__all__ = ["RefusedError", "dead_end", "restrict", "verify_order", "verify_window"]


def verify_order(operations: Sequence[Operation], model: Model, order: Sequence[int]) -> None:
    """Accept an order: all determinate operations once, real time respected, every step legal."""
    known = {operation.index: operation for operation in relevant(operations, model)}
    if len(set(order)) != len(order) or not known.keys() >= set(order):
        raise RefusedError("the order holds an operation twice or one that is not in the history")
    placed = [known[index] for index in order]
    there = set(order)
    missing = [i for i, o in known.items() if o.type is not EventType.INFO and i not in there]
    if missing:
        raise RefusedError(f"operation {missing[0]} is missing in the order")
    latest_ns = -1
    for operation in placed:
        if operation.complete_ns < latest_ns:
            raise RefusedError(
                f"operation {operation.index} had completed before one placed earlier"
            )
        latest_ns = max(latest_ns, operation.invoke_ns)
    refused = model.replay(placed)
    if refused is not None:
        raise RefusedError(f"the model refuses operation {refused.index} at its place")


def verify_window(operations: Sequence[Operation], model: Model, window: Window) -> DeadEnd:
    """Accept a window, taken by the rules and without any order; return where all orders end."""
    taken, states = restrict(operations, model, window)
    end = dead_end(taken, model, states)
    if end is None:
        raise RefusedError("the window can be linearized")
    return end


def restrict(
    operations: Sequence[Operation], model: Model, window: Window
) -> tuple[list[Operation], list[State]]:
    """Return the window's operations as they count in it, and the states it may begin in.

    Left out may be: what cannot change the state; what was invoked after the horizon; what
    completed before `from_ns`, if every state is then allowed that there can be; and whole groups
    (`Model.group`), also from what the rest shows (`Model.project`). What is open at an end of the
    window may have happened or not.
    """
    wanted = set(window.operations)
    from_ns = -1 if window.from_ns is None else window.from_ns
    horizon_ns = INFINITY_NS if window.horizon_ns is None else window.horizon_ns
    begun = [o for o in relevant(operations, model) if o.invoke_ns <= horizon_ns]
    ended = [(o, _open_ended(o, from_ns, horizon_ns)) for o in begun if o.complete_ns >= from_ns]
    counting = [now for was, now in ended if now is was or model.has_effect(was)]
    taken = [o for o in counting if o.index in wanted]
    left_out = set()
    if wanted != {operation.index for operation in taken}:
        raise RefusedError("the window holds operations that do not belong to it")
    groups = {model.group(operation) for operation in taken} | {None}
    for operation in counting:
        kept = operation.index in wanted or not model.has_effect(operation)
        if not kept and model.group(operation) in groups:
            raise RefusedError(f"operation {operation.index} may not be left out of the window")
        if not kept:
            left_out.add(model.group(operation))
    from_init = window.from_ns is None
    states = [model.init()] if from_init else model.states_at(begun, from_ns)
    if states is None:
        raise RefusedError(f"a window of the model {model.name!r} has to start at the beginning")
    return [model.project(o, left_out) for o in taken], list(states)


def _open_ended(operation: Operation, from_ns: int, horizon_ns: int) -> Operation:
    if from_ns <= operation.invoke_ns and operation.complete_ns <= horizon_ns:
        return operation
    return replace(operation, type=EventType.INFO, complete_ns=INFINITY_NS)

"""Brute force: every subset of the indeterminate operations, every order that real time allows.

Shares nothing with `checkers` but the data types: each model is specified here a second time.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations, product
from typing import Any

from checkers.history import EventType, Operation

Step = Callable[[Any, Operation], tuple[bool, Any]]


def is_linearizable(operations: Iterable[Operation], kind: str) -> bool:
    return any(
        some_order(chosen, (), initial, step)
        for initial, step in SPECIFICATIONS[kind](list(operations))
        for chosen in _choices(list(operations), kind)
    )


def _choices(operations: list[Operation], kind: str) -> Iterator[list[Operation]]:
    """What took place: all `ok`, failures that show something, and any subset of the indeterminate."""
    must = [o for o in operations if o.type is EventType.OK or _shows(o, kind)]
    may = [o for o in operations if o.type is EventType.INFO and o.f not in READS]
    subsets = chain.from_iterable(combinations(may, n) for n in range(len(may) + 1))
    for subset in subsets:
        yield [*must, *subset]


READS = {"read", "read-all", "get", "describe"}


def _shows(operation: Operation, kind: str) -> bool:
    if operation.type is not EventType.FAIL:
        return False
    ending = (operation.f, operation.error)
    if kind in ("queue", "unordered-queue"):
        return operation.error == "empty"
    if kind == "cas-register":
        return operation.f == "cas" and operation.error in (None, "cas_mismatch")
    return kind == "topics" and ending in {
        ("create", "topic_already_exists"),
        ("delete", "unknown_topic_or_partition"),
    }


def some_order(left: list[Operation], done: tuple[Any, ...], state: Any, step: Step) -> bool:
    if not left:
        return True
    first_end_ns = min(operation.complete_ns for operation in left)
    for operation in left:
        if first_end_ns < operation.invoke_ns:
            continue  # something that is left had ended before it began
        legal, after = step(state, operation)
        rest = [other for other in left if other is not operation]
        if legal and some_order(rest, done, after, step):
            return True
    return False


def _register(operations: list[Operation]) -> Iterator[tuple[Any, Step]]:
    def step(state: Any, o: Operation) -> tuple[bool, Any]:
        if o.f == "write":
            return True, o.input
        if o.f == "read":
            return o.output == state, state
        expected, new = o.input
        if o.type is EventType.FAIL:
            return state != expected, state
        return state == expected, new

    yield None, step


def _kv(operations: list[Operation]) -> Iterator[tuple[Any, Step]]:
    def step(state: Any, o: Operation) -> tuple[bool, Any]:
        if o.f == "get":
            return o.output == state, state
        return True, o.input if o.f == "put" else state + o.input

    yield "", step


def _set(operations: list[Operation]) -> Iterator[tuple[Any, Step]]:
    def step(state: Any, o: Operation) -> tuple[bool, Any]:
        if o.f == "add":
            return True, state | {o.input}
        return sorted(o.output) == sorted(state), state

    yield frozenset(), step


def _topics(operations: list[Operation]) -> Iterator[tuple[Any, Step]]:
    """Choose beforehand which id each create without an answer got: ids are all different."""
    creates = [o for o in operations if o.f == "create" and o.type is not EventType.FAIL]
    known = {o.index: o.output["id"] for o in creates if o.type is EventType.OK and o.output}
    if len(set(known.values())) < len(known):
        return
    unknown = [o.index for o in creates if o.index not in known]
    seen = [o.output for o in operations if o.f == "describe" and o.type is EventType.OK]
    shown = {topic["id"] for topic in seen if topic}
    free = sorted(shown - set(known.values()))
    for ids in product([None, *free], repeat=len(unknown)):
        named = [i for i in ids if i is not None]
        if len(set(named)) == len(named):
            owner = known | {
                index: i or f"unseen-{index}" for index, i in zip(unknown, ids, strict=True)
            }
            yield None, _topic_step(owner)


def _topic_step(owner: dict[int, str]) -> Step:
    def step(state: Any, o: Operation) -> tuple[bool, Any]:
        if o.f == "create":
            if o.type is EventType.FAIL:
                return state is not None, state
            return state is None, (owner[o.index], o.input["partitions"])
        if o.f == "delete":
            return (state is None, state) if o.type is EventType.FAIL else (state is not None, None)
        if o.output is None:
            return state is None, state
        return state == (o.output["id"], o.output["partitions"]), state

    return step


SPECIFICATIONS: dict[str, Callable[[list[Operation]], Iterator[tuple[Any, Step]]]] = {
    "register": _register,
    "cas-register": _register,
    "kv": _kv,
    "set": _set,
    "topics": _topics,
}

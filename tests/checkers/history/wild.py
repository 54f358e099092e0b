"""Histories of any operations with any results: what no correct system, and no bent one, would do.

Values come from domains so small that many are right by chance. Each kind has a form in which what
is written comes once (`unique-...`), so that the rules apply that need it.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from checkers.history import Operation
from tests.checkers.histories import FAIL, INFO, OK, op

Draw = Callable[[Random, Any], dict[str, Any]]
"""(random, a value to write) -> fields of an operation."""

BEGIN_MAX, LENGTH_MAX = 9, 4


def wild_history(rnd: Random, kind: str, size: int) -> list[Operation]:
    """Draw `size` operations of a kind, by name in `KINDS`."""
    name, unique = kind.removeprefix("unique-"), kind.startswith("unique-")
    if name == "ids":
        name = kind
    drawn = []
    for index in range(size):
        value = index if unique else rnd.randint(0, 2)
        fields = KINDS[name](rnd, value)
        begin = rnd.randint(0, BEGIN_MAX)
        end: int | None = begin + rnd.randint(0, LENGTH_MAX)
        if fields.get("type", OK) is OK and rnd.random() < 0.15:
            fields |= {"type": INFO, "output": rnd.choice([None, fields.get("output"), value])}
            end = None
        drawn.append((begin, end, fields))
    drawn.sort(key=lambda item: item[0])
    return [
        op(index, times_and["f"], (begin, end), **{k: v for k, v in times_and.items() if k != "f"})
        for index, (begin, end, times_and) in enumerate(drawn)
    ]


def _register(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.5:
        return {"f": "write", "input": value, "output": value}
    return {"f": "read", "output": rnd.choice([None, 0, 1, 2, 3])}


def _cas_register(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.5:
        return _register(rnd, value)
    fields = {"f": "cas", "input": [rnd.choice([None, 0, 1, 2, 3]), value], "output": None}
    if rnd.random() < 0.4:
        fields |= {"type": FAIL, "error": rnd.choice([None, None, "cas_mismatch", "not_leader"])}
    return fields


def _kv(rnd: Random, value: Any) -> dict[str, Any]:
    text = "abcdefghij"[value]
    f = rnd.choice(["get", "get", "put", "append", "append"])
    if f != "get":
        return {"f": f, "input": text, "output": text}
    return {"f": f, "output": "".join(rnd.choice("abc") for _ in range(rnd.randint(0, 3)))}


def _list(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.6:
        return {"f": "append", "input": value}
    return {"f": "read", "output": [rnd.randint(0, 3) for _ in range(rnd.randint(0, 3))]}


def _set(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.6:
        return {"f": "add", "input": value}
    return {"f": "read", "output": rnd.sample(range(4), rnd.randint(0, 3))}


def _counter(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.6:
        return {"f": rnd.choice(["add", "increment"]), "input": min(value, 3)}
    return {"f": "read", "output": rnd.randint(0, 5)}


def _queue(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.5:
        return {"f": "enqueue", "input": value}
    if rnd.random() < 0.1:
        return {"f": "dequeue", "type": FAIL, "error": "empty"}
    return {"f": "dequeue", "output": rnd.choice([None, 0, 0, 1, 1, 2, 3])}


def _mutex(rnd: Random, value: Any) -> dict[str, Any]:
    del value
    fields = {"f": rnd.choice(["acquire", "release"])}
    return fields | ({"type": FAIL, "error": "refused"} if rnd.random() < 0.2 else {})


def _log(rnd: Random, value: Any) -> dict[str, Any]:
    if rnd.random() < 0.6:
        return {"f": "append", "input": value, "output": rnd.choice([None, 0, 1, 2, 3, 4])}
    offsets = sorted(rnd.sample(range(5), rnd.randint(0, 3)))
    shown = [[offset, rnd.randint(0, 3)] for offset in offsets]
    f = rnd.choice(["read", "read-all"])
    return {"f": f, "input": rnd.choice([None, 0, 1, 2]), "output": shown}


def _topics(rnd: Random, value: Any) -> dict[str, Any]:
    f = rnd.choice(["create", "create", "delete", "describe", "describe"])
    topic = {"id": f"id{rnd.randint(0, 3)}", "partitions": rnd.randint(1, 2)}
    if f == "describe":
        return {"f": f, "output": rnd.choice([None, topic])}
    refused = {"create": "topic_already_exists", "delete": "unknown_topic_or_partition"}[f]
    given = {"partitions": topic["partitions"]} if f == "create" else None
    if rnd.random() < 0.3:
        return {"f": f, "input": given, "type": FAIL, "error": refused}
    shown = {**topic, "id": f"id{value}"}
    return {"f": f, "input": given, "output": rnd.choice([None, shown]) if given else None}


def _blocks(rnd: Random, value: Any) -> dict[str, Any]:
    return {"f": "allocate", "output": [value * 5, rnd.choice([5, 10])]}


def _ids(rnd: Random, value: Any) -> dict[str, Any]:
    return {"f": "generate", "output": value if rnd.random() < 0.8 else rnd.randint(0, 2)}


KINDS: dict[str, Draw] = {
    "register": _register,
    "cas-register": _cas_register,
    "kv": _kv,
    "list-append": _list,
    "set": _set,
    "counter": _counter,
    "queue": _queue,
    "unordered-queue": _queue,
    "mutex": _mutex,
    "log": _log,
    "topics": _topics,
    "producer-ids": _blocks,
    "unique-ids": _ids,
}

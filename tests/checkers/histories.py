"""Small histories: by hand, and random ones that are right, nearly right, or anything."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from checkers.history import INFINITY_NS, EventType, Operation
from checkers.linearizability import certificates
from checkers.verdict import CheckResult
from porcupine_py.models import Model
from porcupine_py.search.certificate import RefusedError

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO


def op(index: int, f: str, times: tuple[int, int | None], **fields: Any) -> Operation:
    """An operation; the second time None makes it indeterminate."""
    begin, end = times
    kind = fields.pop("type", INFO if end is None else OK)
    values = {"process": index, "key": None, "input": None, "output": None} | fields
    end_ns = INFINITY_NS if kind is INFO or end is None else end
    return Operation(index=index, f=f, type=kind, invoke_ns=begin, complete_ns=end_ns, **values)


def sequence(*rows):
    """Operations one after another, by f, input and output."""
    return [
        op(i, f, (2 * i, 2 * i + 1), input=values[0], output=(*values, None)[1])
        for i, (f, *values) in enumerate(rows)
    ]


def write(index: int, value: Any, begin: int, end: int | None, **fields: Any) -> Operation:
    return op(index, "write", (begin, end), input=value, output=value, **fields)


def read(index: int, value: Any, begin: int, end: int | None, **fields: Any) -> Operation:
    return op(index, "read", (begin, end), output=value, **fields)


def repeated_strings(last: str) -> list[Operation]:
    """More than plain Python searches, of texts that come again and again."""
    made = [
        [
            op(3 * n, "put", (6 * n, 6 * n + 1), input="a"),
            op(3 * n + 1, "append", (6 * n + 2, 6 * n + 3), input="b"),
            op(3 * n + 2, "get", (6 * n + 4, 6 * n + 5), output="ab"),
        ]
        for n in range(20)
    ]
    return [*(o for three in made for o in three), op(60, "get", (120, 121), output=last)]


def random_history(
    rnd: Random, kind: str | type[World], *, size_max: int = 6
) -> tuple[list[Operation], bool]:
    """Operations of one key, and whether they are right by construction."""
    mode = rnd.choice(["right", "bent", "bent", "wild"])
    world = (WORLDS[kind] if isinstance(kind, str) else kind)(rnd)
    operations = [
        _execute(rnd, world, index, point)
        for index, point in enumerate(sorted(rnd.randint(3, 12) for _ in range(size_max)))
    ]
    if mode == "right":
        return operations, True
    for _ in range(1 if mode == "bent" else 4):
        position = rnd.randrange(len(operations))
        operations[position] = _bend(rnd, world, operations[position])
    operations.sort(key=lambda o: (o.invoke_ns, o.index))
    return operations, False


def _execute(rnd: Random, world: World, index: int, point: int) -> Operation:
    """Run one operation at `point`, within an interval around it."""
    f, argument = world.draw(index)
    begin, end = point - rnd.randint(0, 3), point + rnd.randint(0, 3)
    if rnd.random() < 0.3:
        if rnd.random() < 0.5:
            world.run(f, argument, index)
        said = rnd.choice([None, argument])  # what an `info` says is no observation
        return op(index, f, (begin, None), input=argument, output=said)
    if rnd.random() < 0.05:
        return op(index, f, (begin, end), input=argument, type=FAIL, error="not_controller")
    result, kind, error = world.run(f, argument, index)
    return op(index, f, (begin, end), input=argument, output=result, type=kind, error=error)


def _bend(rnd: Random, world: World, operation: Operation) -> Operation:
    """Another result, or another interval."""
    if rnd.random() < 0.5 and operation.type is OK:
        return replace(operation, output=world.any_result(operation))
    begin = rnd.randint(0, 15)
    end = begin + rnd.randint(0, 4)
    return replace(
        operation, invoke_ns=begin, complete_ns=INFINITY_NS if operation.type is INFO else end
    )


class Planted:
    """A model that makes a random history in steps, with one fault at most."""

    def __init__(self, random, fault=None):
        self.random = random
        self.fault = fault
        self.planted = False
        self.now = 0
        self.operations = []

    def hits(self, fault):
        """Whether this is where the fault is planted: once."""
        if self.fault != fault or self.planted or self.random.random() < 0.5:
            return False
        self.planted = True
        return True


class World:
    """A correct system that runs one operation at a time."""

    state: Any = None
    unique = False

    def __init__(self, rnd: Random) -> None:
        self.rnd = rnd

    def draw(self, index: int) -> tuple[str, Any]:
        if self.rnd.random() < 0.5:
            return "read", None
        return "write", index + 1 if self.unique else self.rnd.randint(0, 2)

    def run(self, f: str, argument: Any, index: int) -> tuple[Any, EventType, str | None]:
        if f == "read":
            return self.state, OK, None
        self.state = argument
        return argument, OK, None

    def any_result(self, operation: Operation) -> Any:
        return self.rnd.choice([None, 0, 1, 2, 3, 4]) if operation.f == "read" else operation.output


class UniqueWorld(World):
    unique = True


class CasWorld(World):
    def draw(self, index: int) -> tuple[str, Any]:
        if self.rnd.random() < 0.5:
            return "cas", [self.rnd.choice([None, 0, 1, 2]), self.rnd.randint(0, 2)]
        return super().draw(index)

    def run(self, f: str, argument: Any, index: int) -> tuple[Any, EventType, str | None]:
        if f != "cas":
            return super().run(f, argument, index)
        if self.state != argument[0]:
            return argument, FAIL, None
        self.state = argument[1]
        return argument, OK, None


class UniqueCasWorld(CasWorld):
    unique = True

    def draw(self, index: int) -> tuple[str, Any]:
        if self.rnd.random() < 0.5:
            known = [None, self.state, self.state, *range(1, index + 1)]
            return "cas", [self.rnd.choice(known), index + 1]
        return World.draw(self, index)

    def any_result(self, operation: Operation) -> Any:
        return self.rnd.choice([None, *range(1, 7)]) if operation.f == "read" else operation.output


class KvWorld(World):
    state = ""

    def draw(self, index: int) -> tuple[str, Any]:
        f = self.rnd.choice(["get", "get", "put", "append", "append"])
        return f, None if f == "get" else self.rnd.choice("ab")

    def run(self, f: str, argument: Any, index: int) -> tuple[Any, EventType, str | None]:
        if f == "get":
            return self.state, OK, None
        self.state = argument if f == "put" else self.state + argument
        return argument, OK, None

    def any_result(self, operation: Operation) -> Any:
        if operation.f != "get":
            return operation.output
        return self.rnd.choice(["", "a", "b", "ab", "ba", "aa"])


class UniqueKvWorld(KvWorld):
    """Every text once: letters, or words of which some are made of others, or one that is empty."""

    def __init__(self, rnd: Random) -> None:
        super().__init__(rnd)
        words = ["a", "b", "ab", "ba", "aa", "bab", "abb", "c", ""]
        self.texts = rnd.choice(["abcdefghi", "abcdefghi", rnd.sample(words, len(words))])

    def draw(self, index: int) -> tuple[str, Any]:
        f, _ = super().draw(index)
        return f, None if f == "get" else self.texts[index]

    def any_result(self, operation: Operation) -> Any:
        if operation.f != "get":
            return operation.output
        texts = self.rnd.sample(list(self.texts[:6]), self.rnd.randint(0, 3))
        return self.rnd.choice(["".join(texts), self.state])


class SetWorld(World):
    state: frozenset[int] = frozenset()

    def draw(self, index: int) -> tuple[str, Any]:
        return ("read", None) if self.rnd.random() < 0.5 else ("add", self.rnd.randint(0, 3))

    def run(self, f: str, argument: Any, index: int) -> tuple[Any, EventType, str | None]:
        if f == "read":
            return sorted(self.state, reverse=True), OK, None
        self.state |= {argument}
        return None, OK, None

    def any_result(self, operation: Operation) -> Any:
        if operation.f != "read":
            return operation.output
        return [element for element in range(4) if self.rnd.random() < 0.5]


class TopicsWorld(World):
    def draw(self, index: int) -> tuple[str, Any]:
        f = self.rnd.choice(["create", "create", "delete", "describe", "describe"])
        return f, {"partitions": self.rnd.randint(1, 2)} if f == "create" else None

    def run(self, f: str, argument: Any, index: int) -> tuple[Any, EventType, str | None]:
        if f == "describe":
            return self.state, OK, None
        if f == "create":
            if self.state is not None:
                return argument, FAIL, "topic_already_exists"
            self.state = {"id": f"id{index}", **argument}
            return (dict(self.state) if self.rnd.random() < 0.8 else None), OK, None
        if self.state is None:
            return None, FAIL, "unknown_topic_or_partition"
        self.state = None
        return None, OK, None

    def any_result(self, operation: Operation) -> Any:
        if operation.f == "delete":
            return operation.output
        topic = {"id": f"id{self.rnd.randint(0, 5)}", "partitions": self.rnd.randint(1, 2)}
        if operation.f == "create":
            return {**topic, "partitions": operation.input["partitions"]}
        return self.rnd.choice([None, topic])


WORLDS = {
    "register": World,
    "unique-register": UniqueWorld,
    "cas-register": CasWorld,
    "unique-cas-register": UniqueCasWorld,
    "kv": KvWorld,
    "unique-kv": UniqueKvWorld,
    "set": SetWorld,
    "topics": TopicsWorld,
}
FIRST_WORLDS = tuple(WORLDS)
"""Without those that other files add, whichever is imported first."""


def verify(operations: list[Operation], model: Model, result: CheckResult) -> str | None:
    """None when the result's certificate is accepted, else the reason for the refusal."""
    try:
        certificates.verify(operations, model, result.status, result.certificate or {})
    except RefusedError as refusal:
        return str(refusal)
    return None

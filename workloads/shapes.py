"""Types of what an operation that a plan lists may say: its key, and its value.

Only what reads plans imports this: whoever lists workloads needs no library that checks options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

Shapes = Mapping[str, Mapping[str, Any]]
"""By the operation's name; types of `key` and `value`, or (type, default), where it has any."""


def _print(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"must be {_PRINTED}")
    return text


_PRINTED = "a text of 1 to 10000 printable characters"
Text = Annotated[
    str, Field(min_length=1, max_length=10_000, description=_PRINTED), AfterValidator(_print)
]
"""Without a tab or the end of a line, which separate what clients in Java are sent."""
Count = Annotated[int, Field(ge=1, le=10_000)]
Offset = Annotated[int, Field(ge=0, le=2**62)]


def _records(value: object) -> object:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"must be a text or a list of texts, not {ascii(value)[:80]}")
    return value


Records = Annotated[Any, AfterValidator(_records)]


class Size(TypedDict):
    """Of a new topic."""

    partitions: Count


class Identified(TypedDict):
    """Of a topic that is deleted by its id."""

    by: Literal["id"]


class Removal(TypedDict):
    """Of a change that removes a voter whichever are missing."""

    change: Literal["remove"]


class Setting(TypedDict):
    """One configuration."""

    name: Text
    value: str


class Incarnation(TypedDict):
    """Of a broker that registers."""

    incarnation: Text


class Said(Incarnation):
    """What a broker says that is registered: whether it has no metadata."""

    behind: bool


def one_of(names: Sequence[str]) -> Any:
    """Return the type of a name that is one of these, which may be thousands."""
    known = frozenset(names)

    def check(name: str) -> str:
        if name not in known:
            few = names if len(names) <= 9 else (names[0], "...", names[-1])
            raise ValueError(f"must be one of {', '.join(few)}, not {ascii(name)[:80]}")
        return name

    return Annotated[str, AfterValidator(check)]


def partition_but(others: Collection[str]) -> Any:
    """Return the type of a partition's name, such as d0-1, that is of none of these topics."""
    topics = {name.rpartition("-")[0] for name in others}

    def check(name: str) -> str:
        topic = name.rpartition("-")[0]
        if topic in topics:
            raise ValueError(f"must be of a topic that nothing is sent to, not {name!r}")
        return name

    partition = Field(pattern=r"^.+-\d{1,5}$", description="a partition such as d0-1")
    return Annotated[str, partition, AfterValidator(check)]


def steps_of(keys: Collection[str], kinds: Sequence[str] = ("r",), most: int = 1_000) -> Any:
    """Return the type of a transaction's steps; of those that append something does.

    Nothing is appended or committed twice, which would be taken for the broker's doing: of all that
    is read by this type.
    """
    known, done = frozenset(keys), set[object]()

    def fits(step: object) -> bool:
        match step:
            case ["r", str(key), None] | ["append", str(key), str()]:
                return step[0] in kinds and key in known
            case ["commit", str(key), int(offset)]:
                return step[0] in kinds and key in known and type(offset) is int and offset >= 0
        return False

    def check(steps: list[Any]) -> list[Any]:
        if wrong := [number for number, step in enumerate(steps, 1) if not fits(step)]:
            raise ValueError(f"step {wrong[0]} must be {' or '.join(_STEPS[k] for k in kinds)}")
        if "append" in kinds and all(step[0] != "append" for step in steps):
            raise ValueError("must append something")
        for kind, key, made in (step for step in steps if step[0] != "r"):
            each = made if kind == "append" else (key, made)
            if each in done:
                raise ValueError(f"{kind}s {ascii(made)[:80]} again: no two may be alike")
            done.add(each)
        return steps

    count = Field(min_length=1, max_length=most, description=f"a list of 1 to {most} steps")
    return Annotated[list[Any], count, AfterValidator(check)]


_STEPS = {
    "r": '["r", a partition, null]',
    "append": '["append", a partition, a text]',
    "commit": '["commit", a partition, an offset]',
}

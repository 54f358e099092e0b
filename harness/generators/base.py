"""Generators: who does what next, and when.

A generator is asked by one free worker at a time (`op`) and answers with an operation and the
earliest time at which it may be invoked, with "not now", or with "never again for you". It is told
of every invocation and completion (`update`). The interpreter calls it from one task, so a
generator needs no locks.

Generators here hold state and are used once; combinators own the generators they are given. They
read no clock but the context's and have no randomness but a `random.Random` that they were given,
so that one seed gives one sequence of operations to each worker in any world.

The ideas are Jepsen's (jepsen.generator); the difference is that the asking worker is given, that
a time may be reserved ahead (`Next.at_ns`), and that state is explicit and mutable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

from checkers.history import NEMESIS as _NEMESIS
from checkers.history import Event
from cluster.values import valueclass
from workloads.base import Op

Worker = int | Literal["nemesis"]
"""A client worker, numbered from 0, or the nemesis."""

NANOSECONDS = 1_000_000_000

NEMESIS: Final = "nemesis"
assert NEMESIS == _NEMESIS, "histories and generators name the nemesis alike"


def seconds(value_s: float) -> int:
    """Convert a duration in seconds to nanoseconds."""
    return round(value_s * NANOSECONDS)


@valueclass
class Context:
    """The moment of a question."""

    now_ns: int
    """Nanoseconds since the run began."""
    worker: Worker
    """Who is free and asks, or whose event it is."""
    workers: tuple[Worker, ...]
    """Everybody who takes part, in a fixed order."""
    wake: Callable[[], None]
    """To be called when workers that were told to wait for news should ask again."""


@valueclass
class Next:
    """Do this, not before `at_ns`."""

    op: Op
    at_ns: int


@valueclass
class Wait:
    """Ask again after the next completion or wake, or at `until_ns`, whatever comes first.

    Without `news` only the time counts. One of the two must be given.
    """

    until_ns: int | None = None
    news: bool = True

    def __post_init__(self) -> None:
        assert self.news or self.until_ns is not None, "nobody waits for ever"


@valueclass
class Done:
    """Nothing more for this worker, ever."""


Answer = Next | Wait | Done


class Generator(Protocol):
    """See the module."""

    def op(self, context: Context) -> Answer:
        """Say what the free worker `context.worker` does next.

        An operation that is answered is taken: the caller performs it or drops it for good.
        """

    def update(self, context: Context, event: Event) -> None:
        """Take note that an invocation or completion by `context.worker` was journaled."""

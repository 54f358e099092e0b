"""Generators: which worker performs which operation next, and when.

The interpreter asks a generator for each free worker (`op`); the answer is an operation with the
earliest time of its invocation (`Next`), or `Wait`, or `Done` for this worker. Every invocation and
completion is passed to `update`. All calls come from one task, so a generator needs no locks.

Generators here hold state and are used once; combinators own the generators they are given. Their
only clock is the context's and their only randomness a `random.Random` given to them, so one seed
gives each worker the same sequence of operations in any world.

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
    """The moment of a call."""

    now_ns: int
    """Nanoseconds since the run began."""
    worker: Worker
    """The free worker, or the worker of the event."""
    workers: tuple[Worker, ...]
    """All workers of the run, in a fixed order."""
    wake: Callable[[], None]
    """Lets workers that wait for news ask again."""


@valueclass
class Next:
    """Perform `op`, not before `at_ns`."""

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
        assert self.news or self.until_ns is not None, "every wait has an end"


@valueclass
class Done:
    """Nothing more for this worker, ever."""


Answer = Next | Wait | Done


class Generator(Protocol):
    """See the module."""

    def op(self, context: Context) -> Answer:
        """Return what the free worker `context.worker` does next.

        A returned operation is consumed: the caller performs it or drops it for good.
        """

    def update(self, context: Context, event: Event) -> None:
        """Take note that an invocation or completion by `context.worker` was journaled."""


class Inside:
    """What combinators of one generator have in common: by itself it changes nothing."""

    def __init__(self, inner: Generator) -> None:
        self._inner = inner

    def op(self, context: Context) -> Answer:
        return self._inner.op(context)

    def update(self, context: Context, event: Event) -> None:
        self._inner.update(context, event)


class Unmoved:
    """What generators have in common that learn nothing from events."""

    def update(self, context: Context, event: Event) -> None:
        """See `Generator.update`."""

"""Combinators that decide which operations come, in which order, and to which workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from checkers.history import Event, EventType
from harness.run.generators.base import (
    NEMESIS,
    Answer,
    Context,
    Done,
    Generator,
    Next,
    Unmoved,
    Wait,
    Worker,
    seconds,
)
from workloads.base import Op


class Of(Unmoved):
    """The operations of an iterable, each for the next worker that asks; then done."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self._ops: Iterator[Op] = iter(ops)

    def op(self, context: Context) -> Answer:
        op = next(self._ops, None)
        return Done() if op is None else Next(op, context.now_ns)


class EachWorker:
    """A separate generator for each worker, made when the worker first asks.

    Done for a worker when its own is. Events of a worker go to its own generator only.
    """

    def __init__(self, make: Callable[[Worker], Generator]) -> None:
        self._make = make
        self._own: dict[Worker, Generator] = {}

    def op(self, context: Context) -> Answer:
        own = self._own.get(context.worker)
        if own is None:
            own = self._own[context.worker] = self._make(context.worker)
        return own.op(context)

    def update(self, context: Context, event: Event) -> None:
        own = self._own.get(context.worker)
        if own is not None:
            own.update(context, event)


class UntilOk:
    """Repeats one operation until an attempt is ok; then done.

    At most one worker has an attempt open at a time. A worker whose attempt was
    not ok pauses, at first for `PAUSE_MIN_S`, then twice as long each time, at most `PAUSE_MAX_S`:
    what fails at once would else fill the journal. The others go on: they may ask another node.
    """

    PAUSE_MIN_S = 0.1
    PAUSE_MAX_S = 1.0

    def __init__(self, op: Op) -> None:
        self._op = op
        self._trying: Worker | None = None
        self._ok = False
        self._not_before_ns: dict[Worker, int] = {}
        self._pause_ns: dict[Worker, int] = {}

    def op(self, context: Context) -> Answer:
        if self._ok:
            return Done()
        if self._trying is not None:
            return Wait()
        not_before_ns = self._not_before_ns.get(context.worker, 0)
        if context.now_ns < not_before_ns:
            return Wait(not_before_ns)
        self._trying = context.worker
        return Next(self._op, context.now_ns)

    def update(self, context: Context, event: Event) -> None:
        if event.type is EventType.INVOKE or context.worker != self._trying:
            return
        self._trying = None
        if event.type is EventType.OK:
            self._ok = True
        else:
            pause_ns = self._pause_ns.get(context.worker, seconds(self.PAUSE_MIN_S))
            self._not_before_ns[context.worker] = event.time_ns + pause_ns
            self._pause_ns[context.worker] = min(2 * pause_ns, seconds(self.PAUSE_MAX_S))


class Phases:
    """One generator after another, with a barrier between them.

    A phase is over once it has answered `Done` to every worker. Only a free worker asks, so no
    operation of a phase is open when the next phase begins. A worker that is done early waits for
    the others.
    """

    def __init__(self, *phases: Generator) -> None:
        self._phases = list(phases)
        self._finished: set[Worker] = set()

    def op(self, context: Context) -> Answer:
        while self._phases:
            if context.worker in self._finished:
                return Wait()
            answer = self._phases[0].op(context)
            if not isinstance(answer, Done):
                return answer
            self._finished.add(context.worker)
            if len(self._finished) < len(context.workers):
                return Wait()
            self._phases.pop(0)
            self._finished.clear()
            context.wake()
        return Done()

    def update(self, context: Context, event: Event) -> None:
        if self._phases:
            self._phases[0].update(context, event)


class Together:
    """A generator for the clients beside another for the nemesis; done when both are.

    One that is not given has nothing to do. Each knows of its own workers alone.
    """

    def __init__(self, clients: Generator | None = None, nemesis: Generator | None = None) -> None:
        self._parts = {False: clients, True: nemesis}

    def op(self, context: Context) -> Answer:
        part, own = self._part_of(context)
        return Done() if part is None else part.op(own)

    def update(self, context: Context, event: Event) -> None:
        part, own = self._part_of(context)
        if part is not None:
            part.update(own, event)

    def _part_of(self, context: Context) -> tuple[Generator | None, Context]:
        is_nemesis = context.worker == NEMESIS
        workers = _part(context.workers, nemesis=is_nemesis)
        own = Context(context.now_ns, context.worker, workers, context.wake)
        return self._parts[is_nemesis], own


@lru_cache(maxsize=64)
def _part(workers: tuple[Worker, ...], *, nemesis: bool) -> tuple[Worker, ...]:
    return tuple(worker for worker in workers if (worker == NEMESIS) is nemesis)

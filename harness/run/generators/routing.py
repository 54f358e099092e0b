"""Combinators that decide which worker a generator serves."""

from __future__ import annotations

from functools import lru_cache

from checkers.history import Event
from harness.run.generators.base import NEMESIS, Answer, Context, Done, Generator, Worker


class Clients:
    """A generator for client workers only: done for the nemesis, which its context leaves out."""

    def __init__(self, inner: Generator) -> None:
        self._inner = inner

    def op(self, context: Context) -> Answer:
        if context.worker == NEMESIS:
            return Done()
        return self._inner.op(_among_clients(context))

    def update(self, context: Context, event: Event) -> None:
        if context.worker != NEMESIS:
            self._inner.update(_among_clients(context), event)


class Nemesis:
    """A generator for the nemesis only: done for clients."""

    def __init__(self, inner: Generator) -> None:
        self._inner = inner

    def op(self, context: Context) -> Answer:
        if context.worker != NEMESIS:
            return Done()
        return self._inner.op(_alone(context))

    def update(self, context: Context, event: Event) -> None:
        if context.worker == NEMESIS:
            self._inner.update(_alone(context), event)


class Together:
    """One generator for the clients beside another for the nemesis; done when both are."""

    def __init__(self, clients: Generator, nemesis: Generator) -> None:
        self._clients = Clients(clients)
        self._nemesis = Nemesis(nemesis)

    def op(self, context: Context) -> Answer:
        part = self._nemesis if context.worker == NEMESIS else self._clients
        return part.op(context)

    def update(self, context: Context, event: Event) -> None:
        part = self._nemesis if context.worker == NEMESIS else self._clients
        part.update(context, event)


def _among_clients(context: Context) -> Context:
    workers = _without_nemesis(context.workers)
    return Context(context.now_ns, context.worker, workers, context.wake)


@lru_cache(maxsize=64)
def _without_nemesis(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    return tuple(worker for worker in workers if worker != NEMESIS)


def _alone(context: Context) -> Context:
    return Context(context.now_ns, context.worker, (NEMESIS,), context.wake)

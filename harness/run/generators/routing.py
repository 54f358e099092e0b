"""Combinators that decide which worker a generator serves."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from checkers.history import Event
from harness.run.generators.base import NEMESIS, Answer, Context, Done, Generator, Inside, Worker


class _Part(Inside):
    """A generator for a part of the workers: done for the others, which its context leaves out."""

    nemesis: ClassVar[bool]
    """Whether the part is the nemesis; else it is all clients."""

    def op(self, context: Context) -> Answer:
        if (context.worker == NEMESIS) is not self.nemesis:
            return Done()
        return super().op(self._among_own(context))

    def update(self, context: Context, event: Event) -> None:
        if (context.worker == NEMESIS) is self.nemesis:
            super().update(self._among_own(context), event)

    def _among_own(self, context: Context) -> Context:
        workers = _part(context.workers, nemesis=self.nemesis)
        return Context(context.now_ns, context.worker, workers, context.wake)


class Clients(_Part):
    """A generator for client workers only."""

    nemesis = False


class Nemesis(_Part):
    """A generator for the nemesis only."""

    nemesis = True


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


@lru_cache(maxsize=64)
def _part(workers: tuple[Worker, ...], *, nemesis: bool) -> tuple[Worker, ...]:
    return tuple(worker for worker in workers if (worker == NEMESIS) is nemesis)

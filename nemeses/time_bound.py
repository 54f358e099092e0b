"""Work of clients and faults that is ended at a bound, and left behind where it does not end.

`asyncio.timeout` alone does not do: it waits for work that ignores its cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from nemeses.at_once import Beginning

T = TypeVar("T")

CLOSE_BOUND_S = 5.0
"""How long work may take to end once it was cancelled; and a client, to close."""


class OutOfTimeError(Exception):
    """The work did not end within its bound."""

    def __init__(self, bound_s: float) -> None:
        super().__init__(f"it did not end within {bound_s:g} s")
        self.bound_s = bound_s


async def do_at_once(work: Coroutine[Any, Any, T], bound_s: float) -> T:
    """Do work up to its first suspension now, and the rest within the bound: OutOfTimeError."""
    beginning = Beginning(work)
    if beginning.ended:
        beginning.task.cancel()
        return beginning.result()
    return await in_time(beginning.task, bound_s)


async def in_time(work: Awaitable[T], bound_s: float) -> T:
    """Return what the work returns, or raise what it raises, or OutOfTimeError."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=bound_s)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            await _end(task)
        elif not task.cancelled():
            task.exception()  # retrieved, should this have been cancelled at the same moment
    raise OutOfTimeError(bound_s)


async def not_cancelled(work: Awaitable[T]) -> T:
    """Await work; where it is cancelled by itself, or exits, that is an error of its own.

    Else the task that awaits it would end without a word, as if it had been cancelled, and
    `sys.exit` would leave the loop, and end the program, amid everything. Raises RuntimeError.
    """
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(f"it called sys.exit({error.code!r})") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it was cancelled by itself") from error


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end, bounded; it may be left behind."""
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=CLOSE_BOUND_S)
    finally:
        if not task.done():
            # Else the end of the loop would wait for it (`asyncio.run` cancels and waits for all).
            # The function is documented (Extending asyncio); no public one has the same effect.
            asyncio.tasks._unregister_task(task)  # type: ignore[arg-type]
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        elif not task.cancelled():
            task.exception()  # retrieved and dropped: the work was given up

"""Begin several coroutines at once: each has acted before the first of them is waited for.

`asyncio.gather` begins nothing before its caller suspends. A fault that a schedule injects in the
midst of a node's step (between a write and its fsync, say) must have hit all its targets by then:
so each coroutine is run up to its first suspension, in order, and only what is left becomes a task.
From Python 3.12 on an eager task does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run them side by side, without a needless suspension; results in order, or first error."""
    several = list(coroutines)
    if len(several) == 1:
        return [await several[0]]
    begun = [Beginning(coroutine) for coroutine in several]
    if all(run.ended for run in begun):
        for run in begun:
            run.task.cancel()
        return [run.result() for run in begun]
    return await asyncio.gather(*(run.task for run in begun))


def begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run it up to its first suspension now; the task is what is left."""
    return Beginning(coroutine).task


class Beginning(Coroutine[Any, Any, T]):
    """A coroutine that has made its first step, for a task to go on with.

    The step is made as that task's: `asyncio.timeout` cancels the task in which it was entered.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.ended = False
        self._coroutine = coroutine
        self._value: Any = None
        """Of the first step: what it waits for, or the result."""
        self._error: BaseException | None = None
        self._taken = False
        loop, caller = asyncio.get_running_loop(), asyncio.current_task()
        self.task: asyncio.Task[T] = loop.create_task(self)
        # Both functions are documented for those that run tasks themselves (Extending asyncio).
        if caller is not None:
            asyncio.tasks._leave_task(loop, caller)
        asyncio.tasks._enter_task(loop, self.task)
        try:
            self._value = coroutine.send(None)
        except StopIteration as end:
            self.ended, self._value = True, end.value
        except Exception as error:  # noqa: BLE001  (it is the task's)
            self.ended, self._error = True, error
        finally:
            asyncio.tasks._leave_task(loop, self.task)
            if caller is not None:
                asyncio.tasks._enter_task(loop, caller)

    def result(self) -> T:
        """Return what it ended with, or raise it."""
        if self._error is not None:
            raise self._error
        result: T = self._value
        return result

    def send(self, value: Any) -> Any:
        """Hand the first step on, then go on."""
        if self._taken:
            return self._coroutine.send(value)
        self._taken = True
        if self.ended:
            raise StopIteration(self.result())
        return self._value

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """See `Coroutine.throw`."""
        del traceback
        self._taken = True
        error = kind if value is None else value
        if self.ended:
            raise error
        return self._coroutine.throw(error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, None, T]:
        raise NotImplementedError("its task is what is awaited")


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
    `sys.exit` would leave the loop, and end the program, amid everything. Any other exception that
    is no Exception would pass all that handles errors. Raises RuntimeError.
    """
    task = _current_task()
    try:
        return await work
    except (Exception, KeyboardInterrupt):
        raise
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise
        raise RuntimeError("it was cancelled by itself") from error
    except BaseException as error:
        if _current_task() is not task:  # what was left behind is closed: GeneratorExit
            raise
        what = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else ""
        raise RuntimeError(f"it {what or f'raised {type(error).__name__}'}") from error


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


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

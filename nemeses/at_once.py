"""Begin several coroutines at once: each has acted before the first of them is waited for.

`asyncio.gather` begins nothing before its caller suspends. A fault that a schedule injects in the
midst of a node's step (between a write and its fsync, say) must have hit all its targets by then:
so each coroutine is run up to its first suspension, in order, and only what is left becomes a task.
From Python 3.12 on an eager task does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run them side by side; returns their results in order, without a suspension if none needs it.

    Raises the first error, as `asyncio.gather` does: the others go on.
    """
    several = list(coroutines)
    if len(several) == 1:
        return [await several[0]]
    ended: dict[int, T] = {}
    left: dict[int, asyncio.Task[T]] = {}
    error: Exception | None = None
    rest: _Rest[T] = _Rest()
    for place, coroutine in enumerate(several):
        try:
            if rest.begin(coroutine):
                ended[place] = rest.value
            else:
                left[place], rest = rest.task, _Rest()
        except Exception as raised:  # noqa: BLE001  (raised below, once all have begun)
            error = error or raised
    rest.task.cancel()
    if error is not None:
        raise error
    ended |= dict(zip(left, await asyncio.gather(*left.values()), strict=True)) if left else {}
    return [ended[place] for place in range(len(several))]


class _Rest(Coroutine[Any, Any, T]):
    """What is left of a coroutine after its first step, for a task of its own to go on with.

    The step is made as that task's: `asyncio.timeout` cancels the task in which it was entered. As
    long as a coroutine ends with its first step, the next one may have the task.
    """

    def __init__(self) -> None:
        self.value: Any = None
        """Of the first step: what it waits for, or the result."""
        self._coroutine: Coroutine[Any, Any, T] | None = None
        self._taken = False
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[T] = self._loop.create_task(self)

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> bool:
        """Make the first step of a coroutine; whether that was its last."""
        loop, caller = self._loop, asyncio.current_task()
        # Both functions are documented for those that run tasks themselves (Extending asyncio).
        if caller is not None:
            asyncio.tasks._leave_task(loop, caller)
        asyncio.tasks._enter_task(loop, self.task)
        try:
            self.value = coroutine.send(None)
        except StopIteration as end:
            self.value = end.value
            return True
        finally:
            asyncio.tasks._leave_task(loop, self.task)
            if caller is not None:
                asyncio.tasks._enter_task(loop, caller)
        self._coroutine = coroutine
        return False

    def send(self, value: Any) -> Any:
        """Hand on what the first step waits for, then go on."""
        assert self._coroutine is not None, "a spare task is cancelled"
        if self._taken:
            return self._coroutine.send(value)
        self._taken = True
        return self.value

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """See `Coroutine.throw`."""
        del traceback
        self._taken = True
        error = kind if value is None else value
        if self._coroutine is None:
            raise error
        return self._coroutine.throw(error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        if self._coroutine is not None:
            self._coroutine.close()

    def __await__(self) -> Generator[Any, None, T]:
        raise NotImplementedError("its task is what is awaited")

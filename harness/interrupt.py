"""Ctrl-C and SIGTERM: the first stops a run cleanly, a further one faster."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_interruptible(work: Coroutine[Any, Any, T], on_signal: Callable[[int], None]) -> T:
    """Run `work` on a loop of its own; each signal cancels it (again).

    `on_signal` is told how many signals there have been. Raises KeyboardInterrupt when the work
    has ended after a signal, however it ended.
    """
    return asyncio.run(_supervise(work, on_signal))


async def _supervise(work: Coroutine[Any, Any, T], on_signal: Callable[[int], None]) -> T:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    signals = 0

    def stop() -> None:
        nonlocal signals
        signals += 1
        on_signal(signals)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await asyncio.wait([task])
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    if signals:
        if not task.cancelled():
            task.exception()  # seen: the interrupt is what is told
        raise KeyboardInterrupt
    return task.result()


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C wherever no loop handles signals."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first signal call `stop`, for work that can end early with what it has by then.

    Raises KeyboardInterrupt when the work has ended after a signal; a second signal raises it at
    once.
    """
    signals = 0

    def asked(_number: int, _frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            raise KeyboardInterrupt
        stop()

    before = [signal.signal(number, asked) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
    if signals:
        raise KeyboardInterrupt

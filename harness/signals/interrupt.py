"""Ctrl-C, SIGTERM, SIGQUIT and SIGHUP: the first stops a run cleanly, a further one faster.

SIGHUP means that the terminal is gone. Both the kernel and the shell send it, so a second SIGHUP
does not speed anything up; where it was ignored from the start (nohup) it stays ignored. A reader
that closes the output (`harness.terminal.output`) stops a run like a first signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, NoReturn, TypeVar

from harness.signals.blocked_loop import hurry
from harness.terminal import output

T = TypeVar("T")

# Long enough for the callback that swallowed an interrupt to have returned.
_AGAIN_S = 0.01


def run_interruptible(work: Coroutine[Any, Any, T], on_signal: Callable[[int], None]) -> T:
    """Run `work` on a loop of its own; each signal cancels it (again).

    `on_signal` is called with the number of signals so far. Raises KeyboardInterrupt when the work
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

    def stop_once() -> None:
        if not signals:
            stop()

    def note_signal(number: int) -> None:
        loop.call_soon_threadsafe(stop_once if number == signal.SIGHUP else stop)
        hurry()

    def on_timeout() -> None:
        loop.call_soon_threadsafe(stop_once)

    # Not `loop.add_signal_handler`: its removal restores the default action first, and a signal in
    # that moment would kill the process.
    with _handlers(note_signal, *_signals()), output.current().stop_when_unread(on_timeout):
        await asyncio.wait([task])
    if signals:
        if not task.cancelled():
            task.exception()  # retrieved and dropped: the interrupt is reported instead
        raise KeyboardInterrupt
    return task.result()


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM, SIGQUIT and SIGHUP as Ctrl-C wherever no loop handles signals."""
    others = (number for number in _signals() if number != signal.SIGINT)
    with _lost_ones_strike_again(), _handlers(_interrupt, *others):
        yield


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _lost_ones_strike_again() -> Iterator[None]:
    """Send SIGINT once more for a KeyboardInterrupt that never got out of where it was raised.

    Python drops what is raised within a finalizer or a weak reference's callback. That is not rare:
    a signal that arrives while garbage is collected is handled in the first Python code after it,
    which is such a callback. The hook that reports the loss is inside it as well, so the signal has
    to come from elsewhere.
    """
    before = sys.unraisablehook
    again: list[threading.Timer] = []

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        begun = False
        while not begun:
            # On a busy machine a timer may strike before its start returns, which is in the hook:
            # that interrupt is lost as well, and the next timer waits longer.
            with contextlib.suppress(KeyboardInterrupt):
                delay_s = _AGAIN_S * 2 ** len(again)
                again.append(threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT)))
                again[-1].daemon = True
                again[-1].start()
                begun = True

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in again:
            timer.cancel()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """As `signals_interrupt`; a reader that closes the output acts like a signal."""
    with signals_interrupt(), output.current().stop_when_unread(_interrupt):
        yield


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first signal call `stop`, for work that can end early with what it has by then.

    Raises KeyboardInterrupt when the work has ended after a signal; a second signal raises it at
    once.
    """
    signals = 0

    def on_signal(number: int) -> None:
        nonlocal signals
        if signals and number == signal.SIGHUP:
            return
        signals += 1
        if signals > 1:
            raise KeyboardInterrupt
        stop()

    def on_timeout() -> None:
        on_signal(signal.SIGHUP)

    with _handlers(on_signal, *_signals()), output.current().stop_when_unread(on_timeout):
        yield
    if signals:
        raise KeyboardInterrupt


def _signals() -> list[signal.Signals]:
    """List the signals to handle; SIGHUP only if this process did not start with it ignored."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT] + ([] if ignored else [signal.SIGHUP])


@contextlib.contextmanager
def _handlers(handler: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals; SIGHUP only once, since after it there is no terminal."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        handler(number)

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, restored in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, restored)

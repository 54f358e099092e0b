"""An asyncio event loop whose time is virtual: nothing waits, and every run is the same run.

Timers of asyncio and callbacks of the simulated world share one `Scheduler`, hence one order of
events and one time. Whenever no callback is ready, time jumps to the next one that is due. What
the world schedules runs straight from the queue, without asyncio's handles and contexts. There is
no I/O, no thread and no clock behind it, so what happens is a function of what was scheduled, in
which order. A loop that has neither a ready callback nor anything due would wait for ever; it
raises `Stalled` instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import threading
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from types import FrameType
from typing import Any, TypeVar, TypeVarTuple, Unpack

from cluster.backends.sim.scheduler import Scheduler, StuckError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MS = 1000.0

LOOK_S = 0.1
"""Processor time between two looks at the event that runs."""
EVENT_LOOKS = 100
"""So many looks in sequence at one event end it.

Events take some 30 microseconds, the longest (a snapshot of a large image) a tenth of a second.
Looks are counted, not their times: a virtual machine that was paused charges all of the pause to
whoever ran, and that is one look.
"""


class Stalled(RuntimeError):  # noqa: N818  (what happened, as an event)
    """No callback is ready and none is due: what the coroutines wait for cannot happen."""


class _Handle(asyncio.TimerHandle):
    """A handle without what asyncio keeps for debugging, which is most of its cost."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._callback}>"

    def cancel(self) -> None:
        """See asyncio. The handle stays in its queue, and does nothing when it is due."""
        self._cancelled = True

    def run(self) -> None:
        """Call the callback, unless it was cancelled."""
        if not self._cancelled:
            self._context.run(self._callback, *self._args)


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """See the module. `time()` is the scheduler's time, in seconds."""

    _ready: deque[_Handle]
    _stopping: bool

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        super().__init__()
        self.scheduler = scheduler or Scheduler()

    def time(self) -> float:
        """Return the virtual time."""
        return self.scheduler.now_ms / _MS

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> events.Handle:
        """See asyncio, whose checks of threads and closed loops nothing here can fail."""
        handle = _Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio. A delay in the past is now."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        handle = _Handle(callback, args, context)
        due_ms = when * _MS
        while due_ms / _MS < when:
            # Never early, not by the last bit: a coroutine that compares `time()` with its deadline
            # would find it not reached and wait again, with no time passing, for ever.
            due_ms = math.nextafter(due_ms, math.inf)
        self.scheduler.call_at(due_ms, handle.run)
        return handle

    def _run_once(self) -> None:
        """Run what is ready; when nothing is, what is due next, until something is ready."""
        ready = self._ready
        if not ready and not self._stopping and not self.scheduler.run(until=ready):
            raise Stalled(f"nothing can happen any more at {self.time():.6f} s")
        for _ in range(len(ready)):
            ready.popleft().run()

    def _process_events(self, event_list: list[Any]) -> None:  # noqa: ARG002  (asyncio's hook)
        raise AssertionError("there is no I/O")

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread that could wait for this one."""


def run(main: Coroutine[Any, Any, T], scheduler: Scheduler | None = None) -> T:
    """Run a coroutine on a loop of its own to its end.

    What a handler of a signal raises, KeyboardInterrupt above all, leaves this function between two
    callbacks. Where the signal strikes it could be lost: Python drops what is raised within a weak
    reference's callback, and a task keeps it for a caller that never asks. (`asyncio.run` cancels
    the main task instead, and a coroutine that awaits a cancellation of its own swallows that.)
    A process that does not return from an event ends there (StuckError).
    """
    loop = VirtualTimeLoop(scheduler)
    try:
        with _interrupts_at_callbacks(loop.scheduler) as struck, _bound(loop.scheduler, struck):
            result = loop.run_until_complete(main)
            _end_tasks(loop)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to report
            _end_tasks(loop)
        raise
    finally:
        loop.close()
    return result


@contextlib.contextmanager
def _interrupts_at_callbacks(scheduler: Scheduler) -> Iterator[list[BaseException]]:
    """Let the scheduler raise what the handlers of signals raise; only the main thread has any.

    Yields the errors that were raised so far.
    """
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    struck: list[BaseException] = []

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            before[signal.Signals(number)](number, frame)
        except BaseException as error:  # noqa: BLE001  (raised again, at the next callback)
            struck.append(error)
            scheduler.raise_next(error)

    if threading.current_thread() is threading.main_thread():
        for known in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(known)
            if callable(handler):
                before[known] = handler
                signal.signal(known, handle)
    try:
        yield struck
    finally:
        for known, handler in before.items():
            if signal.getsignal(known) is handle:  # a handler may have replaced itself
                signal.signal(known, handler)
    if struck:  # after the last callback
        raise struck[0]


@contextlib.contextmanager
def _bound(scheduler: Scheduler, struck: list[BaseException]) -> Iterator[None]:
    """Raise StuckError in a process's event that does not end, or the interrupt that waits for it.

    By the processor's time in this process, so that neither a busy machine nor a stopped process
    looks like an endless event. In the main thread only, as signals are handled there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, looks = -1, 0

    def look(*_: object) -> None:
        nonlocal seen, looks
        looks = looks + 1 if scheduler.events == seen else 1
        seen = scheduler.events
        if looks < EVENT_LOOKS:
            return
        if struck:
            raise struck[-1]
        if scheduler.running is not None:
            raise StuckError("it did not return from one event")

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _end_tasks(loop: VirtualTimeLoop) -> None:
    """Cancel what still runs, and let it end."""
    # An interrupt may leave the callback in the queue that ends the run which it struck; it would
    # end the next run instead. So everything that is ready runs first.
    loop.call_soon(loop.stop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks) if tasks else asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_asyncgens())

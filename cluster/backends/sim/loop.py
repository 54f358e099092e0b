"""An asyncio event loop whose time is virtual: nothing waits, and every run is the same run.

Whenever no callback is ready, time jumps to the next timer. There is no I/O, no thread and no
clock behind it, so what happens is a function of what was scheduled, in which order. A loop that
has neither a ready callback nor a timer would wait for ever; it raises `Stalled` instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stalled(RuntimeError):  # noqa: N818  (what happened, as an event)
    """Everything waits for something that can no longer happen."""


class _Waiter:
    """Stands where a loop has its selector: waiting is jumping ahead."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stalled(f"nothing can happen any more at {self._loop.time():.6f} s")
        self._loop.jump(timeout)
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """See the module. `time()` starts at 0, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = _Waiter(self)

    def time(self) -> float:
        """Return the virtual time."""
        return self._now_s

    def jump(self, by_s: float) -> None:
        """Let time pass."""
        assert by_s >= 0, "time never goes back"
        self._now_s += by_s

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "there is no I/O"

    def _write_to_self(self) -> None:
        """Wake nobody: there are no threads."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own to its end, like `asyncio.run`."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)

"""Calls that are done by a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class CallThread:
    """Runs calls one after the other. The thread begins with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], None]) -> None:
        """Run a call after those before it. From one thread only; the call raises nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(call)

    def end(self) -> None:
        """Run what is queued, and end. Blocks; nothing may be put any more."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            call()

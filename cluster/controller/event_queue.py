"""The controller's event queue: one event at a time, in the order in which they came.

Kafka's KafkaEventQueue has a thread of its own. Here the first event that finds the queue idle is
run at once, and events that arrive while one runs (a commit reported from within an append, a
request sent from within a reply) wait until it is through. No event ever sees another half done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class EventQueue:
    """Runs events to completion, first come, first served."""

    __slots__ = ("_events", "_running", "failure")

    def __init__(self) -> None:
        self._events: deque[Callable[[], None]] = deque()
        self._running = False
        self.failure: BaseException | None = None
        """What an event raised. The node must stop; nothing runs any more."""

    @property
    def is_idle(self) -> bool:
        """Whether no event waits, apart from one that may be running."""
        return not self._events

    def append(self, event: Callable[[], None]) -> None:
        """Run an event now, or after those that are before it.

        What an event raises is fatal: it reaches the caller whose event started the queue, and
        every later one.
        """
        if self.failure is not None:
            raise RuntimeError("the controller has failed") from self.failure
        self._events.append(event)
        if self._running:
            return
        self._running = True
        try:
            while self._events:
                self._events.popleft()()
        except BaseException as failure:
            self.failure = failure
            self._events.clear()
            raise
        finally:
            self._running = False

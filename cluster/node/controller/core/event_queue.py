"""The controller's event queue: one event at a time, in the order in which they came.

Kafka's KafkaEventQueue has a thread of its own. Here the first event that finds the queue idle is
run at once, and events that arrive while one runs (a commit reported from within an append, a
request sent from within a reply) wait until it is through. No event ever sees another half done.

An event that takes long holds the queue and goes on in a later turn of the node's task: the others
wait as before, but raft's elections and fetches, which are not in this queue, do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class EventQueue:
    """Runs events to completion, first come, first served."""

    __slots__ = ("_events", "_held", "_running", "failure")

    def __init__(self) -> None:
        self._events: deque[Callable[[], None]] = deque()
        self._running = False
        self._held = False
        self.failure: BaseException | None = None
        """What an event raised. The node must stop; nothing runs any more."""

    @property
    def is_idle(self) -> bool:
        """Whether no event waits, apart from one that may be running."""
        return not self._events

    def append(self, event: Callable[[], None]) -> None:
        """Run an event now, or after those that are before it.

        What an event raises is fatal: it reaches the caller that started the queue, and
        every later one.
        """
        self._check()
        self._events.append(event)
        if not self._running and not self._held:
            self._run()

    def hold(self) -> None:
        """Let no other event run before `resume`: the one that runs is not through."""
        assert self._running, "only an event can hold the queue"
        assert not self._held, "it is held already"
        self._held = True

    def resume(self, event: Callable[[], None]) -> None:
        """Go on with the event that held the queue, then with those that wait."""
        assert self._held, "nothing held the queue"
        assert not self._running
        self._held = False
        self._events.appendleft(event)
        self._run()

    def _check(self) -> None:
        if self.failure is not None:
            raise RuntimeError("the controller has failed") from self.failure

    def _run(self) -> None:
        self._running = True
        try:
            while self._events and not self._held:
                self._events.popleft()()
        except BaseException as failure:
            self.failure = failure
            self._events.clear()
            raise
        finally:
            self._running = False

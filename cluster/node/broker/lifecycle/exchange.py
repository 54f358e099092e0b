"""One request under way at a time; its reply is taken once: the first to come, or its time-out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.node.ports import Channel, Clock, Failure, Timer

OnReply = Callable[[Any], None]


class Exchange:
    """The network may deliver nothing at all, or several times: see `ports.Network`."""

    def __init__(self, clock: Clock, channel: Channel) -> None:
        self._clock = clock
        self._channel = channel
        self._deadline: Timer | None = None
        self._number = 0

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self._deadline is not None

    def begin(self, request: object, timeout_ms: float, take: OnReply) -> None:
        """Send a request; `take` gets its reply, or Failure.TIMED_OUT."""
        assert self._deadline is None, "one request at a time"
        self._number += 1
        number = self._number

        def on_reply(reply: Any) -> None:
            if number != self._number or self._deadline is None:
                return
            self._deadline.cancel()
            self._deadline = None
            take(reply)

        self._deadline = self._clock.call_later(timeout_ms, lambda: on_reply(Failure.TIMED_OUT))
        self._channel(request, timeout_ms, on_reply)

    def drop(self) -> None:
        """Take no reply any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

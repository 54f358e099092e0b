"""Producer ids of idempotent producers, from blocks that the controller hands out (KIP-730).

No id is given twice, whichever broker is asked: a block belongs to one broker epoch, and what is
left of it is lost with the broker. The next block is asked for when nine tenths of one are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH
from cluster.node.errors import ErrorCode
from cluster.node.ports import Channel, Clock, Failure, Timer
from cluster.node.protocol.messages import AllocateProducerIdsRequest, BrokerId, i64

PREFETCH: Final = 0.9
RETRY_BACKOFF_MS: Final = 50.0
REQUEST_TIMEOUT_MS: Final = 5_000.0
WAITING_MAX: Final = 10_000
"""Callers beyond these are turned away at once."""

Answer = Callable[[int | ErrorCode], None]


class ProducerIdManager:
    """RPCProducerIdManager of one broker."""

    def __init__(
        self, broker_id: int, clock: Clock, channel: Channel, broker_epoch: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._block = range(0)
        self._next_block = range(0)
        self._used = 0
        """Of the block."""
        self._waiting: deque[tuple[float, Answer]] = deque()
        """Deadlines and callers, the first to be answered first."""
        self._exchange = Exchange(clock, channel)
        self._timer: Timer | None = None

    def generate(self, timeout_ms: float, on_answer: Answer) -> None:
        """Give an id that nobody else gets, or COORDINATOR_LOAD_IN_PROGRESS: a client retries."""
        if len(self._waiting) >= WAITING_MAX:
            on_answer(ErrorCode.coordinator_load_in_progress)
            return
        self._waiting.append((self._clock.monotonic_ms() + timeout_ms, on_answer))
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            if self._used == len(self._block):
                if not self._next_block:
                    break
                self._block, self._next_block, self._used = self._next_block, range(0), 0
            _, on_answer = self._waiting.popleft()
            self._used += 1
            on_answer(self._block[self._used - 1])
        if not self._next_block and self._used >= PREFETCH * len(self._block):
            self._ask()

    def _ask(self) -> None:
        if self._exchange.in_flight or self._timer is not None:
            return
        if self._broker_epoch() == NOT_REGISTERED_EPOCH:
            self._retry()
            return

        def take(reply: Any) -> None:
            if isinstance(reply, Failure) or reply.error_code is not ErrorCode.none:
                self._retry()
                return
            first = int(reply.producer_id_start)
            self._next_block = range(first, first + int(reply.producer_id_len))
            self._serve()

        request = AllocateProducerIdsRequest(
            broker_id=BrokerId(self._broker_id), broker_epoch=i64(self._broker_epoch())
        )
        self._exchange.begin(request, REQUEST_TIMEOUT_MS, take)

    def _retry(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._waiting[0][0] <= now_ms:
            self._waiting.popleft()[1](ErrorCode.coordinator_load_in_progress)
        if self._waiting:
            self._timer = self._clock.call_later(RETRY_BACKOFF_MS, self._again)

    def _again(self) -> None:
        self._timer = None
        self._ask()

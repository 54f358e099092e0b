"""Asks the controller to change ISRs (AlterPartitionManager, KIP-497).

One request is under way at a time; it holds at most one proposal of each partition, and what is
proposed meanwhile goes with the next. A request without an answer is sent again with the same
content: a proposal that took effect is then refused by its partition epoch
(INVALID_UPDATE_VERSION), and the metadata show its partition what became of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH
from cluster.node.broker.replication.partition import IsrAnswer, IsrProposal
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.controller.partitions.partition_change import RECOVERED
from cluster.node.errors import ErrorCode
from cluster.node.ports import Channel, Clock, Failure, Timer
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, i8, i32, i64
from cluster.values import valueclass

MAX_PROPOSALS_PER_REQUEST: Final = 1_500
"""So many fit a request of `MAX_REQUEST_ELEMENTS`, each with its topic and an ISR of four."""
RETRY_BACKOFF_MS: Final = 50.0

Answer = Callable[[IsrAnswer | ErrorCode], None]


@valueclass
class _Item:
    proposal: IsrProposal
    on_answer: Answer


class IsrManager:
    """See the module."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        channel: Channel,
        broker_epoch: Callable[[], int],
        timeout_ms: float,
    ) -> None:
        """`timeout_ms`: controller.socket.timeout.ms."""
        self._broker_id = broker_id
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._unsent: dict[PartitionKey, _Item] = {}
        self._exchange = Exchange(clock, channel)
        self._timer: Timer | None = None
        self._stopped = False

    def propose(self, key: PartitionKey, proposal: IsrProposal, on_answer: Answer) -> None:
        """Ask for a change; a proposal that has not been sent yet gives way to the newer one."""
        if self._stopped:
            return
        self._unsent[key] = _Item(proposal, on_answer)
        if not self._exchange.in_flight and self._timer is None:
            self._schedule(0.0)  # with all that the same event brings

    def stop(self) -> None:
        """Fall silent."""
        self._stopped = True
        self._exchange.drop()
        self._unsent.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        if not self._unsent:
            return
        if self._broker_epoch() == NOT_REGISTERED_EPOCH:
            self._schedule(RETRY_BACKOFF_MS)
            return
        sent = dict(islice(self._unsent.items(), MAX_PROPOSALS_PER_REQUEST))
        for key in sent:
            del self._unsent[key]
        self._exchange.begin(
            self._request(sent), self._timeout_ms, lambda reply: self._on_answer(sent, reply)
        )

    def _on_answer(self, sent: dict[PartitionKey, _Item], reply: Any) -> None:
        if isinstance(reply, Failure) or reply.error_code is not ErrorCode.none:
            # What its partition has proposed meanwhile is newer.
            self._unsent = {**sent, **self._unsent}
            self._schedule(RETRY_BACKOFF_MS)
            return
        answers = {
            (topic.topic_id, int(item.partition_index)): item
            for topic in reply.topics
            for item in topic.partitions
        }
        is_refused = False
        for key, item in sent.items():
            row = answers.get(key)
            # Its partition asks again for what the controller has left out.
            answer = ErrorCode.unknown_server_error if row is None else _answer_of(row)
            is_refused = is_refused or isinstance(answer, ErrorCode)
            item.on_answer(answer)
        if self._unsent and (is_refused or self._timer is None):
            # What is asked again at once may be refused at once, as fast as the network is.
            self._schedule(RETRY_BACKOFF_MS)

    def _request(self, items: dict[PartitionKey, _Item]) -> messages.AlterPartitionRequest:
        by_topic: dict[uuid.UUID, list[tuple[int, IsrProposal]]] = {}
        for (topic_id, index), item in items.items():
            by_topic.setdefault(topic_id, []).append((index, item.proposal))
        return messages.AlterPartitionRequest(
            broker_id=BrokerId(self._broker_id),
            broker_epoch=i64(self._broker_epoch()),
            topics=tuple(
                messages.AlterPartitionRequestTopic(
                    topic_id=topic_id,
                    partitions=tuple(_partition(index, proposal) for index, proposal in proposals),
                )
                for topic_id, proposals in by_topic.items()
            ),
        )


def _partition(index: int, proposal: IsrProposal) -> messages.AlterPartitionRequestPartition:
    return messages.AlterPartitionRequestPartition(
        partition_index=i32(index),
        leader_epoch=i32(proposal.leader_epoch),
        new_isr_with_epochs=tuple(
            messages.AlterPartitionBrokerState(broker_id=BrokerId(member), broker_epoch=i64(epoch))
            for member, epoch in proposal.isr
        ),
        leader_recovery_state=i8(RECOVERED),
        partition_epoch=i32(proposal.partition_epoch),
    )


def _answer_of(item: messages.AlterPartitionResponsePartition) -> IsrAnswer | ErrorCode:
    if item.error_code is not ErrorCode.none:
        return item.error_code
    return IsrAnswer(
        leader_epoch=int(item.leader_epoch),
        partition_epoch=int(item.partition_epoch),
        isr=tuple(map(int, item.isr)),
    )

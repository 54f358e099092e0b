"""Asks a partition's leader where its log begins or ends (ListOffsets), for a follower."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.errors import ErrorCode
from cluster.node.ports import Clock, Endpoint, Network
from cluster.node.protocol import data_messages
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i32, i32Timedelta, i64

_NO_WAIT: Final = i32Timedelta.parse(dt.timedelta(0))


class LeaderOffsets:
    """The offsets of one partition at one leader, in one leader epoch."""

    def __init__(
        self,
        broker_id: int,
        topic: str,
        index: int,
        leader_epoch: int,
        leader: Endpoint,
        timeout_ms: float,
        clock: Clock,
        network: Network,
    ) -> None:
        """`timeout_ms`: replica.socket.timeout.ms."""
        self._broker_id = broker_id
        self._topic = topic
        self._index = index
        self._leader_epoch = leader_epoch
        self._leader = leader
        self._timeout_ms = timeout_ms
        self._network = network
        self._exchange = Exchange(clock)

    def ask(self, timestamp_ms: int, on_offset: Callable[[int | None], None]) -> None:
        """Ask for one offset; None when there is no answer that names one."""
        asked = data_messages.ListOffsetsPartition(
            partition_index=i32(self._index),
            current_leader_epoch=i32(self._leader_epoch),
            timestamp=i64(timestamp_ms),
        )
        request = data_messages.ListOffsetsRequest(
            replica_id=BrokerId(self._broker_id),
            isolation_level=i8(0),
            topics=(
                data_messages.ListOffsetsTopic(name=TopicName(self._topic), partitions=(asked,)),
            ),
            timeout=_NO_WAIT,
        )
        self._exchange.begin(
            self._timeout_ms,
            lambda on_reply: self._network.request(
                self._leader, request, self._timeout_ms, on_reply
            ),
            lambda reply: on_offset(self._offset_in(reply)),
        )

    def _offset_in(self, reply: Any) -> int | None:
        if not isinstance(reply, data_messages.ListOffsetsResponse):
            return None
        for topic in reply.topics:
            for row in topic.partitions:
                if (topic.name, row.partition_index) == (self._topic, self._index):
                    known = row.error_code is ErrorCode.none and row.offset >= 0
                    return int(row.offset) if known else None
        return None

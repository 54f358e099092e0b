"""One replica of a partition on this broker: its log, and what it does while it follows.

A follower's log is made to agree with its leader's by epochs, never by its own high watermark
(KIP-101, KIP-279, E51): with each Fetch it names the epoch of its last record, and a leader whose
own log has that epoch end earlier answers where. High watermark and log start are taken over after
that, never before: a diverging log may hold, below the leader's high watermark, records that were
never committed (KAFKA-14704, E49).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.broker.replication.isr_manager import Answer
from cluster.node.broker.replication.log_agreement import agreed_end, append_copied
from cluster.node.broker.replication.partition import IsrAnswer, Partition
from cluster.node.broker.replication.replica_fetcher import FollowedPartition, Outcome
from cluster.node.controller.metadata.state import PartitionKey, PartitionRegistration
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import AppendError, StorageError, UnexpectedAppendOffsetError
from cluster.node.log.data.data_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, DataLog
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.ports import Clock, Endpoint, Network, Trace
from cluster.node.protocol.data_messages import (
    NO_EPOCH,
    FetchPartition,
    FetchResult,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i32, i32Timedelta, i64

_NO_WAIT: Final = i32Timedelta.parse(dt.timedelta(0))
_WAITS_FOR_METADATA: Final = frozenset({ErrorCode.fenced_leader_epoch})


class Replica(FollowedPartition):
    """See the module. Owned by the node's task."""

    def __init__(
        self,
        key: PartitionKey,
        topic: str,
        log: DataLog,
        partition: Partition,
        fetch_max_bytes: int,
        request_timeout_ms: float,
        clock: Clock,
        network: Network,
        trace: Trace,
    ) -> None:
        self.key = key
        self.topic = topic
        self.log = log
        self.partition = partition
        self.at = TopicPartition(topic, key[1])
        self.is_hosted = True
        """Whether this broker still holds it, in a log directory that is online."""
        self.is_offline = False
        """Whether it is held no longer because its log directory went offline."""
        self._fetch_max_bytes = fetch_max_bytes
        self._request_timeout_ms = request_timeout_ms
        self._clock = clock
        self._network = network
        self._trace = trace

    @property
    def index(self) -> int:
        """Number of the partition."""
        return self.key[1]

    def replace_log(self, log: DataLog) -> None:
        """Go on with a log in another directory, which has all that this one has."""
        assert log.end_offset == self.log.end_offset, "nothing is missing"
        assert log.written_end_offset == log.end_offset, "a kill loses nothing of it"
        if self.partition.leads:
            # An epoch without a record yet is in no batch that was copied; and a leader that does
            # not know its own epoch says of no log where it ends.
            log.initialize_leader_epoch(self.partition.leader_epoch)
        self.log = self.partition.log = log
        log.high_watermark = self.partition.high_watermark

    # --- in-sync replicas ---

    def hears(self, state: PartitionRegistration | IsrAnswer) -> None:
        """Trace what is committed of it, when that is new within the leader epoch it knows."""
        known = self.partition
        is_new = state.partition_epoch > known.partition_epoch
        if is_new and state.leader_epoch == known.leader_epoch:
            self._trace(
                "replica-isr",
                topic=self.topic,
                partition=self.index,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=list(state.isr),
            )

    def hearing(self, on_answer: Answer) -> Answer:
        """Make a callback that hears what the controller answers before `on_answer` acts on it.

        Nothing is made of it once the replica is gone: its partition would ask again for ever.
        """

        def hear(answer: IsrAnswer | ErrorCode) -> None:
            if not self.is_hosted:
                return
            if isinstance(answer, IsrAnswer) and self.partition.takes(answer):
                self.hears(answer)
            on_answer(answer)

        return hear

    # --- following ---

    @property
    def is_written(self) -> bool:
        return self.log.written_end_offset >= self.log.end_offset

    def position(self) -> FetchPartition:
        latest = self.log.epochs.latest_epoch
        return FetchPartition(
            topic=self.key[0],
            index=self.index,
            fetch_offset=self.log.end_offset,
            max_bytes=self._fetch_max_bytes,
            current_leader_epoch=self.partition.leader_epoch,
            last_fetched_epoch=NO_EPOCH if latest is None else latest,
            log_start_offset=self.log.start_offset,
            high_watermark=self.partition.high_watermark,
        )

    def take_fetch(self, result: FetchResult) -> Outcome:
        if result.error is ErrorCode.offset_out_of_range:
            return Outcome.ASK_OFFSETS
        if result.error is not ErrorCode.none:
            return Outcome.STOP if result.error in _WAITS_FOR_METADATA else Outcome.RETRY
        try:
            if result.diverging is not None:
                self.truncate(agreed_end(self.log, result.diverging))
                return Outcome.GO_ON
            self._append(result)
        except (AppendError, UnexpectedAppendOffsetError):
            return Outcome.RETRY  # a damaged or foreign answer; what was asked for is asked again
        except StorageError:
            return Outcome.STOP
        return Outcome.GO_ON

    def _append(self, result: FetchResult) -> None:
        if result.records:
            append_copied(self.log, result.records, self.partition.leader_epoch)
        self.partition.follow_high_watermark(result.high_watermark)
        self.log.high_watermark = self.partition.high_watermark
        if self.log.start_offset < result.log_start_offset <= self.log.high_watermark:
            self.log.increment_log_start_offset(result.log_start_offset)

    def truncate(self, offset: int) -> None:
        """Cut the log. Raises StorageError."""
        before, high_watermark = self.log.end_offset, self.partition.high_watermark
        self.log.truncate_to(offset)
        self.partition.on_truncation()
        self.log.high_watermark = self.partition.high_watermark
        self._trace(
            "replica-truncated",
            topic=self.topic,
            partition=self.index,
            leader_epoch=self.partition.leader_epoch,
            from_offset=before,
            to_offset=self.log.end_offset,
            high_watermark=high_watermark,
        )

    def ask_offsets(self, leader: Endpoint, done: Callable[[Outcome], None]) -> None:
        """See `FollowedPartition`: the log ends above the leader's, or below its start."""
        epoch = self.partition.leader_epoch

        def is_over() -> bool:
            return not self.is_hosted or self.partition.leader_epoch != epoch

        def on_end(leader_end: int | None) -> None:
            if leader_end is None or is_over():
                done(Outcome.RETRY)
            elif leader_end < self.log.end_offset:
                done(self._cut(leader_end))
            else:
                self._ask_offset(leader, EARLIEST_TIMESTAMP, on_begin)

        def on_begin(leader_start: int | None) -> None:
            if leader_start is None or is_over():
                done(Outcome.RETRY)
            elif leader_start > self.log.end_offset:
                done(self._begin_at(leader_start))
            else:
                done(Outcome.GO_ON)

        self._ask_offset(leader, LATEST_TIMESTAMP, on_end)

    def _ask_offset(
        self, leader: Endpoint, timestamp_ms: int, on_offset: Callable[[int | None], None]
    ) -> None:
        """Ask for one offset; None when there is no answer that names one."""
        asked = ListOffsetsPartition(
            partition_index=i32(self.index),
            current_leader_epoch=i32(self.partition.leader_epoch),
            timestamp=i64(timestamp_ms),
        )
        request = ListOffsetsRequest(
            replica_id=BrokerId(self.partition.broker_id),
            isolation_level=i8(0),
            topics=(ListOffsetsTopic(name=TopicName(self.topic), partitions=(asked,)),),
            timeout=_NO_WAIT,
        )
        Exchange(self._clock, partial(self._network.request, leader)).begin(
            request, self._request_timeout_ms, lambda reply: on_offset(self._offset_in(reply))
        )

    def _offset_in(self, reply: Any) -> int | None:
        for topic in reply.topics if isinstance(reply, ListOffsetsResponse) else ():
            for row in topic.partitions:
                if (topic.name, row.partition_index) == (self.topic, self.index):
                    known = row.error_code is ErrorCode.none and row.offset >= 0
                    return int(row.offset) if known else None
        return None

    def _cut(self, leader_end: int) -> Outcome:
        """The leader was elected although it lacks records that this replica has."""
        try:
            self.truncate(leader_end)
        except StorageError:
            return Outcome.STOP
        return Outcome.GO_ON

    def _begin_at(self, leader_start: int) -> Outcome:
        """The leader no longer has what follows this log: nothing of it can be appended to."""
        before = self.log.end_offset
        try:
            self.log.truncate_fully_and_start_at(leader_start)
        except StorageError:
            return Outcome.STOP
        self.partition.on_truncation()
        self.log.high_watermark = self.partition.high_watermark
        self._trace(
            "replica-begun",
            topic=self.topic,
            partition=self.index,
            leader_epoch=self.partition.leader_epoch,
            from_offset=before,
            start_offset=leader_start,
        )
        return Outcome.GO_ON

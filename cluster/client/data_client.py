"""Produce, Fetch and what goes with them: each call one request to one broker, never retried.

As of `cluster.client.caller`, with the same outcomes. What is certain:

- A read has no effect, so whatever error a broker answers it with is a `fail`.
- A DeleteRecords that is answered with an error is a `fail` only where the leader gives that error
  before it deletes: it waits for its followers, and may lose the partition or its time meanwhile.
- A Produce that is answered with an error is a `fail` where the error, and the lack of an offset,
  prove that nothing was appended (`cluster.client.failures.proves_no_append`), else `info`.
- With acks=0 a broker answers nothing: `ok` says that the request left, and no more.

A leader epoch that is given makes the broker refuse unless it leads the partition in this very
epoch (KIP-320), so that an answer is one of that leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from cluster.client.batches import read_batches
from cluster.client.caller import Caller, Outcome, Peer, WrongAnswerError, accept, metadata_of, only
from cluster.client.failures import proves_no_append
from cluster.node.errors import ErrorCode
from cluster.node.protocol import data_messages as d
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i32, i64, milliseconds
from cluster.values import valueclass

NO_LEADER: Final = -1
ANY_EPOCH: Final = -1
"""Of a request that any replica may answer, whatever epoch it is in."""
Acks = Literal[-1, 0, 1]
ALL: Final[Acks] = -1
_REFUSES_DELETE: Final = frozenset({ErrorCode.offset_out_of_range, ErrorCode.policy_violation})
LATEST: Final = -1
"""The timestamp of ListOffsets that asks for the high watermark, as a consumer sees it."""


@valueclass(order=True)
class TopicPartition:
    """One partition of a topic."""

    topic: str
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@valueclass
class PartitionView:
    """A partition as one broker's metadata shows it, which may be stale."""

    leader: int
    """Node id; NO_LEADER."""
    epoch: int
    replicas: tuple[int, ...]


@valueclass
class Fetched:
    """One answer about one partition."""

    records: tuple[tuple[int, str], ...]
    next_offset: int
    """Where to read on."""
    high_watermark: int
    log_start: int
    last_stable_offset: int
    """End of what is decided: where the earliest open transaction begins, if there is one."""


class DataClient:
    """Asks brokers about data through a client that never retries."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def describe(self, peer: Peer, topic: str) -> Outcome:
        """Look a topic up. The value is None, or {index: PartitionView}."""

        def read(response: Any) -> Outcome:
            accept(response.error_code)
            found = only(response.topics, name=topic)
            if found.error_code is ErrorCode.unknown_topic_or_partition:
                return Outcome("ok", None)
            accept(found.error_code)
            return Outcome("ok", _views(found))

        return await self._client.attempt(peer, metadata_of([topic]), read)

    async def produce(
        self,
        peer: Peer,
        to: TopicPartition,
        batch: bytes,
        acks: Acks,
        *,
        transactional_id: str | None = None,
        adds_partitions: bool = False,
    ) -> Outcome:
        """Append one batch. The value is the offset of its first record; None with acks=0.

        `adds_partitions`: the leader makes the partition one of the transaction's (KIP-890).
        """
        partition = d.ProducePartition(to.topic, to.index, batch)
        request = d.ProduceRequest(
            acks, peer.timeout_ms, (partition,), transactional_id, adds_partitions
        )

        def read(response: d.ProduceResponse) -> Outcome:
            if acks == 0:
                return Outcome("ok")
            result = _about(to, response.partitions)
            if result.error is not ErrorCode.none:
                nothing = proves_no_append(result.error, result.base_offset)
                return Outcome("fail" if nothing else "info", error=result.error.name)
            if result.base_offset < 0:
                raise WrongAnswerError(f"offset {result.base_offset} of what was appended")
            return Outcome("ok", result.base_offset)

        return await self._client.attempt(peer, request, read)

    async def fetch(
        self,
        peer: Peer,
        of: TopicPartition,
        position: int,
        epoch: int,
        *,
        max_wait_ms: float,
        max_bytes: int,
        committed_only: bool = False,
    ) -> Outcome:
        """Read from `position`, at least one record if there is one. The value is `Fetched`.

        `committed_only`: as a consumer with isolation.level read_committed does (KIP-98).
        """
        partition = d.FetchPartition(of.topic, of.index, position, max_bytes, epoch)
        request = d.FetchRequest(
            replica_id=d.CONSUMER,
            replica_epoch=d.NO_EPOCH,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            partitions=(partition,),
            committed_only=committed_only,
        )

        def read(response: d.FetchResponse) -> Outcome:
            accept(response.error)
            result = _about(of, response.partitions)
            accept(result.error)
            value = Fetched(
                *read_batches(result.records, position, result.aborted),
                result.high_watermark,
                result.log_start_offset,
                result.last_stable_offset,
            )
            return Outcome("ok", value)

        return await self._client.attempt(peer, request, read)

    async def find_end(self, peer: Peer, of: TopicPartition, epoch: int) -> Outcome:
        """Find the end of a log, as a consumer sees it. The value is the offset."""
        partition = d.ListOffsetsPartition(
            partition_index=i32(of.index), current_leader_epoch=i32(epoch), timestamp=i64(LATEST)
        )
        request = d.ListOffsetsRequest(
            replica_id=BrokerId(d.CONSUMER),
            isolation_level=i8(0),
            topics=(d.ListOffsetsTopic(name=TopicName(of.topic), partitions=(partition,)),),
            timeout=milliseconds(peer.timeout_ms),
        )

        def read(response: Any) -> Outcome:
            topic = only(response.topics, name=of.topic)
            return _offset(only(topic.partitions, partition_index=of.index), "offset")

        return await self._client.attempt(peer, request, read)

    async def end_of_reign(self, peer: Peer, of: TopicPartition, epoch: int) -> Outcome:
        """Find the log end offset of the leader of `epoch`, which it has to be still.

        OffsetForLeaderEpoch of the present epoch gives it; what clients may read may end before.
        """
        partition = d.OffsetForLeaderPartition(
            partition=i32(of.index), current_leader_epoch=i32(epoch), leader_epoch=i32(epoch)
        )
        request = d.OffsetForLeaderEpochRequest(
            replica_id=BrokerId(d.CONSUMER),
            topics=(d.OffsetForLeaderTopic(topic=TopicName(of.topic), partitions=(partition,)),),
        )

        def read(response: Any) -> Outcome:
            topic = only(response.topics, topic=of.topic)
            return _offset(only(topic.partitions, partition=of.index), "end_offset")

        return await self._client.attempt(peer, request, read)

    async def delete_records(self, peer: Peer, of: TopicPartition, offset: int) -> Outcome:
        """Delete what lies below an offset; -1: the high watermark. The value is the low watermark.

        That is the smallest log start of all replicas that are alive.
        """
        partition = d.DeleteRecordsPartition(partition_index=i32(of.index), offset=i64(offset))
        topic = d.DeleteRecordsTopic(name=TopicName(of.topic), partitions=(partition,))
        request = d.DeleteRecordsRequest(topics=(topic,), timeout=milliseconds(peer.timeout_ms))

        def read(response: Any) -> Outcome:
            topic = only(response.topics, name=of.topic)
            result = only(topic.partitions, partition_index=of.index)
            accept(result.error_code, _REFUSES_DELETE)
            return _offset(result, "low_watermark")

        return await self._client.attempt(peer, request, read)

    async def init_producer_id(self, peer: Peer) -> Outcome:
        """Get an id of an idempotent producer. The value is (producer id, producer epoch)."""
        request = d.InitProducerIdRequest(
            transactional_id=None, transaction_timeout=milliseconds(peer.timeout_ms)
        )

        def read(response: Any) -> Outcome:
            accept(response.error_code)
            if response.producer_id < 0 or response.producer_epoch < 0:
                raise WrongAnswerError(f"producer id {response.producer_id}")
            return Outcome("ok", (int(response.producer_id), int(response.producer_epoch)))

        return await self._client.attempt(peer, request, read)


def _views(topic: Any) -> Mapping[int, PartitionView]:
    return {
        int(found.partition_index): PartitionView(
            leader=int(found.leader_id),
            epoch=int(found.leader_epoch),
            replicas=tuple(map(int, found.replica_nodes)),
        )
        for found in topic.partitions
    }


def _offset(result: Any, field: str) -> Outcome:
    """Read an offset of an answer; -1 says that the broker has none."""
    accept(result.error_code)
    offset = int(getattr(result, field))
    accept(ErrorCode.none if offset >= 0 else ErrorCode.offset_not_available)
    return Outcome("ok", offset)


def _about(partition: TopicPartition, results: Sequence[Any]) -> Any:
    """Return the only result, of this partition. Raises WrongAnswerError."""
    return only(results, topic=partition.topic, index=partition.index)

"""The requests of a transactional producer: each one request to one broker, never retried.

As of `cluster.client.caller`, with the same outcomes: an answer with an error is `fail` where
the error proves that a transaction coordinator changed nothing, else `info`. EndTxn is answered
NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE also after its decision was appended to the
coordinator's log (`TransactionStateManager.appendTransactionToLog` maps the errors of its append to
these), and so COORDINATOR_LOAD_IN_PROGRESS, by a leader that loads in its next epoch what it has
appended in the last one (`updateCacheCallback` there). CONCURRENT_TRANSACTIONS it is answered while
an earlier one is carried out. So these prove nothing.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.client.caller import Caller, Outcome, Peer, WrongAnswerError, accept
from cluster.client.data_client import TopicPartition
from cluster.node.errors import ErrorCode
from cluster.node.protocol import transaction_messages as t
from cluster.node.protocol.data_messages import InitProducerIdRequest
from cluster.node.protocol.messages import (
    ApiVersionsRequest,
    TopicName,
    i8,
    i16,
    i32,
    i64,
    milliseconds,
)
from cluster.values import valueclass

TRANSACTION_VERSION: Final = "transaction.version"
BUMPS_EPOCHS_FROM: Final = 2
"""The level of transaction.version at which every transaction has an epoch of its own (KIP-890)."""

_UNCHANGED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""Errors that a coordinator gives before it changes a transaction's state."""


@valueclass
class Producer:
    """What a coordinator gave a transactional id: who its producer is, and in which epoch."""

    producer_id: int
    epoch: int


class TransactionalClient:
    """Asks coordinators of transactions through a client that never retries."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def transaction_version(self, peer: Peer) -> Outcome:
        """Look up the finalized level of transaction.version as a broker knows it; 0 without."""
        request = ApiVersionsRequest(client_software_name="kraftprobe", client_software_version="1")

        def read(response: Any) -> Outcome:
            features = response.finalized_features
            levels = [
                int(feature.max_version_level)
                for feature in features
                if feature.name == TRANSACTION_VERSION
            ]
            return Outcome("ok", max(levels, default=0))

        return await self._client.attempt(peer, request, read)

    async def init_producer(
        self, peer: Peer, transactional_id: str, transaction_timeout_ms: float
    ) -> Outcome:
        """Take over a transactional id. The value is `Producer`, in an epoch of its own.

        Whoever had the id is fenced, and its transaction is over: one that it had not ended is
        aborted first (KIP-98).
        """
        request = InitProducerIdRequest(
            transactional_id=t.TransactionalId(transactional_id),
            transaction_timeout=milliseconds(transaction_timeout_ms),
        )

        def read(response: Any) -> Outcome:
            accept(response.error_code, _UNCHANGED)
            return Outcome("ok", _producer(response))

        return await self._client.attempt(peer, request, read)

    async def add_partition(
        self, peer: Peer, transactional_id: str, producer: Producer, partition: TopicPartition
    ) -> Outcome:
        """Make a partition one of the transaction's, which begins with the first."""
        topic = t.AddPartitionsToTxnTopic(
            name=TopicName(partition.topic), partitions=(i32(partition.index),)
        )
        request = t.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=t.TransactionalId(transactional_id),
            v3_and_below_producer_id=t.ProducerId(producer.producer_id),
            v3_and_below_producer_epoch=i16(producer.epoch),
            v3_and_below_topics=(topic,),
        )

        def read(response: t.AddPartitionsToTxnResponse) -> Outcome:
            (answered,) = response.results_by_topic_v3_and_below
            (result,) = answered.results_by_partition
            if (answered.name, result.partition_index) != (partition.topic, partition.index):
                raise WrongAnswerError(f"partition {answered.name}-{result.partition_index}")
            accept(result.partition_error_code, _UNCHANGED)
            return Outcome("ok")

        return await self._client.attempt(peer, request, read)

    async def add_offsets(
        self, peer: Peer, transactional_id: str, producer: Producer, group: str
    ) -> Outcome:
        """Make the offsets of a group part of the transaction."""
        request = t.AddOffsetsToTxnRequest(
            transactional_id=t.TransactionalId(transactional_id),
            producer_id=t.ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            group_id=t.GroupId(group),
        )

        def read(response: t.AddOffsetsToTxnResponse) -> Outcome:
            accept(response.error_code, _UNCHANGED)
            return Outcome("ok")

        return await self._client.attempt(peer, request, read)

    async def commit_offset(
        self,
        peer: Peer,
        transactional_id: str,
        producer: Producer,
        group: str,
        of: TopicPartition,
        offset: int,
        *,
        adds_group: bool,
    ) -> Outcome:
        """Ask the group's coordinator to commit an offset when the transaction commits."""
        kind = t.TXN_OFFSET_COMMIT[adds_group]
        partition = kind.TxnOffsetCommitRequestPartition(
            partition_index=i32(of.index), committed_offset=i64(offset), committed_metadata=None
        )
        topic = kind.TxnOffsetCommitRequestTopic(name=TopicName(of.topic), partitions=(partition,))
        request = kind.TxnOffsetCommitRequest(
            transactional_id=t.TransactionalId(transactional_id),
            group_id=t.GroupId(group),
            producer_id=t.ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            topics=(topic,),
        )

        def read(response: t.TxnOffsetCommitResponse) -> Outcome:
            (answered,) = response.topics
            (result,) = answered.partitions
            if (answered.name, result.partition_index) != (of.topic, of.index):
                raise WrongAnswerError(f"partition {answered.name}-{result.partition_index}")
            accept(result.error_code, _UNCHANGED)
            return Outcome("ok")

        return await self._client.attempt(peer, request, read)

    async def end(
        self,
        peer: Peer,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        bumps_epoch: bool,
    ) -> Outcome:
        """Commit or abort. The value is the `Producer` of the next transaction."""
        kind: Any = t.EndTxnRequest if bumps_epoch else t.EndTxnRequestV4
        request = kind(
            transactional_id=t.TransactionalId(transactional_id),
            producer_id=t.ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            committed=commit,
        )

        def read(response: t.EndTxnResponse) -> Outcome:
            accept(response.error_code, _UNCHANGED)
            return Outcome("ok", _producer(response) if bumps_epoch else producer)

        return await self._client.attempt(peer, request, read)


def _producer(response: Any) -> Producer:
    """Return whom an answer names. Raises WrongAnswerError."""
    if response.producer_id < 0 or response.producer_epoch < 0:
        raise WrongAnswerError(f"producer id {response.producer_id}")
    return Producer(int(response.producer_id), int(response.producer_epoch))


async def find_coordinator(client: Caller, peer: Peer, kind: int, key: str) -> Outcome:
    """Ask any broker which one coordinates `key`, of type GROUP or TRANSACTION: its node id."""
    request = t.FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=(key,))

    def read(response: t.FindCoordinatorResponse) -> Outcome:
        (found,) = response.coordinators
        if found.key != key:
            raise WrongAnswerError(f"the coordinator of {found.key!r}")
        accept(found.error_code)
        return Outcome("ok", int(found.node_id))

    return await client.attempt(peer, request, read)

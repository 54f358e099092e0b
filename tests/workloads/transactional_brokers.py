"""Brokers of `scripted_brokers` with a transaction coordinator, of either protocol.

The coordinator is broker 2. It keeps one transactional id's state as Kafka's does: epochs, the open
partitions, markers at the end; with transaction.version 2 each EndTxn bumps the epoch (KIP-890).
"""

import struct

from kio.schema.add_partitions_to_txn.v3 import response as added
from kio.schema.txn_offset_commit.v5 import response as committed

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import Record, Sequenced, check_batch, encode_batch
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.node.protocol import transaction_messages as t
from tests.kio_bytes import filled
from tests.workloads.scripted_brokers import COORDINATOR, NONE, Brokers


class TransactionalBrokers(Brokers):
    """The network of a client, with one coordinator."""

    def __init__(self, version=2):
        super().__init__()
        self.version = version
        self.epochs = {}
        """Transactional id -> epoch of its producer, whose id is 7."""
        self.open = set()
        """Partitions of the transaction under way."""
        self.begun = {}
        """Partition -> first offset of the open transaction there."""
        self.aborted = {}
        """Partition -> aborted transactions."""
        self.forgets = False
        """Whether what aborts is committed as well."""
        self.has_group = False

    def _ApiVersionsRequest(self, broker, message):  # noqa: N802
        feature = m.FinalizedFeatureKey(
            name="transaction.version",
            max_version_level=self.version,
            min_version_level=self.version,
        )
        return filled(m.ApiVersionsResponse, api_keys=(), finalized_features=(feature,))

    def _InitProducerIdRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == COORDINATOR
        self._close(commit=False)
        epoch = self.epochs.get(message.transactional_id, -1) + 1
        self.epochs[message.transactional_id] = epoch
        return filled(d.InitProducerIdResponse, producer_id=7, producer_epoch=epoch)

    def _AddPartitionsToTxnRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == COORDINATOR
        assert self.version < 2
        (topic,) = message.v3_and_below_topics
        (index,) = topic.partitions
        epoch = self.epochs[message.v3_and_below_transactional_id]
        error = NONE
        if message.v3_and_below_producer_epoch != epoch:
            error = ErrorCode.producer_fenced
        else:
            self.open.add(index)
        result = added.AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=error
        )
        answer = added.AddPartitionsToTxnTopicResult(
            name=topic.name, results_by_partition=(result,)
        )
        return filled(t.AddPartitionsToTxnResponse, results_by_topic_v3_and_below=(answer,))

    def _AddOffsetsToTxnRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == COORDINATOR
        assert self.version < 2
        self.has_group = True
        return filled(t.AddOffsetsToTxnResponse)

    def _TxnOffsetCommitRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == COORDINATOR
        assert message.__version__ == (5 if self.version >= 2 else 4)
        (topic,) = message.topics
        (asked,) = topic.partitions
        error = NONE
        if message.producer_epoch != self.epochs[message.transactional_id]:
            error = ErrorCode.invalid_producer_epoch
        elif self.version < 2 and not self.has_group:
            error = ErrorCode.invalid_txn_state
        else:
            self.pending[asked.partition_index] = asked.committed_offset
        result = committed.TxnOffsetCommitResponsePartition(
            partition_index=asked.partition_index, error_code=error
        )
        answer = committed.TxnOffsetCommitResponseTopic(name=topic.name, partitions=(result,))
        return filled(t.TxnOffsetCommitResponse, topics=(answer,))

    def _ProduceRequest(self, broker, message):  # noqa: N802
        (asked,) = message.partitions
        header = check_batch(asked.records)
        assert header.is_transactional
        assert message.adds_partitions is (self.version >= 2)
        error = broker.refusal(asked.index, -1, leader_only=True)
        if error is NONE and header.producer_epoch != self.epochs[message.transactional_id]:
            error = ErrorCode.invalid_producer_epoch
        if error is NONE and self.version >= 2:
            self.open.add(asked.index)
        if error is NONE and asked.index not in self.open:
            error = ErrorCode.invalid_txn_state
        offset = -1
        if error is NONE:
            offset = broker.append(asked.index, asked.records, broker.leads[asked.index])
            self.begun.setdefault(asked.index, offset)
        return d.ProduceResponse((d.ProduceResult(asked.topic, asked.index, error, offset),))

    def _EndTxnRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == COORDINATOR
        assert message.__version__ == (5 if self.version >= 2 else 4)
        epoch = self.epochs[message.transactional_id]
        error = NONE
        if message.producer_epoch != epoch:
            error = ErrorCode.producer_fenced
        else:
            self._close(commit=message.committed)
            self.epochs[message.transactional_id] = epoch + (self.version >= 2)
        return filled(
            t.EndTxnResponse,
            error_code=error,
            producer_id=7 if self.version >= 2 and error is NONE else -1,
            producer_epoch=self.epochs[message.transactional_id] if self.version >= 2 else -1,
        )

    def _close(self, *, commit):
        for index in sorted(self.open):
            record = Record(b"\0" * 6, struct.pack(">hh", 0, int(commit)))
            marker = encode_batch(0, 0, [record], 0, control=True, sequenced=Sequenced(7, 0, -1))
            self.brokers[1].append(index, marker, 0)
            first = self.begun.pop(index, None)
            if not commit and first is not None:
                self.aborted.setdefault(index, []).append(d.AbortedTransaction(first, 7))
        self.open.clear()
        self.offsets |= self.pending if commit or self.forgets else {}
        self.pending.clear()
        self.has_group = False

    def _FetchRequest(self, broker, message):  # noqa: N802
        whole = super()._FetchRequest(broker, message)
        (result,) = whole.partitions
        if not message.committed_only:
            return whole
        (asked,) = message.partitions
        stable = min(self.begun.get(asked.index, 1 << 60), result.high_watermark)
        batches = (b for b in broker.logs[asked.index] if check_batch(b).last_offset < stable)
        shown = b"".join(b for b in batches if check_batch(b).next_offset > asked.fetch_offset)
        aborted = tuple(
            each for each in self.aborted.get(asked.index, ()) if each.first_offset < stable
        )
        found = d.FetchResult(
            asked.topic,
            asked.index,
            result.error,
            result.high_watermark,
            stable,
            0,
            records=shown,
            aborted=aborted,
        )
        return d.FetchResponse(NONE, (found,))

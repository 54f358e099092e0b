"""Requests of the data path about a topic that is not there, and what their answers must say."""

import datetime as dt
import uuid

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.data_messages import (
    CONSUMER,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    FetchPartition,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    ProducePartition,
    ProduceRequest,
)
from cluster.node.protocol.data_schema import TOPIC_IDS_FROM

NAME = "unheard-of"
TOPIC_ID = uuid.UUID(int=10_000)
LATEST = -1
SOON = dt.timedelta(seconds=5)
BY_NAME = {ErrorCode.unknown_topic_or_partition}


def _topic(version):
    return NAME if version < TOPIC_IDS_FROM else TOPIC_ID


def sample(key, version):
    """A request that changes nothing."""
    match key:
        case ApiKey.PRODUCE:
            return ProduceRequest(1, 5_000.0, (ProducePartition(_topic(version), 0, b""),))
        case ApiKey.FETCH:
            asked = FetchPartition(_topic(version), 0, 0, 1 << 20)
            return FetchRequest(CONSUMER, -1, 0.0, 0, 1 << 20, (asked,))
        case ApiKey.LIST_OFFSETS:
            asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
            topic = ListOffsetsTopic(name=NAME, partitions=(asked,))
            return ListOffsetsRequest(
                replica_id=CONSUMER, isolation_level=0, topics=(topic,), timeout=SOON
            )
        case ApiKey.DELETE_RECORDS:
            asked = DeleteRecordsPartition(partition_index=0, offset=0)
            topic = DeleteRecordsTopic(name=NAME, partitions=(asked,))
            return DeleteRecordsRequest(topics=(topic,), timeout=SOON)
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdRequest(transactional_id=None, transaction_timeout=SOON)
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderTopic(topic=NAME, partitions=(asked,))
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=(topic,))


def expected(key, version):
    """All errors of the answer."""
    if key is ApiKey.INIT_PRODUCER_ID:
        return set()
    if key in {ApiKey.PRODUCE, ApiKey.FETCH} and version >= TOPIC_IDS_FROM:
        return {ErrorCode.unknown_topic_id}
    return BY_NAME

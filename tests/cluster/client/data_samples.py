"""Requests of the data path about a topic that is not there."""

import datetime as dt
import uuid

from cluster.node.protocol import data_messages as data
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.data_schema import TOPIC_IDS_FROM

NAME = "unheard-of"
TOPIC_ID = uuid.UUID(int=10_000)
LATEST = -1
SOON = dt.timedelta(seconds=5)


def _topic(version):
    return NAME if version < TOPIC_IDS_FROM else TOPIC_ID


def sample(key, version):
    """A request that changes nothing."""
    match key:
        case ApiKey.PRODUCE:
            return data.ProduceRequest(
                1, 5_000.0, (data.ProducePartition(_topic(version), 0, b""),)
            )
        case ApiKey.FETCH:
            asked = data.FetchPartition(_topic(version), 0, 0, 1 << 20)
            return data.FetchRequest(data.CONSUMER, -1, 0.0, 0, 1 << 20, (asked,))
        case ApiKey.LIST_OFFSETS:
            asked = data.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
            topic = data.ListOffsetsTopic(name=NAME, partitions=(asked,))
            return data.ListOffsetsRequest(
                replica_id=data.CONSUMER, isolation_level=0, topics=(topic,), timeout=SOON
            )
        case ApiKey.DELETE_RECORDS:
            asked = data.DeleteRecordsPartition(partition_index=0, offset=0)
            topic = data.DeleteRecordsTopic(name=NAME, partitions=(asked,))
            return data.DeleteRecordsRequest(topics=(topic,), timeout=SOON)
        case ApiKey.INIT_PRODUCER_ID:
            return data.InitProducerIdRequest(transactional_id=None, transaction_timeout=SOON)
    asked = data.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = data.OffsetForLeaderTopic(topic=NAME, partitions=(asked,))
    return data.OffsetForLeaderEpochRequest(replica_id=data.CONSUMER, topics=(topic,))

"""The idempotent producers of a partition are described by its leader."""

from cluster.node.errors import ErrorCode
from cluster.node.protocol.data_messages import DescribeProducersRequest, DescribeProducersTopic
from tests.cluster.node.broker.cluster_of_brokers import Brokers


def described(brokers, broker, name="t", index=0):
    topic = DescribeProducersTopic(name=name, partition_indexes=(index,))
    reply = brokers.answer(broker, DescribeProducersRequest(topics=(topic,)))
    return reply.topics[0].partitions[0]


def test_a_leader_describes_who_produced_by_id_epoch_and_last_sequence():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"anybody's")
    brokers.produce(1, b"a", b"b", producer=(7, 0, 0))
    brokers.produce(1, b"c", producer=(5, 3, 0))
    found = described(brokers, 1)
    assert found.error_code is ErrorCode.none
    rows = [
        (row.producer_id, row.producer_epoch, row.last_sequence) for row in found.active_producers
    ]
    assert rows == [(5, 3, 0), (7, 0, 1)]
    assert {row.current_txn_start_offset for row in found.active_producers} == {-1}
    assert all(row.last_timestamp >= 0 for row in found.active_producers)


def test_another_broker_and_an_unknown_partition_are_refused():
    brokers = Brokers()
    brokers.create()
    assert described(brokers, 2).error_code is ErrorCode.not_leader_or_follower
    unknown = described(brokers, 1, name="unheard-of")
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition

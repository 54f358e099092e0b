"""DescribeLogDirs: the replicas of this broker, by the metadata."""

import dataclasses

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    CreatableReplicaAssignment,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.controller.fakes import CLIENT, CLUSTER, active, creatable, create

EVERYTHING = DescribeLogDirsRequest(topics=None)
BROKER = 1


def node_with_replicas(volume_bytes=lambda: (1000, 10)):
    """Broker 1 has partitions 0 and 2 of topic t, and nothing of topic elsewhere."""
    cluster = dataclasses.replace(CLUSTER, log_dir="/var/kraft", volume_bytes=volume_bytes)
    node = active(cluster=cluster)
    assert node.raft.node_id == BROKER
    placed = [(1, 2), (2, 3), (3, 1)]
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index, replicas in enumerate(placed)
    )
    other = (CreatableReplicaAssignment(partition_index=0, broker_ids=(2, 3)),)
    node.call(
        create(creatable("t", -1, -1, assignments), creatable("elsewhere", -1, -1, other)),
    )
    return node


def described(node, request=EVERYTHING):
    reply = node.call(request, CLIENT)
    assert reply.error_code is ErrorCode.none
    (directory,) = reply.results
    assert directory.log_dir == "/var/kraft"
    return directory


def replicas(directory):
    return {t.name: [p.partition_index for p in t.partitions] for t in directory.topics}


def test_the_directory_has_every_replica_of_the_broker():
    directory = described(node_with_replicas())
    assert replicas(directory) == {"t": [0, 2]}
    assert directory.error_code is ErrorCode.none
    assert {
        (p.partition_size, p.offset_lag, p.is_future_key) for p in directory.topics[0].partitions
    } == {(0, 0, False)}


def test_only_the_replicas_asked_for_are_described():
    node = node_with_replicas()
    asked = DescribeLogDirsRequest(
        topics=(
            DescribableLogDirTopic(topic="t", partitions=(1, 2)),
            DescribableLogDirTopic(topic="elsewhere", partitions=(0,)),
            DescribableLogDirTopic(topic="nowhere", partitions=(0,)),
        )
    )
    assert replicas(described(node, asked)) == {"t": [2]}
    assert replicas(described(node, DescribeLogDirsRequest(topics=()))) == {}


def test_the_volume_has_a_size_where_it_is_known():
    directory = described(node_with_replicas())
    assert (directory.total_bytes, directory.usable_bytes) == (1000, 10)
    directory = described(node_with_replicas(lambda: None))
    assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)


def test_a_volume_that_cannot_be_read_is_a_storage_error():
    def fail():
        raise OSError(5, "Input/output error")

    directory = described(node_with_replicas(fail))
    assert directory.error_code is ErrorCode.kafka_storage_error
    assert directory.topics == ()

"""What is in a broker's log directory, and what cannot be moved out of it."""

from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic

from cluster.node.broker.serving.log_dirs import describe_log_dirs
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import DescribeLogDirsRequest
from tests.cluster.node.broker.cluster_of_brokers import Brokers, move_replicas

EVERYTHING = DescribeLogDirsRequest(topics=None)
BROKER = 1


def brokers_with_topics():
    """Broker 1 has partitions 0 and 1 of topic t, and nothing of topic elsewhere."""
    brokers = Brokers()
    brokers.create("t", (1, 2), partitions=2)
    brokers.create("elsewhere", (2, 3))
    return brokers


def described(brokers, request=EVERYTHING):
    reply = brokers.answer(BROKER, request)
    assert reply.error_code is ErrorCode.none
    (directory,) = reply.results
    assert directory.error_code is ErrorCode.none
    return directory


def rows(directory):
    return {
        (topic.name, row.partition_index): (row.partition_size, row.offset_lag, row.is_future_key)
        for topic in directory.topics
        for row in topic.partitions
    }


def test_the_directory_has_every_replica_of_the_broker_with_its_size():
    brokers = brokers_with_topics()
    assert rows(described(brokers)) == {("t", 0): (0, 0, False), ("t", 1): (0, 0, False)}
    brokers.produce(BROKER, b"value", name="t")
    size = brokers.replica(BROKER).log.size_bytes
    assert size > 0
    assert rows(described(brokers)) == {("t", 0): (size, 0, False), ("t", 1): (0, 0, False)}


def test_only_the_replicas_asked_for_are_described():
    brokers = brokers_with_topics()
    asked = DescribeLogDirsRequest(
        topics=(
            DescribableLogDirTopic(topic="t", partitions=(1, 2)),
            DescribableLogDirTopic(topic="elsewhere", partitions=(0,)),
            DescribableLogDirTopic(topic="nowhere", partitions=(0,)),
        )
    )
    assert list(rows(described(brokers, asked))) == [("t", 1)]
    assert rows(described(brokers, DescribeLogDirsRequest(topics=()))) == {}


def with_volume(brokers, volume_bytes):
    manager = brokers.node(BROKER).replicas
    manager.logs.directories[0].disk.volume_bytes = volume_bytes
    (directory,) = describe_log_dirs(manager, EVERYTHING).results
    return directory


def test_the_volume_has_a_size_where_it_is_known():
    brokers = Brokers()
    known = with_volume(brokers, lambda: (1000, 10))
    assert (known.total_bytes, known.usable_bytes) == (1000, 10)
    unknown = with_volume(brokers, lambda: None)
    assert (unknown.total_bytes, unknown.usable_bytes) == (-1, -1)


def test_a_volume_that_cannot_be_read_is_a_storage_error():
    def fail():
        raise OSError(5, "Input/output error")

    directory = with_volume(brokers_with_topics(), fail)
    assert (directory.error_code, directory.topics) == (ErrorCode.kafka_storage_error, ())


def moved(brokers, path, *partitions):
    reply = brokers.answer(BROKER, move_replicas(path, *partitions))
    return {
        (topic.topic_name, row.partition_index): row.error_code
        for topic in reply.results
        for row in topic.partitions
    }


def test_a_replica_can_be_moved_to_where_it_is_and_nowhere_else():
    brokers = brokers_with_topics()
    here = described(brokers).log_dir
    assert moved(brokers, here, ("t", 0)) == {("t", 0): ErrorCode.none}
    assert moved(brokers, "/elsewhere", ("t", 0)) == {("t", 0): ErrorCode.log_dir_not_found}
    assert moved(brokers, here, ("elsewhere", 0), ("nowhere", 0)) == {
        ("elsewhere", 0): ErrorCode.replica_not_available,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }

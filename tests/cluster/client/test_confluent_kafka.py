"""confluent-kafka's (librdkafka's) admin client against three live nodes."""

import contextlib

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.cluster.client.nodes import TIMEOUT_S, eventually

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def admin(nodes):
    client = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})

    def knows_all(metadata):
        return metadata.controller_id >= 0 and len(metadata.brokers) == len(nodes.client_ports)

    eventually(lambda: client.list_topics(timeout=TIMEOUT_S), knows_all)
    return client


def result(futures):
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


@contextlib.contextmanager
def new_topic(admin, name, partitions=1):
    """A topic that no other test of these nodes finds."""
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
    result(admin.create_topics([topic]))
    try:
        yield topic
    finally:
        result(admin.delete_topics([name]))


def partition_count(admin, name):
    """None: there is no such topic."""
    topic = admin.list_topics(timeout=TIMEOUT_S).topics.get(name)
    return topic and len(topic.partitions)


def test_a_topic_is_created_listed_grown_and_deleted(admin):
    with new_topic(admin, "life", 2):
        eventually(lambda: partition_count(admin, "life"), 2)
        result(admin.create_partitions([NewPartitions("life", 5)]))
        eventually(lambda: partition_count(admin, "life"), 5)
    eventually(lambda: partition_count(admin, "life"), None)


def test_a_second_topic_of_the_same_name_is_refused(admin):
    with (
        new_topic(admin, "twice") as topic,
        pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"),
    ):
        result(admin.create_topics([topic]))


def alter(admin, operation, value):
    entry = ConfigEntry("cleanup.policy", value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "configured", incremental_configs=[entry])
    result(admin.incremental_alter_configs([resource]))


def test_configs_are_set_appended_to_subtracted_from_deleted_and_described(admin):
    def value():
        resource = ConfigResource(ConfigResource.Type.TOPIC, "configured")
        return result(admin.describe_configs([resource]))["cleanup.policy"].value

    with new_topic(admin, "configured"):
        alter(admin, AlterConfigOpType.SET, "delete")
        eventually(value, "delete")
        alter(admin, AlterConfigOpType.APPEND, "compact")
        eventually(value, "delete,compact")
        alter(admin, AlterConfigOpType.SUBTRACT, "delete")
        eventually(value, "compact")
        alter(admin, AlterConfigOpType.DELETE, None)
        eventually(value, "delete")
        alter(admin, AlterConfigOpType.APPEND, "compact")
        eventually(value, "delete,compact")
        with pytest.raises(KafkaException, match="one of: compact, delete"):
            alter(admin, AlterConfigOpType.SET, "foo")


def test_the_cluster_is_described(admin, nodes):
    def described():
        cluster = admin.describe_cluster().result(TIMEOUT_S)
        return (
            {node.id: node.port for node in cluster.nodes},
            cluster.cluster_id,
            cluster.controller.id in nodes.client_ports,
        )

    eventually(described, (nodes.client_ports, "test-cluster", True))

"""kafka-python's admin client against three live nodes.

Each request goes to a broker that the client chooses, and one may be behind the broker that was asked
before: what is described is read until it is there.
"""

import contextlib
import warnings

import pytest

from tests.cluster.client.nodes import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import (
        ConfigResource,
        ConfigResourceType,
        KafkaAdminClient,
        NewPartitions,
        NewTopic,
    )
    from kafka.errors import TopicAlreadyExistsError

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def admin(nodes):
    client = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)

    def knows_all(cluster):
        return cluster["controller_id"] >= 0 and len(cluster["brokers"]) == len(nodes.client_ports)

    eventually(client.describe_cluster, knows_all)
    yield client
    client.close()


@contextlib.contextmanager
def topic(admin, name, partitions=1):
    """A topic that no other test of these nodes finds."""
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])
    try:
        yield
    finally:
        admin.delete_topics([name])


def partition_count(admin, name):
    (topic,) = admin.describe_topics([name])
    return len(topic.get("partitions", ()))


def test_a_topic_is_created_listed_described_and_deleted(admin):
    created = admin.create_topics([NewTopic("life", num_partitions=3, replication_factor=1)])
    assert created["topics"][0]["error_code"] == 0
    eventually(lambda: "life" in admin.list_topics(), wanted=True)
    eventually(lambda: partition_count(admin, "life"), 3)
    admin.delete_topics(["life"])
    eventually(lambda: "life" in admin.list_topics(), wanted=False)


def test_a_second_topic_of_the_same_name_is_refused(admin):
    with topic(admin, "twice"), pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("twice", num_partitions=1, replication_factor=1)])


def test_partitions_are_added(admin):
    with topic(admin, "grows"):
        admin.create_partitions({"grows": NewPartitions(4)})
        eventually(lambda: partition_count(admin, "grows"), 4)


def test_a_config_is_altered_and_described(admin):
    resource = ConfigResource(
        ConfigResourceType.TOPIC, "configured", configs={"retention.ms": "1234"}
    )

    def value():
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "configured")])
        return described["topic"]["configured"].get("retention.ms", {}).get("value")

    with topic(admin, "configured"):
        admin.alter_configs([resource], raise_on_unknown=False)
        eventually(value, "1234")


def test_the_cluster_is_described(admin, nodes):
    def described():
        cluster = admin.describe_cluster()
        return (
            {broker["broker_id"]: broker["port"] for broker in cluster["brokers"]},
            cluster["cluster_id"],
            cluster["controller_id"] in nodes.client_ports,
        )

    eventually(described, (nodes.client_ports, "test-cluster", True))


def test_the_metadata_quorum_is_described_whichever_broker_is_asked(nodes):
    for port in nodes.client_ports.values():
        client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
        quorum = client.describe_metadata_quorum()
        client.close()
        (partition,) = quorum["topics"][0]["partitions"]
        assert [v["replica_id"] for v in partition["current_voters"]] == [1, 2, 3]
        assert partition["leader_id"] in (1, 2, 3)
        assert partition["high_watermark"] > 0
        listeners = {n["node_id"]: n["listeners"][0]["port"] for n in quorum["nodes"]}
        assert listeners == nodes.controller_ports


def test_supported_and_finalized_features_are_reported(admin):
    features = eventually(
        admin.describe_features, lambda found: "finalized" in found["metadata.version"]
    )
    assert features["kraft.version"]["supported"] == (0, 1)
    version = features["metadata.version"]
    assert version["supported"] == (25, 30)
    assert version["finalized"] == (30, 30)
    assert version["finalized_epoch"] >= 0


def test_the_log_directories_hold_the_replicas(admin):
    def held():
        return sorted(
            partition["partition_index"]
            for broker in admin.describe_log_dirs()
            for directory in broker["log_dirs"]
            for replicas in directory["topics"]
            if replicas["name"] == "kept"
            for partition in replicas["partitions"]
        )

    with topic(admin, "kept", 3):
        eventually(held, [0, 1, 2])


def test_topics_are_described_in_pages(admin):
    def first_page():
        page = admin.describe_topic_partitions(["paged"], response_partition_limit=2)
        (found,) = page["topics"]
        return [partition["partition_index"] for partition in found["partitions"]], page

    with topic(admin, "paged", 3):
        _, page = eventually(first_page, lambda found: found[0] == [0, 1])
        assert page["next_cursor"]["topic_name"] == "paged"
        assert page["next_cursor"]["partition_index"] == 2

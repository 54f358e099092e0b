"""kafka-python's admin client against three live nodes."""

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
    topic = NewTopic("twice", num_partitions=1, replication_factor=1)
    admin.create_topics([topic])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    admin.delete_topics(["twice"])


def test_partitions_are_added(admin):
    admin.create_topics([NewTopic("grows", num_partitions=1, replication_factor=1)])
    admin.create_partitions({"grows": NewPartitions(4)})
    eventually(lambda: partition_count(admin, "grows"), 4)
    admin.delete_topics(["grows"])


def test_a_config_is_altered_and_described(admin):
    admin.create_topics([NewTopic("configured", num_partitions=1, replication_factor=1)])
    resource = ConfigResource(
        ConfigResourceType.TOPIC, "configured", configs={"retention.ms": "1234"}
    )
    admin.alter_configs([resource], raise_on_unknown=False)

    def value():
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "configured")])
        return described["topic"]["configured"].get("retention.ms", {}).get("value")

    eventually(value, "1234")
    admin.delete_topics(["configured"])


def test_the_cluster_is_described(admin, nodes):
    def brokers():
        return {b["broker_id"]: b["port"] for b in admin.describe_cluster()["brokers"]}

    eventually(brokers, nodes.client_ports)
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"] == "test-cluster"
    assert cluster["controller_id"] in nodes.client_ports


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
    eventually(lambda: "finalized" in admin.describe_features()["metadata.version"], wanted=True)
    features = admin.describe_features()
    assert features["kraft.version"]["supported"] == (0, 1)
    version = features["metadata.version"]
    assert version["supported"] == (25, 30)
    assert version["finalized"] == (30, 30)
    assert version["finalized_epoch"] >= 0


def test_the_log_directories_hold_the_replicas(admin):
    admin.create_topics([NewTopic("kept", num_partitions=3, replication_factor=1)])

    def held():
        return sorted(
            partition["partition_index"]
            for broker in admin.describe_log_dirs()
            for directory in broker["log_dirs"]
            for topic in directory["topics"]
            if topic["name"] == "kept"
            for partition in topic["partitions"]
        )

    eventually(held, [0, 1, 2])
    admin.delete_topics(["kept"])


def test_topics_are_described_in_pages(admin):
    admin.create_topics([NewTopic("paged", num_partitions=3, replication_factor=1)])
    eventually(lambda: partition_count(admin, "paged"), 3)
    page = admin.describe_topic_partitions(["paged"], response_partition_limit=2)
    (topic,) = page["topics"]
    assert [partition["partition_index"] for partition in topic["partitions"]] == [0, 1]
    assert page["next_cursor"]["topic_name"] == "paged"
    assert page["next_cursor"]["partition_index"] == 2
    admin.delete_topics(["paged"])

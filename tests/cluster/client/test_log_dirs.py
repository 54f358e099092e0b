"""A live broker with two log directories: stock clients describe them and move replicas."""

import json
import subprocess
import warnings

import pytest

from cluster.systems.kafka.installation import find
from tests.cluster.client.nodes import Nodes, eventually
from tests.kafka_release import release

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
TOPIC = "kept"
RECORDS = 300
AT = TopicPartition(TOPIC, 0)


class OneNode(Nodes):
    """A node with two log directories, which outlives restarts of its process."""

    def __init__(self, folder):
        super().__init__(folder, count=1)
        self.paths = [str(self.node_folder(1) / name) for name in ("data", "more")]
        self.settings["log.dirs"] = ",".join(self.paths)

    def restart(self):
        assert self.stop(1) == 0
        self.start(1)
        self.wait_until_listening(1)
        self.wait_until_registered()


def described(admin):
    """Describe the replicas of the topic: directory and whether it is a future one."""
    return sorted(
        (directory["log_dir"], partition["is_future_key"])
        for broker in admin.describe_log_dirs()
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
        if topic["name"] == TOPIC
        for partition in topic["partitions"]
    )


def values(nodes):
    consumer = KafkaConsumer(bootstrap_servers=nodes.bootstrap, enable_auto_commit=False)
    consumer.assign([AT])
    consumer.seek(AT, 0)
    end, found = consumer.end_offsets([AT])[AT], []

    def position():
        for records in consumer.poll(timeout_ms=1_000).values():
            found.extend(record.value for record in records)
        return consumer.position(AT)

    eventually(position, end)
    consumer.close()
    return found


@pytest.fixture
def nodes(tmp_path):
    with OneNode(tmp_path) as started:
        started.wait_until_registered()
        yield started
        assert started.stderr(1) == ""


@pytest.fixture
def admin(nodes):
    client = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)
    client.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    eventually(lambda: len(described(client)), 1)
    yield client
    client.close()


def produce(nodes, sent):
    producer = KafkaProducer(bootstrap_servers=nodes.bootstrap, acks="all")
    for value in sent:
        producer.send(TOPIC, value, partition=0)
    producer.close()


def home_and_other(nodes, admin):
    ((home, is_future),) = described(admin)
    assert not is_future
    (other,) = [path for path in nodes.paths if path != home]
    return home, other


def test_kafka_python_moves_a_replica_under_its_producers_and_a_restart_finds_it(nodes, admin):
    sent = [b"%d" % number for number in range(RECORDS)]
    produce(nodes, sent[: RECORDS // 2])
    _, other = home_and_other(nodes, admin)
    admin.alter_replica_log_dirs({(TOPIC, 0, 1): other})
    produce(nodes, sent[RECORDS // 2 :])
    eventually(lambda: described(admin), [(other, False)])
    assert values(nodes) == sent
    nodes.restart()
    again = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)
    eventually(lambda: described(again), [(other, False)])
    again.close()
    assert values(nodes) == sent


def test_kafkas_own_tool_moves_a_replica_and_verifies_it(nodes, admin, tmp_path):
    kafka = find({"version": release()})
    sent = [b"%d" % number for number in range(RECORDS)]
    produce(nodes, sent)
    _, other = home_and_other(nodes, admin)
    moves = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [other]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [moves]}))

    def tool(verb):
        words = ("--bootstrap-server", nodes.bootstrap, "--reassignment-json-file", plan, verb)
        main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        command = [kafka.java, "-Xmx128m", "-cp", kafka.class_path, main, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert f"directory to {other} for replica" in tool("--execute")
    eventually(lambda: described(admin), [(other, False)])
    assert "completed successfully" in tool("--verify")
    assert values(nodes) == sent

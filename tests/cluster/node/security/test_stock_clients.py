"""kafka-python and librdkafka against quorums of three with secured listeners only."""

import contextlib
import gc
import subprocess
import sys
import time
import warnings

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as RdNewTopic

from tests.cluster.client.nodes import STEADY, TIMEOUT_S, Nodes, eventually
from tests.cluster.node.security.authority import Authority, secured

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import KafkaError, TopicAlreadyExistsError

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
KINDS = [
    pytest.param(("SSL", None), id="SSL", marks=pytest.mark.nightly),
    pytest.param(("SASL_PLAINTEXT", "PLAIN"), id="SASL_PLAINTEXT"),
    pytest.param(("SASL_SSL", "SCRAM-SHA-512"), id="SASL_SSL"),
]
"""The last two have the first one's handshake and both mechanisms."""


class Quorum:
    def __init__(self, nodes, protocol, mechanism, authority):
        self.nodes = nodes
        self.protocol = protocol
        self.mechanism = mechanism
        self.authority = authority

    def kafka_python_options(self, password="wonderland", ca_file=None):
        options = {"bootstrap_servers": self.nodes.bootstrap, "security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl_cafile"] = str(ca_file or self.authority.ca_file)
        if self.mechanism is not None:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = "alice"
            options["sasl_plain_password"] = password
        return options

    def librdkafka(self, password="wonderland", ca_file=None, user="alice", **more):
        options = {"security.protocol": self.protocol, "log_level": 0}
        if self.protocol.endswith("SSL"):
            options["ssl.ca.location"] = str(ca_file or self.authority.ca_file)
        if self.mechanism is not None:
            options["sasl.mechanism"] = self.mechanism
            options["sasl.username"] = user
            options["sasl.password"] = password
        return AdminClient({"bootstrap.servers": self.nodes.bootstrap, **options, **more})


@pytest.fixture(scope="module", params=KINDS)
def quorum(request, tmp_path_factory):
    protocol, mechanism = request.param
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "ca")
    settings = secured(protocol, authority, mechanism or "PLAIN")
    with Nodes(folder, **STEADY, **settings) as nodes:
        # kafka-python keeps the brokers that it saw first for five minutes, and asks none that it
        # sees as controller later (UnknownBrokerIdError).
        nodes.wait_until_registered()
        yield Quorum(nodes, protocol, mechanism, authority)
    with warnings.catch_warnings():  # kafka-python leaves sockets that it gave up to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def admin(quorum):
    client = KafkaAdminClient(**quorum.kafka_python_options())
    deadline = time.monotonic() + TIMEOUT_S
    while True:  # until the leader is the active controller, too
        with contextlib.suppress(RuntimeError, KafkaError):
            topic = NewTopic("first", num_partitions=1, replication_factor=1)
            with contextlib.suppress(TopicAlreadyExistsError):  # of a request with a lost answer
                assert client.create_topics([topic])["topics"][0]["error_code"] == 0
            break
        assert time.monotonic() < deadline, "no active controller"
        time.sleep(0.05)
    yield client
    client.close()


def test_kafka_python_creates_a_topic(admin):
    """There is a leader, so peers authenticate to each other, too."""
    created = admin.create_topics([NewTopic("secured", num_partitions=1, replication_factor=1)])
    assert created["topics"][0]["error_code"] == 0
    quorum = admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    assert partition["high_watermark"] > 0


def test_librdkafka_creates_a_topic(quorum, admin):
    client = quorum.librdkafka()
    topic = RdNewTopic("by-librdkafka", num_partitions=1, replication_factor=1)
    (future,) = client.create_topics([topic]).values()
    assert future.result(TIMEOUT_S) is None
    assert client.list_topics(timeout=TIMEOUT_S).cluster_id == "test-cluster"


def refused_by_kafka_python(**options):
    """In a process of its own: a client that could not bootstrap leaves sockets behind."""
    program = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from kafka.admin import KafkaAdminClient\n"
        "from kafka.errors import KafkaError\n"
        f"try: KafkaAdminClient(bootstrap_timeout_ms=1500, **{options!r})\n"
        "except KafkaError: sys.exit(42)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=600
    )
    assert ended.returncode == 42, ended.stderr.decode()


def refused_by_librdkafka(make, why):
    """Wait until the client says why; it gets no answer."""
    errors = []
    client = make(error_cb=errors.append)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1.5)

    def said():
        client.poll(0.1)
        return " ".join(str(error) for error in errors)

    eventually(said, lambda found: why in found)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1.5)


@pytest.mark.parametrize("quorum", KINDS[1:], indirect=True)
def test_a_wrong_password_is_refused(quorum):
    refused_by_kafka_python(**quorum.kafka_python_options(password="looking glass"))
    refused_by_librdkafka(
        lambda **more: quorum.librdkafka("looking glass", **more), "Authentication failed"
    )


@pytest.mark.parametrize("quorum", KINDS[::2], indirect=True)
def test_a_node_of_another_authority_is_not_trusted(quorum, tmp_path):
    other = Authority(tmp_path).ca_file
    refused_by_kafka_python(**quorum.kafka_python_options(ca_file=other))
    refused_by_librdkafka(lambda **more: quorum.librdkafka(ca_file=other, **more), "certificate")


@pytest.mark.parametrize("quorum", KINDS, indirect=True)
def test_a_client_without_security_is_refused(quorum):
    refused_by_kafka_python(bootstrap_servers=quorum.nodes.bootstrap)

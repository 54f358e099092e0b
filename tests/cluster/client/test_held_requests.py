"""Stock clients ask a broker whose controllers have just lost their leader, and notice nothing."""

import asyncio
import signal
import warnings

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic

from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import Outcome, Peer
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.client.nodes import TIMEOUT_S, Nodes, eventually, wait_until_listens

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
BROKER = 4
TIMEOUT_MS = round(TIMEOUT_S * 1000)
PATIENT = {
    "controller.quorum.election.timeout.ms": 1_000,
    "controller.quorum.fetch.timeout.ms": 2_000,
    "controller.quorum.request.timeout.ms": 2_000,
    "broker.session.timeout.ms": 60_000,
}
"""A busy machine deposes no leader beside those that are killed, and fences no broker."""


class Split(Nodes):
    """Three controllers, which clients do not know, and one broker."""

    def __init__(self, folder):
        super().__init__(folder, BROKER, **PATIENT)
        self.client_ports = {BROKER: self.client_ports[BROKER]}
        del self.controller_ports[BROKER]

    def properties(self, node):
        voters = ",".join(f"{i}@127.0.0.1:{p}" for i, p in self.controller_ports.items())
        is_broker = node == BROKER
        name = "CLIENT" if is_broker else "CONTROLLER"
        port = (self.client_ports if is_broker else self.controller_ports)[node]
        return {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": node,
            "cluster.id": "test-cluster",
            "listeners": f"{name}://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "metadata.log.dir": self.node_folder(node) / "data",
            "kraftprobe.trace.file": self.node_folder(node) / "trace.jsonl",
            **self.settings,
        }

    def __enter__(self):
        for node in (*self.controller_ports, BROKER):
            self.start(node)
        for node, port in (self.controller_ports | self.client_ports).items():
            wait_until_listens(self.processes[node], port, self.node_folder(node) / "stderr")
        self.wait_until_registered()
        return self

    def lose_the_leader(self):
        """Kill the active controller, and start the one that was killed before."""
        for node, process in self.processes.items():
            if process.poll() is not None:
                self.start(node)
        leader = self.leader()
        self.processes[leader].send_signal(signal.SIGKILL)
        self.processes[leader].wait()


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    with Split(tmp_path_factory.mktemp("split")) as running:
        yield running


def test_a_client_that_never_retries_is_answered_by_the_next_controller(split):
    async def body():
        network = TcpNetwork()
        client = Client(network, LoopClock(asyncio.get_running_loop()))
        broker = Peer(Endpoint(BROKER, "127.0.0.1", split.client_ports[BROKER]), TIMEOUT_MS)
        split.lose_the_leader()
        created, altered = await asyncio.gather(
            client.create_topic(broker, "own"),
            client.alter_config(broker, CLUSTER_RESOURCE, "k", "set", "v"),
        )
        network.close()
        return created.type, altered

    assert asyncio.run(body()) == ("ok", Outcome("ok", "v"))


def test_kafka_python_creates_a_topic_in_one_request(split):
    admin = KafkaAdminClient(bootstrap_servers=split.bootstrap, request_timeout_ms=TIMEOUT_MS)
    try:
        split.lose_the_leader()
        made = admin.create_topics([NewTopic("python", 1, 1)], timeout_ms=TIMEOUT_MS)
    finally:
        admin.close()
    assert [topic["error_code"] for topic in made["topics"]] == [0]


def test_librdkafka_creates_a_topic(split):
    admin = AdminClient({"bootstrap.servers": split.bootstrap, "log_level": 0})
    assert admin.list_topics(timeout=TIMEOUT_S).brokers
    split.lose_the_leader()
    made = admin.create_topics(
        [ConfluentTopic("c", 1, 1)], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S
    )
    assert made["c"].result(TIMEOUT_S) is None


def traced(split, node, *kinds):
    return sum(line["e"] in kinds for line in split.trace(node))


def test_the_nodes_say_what_they_are_in_a_line_each(split):
    split.lose_the_leader()
    controllers = list(split.controller_ports)
    eventually(lambda: sum(traced(split, node, "claim") for node in controllers) >= 2)
    # Whether a leader has claimed its epoch when the broker asks to be registered is a matter of time.
    early = "the broker is not registered yet, and tries on: not_controller"
    started, registered, unfenced, *rest = [
        line for line in split.said(BROKER) if early not in line
    ]
    where = f"CLIENT://127.0.0.1:{split.client_ports[BROKER]}"
    assert started == (
        f"node 4: broker of cluster test-cluster started, listening on {where}; "
        "whoever reaches CLIENT is not authenticated"
    )
    assert registered.startswith("node 4: the broker is registered with epoch ")
    assert (unfenced, rest) == ("node 4: the broker is unfenced", [])

    def unsaid():
        """What the controllers, which go on, have done and not said yet."""
        return [
            traced(split, node, "start", "claim", "renounce") - len(split.said(node))
            for node in controllers
        ]

    eventually(unsaid, [0, 0, 0])
    assert [split.stderr(node) for node in controllers] == [""] * 3
    assert split.stderr(BROKER) == ""

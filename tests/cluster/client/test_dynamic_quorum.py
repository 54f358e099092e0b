"""A quorum with voters in its log (KIP-853), over TCP: others' clients, and APIs 80 to 82."""

import uuid
import warnings

import pytest

from cluster.node.format import main as format_main
from cluster.node.protocol.apis import SERVED, ApiKey
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text
from tests.cluster.client.nodes import STEADY, Nodes, eventually
from tests.cluster.client.test_every_api import ELSEWHERE, until_done

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
VOTERS = {i: uuid.UUID(int=7_000 + i, version=4) for i in (1, 2, 3)}
JOINER = 4
PATIENCE_S = 600
BUSY = {*ELSEWHERE, "fenced_leader_epoch", "unknown_leader_epoch"}
"""Not now, or not here."""


class DynamicNodes(Nodes):
    """Voters 1 to 3, formatted with a bootstrap checkpoint, and one that may join."""

    def properties(self, node):
        properties = super().properties(node)
        del properties["controller.quorum.voters"]
        ports = self.controller_ports
        others = [f"127.0.0.1:{ports[i]}" for i in VOTERS if i != node]
        return {**properties, "controller.quorum.bootstrap.servers": ",".join(others)}

    def start(self, node):
        folder = self.node_folder(node)
        if not folder.exists():
            folder.mkdir(parents=True)
            config = folder / "format.properties"
            config.write_text("".join(f"{k}={v}\n" for k, v in self.properties(node).items()))
            listed = ",".join(
                f"{i}@127.0.0.1:{self.controller_ports[i]}:{uuid_to_text(directory)}"
                for i, directory in VOTERS.items()
            )
            options = ["--no-initial-controllers"]
            if node in VOTERS:
                options = ["--initial-controllers", listed]
            format_main(["--config", str(config), *options], standalone_mode=False)
        return super().start(node)

    def directory(self, node):
        text = (self.node_folder(node) / "data" / "meta.properties").read_text()
        lines = dict(line.split("=", 1) for line in text.splitlines())
        return uuid_from_text(lines["directory.id"])


@pytest.fixture(scope="module")
def quorum(tmp_path_factory):
    with DynamicNodes(tmp_path_factory.mktemp("dynamic"), 4, **STEADY) as nodes:
        nodes.wait_until_registered()
        yield nodes


def described(port):
    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    try:
        quorum = client.describe_metadata_quorum()
    finally:
        client.close()
    (partition,) = quorum["topics"][0]["partitions"]
    return partition, quorum["nodes"]


def ids(replicas):
    return [replica["replica_id"] for replica in replicas]


def test_kafka_python_describes_a_dynamic_quorum_whichever_broker_is_asked(quorum):
    for port in quorum.client_ports.values():
        partition, nodes = eventually(
            lambda port=port: described(port),
            lambda quorums: (
                quorums[0]["leader_id"] in VOTERS and JOINER in ids(quorums[0]["observers"])
            ),
        )
        directories = {
            voter["replica_id"]: uuid.UUID(str(voter["replica_directory_id"]))
            for voter in partition["current_voters"]
        }
        assert directories == VOTERS
        assert partition["high_watermark"] > 0
        ports = {node["node_id"]: node["listeners"][0]["port"] for node in nodes}
        assert ports == {i: quorum.controller_ports[i] for i in VOTERS}


@pytest.mark.parametrize("listener", ["client", "controller"])
@pytest.mark.parametrize(
    "version", sorted({SERVED[ApiKey.ADD_RAFT_VOTER].lowest, SERVED[ApiKey.ADD_RAFT_VOTER].highest})
)
def test_a_voter_is_added_updated_and_removed_in_each_version(quorum, listener, version):
    """Remove and Update have one version each; Add has two, and brokers pass both on."""
    removal = SERVED[ApiKey.REMOVE_RAFT_VOTER]
    assert (removal.lowest, removal.highest) == (0, 0)
    of_controllers = [quorum.controller_ports[i] for i in VOTERS]
    ports = of_controllers if listener == "controller" else quorum.client_ports.values()
    voter = {"voter_id": JOINER, "voter_directory_id": quorum.directory(JOINER)}
    end = {"name": "CONTROLLER", "host": "127.0.0.1", "port": quorum.controller_ports[JOINER]}
    voter |= {"cluster_id": "test-cluster", "timeout": 5_000, "listeners": [end]}
    levels = {"min_supported_version": 0, "max_supported_version": 1}

    def voters():
        return ids(described(quorum.client_ports[1])[0]["current_voters"])

    def done(ports, key, version, make=lambda: voter):
        return until_done(ports, key, version, make, BUSY, PATIENCE_S)

    added = done(ports, ApiKey.ADD_RAFT_VOTER, version)
    assert added <= {"duplicate_voter"}  # of an earlier attempt that timed out
    assert eventually(voters, lambda now: JOINER in now) == [1, 2, 3, JOINER]

    def update():
        epoch = described(quorum.client_ports[1])[0]["leader_epoch"]
        return {**voter, "current_leader_epoch": epoch, "k_raft_version_feature": levels}

    assert done(of_controllers, ApiKey.UPDATE_RAFT_VOTER, 0, update) == set()
    assert done(ports, ApiKey.REMOVE_RAFT_VOTER, 0) <= {"voter_not_found"}
    assert eventually(voters, lambda now: JOINER not in now) == [1, 2, 3]


def test_kraft_version_is_finalized_together_with_other_features(tmp_path):
    """A static quorum becomes a dynamic one, and keeps eligible leader replicas, by one request."""
    names = {"kraft.version": 1, "eligible.leader.replicas.version": 1}
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": 1}
        for name, level in names.items()
    ]
    request = {"timeout": 5_000, "feature_updates": updates}
    with Nodes(tmp_path, 1) as nodes:
        port = nodes.client_ports[1]
        nodes.wait_until_registered()
        found = until_done([port], ApiKey.UPDATE_FEATURES, 2, lambda: request)
        assert found == set()

        def finalized():
            client = KafkaAdminClient(bootstrap_servers=nodes.bootstrap)
            try:
                features = client.describe_features()
            finally:
                client.close()
            return {name: features[name].get("finalized") for name in names}

        eventually(finalized, lambda found: found == dict.fromkeys(names, (1, 1)))

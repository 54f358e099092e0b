"""Every API at its lowest and its highest version, over TCP, answered by a live quorum.

The requests are real ones with a known answer, encoded and decoded by kio.
"""

import time
import uuid

import pytest

from cluster.node.protocol.apis import LISTENER_APIS, SERVED, ApiKey, ListenerType
from cluster.node.protocol.data_schema import TOPIC_IDS_FROM
from tests.conformance.exchanges import wire

pytestmark = pytest.mark.cluster

DIRECTORY = uuid.UUID(int=10_000)
CLUSTER = {"cluster_id": "test-cluster"}
STRANGER = {**CLUSTER, "voter_id": 9, "voter_directory_id": DIRECTORY}
BROKER = {"broker_id": 9, "broker_epoch": 1}
UNHEARD_OF = {"name": "unheard-of"}
TOPIC_IDS = {"__cluster_metadata": uuid.UUID(int=1)}
LISTENERS = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]


def of_partition(field, /, row, topic="__cluster_metadata", **message):
    """One partition of one topic."""
    names = {field: topic, "topic_id": TOPIC_IDS.get(topic, DIRECTORY)}
    return {**message, "topics": [{**names, "partitions": [row]}]}


def fetch(topic):
    row = {"partition_max_bytes": 1 << 20, "last_fetched_epoch": 0, "current_leader_epoch": 0}
    replica = 9 if topic.startswith("__") else -1
    state = {"replica_id": replica, "replica_state": {"replica_id": replica}, "session_epoch": -1}
    return of_partition("topic", row, topic, max_bytes=1 << 20, **CLUSTER, **state)


BODIES = {
    ApiKey.FETCH: fetch("__cluster_metadata"),
    ApiKey.METADATA: {"topics": [UNHEARD_OF]},
    ApiKey.API_VERSIONS: {"client_software_name": "test", "client_software_version": "1"},
    ApiKey.CREATE_TOPICS: {
        "topics": [{"name": "checked-only", "num_partitions": 1, "replication_factor": 1}],
        "validate_only": True,
    },
    ApiKey.DELETE_TOPICS: {"topics": [UNHEARD_OF], "topic_names": ["unheard-of"]},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"topics": [UNHEARD_OF]},
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 4}]},
    ApiKey.CREATE_PARTITIONS: {"topics": [{**UNHEARD_OF, "count": 2}], "validate_only": True},
    ApiKey.ELECT_LEADERS: {"topic_partitions": [{"topic": "unheard-of", "partitions": [0]}]},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resources": [{"resource_type": 4, "configs": [{"name": "every.api", "value": "1"}]}],
        "validate_only": True,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: of_partition("name", {}, "unheard-of"),
    ApiKey.VOTE: of_partition("topic_name", {"replica_id": 9}, voter_id=1, **CLUSTER),
    ApiKey.BEGIN_QUORUM_EPOCH: of_partition("topic_name", {"leader_id": 9}, voter_id=1, **CLUSTER),
    ApiKey.END_QUORUM_EPOCH: of_partition("topic_name", {"leader_id": 9}, **CLUSTER),
    ApiKey.DESCRIBE_QUORUM: of_partition("topic_name", {}),
    ApiKey.FETCH_SNAPSHOT: of_partition(
        "name", {"snapshot_id": {"end_offset": 10**6, "epoch": 1}}, replica_id=9, **CLUSTER
    ),
    ApiKey.ALTER_PARTITION: BROKER,
    ApiKey.UPDATE_FEATURES: {"validate_only": True},
    ApiKey.ENVELOPE: {"client_host_address": bytes(4)},
    ApiKey.BROKER_REGISTRATION: {"broker_id": 9, "cluster_id": "x", "incarnation_id": DIRECTORY},
    ApiKey.BROKER_HEARTBEAT: {**BROKER, "current_metadata_offset": 1},
    ApiKey.UNREGISTER_BROKER: BROKER,
    ApiKey.ALLOCATE_PRODUCER_IDS: BROKER,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: BROKER,
    ApiKey.CONTROLLER_REGISTRATION: {"controller_id": -1, "incarnation_id": DIRECTORY},
    ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"x"},
    ApiKey.ADD_RAFT_VOTER: {**STRANGER, "timeout": 5_000, "listeners": LISTENERS},
    ApiKey.REMOVE_RAFT_VOTER: STRANGER,
    ApiKey.UPDATE_RAFT_VOTER: {
        **STRANGER,
        "listeners": LISTENERS,
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    },
    ApiKey.PRODUCE: {
        "acks": 1,
        "timeout": 5_000,
        "topic_data": [{**UNHEARD_OF, "topic_id": DIRECTORY, "partition_data": [{"records": b""}]}],
    },
    ApiKey.LIST_OFFSETS: of_partition("name", {"timestamp": -1}, "unheard-of", replica_id=-1),
    ApiKey.DELETE_RECORDS: of_partition("name", {}, "unheard-of"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: of_partition("topic", {}, "unheard-of", replica_id=-1),
}
"""A request for APIs to which no zero will do; none changes anything."""

EXPECTED = {
    ApiKey.VOTE: "invalid_request",  # its log ends in the epoch that it stands in
    ApiKey.BEGIN_QUORUM_EPOCH: "fenced_leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "fenced_leader_epoch",
    ApiKey.FETCH: "fenced_leader_epoch",
    ApiKey.FETCH_SNAPSHOT: "fenced_leader_epoch",
    ApiKey.ALTER_PARTITION: "stale_broker_epoch",
    ApiKey.ENVELOPE: "principal_deserialization_failure",
    ApiKey.BROKER_REGISTRATION: "inconsistent_cluster_id",
    ApiKey.BROKER_HEARTBEAT: "stale_broker_epoch",
    ApiKey.UNREGISTER_BROKER: "broker_id_not_registered",
    ApiKey.ALLOCATE_PRODUCER_IDS: "stale_broker_epoch",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "stale_broker_epoch",
    ApiKey.CONTROLLER_REGISTRATION: "invalid_request",
    ApiKey.SASL_HANDSHAKE: "illegal_sasl_state",  # these listeners ask for no proof
    ApiKey.SASL_AUTHENTICATE: "illegal_sasl_state",
    ApiKey.ADD_RAFT_VOTER: "unsupported_version",
    ApiKey.REMOVE_RAFT_VOTER: "unsupported_version",
    ApiKey.UPDATE_RAFT_VOTER: "fenced_leader_epoch",
}
"""The error of the answer, where it is not that of an unheard-of topic."""

ELSEWHERE = {"not_controller", "not_leader_or_follower", "request_timed_out"}
"""Errors of a node that is not the leader, or of a quorum without a leader."""

ENDS = [
    (listener, ApiKey(key), version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in sorted({versions.lowest, versions.highest})
]


def body_of(listener, key):
    if listener is ListenerType.BROKER and key is ApiKey.FETCH:
        return fetch("unheard-of")
    if listener is ListenerType.CONTROLLER and key is ApiKey.DESCRIBE_CLUSTER:
        return {"endpoint_type": 2}
    return BODIES.get(key, {})


def error_of(listener, key, version):
    match listener, key, version:
        case ListenerType.CONTROLLER, ApiKey.DESCRIBE_CLUSTER, 0:
            return "mismatched_endpoint_type"  # version 0 can only ask for brokers
        case ListenerType.CONTROLLER, ApiKey.FETCH, 4:
            return "invalid_request"  # it cannot name the epochs that a replica must
        case ListenerType.BROKER, ApiKey.FETCH | ApiKey.PRODUCE, _ if version >= TOPIC_IDS_FROM:
            return "unknown_topic_id"
        case ListenerType.BROKER, ApiKey.FETCH, _:
            return "unknown_topic_or_partition"
    asks_of_topic = "unheard-of" in str(BODIES.get(key))
    return EXPECTED.get(key, "unknown_topic_or_partition" if asks_of_topic else None)


def errors(value):
    """Every error code anywhere in an answer, but `none`."""
    if isinstance(value, list):
        return {error for item in value for error in errors(item)}
    if isinstance(value, dict):
        here = {value["error_code"]} - {"none"} if "error_code" in value else set()
        return here.union(*map(errors, value.values()))
    return set()


def test_there_is_a_request_for_every_api_with_an_error():
    assert set(EXPECTED) <= set(BODIES) <= set(SERVED)


def until_done(ports, key, version, make, elsewhere=frozenset(ELSEWHERE), patience_s=300):
    """Errors of the first port that answers with none of `elsewhere`, asked again and again."""
    deadline = time.monotonic() + patience_s
    while True:
        for port in ports:
            answer = wire.ask(("127.0.0.1", port), key, version, make())
            assert "bytes left" not in answer
            if not errors(answer) & elsewhere:
                return errors(answer)
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


@pytest.mark.parametrize(("listener", "key", "version"), ENDS, ids=lambda v: getattr(v, "name", v))
def test_an_api_is_answered_in_its_lowest_and_highest_version(nodes, listener, key, version):
    ports = nodes.client_ports if listener is ListenerType.BROKER else nodes.controller_ports
    found = until_done(ports.values(), key, version, lambda: body_of(listener, key))
    assert found == {error_of(listener, key, version)} - {None}

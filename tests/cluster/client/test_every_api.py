"""Every API at its lowest and its highest version, over TCP, answered by a live quorum.

The requests are real ones with a known answer. Encoding is the codec's, which kafka-python judges
in `tests/cluster/node/protocol/test_conformance.py`; here the whole node answers.
"""

import dataclasses
import datetime as dt
import io
import socket
import struct
import time
import uuid

import pytest
from kio.schema.delete_topics.v1.request import DeleteTopicsRequest as DeleteTopicsV1
from kio.schema.fetch.v4 import request as fetch_v4
from kio.serial import entity_reader, entity_writer

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.kraft.quorum.voters import VoterListener
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.protocol import data_messages as data
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import (
    DATA_APIS,
    LISTENER_APIS,
    SERVED,
    ApiKey,
    ListenerType,
    response_class,
)
from cluster.node.protocol.codec import write_request
from cluster.node.wire.bounds import bound_frame
from tests.cluster.client import data_samples

pytestmark = pytest.mark.cluster

CLUSTER_ID = "test-cluster"
UNKNOWN_NODE = 9
SOON = dt.timedelta(seconds=5)
DIRECTORY = uuid.UUID(int=10_000)
LISTENERS = (VoterListener("CONTROLLER", "127.0.0.1", 1),)


def _topics(*names):
    return tuple(m.MetadataRequestTopic(name=name, topic_id=None) for name in names) or None


def _fetch_v4():
    partition = fetch_v4.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = fetch_v4.FetchTopic(topic=raft.METADATA_TOPIC, partitions=(partition,))
    return fetch_v4.FetchRequest(
        replica_id=UNKNOWN_NODE,
        max_wait=dt.timedelta(0),
        min_bytes=0,
        topics=(topic,),
        isolation_level=0,
    )


SAMPLES = {
    ApiKey.FETCH: raft.FetchRequest(CLUSTER_ID, UNKNOWN_NODE, DIRECTORY, 0, 0, 0, 0, 1 << 20),
    ApiKey.METADATA: m.MetadataRequest(
        topics=_topics("unheard-of"), include_topic_authorized_operations=False
    ),
    ApiKey.API_VERSIONS: m.ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    ),
    ApiKey.CREATE_TOPICS: m.CreateTopicsRequest(
        topics=(
            m.CreatableTopic(
                name="checked-only",
                num_partitions=1,
                replication_factor=1,
                assignments=(),
                configs=(),
            ),
        ),
        timeout=SOON,
        validate_only=True,
    ),
    ApiKey.DELETE_TOPICS: m.DeleteTopicsRequest(
        topics=(m.DeleteTopicState(name="unheard-of", topic_id=None),), timeout=SOON
    ),
    ApiKey.DESCRIBE_LOG_DIRS: m.DescribeLogDirsRequest(topics=None),
    ApiKey.ALTER_REPLICA_LOG_DIRS: data.AlterReplicaLogDirsRequest(dirs=()),
    ApiKey.DESCRIBE_PRODUCERS: data.DescribeProducersRequest(topics=()),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: m.DescribeTopicPartitionsRequest(
        topics=(m.DescribeTopicPartitionsRequestTopic(name="unheard-of"),)
    ),
    ApiKey.DESCRIBE_CONFIGS: m.DescribeConfigsRequest(
        resources=(
            m.DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None),
        )
    ),
    ApiKey.CREATE_PARTITIONS: m.CreatePartitionsRequest(
        topics=(m.CreatePartitionsTopic(name="unheard-of", count=2, assignments=None),),
        timeout=SOON,
        validate_only=True,
    ),
    ApiKey.ELECT_LEADERS: m.ElectLeadersRequest(
        election_type=0,
        topic_partitions=(m.ElectLeadersTopicPartitions(topic="unheard-of", partitions=(0,)),),
        timeout=SOON,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: m.IncrementalAlterConfigsRequest(
        resources=(
            m.AlterConfigsResource(
                resource_type=4,
                resource_name="",
                configs=(m.AlterableConfig(name="every.api", config_operation=0, value="1"),),
            ),
        ),
        validate_only=True,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: m.ListConfigResourcesRequest(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: m.AlterPartitionReassignmentsRequest(
        timeout=SOON,
        topics=(
            m.ReassignableTopic(
                name="unheard-of",
                partitions=(m.ReassignablePartition(partition_index=0, replicas=None),),
            ),
        ),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: m.ListPartitionReassignmentsRequest(
        timeout=SOON, topics=None
    ),
    ApiKey.VOTE: raft.VoteRequest(
        CLUSTER_ID, 0, UNKNOWN_NODE, DIRECTORY, 1, uuid.UUID(int=0), 0, 0, pre_vote=False
    ),
    ApiKey.BEGIN_QUORUM_EPOCH: raft.BeginQuorumEpochRequest(
        CLUSTER_ID, 1, uuid.UUID(int=0), UNKNOWN_NODE, 0, None
    ),
    ApiKey.END_QUORUM_EPOCH: raft.EndQuorumEpochRequest(CLUSTER_ID, UNKNOWN_NODE, 0, (), None),
    ApiKey.DESCRIBE_QUORUM: raft.DescribeQuorumRequest(),
    ApiKey.FETCH_SNAPSHOT: raft.FetchSnapshotRequest(
        CLUSTER_ID, UNKNOWN_NODE, DIRECTORY, 0, OffsetAndEpoch(10**6, 1), 0, 1 << 20
    ),
    ApiKey.DESCRIBE_CLUSTER: m.DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=False
    ),
    ApiKey.ALTER_PARTITION: m.AlterPartitionRequest(
        broker_id=UNKNOWN_NODE, broker_epoch=1, topics=()
    ),
    ApiKey.UPDATE_FEATURES: m.UpdateFeaturesRequest(
        timeout=SOON, feature_updates=(), validate_only=True
    ),
    ApiKey.ENVELOPE: m.EnvelopeRequest(
        request_data=b"", request_principal=None, client_host_address=bytes(4)
    ),
    ApiKey.BROKER_REGISTRATION: m.BrokerRegistrationRequest(
        broker_id=UNKNOWN_NODE,
        cluster_id="another-cluster",
        incarnation_id=DIRECTORY,
        listeners=(),
        features=(),
        rack=None,
    ),
    ApiKey.BROKER_HEARTBEAT: m.BrokerHeartbeatRequest(
        broker_id=UNKNOWN_NODE,
        broker_epoch=1,
        current_metadata_offset=1,
        want_fence=False,
        want_shut_down=False,
    ),
    ApiKey.UNREGISTER_BROKER: m.UnregisterBrokerRequest(broker_id=UNKNOWN_NODE),
    ApiKey.ALLOCATE_PRODUCER_IDS: m.AllocateProducerIdsRequest(
        broker_id=UNKNOWN_NODE, broker_epoch=1
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: m.AssignReplicasToDirsRequest(
        broker_id=UNKNOWN_NODE, broker_epoch=1, directories=()
    ),
    ApiKey.CONTROLLER_REGISTRATION: m.ControllerRegistrationRequest(
        controller_id=-1,
        incarnation_id=DIRECTORY,
        zk_migration_ready=False,
        listeners=(),
        features=(),
    ),
    ApiKey.SASL_HANDSHAKE: m.SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: m.SaslAuthenticateRequest(auth_bytes=b"x"),
    ApiKey.ADD_RAFT_VOTER: AddVoterRequest(CLUSTER_ID, 5_000, UNKNOWN_NODE, DIRECTORY, LISTENERS),
    ApiKey.REMOVE_RAFT_VOTER: RemoveVoterRequest(CLUSTER_ID, UNKNOWN_NODE, DIRECTORY),
    ApiKey.UPDATE_RAFT_VOTER: UpdateVoterRequest(
        CLUSTER_ID, 0, UNKNOWN_NODE, DIRECTORY, LISTENERS, 0, 1
    ),
}
"""A request for every API, which changes nothing."""

OLD = {
    (ApiKey.FETCH, 4): _fetch_v4(),
    (ApiKey.DELETE_TOPICS, 1): DeleteTopicsV1(topic_names=("unheard-of",), timeout=SOON),
}
"""Requests of versions that cannot say what the highest one says, as kio's own entities."""

FOR_CONTROLLERS = m.DescribeClusterRequest(
    include_cluster_authorized_operations=False, include_fenced_brokers=False, endpoint_type=2
)

UNHEARD_OF = {ErrorCode.unknown_topic_or_partition}
EXPECTED = {
    ApiKey.METADATA: UNHEARD_OF,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: UNHEARD_OF,
    ApiKey.DELETE_TOPICS: UNHEARD_OF,
    ApiKey.CREATE_PARTITIONS: UNHEARD_OF,
    ApiKey.ELECT_LEADERS: UNHEARD_OF,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: UNHEARD_OF,
    ApiKey.VOTE: {ErrorCode.invalid_request},  # its log ends in the epoch that it stands in
    ApiKey.BEGIN_QUORUM_EPOCH: {ErrorCode.fenced_leader_epoch},
    ApiKey.END_QUORUM_EPOCH: {ErrorCode.fenced_leader_epoch},
    ApiKey.FETCH: {ErrorCode.fenced_leader_epoch},
    ApiKey.FETCH_SNAPSHOT: {ErrorCode.fenced_leader_epoch},
    ApiKey.ALTER_PARTITION: {ErrorCode.stale_broker_epoch},
    ApiKey.ENVELOPE: {ErrorCode.principal_deserialization_failure},
    ApiKey.BROKER_REGISTRATION: {ErrorCode.inconsistent_cluster_id},
    ApiKey.BROKER_HEARTBEAT: {ErrorCode.stale_broker_epoch},
    ApiKey.UNREGISTER_BROKER: {ErrorCode.broker_id_not_registered},
    ApiKey.ALLOCATE_PRODUCER_IDS: {ErrorCode.stale_broker_epoch},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {ErrorCode.stale_broker_epoch},
    ApiKey.CONTROLLER_REGISTRATION: {ErrorCode.invalid_request},
    ApiKey.SASL_HANDSHAKE: {ErrorCode.illegal_sasl_state},  # these listeners ask for no proof
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.illegal_sasl_state},
    ApiKey.ADD_RAFT_VOTER: {ErrorCode.unsupported_version},
    ApiKey.REMOVE_RAFT_VOTER: {ErrorCode.unsupported_version},
    ApiKey.UPDATE_RAFT_VOTER: {ErrorCode.fenced_leader_epoch},
}
"""All errors of the answer; none where an API is not listed."""

ELSEWHERE = {
    ErrorCode.not_controller,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
}
"""Errors of a node that is not the leader, or of a quorum without a leader."""

ENDS = [
    (listener, ApiKey(key), version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in sorted({versions.lowest, versions.highest})
]


def is_of_data(listener, key):
    return listener is ListenerType.BROKER and key in DATA_APIS


def request(listener, key, version):
    if is_of_data(listener, key):
        return write_request(data_samples.sample(key, version), version, 9, "test")
    old = OLD.get((key, version))
    if old is not None:
        body = io.BytesIO()
        entity_writer(type(old))(body, old)
        header = struct.pack(">hhih", key, version, 9, 4) + b"test"
        return struct.pack(">i", len(header) + len(body.getvalue())) + header + body.getvalue()
    sample = SAMPLES[key]
    if key is ApiKey.DESCRIBE_CLUSTER and version and listener is ListenerType.CONTROLLER:
        sample = FOR_CONTROLLERS
    return write_request(sample, version, 9, "test")


def ask(port, frame):
    """Send one frame; returns the body of the answer after its correlation id."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(frame)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    assert len(answer) == size
    assert answer[:4] == struct.pack(">i", 9)
    return answer


def decoded(answer, key, version):
    """The answer as kio reads it; nothing may be left of it."""
    entity = response_class(key, version)
    # kio alone cannot read that there is no time (-1).
    answer = bound_frame(answer, (entity.__header_schema__, entity), max_elements=1_000)
    _, start = entity_reader(entity.__header_schema__)(answer, 0)
    body, size = entity_reader(entity)(answer, start)
    assert start + size == len(answer)
    return body


def errors(value):
    """Every error code anywhere in an answer, but `none`."""
    if isinstance(value, ErrorCode):
        return {value} - {ErrorCode.none}
    if isinstance(value, tuple):
        return {error for item in value for error in errors(item)}
    if dataclasses.is_dataclass(value):
        return {e for f in dataclasses.fields(value) for e in errors(getattr(value, f.name))}
    return set()


def test_there_is_a_request_for_every_api():
    assert set(SAMPLES) | set(DATA_APIS) == set(SERVED)
    assert set(EXPECTED) <= set(SERVED)


@pytest.mark.parametrize(("listener", "key", "version"), ENDS, ids=lambda v: getattr(v, "name", v))
def test_an_api_is_answered_in_its_lowest_and_highest_version(nodes, listener, key, version):
    ports = nodes.client_ports if listener is ListenerType.BROKER else nodes.controller_ports
    frame = request(listener, key, version)
    deadline = time.monotonic() + 300
    while True:
        for port in ports.values():
            answer = decoded(ask(port, frame), key, version)
            found = errors(answer)
            if not found & ELSEWHERE:
                break
        if not found & ELSEWHERE or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    expected = EXPECTED.get(key, set())
    if is_of_data(listener, key):
        expected = data_samples.expected(key, version)
    elif (key, version) == (ApiKey.FETCH, 4):
        expected = {ErrorCode.invalid_request}  # it cannot name the epochs that a replica must
    if (listener, key, version) == (ListenerType.CONTROLLER, ApiKey.DESCRIBE_CLUSTER, 0):
        expected = {ErrorCode.mismatched_endpoint_type}  # version 0 can only ask for brokers
    assert found == expected, answer

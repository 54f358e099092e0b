import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.fetch_snapshot.v1 import request as snapshot_v1
from kio.schema.vote.v2 import request as vote_v2
from kio.schema.vote.v2 import response as vote_response

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as m
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.types import METADATA_TOPIC, OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import LISTENER_APIS, SERVED, SPOKEN, ApiKey, ListenerType
from cluster.node.protocol.codec import (
    Request,
    UnwritableError,
    api_key_of,
    read_request,
    read_response,
    write_request,
    write_response,
)
from cluster.node.wire.bounds import MalformedError
from tests.kio_bytes import request_frame

SERVES = LISTENER_APIS[ListenerType.CONTROLLER]

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
positive = st.integers(0, 2**31 - 1)
directories = st.just(m.NO_DIRECTORY) | st.uuids()
clusters = st.none() | st.text(max_size=5)
errors = st.sampled_from(ErrorCode)
hosts = st.text(min_size=1, max_size=8)
positions = st.builds(OffsetAndEpoch, st.integers(0, 2**63 - 1), positive)


def endpoints_of(leader_id):
    return st.none() | st.builds(Endpoint, st.just(leader_id), hosts, st.integers(1, 65535))


int16 = st.integers(-(2**15), 2**15 - 1)
ports = st.integers(0, 65535)


def some(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


replicas = some(st.builds(m.ReplicaDescription, int32, directories, int64, int64, int64))
FIELDS = {
    **dict.fromkeys(("replica_id", "voter_id", "leader_id"), int32),
    **dict.fromkeys(("replica_epoch", "leader_epoch", "current_leader_epoch"), int32),
    **dict.fromkeys(("last_offset_epoch", "last_fetched_epoch", "max_wait_ms"), int32),
    **dict.fromkeys(("last_offset", "fetch_offset", "high_watermark"), int64),
    **dict.fromkeys(("log_start_offset", "position", "size"), int64),
    **dict.fromkeys(("replica_directory_id", "voter_directory_id"), directories),
    **dict.fromkeys(("timeout_ms", "max_bytes"), positive),
    **dict.fromkeys(("min_kraft_version", "max_kraft_version"), int16),
    **dict.fromkeys(("pre_vote", "vote_granted", "ack_when_committed"), st.booleans()),
    **dict.fromkeys(("voters", "observers"), replicas),
    "cluster_id": clusters,
    "error": errors,
    "message": st.none() | st.text(max_size=5),
    "records": st.binary(max_size=50),
    "listeners": some(st.builds(VoterListener, hosts, hosts, ports)),
    "nodes": some(st.builds(Endpoint, int32, hosts, ports)),
    "preferred_candidates": some(st.builds(m.ReplicaKey, int32, directories)),
}


def message_of(cls):
    """A message; with the endpoint of its leader, if it has one, as the wire has no other."""
    names = {field.name for field in dataclasses.fields(cls)}
    fields = {name: FIELDS[name] for name in names & set(FIELDS)}
    if cls is m.FetchResponse:
        fields |= dict.fromkeys(("diverging_epoch", "snapshot_id"), st.none() | positions)
    elif "snapshot_id" in names:
        fields["snapshot_id"] = positions
    if "leader_endpoint" not in names:
        return st.builds(cls, **fields)
    return positive.flatmap(
        lambda leader: st.builds(
            cls, **fields | {"leader_id": st.just(leader), "leader_endpoint": endpoints_of(leader)}
        )
    )


REQUESTS = [
    *map(message_of, (m.VoteRequest, m.BeginQuorumEpochRequest, m.EndQuorumEpochRequest)),
    *map(message_of, (m.FetchRequest, m.FetchSnapshotRequest, m.DescribeQuorumRequest)),
    *map(message_of, (m.AddVoterRequest, m.RemoveVoterRequest, m.UpdateVoterRequest)),
]
none = st.just(ErrorCode.none)
RESPONSES = [
    *map(message_of, (m.VoteResponse, m.BeginQuorumEpochResponse, m.EndQuorumEpochResponse)),
    *map(message_of, (m.FetchResponse, m.FetchSnapshotResponse, m.DescribeQuorumResponse)),
    *map(message_of, (m.AddVoterResponse, m.RemoveVoterResponse)),
    message_of(m.UpdateVoterResponse).filter(
        lambda r: r.leader_endpoint is None or r.leader_endpoint.host
    ),
]
KEYS = [
    ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
]  # fmt: skip


def received(message, version):
    return read_request(write_request(message, version, 5, "raft-client-1")[4:], SERVES)


def answer_to(key, version, response):
    request = received_any(key, version)
    return read_response(write_response(request, response)[4:], key, version)


def received_any(key, version):
    return Request(key, version, 5, None, None)


@pytest.mark.parametrize("messages", REQUESTS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_request_survives_the_wire_in_its_highest_version(messages, data):
    message = data.draw(messages)
    key = api_key_of(message)
    request = received(message, SERVED[key].highest)
    assert request.message == message
    assert (request.key, request.correlation_id, request.client_id) == (key, 5, "raft-client-1")


@pytest.mark.parametrize(("key", "responses"), list(zip(KEYS, RESPONSES, strict=True)))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_response_survives_the_wire_in_its_highest_version(key, responses, data):
    response = data.draw(responses)
    assert answer_to(key, SERVED[key].highest, response) == response


WITH_TOP_LEVEL = [pair for pair in zip(KEYS, RESPONSES, strict=True) if pair[0] < 80]


@pytest.mark.parametrize(("key", "responses"), WITH_TOP_LEVEL)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_top_level_error_is_all_that_its_response_says(key, responses, data):
    response = data.draw(responses)
    refused = dataclasses.replace(response, top_level_error=ErrorCode.inconsistent_cluster_id)
    got = answer_to(key, SERVED[key].highest, refused)
    assert got.top_level_error is ErrorCode.inconsistent_cluster_id
    assert got.leader_id == m.NO_NODE


@pytest.mark.parametrize(
    ("messages", "version"),
    [
        (s, version)
        for s, k in zip(REQUESTS, KEYS, strict=True)
        for version in range(SPOKEN[k].lowest, SPOKEN[k].highest)
    ],
)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_request_of_an_older_version_loses_only_what_that_version_lacks(messages, version, data):
    message = data.draw(messages)
    if getattr(message, "pre_vote", False):
        with pytest.raises(UnwritableError, match="pre_vote"):
            write_request(message, version, 5, "c")
        return
    got = received(message, version).message
    for field in dataclasses.fields(message):
        value, default = getattr(got, field.name), LOST.get(field.name)
        if field.name == "preferred_candidates":
            assert [c.id for c in value] == [c.id for c in message.preferred_candidates]
        else:
            assert value == getattr(message, field.name) or value == default


LOST = {
    "ack_when_committed": True,
    "replica_directory_id": m.NO_DIRECTORY,
    "voter_directory_id": m.NO_DIRECTORY,
    "voter_id": m.NO_NODE,
    "leader_endpoint": None,
    "high_watermark": m.MAX_OFFSET,
}


def vote(*indices):
    partitions = (
        vote_v2.PartitionData(
            partition_index=i, replica_epoch=1, replica_id=1, replica_directory_id=None,
            voter_directory_id=None, last_offset_epoch=0, last_offset=0, pre_vote=False,
        )
        for i in indices
    )  # fmt: skip
    topic = vote_v2.TopicData(topic_name=METADATA_TOPIC, partitions=tuple(partitions))
    return vote_v2.VoteRequest(topics=(topic,))


def fetch_snapshot(name, partition):
    p = snapshot_v1.PartitionSnapshot(
        partition=partition,
        current_leader_epoch=1,
        snapshot_id=snapshot_v1.SnapshotId(end_offset=1, epoch=1),
        position=0,
    )
    return snapshot_v1.FetchSnapshotRequest(
        topics=(snapshot_v1.TopicSnapshot(name=name, partitions=(p,)),)
    )


@pytest.mark.parametrize(
    "request_", [vote(0, 0), vote(), fetch_snapshot("other", 0), fetch_snapshot(METADATA_TOPIC, 1)]
)
def test_a_request_about_another_partition_is_refused_at_the_top(request_):
    request = read_request(request_frame(request_), SERVES)
    assert request.message is None
    frame = write_response(request, request.refusal)
    got = read_response(frame[4:], request.key, request.version)
    assert got.top_level_error is ErrorCode.invalid_request


def test_a_response_about_two_partitions_is_malformed():
    partition = vote_response.PartitionData(
        partition_index=0, error_code=ErrorCode.none, leader_id=1, leader_epoch=1, vote_granted=True
    )
    topic = vote_response.TopicData(topic_name=METADATA_TOPIC, partitions=(partition, partition))
    entity = vote_response.VoteResponse(error_code=ErrorCode.none, topics=(topic,))
    with pytest.raises(MalformedError, match="one partition"):
        read_response(write_response(received_any(ApiKey.VOTE, 2), entity)[4:], ApiKey.VOTE, 2)

"""Raft's messages on the wire: how each flat class maps to kio's of its API.

The mappings know the highest version only, which peers of ours always speak; other versions go
through `cluster.node.protocol.convert` on the way.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import replace
from typing import Any, Final, Literal

from kio.index import load_payload_module
from kio.static.constants import EntityType

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as m
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.types import METADATA_TOPIC
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import SERVED, ApiKey
from cluster.node.protocol.convert import ConversionError
from cluster.node.protocol.raft_schema import (
    CONTROLLER_LISTENER,
    INTERVAL,
    Form,
    Mapping,
    RaftCodec,
    Refused,
    array,
    directory,
    position,
    reachable,
    with_defaults,
)


def schema(key: ApiKey, kind: Literal["request", "response"]) -> Any:
    """Return kio's module of the highest version; Any, so that plain ints pass for its i32."""
    entity = EntityType.request if kind == "request" else EntityType.response
    return load_payload_module(int(key), SERVED[key].highest, entity)  # type: ignore[arg-type]  # the literals of both entity types are not exported


_LEADER: Final = {
    "leader_id": "current_leader.leader_id",
    "leader_epoch": "current_leader.leader_epoch",
}


def _codec(key: ApiKey, request: Mapping, response: Mapping) -> RaftCodec:
    return RaftCodec(key, request.flat, request.write, request.read, response.write, response.read)


# -- elections: Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54) ----------------------------

_vote = schema(ApiKey.VOTE, "request").VoteRequest
_vote_answer = schema(ApiKey.VOTE, "response").VoteResponse
_begin = schema(ApiKey.BEGIN_QUORUM_EPOCH, "request").BeginQuorumEpochRequest
_begin_answer = schema(ApiKey.BEGIN_QUORUM_EPOCH, "response").BeginQuorumEpochResponse
_end = schema(ApiKey.END_QUORUM_EPOCH, "request")
_end_answer = schema(ApiKey.END_QUORUM_EPOCH, "response").EndQuorumEpochResponse

_CANDIDATES: Final = array(
    _end.ReplicaInfo,
    lambda key: {"candidate_id": key.id, "candidate_directory_id": key.directory_id},
    lambda info: m.ReplicaKey(info.candidate_id, directory(info.candidate_directory_id)),
)
_VOTE: Final = _codec(
    ApiKey.VOTE,
    Mapping(m.VoteRequest, _vote, refusal=_vote_answer),
    Mapping(m.VoteResponse, _vote_answer),
)
_BEGIN_QUORUM_EPOCH: Final = _codec(
    ApiKey.BEGIN_QUORUM_EPOCH,
    Mapping(m.BeginQuorumEpochRequest, _begin, refusal=_begin_answer),
    Mapping(m.BeginQuorumEpochResponse, _begin_answer),
)
_END_QUORUM_EPOCH: Final = _codec(
    ApiKey.END_QUORUM_EPOCH,
    Mapping(
        m.EndQuorumEpochRequest,
        _end.EndQuorumEpochRequest,
        forms={"preferred_candidates": _CANDIDATES},
        refusal=_end_answer,
    ),
    Mapping(m.EndQuorumEpochResponse, _end_answer),
)

# -- replication: Fetch (1), FetchSnapshot (59) --------------------------------------------------

_fetch = schema(ApiKey.FETCH, "request").FetchRequest
_fetch_answer = schema(ApiKey.FETCH, "response")
_snapshot = schema(ApiKey.FETCH_SNAPSHOT, "request")
_snapshot_answer = schema(ApiKey.FETCH_SNAPSHOT, "response")

_FETCH_REQUEST: Final = Mapping(
    m.FetchRequest,
    _fetch,
    places={"replica_id": "replica_state.replica_id", "max_wait_ms": "max_wait"},
    forms={"max_wait_ms": INTERVAL},
    derived={"partition_max_bytes": lambda request: request.max_bytes},
    refusal=_fetch_answer.FetchResponse,
)


def _read_fetch(found: Any) -> m.FetchRequest:
    request: m.FetchRequest = _FETCH_REQUEST.read(found)
    # KafkaRaftClient leaves the partition's limit at 0 and sets the request's.
    limit = found.topics[0].partitions[0].partition_max_bytes
    return replace(request, max_bytes=limit) if 0 < limit < request.max_bytes else request


_FETCH_RESPONSE: Final = Mapping(
    m.FetchResponse,
    _fetch_answer.FetchResponse,
    places=_LEADER,
    forms={
        "diverging_epoch": position(_fetch_answer.EpochEndOffset, optional=True),
        "snapshot_id": position(_fetch_answer.SnapshotId, optional=True),
        # Never null, or Java's followers fail (KAFKA-18646).
        "records": Form(lambda records: records, lambda found: found or b""),
    },
    derived={"aborted_transactions": lambda _: ()},
)
_FETCH: Final = replace(
    _codec(ApiKey.FETCH, _FETCH_REQUEST, _FETCH_RESPONSE), read_request=_read_fetch
)
_FETCH_SNAPSHOT: Final = _codec(
    ApiKey.FETCH_SNAPSHOT,
    Mapping(
        m.FetchSnapshotRequest,
        _snapshot.FetchSnapshotRequest,
        forms={"snapshot_id": position(_snapshot.SnapshotId)},
        refusal=_snapshot_answer.FetchSnapshotResponse,
    ),
    Mapping(
        m.FetchSnapshotResponse,
        _snapshot_answer.FetchSnapshotResponse,
        places={**_LEADER, "records": "unaligned_records"},
        forms={"snapshot_id": position(_snapshot_answer.SnapshotId)},
    ),
)

# -- DescribeQuorum (55) -------------------------------------------------------------------------

_quorum = schema(ApiKey.DESCRIBE_QUORUM, "request").DescribeQuorumRequest
_quorum_answer = schema(ApiKey.DESCRIBE_QUORUM, "response")


def _read_quorum_request(found: Any) -> m.DescribeQuorumRequest:
    topics = found.topics
    if topics is None or any(topic.partitions is None for topic in topics):
        raise ConversionError("DescribeQuorumRequest has a null array")
    asked = [(topic.topic_name, p.partition_index) for topic in topics for p in topic.partitions]
    if asked == [(METADATA_TOPIC, 0)]:
        return m.DescribeQuorumRequest()
    # Unlike the peers' requests, this one is refused for each partition that it names.
    answers = tuple(
        _quorum_answer.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(_unknown_partition(p) for p in topic.partitions),
        )
        for topic in topics
    )
    raise Refused(with_defaults(_quorum_answer.DescribeQuorumResponse, topics=answers))


def _unknown_partition(partition: Any) -> Any:
    error = ErrorCode.unknown_topic_or_partition
    return with_defaults(
        _quorum_answer.PartitionData,
        partition_index=partition.partition_index,
        error_code=error,
        error_message=error.name,
        leader_id=m.NO_NODE,
        leader_epoch=-1,
        high_watermark=-1,
    )


def _write_node(at: Endpoint) -> dict[str, Any]:
    listener = _quorum_answer.Listener(name=CONTROLLER_LISTENER, host=at.host, port=at.port)
    return {"node_id": at.node_id, "listeners": (listener,)}


def _read_node(node: Any) -> Endpoint | None:
    if not node.listeners:
        return None
    return Endpoint(node.node_id, node.listeners[0].host, node.listeners[0].port)


_NODES: Final = array(_quorum_answer.Node, _write_node, _read_node)
_REPLICAS: Final = array(
    _quorum_answer.ReplicaState,
    lambda replica: {
        "replica_id": replica.replica_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_timestamp_ms,
        "last_caught_up_timestamp": replica.last_caught_up_timestamp_ms,
    },
    lambda found: m.ReplicaDescription(
        found.replica_id,
        directory(found.replica_directory_id),
        found.log_end_offset,
        found.last_fetch_timestamp,
        found.last_caught_up_timestamp,
    ),
)
_QUORUM_RESPONSE: Final = Mapping(
    m.DescribeQuorumResponse,
    _quorum_answer.DescribeQuorumResponse,
    places={"voters": "current_voters"},
    forms={
        "voters": _REPLICAS,
        "observers": _REPLICAS,
        "nodes": Form(_NODES.write, lambda found: tuple(filter(None, _NODES.read(found)))),
    },
    derived={"error_message": lambda m: None if m.error is ErrorCode.none else m.error.name},
)
_DESCRIBE_QUORUM: Final = replace(
    _codec(ApiKey.DESCRIBE_QUORUM, Mapping(m.DescribeQuorumRequest, _quorum), _QUORUM_RESPONSE),
    read_request=_read_quorum_request,
)

# -- AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82) -------------------------------

_add = schema(ApiKey.ADD_RAFT_VOTER, "request")
_add_answer = schema(ApiKey.ADD_RAFT_VOTER, "response").AddRaftVoterResponse
_remove = schema(ApiKey.REMOVE_RAFT_VOTER, "request").RemoveRaftVoterRequest
_remove_answer = schema(ApiKey.REMOVE_RAFT_VOTER, "response").RemoveRaftVoterResponse
_update = schema(ApiKey.UPDATE_RAFT_VOTER, "request")
_update_answer = schema(ApiKey.UPDATE_RAFT_VOTER, "response")


def _listeners(entity: Any) -> Form:
    return array(
        entity,
        lambda at: {"name": at.name, "host": at.host, "port": at.port},
        lambda found: VoterListener(found.name, found.host, found.port),
    )


_UPDATE_REQUEST: Final = Mapping(
    m.UpdateVoterRequest,
    _update.UpdateRaftVoterRequest,
    places={
        "min_kraft_version": "k_raft_version_feature.min_supported_version",
        "max_kraft_version": "k_raft_version_feature.max_supported_version",
    },
    forms={"listeners": _listeners(_update.Listener)},
)


def _write_update_response(message: m.UpdateVoterResponse) -> Any:
    at = message.leader_endpoint or Endpoint(m.NO_NODE, "", 0)  # nobody listens there: not known
    leader = _update_answer.CurrentLeader(
        leader_id=message.leader_id, leader_epoch=message.leader_epoch, host=at.host, port=at.port
    )
    answer = _update_answer.UpdateRaftVoterResponse
    return with_defaults(answer, error_code=message.error, current_leader=leader)


def _read_update_response(found: Any) -> m.UpdateVoterResponse:
    leader = found.current_leader
    endpoint = None
    if leader.leader_id != m.NO_NODE:
        endpoint = reachable(leader.leader_id, leader.host, leader.port)
    return m.UpdateVoterResponse(found.error_code, leader.leader_id, leader.leader_epoch, endpoint)


_ADD_VOTER: Final = _codec(
    ApiKey.ADD_RAFT_VOTER,
    Mapping(
        m.AddVoterRequest,
        _add.AddRaftVoterRequest,
        places={"timeout_ms": "timeout"},
        forms={"timeout_ms": INTERVAL, "listeners": _listeners(_add.Listener)},
    ),
    Mapping(m.AddVoterResponse, _add_answer, places={"message": "error_message"}),
)
_REMOVE_VOTER: Final = _codec(
    ApiKey.REMOVE_RAFT_VOTER,
    Mapping(m.RemoveVoterRequest, _remove),
    Mapping(m.RemoveVoterResponse, _remove_answer, places={"message": "error_message"}),
)
_UPDATE_VOTER: Final = RaftCodec(
    ApiKey.UPDATE_RAFT_VOTER,
    m.UpdateVoterRequest,
    _UPDATE_REQUEST.write,
    _UPDATE_REQUEST.read,
    _write_update_response,
    _read_update_response,
)

CODECS: Final[Table[ApiKey, RaftCodec]] = {
    codec.key: codec
    for codec in (
        _VOTE,
        _BEGIN_QUORUM_EPOCH,
        _END_QUORUM_EPOCH,
        _FETCH,
        _FETCH_SNAPSHOT,
        _DESCRIBE_QUORUM,
        _ADD_VOTER,
        _REMOVE_VOTER,
        _UPDATE_VOTER,
    )
}

REQUEST_KEYS: Final[Table[type[Any], ApiKey]] = {c.request: c.key for c in CODECS.values()}
"""Which API each flat request is of."""

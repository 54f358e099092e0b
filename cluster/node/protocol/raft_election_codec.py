"""Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54) between flat form and kio."""

from __future__ import annotations

from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.convert import ConversionError
from cluster.node.protocol.raft_schema import (
    RaftCodec,
    directory,
    leader_endpoint,
    leader_endpoints,
    metadata_partition,
    named_topic,
    node_endpoint,
    node_endpoints,
    only_partition,
    schema,
)

_NONE: Final = ErrorCode.none

_vote_request = schema(ApiKey.VOTE, "request")
_vote_response = schema(ApiKey.VOTE, "response")
_begin_request = schema(ApiKey.BEGIN_QUORUM_EPOCH, "request")
_begin_response = schema(ApiKey.BEGIN_QUORUM_EPOCH, "response")
_end_request = schema(ApiKey.END_QUORUM_EPOCH, "request")
_end_response = schema(ApiKey.END_QUORUM_EPOCH, "response")


def _write_vote_request(m: VoteRequest) -> Any:
    partition = _vote_request.PartitionData(
        partition_index=0,
        replica_epoch=m.replica_epoch,
        replica_id=m.replica_id,
        replica_directory_id=m.replica_directory_id,
        voter_directory_id=m.voter_directory_id,
        last_offset_epoch=m.last_offset_epoch,
        last_offset=m.last_offset,
        pre_vote=m.pre_vote,
    )
    return _vote_request.VoteRequest(
        cluster_id=m.cluster_id,
        voter_id=m.voter_id,
        topics=named_topic(_vote_request.TopicData, partition),
    )


def _read_vote_request(k: Any) -> VoteRequest:
    p = metadata_partition(k.topics, _vote_response.VoteResponse)
    return VoteRequest(
        cluster_id=k.cluster_id,
        replica_epoch=p.replica_epoch,
        replica_id=p.replica_id,
        replica_directory_id=directory(p.replica_directory_id),
        voter_id=k.voter_id,
        voter_directory_id=directory(p.voter_directory_id),
        last_offset_epoch=p.last_offset_epoch,
        last_offset=p.last_offset,
        pre_vote=p.pre_vote,
    )


def _write_vote_response(m: VoteResponse) -> Any:
    if m.top_level_error is not _NONE:
        return _vote_response.VoteResponse(error_code=m.top_level_error, topics=())
    partition = _vote_response.PartitionData(
        partition_index=0,
        error_code=m.error,
        leader_id=m.leader_id,
        leader_epoch=m.leader_epoch,
        vote_granted=m.vote_granted,
    )
    return _vote_response.VoteResponse(
        error_code=_NONE,
        topics=named_topic(_vote_response.TopicData, partition),
        node_endpoints=node_endpoints(_vote_response.NodeEndpoint, m.leader_endpoint),
    )


def _read_vote_response(k: Any) -> VoteResponse:
    top = k.error_code
    if top is not _NONE:
        return VoteResponse(top, NO_NODE, -1, vote_granted=False, top_level_error=top)
    p = only_partition(k.topics)
    return VoteResponse(
        error=p.error_code,
        leader_id=p.leader_id,
        leader_epoch=p.leader_epoch,
        vote_granted=p.vote_granted,
        leader_endpoint=node_endpoint(p.leader_id, k.node_endpoints),
    )


def _write_begin_request(m: BeginQuorumEpochRequest) -> Any:
    partition = _begin_request.PartitionData(
        partition_index=0,
        voter_directory_id=m.voter_directory_id,
        leader_id=m.leader_id,
        leader_epoch=m.leader_epoch,
    )
    return _begin_request.BeginQuorumEpochRequest(
        cluster_id=m.cluster_id,
        voter_id=m.voter_id,
        topics=named_topic(_begin_request.TopicData, partition),
        leader_endpoints=leader_endpoints(_begin_request.LeaderEndpoint, m.leader_endpoint),
    )


def _read_begin_request(k: Any) -> BeginQuorumEpochRequest:
    p = metadata_partition(k.topics, _begin_response.BeginQuorumEpochResponse)
    return BeginQuorumEpochRequest(
        cluster_id=k.cluster_id,
        voter_id=k.voter_id,
        voter_directory_id=directory(p.voter_directory_id),
        leader_id=p.leader_id,
        leader_epoch=p.leader_epoch,
        leader_endpoint=leader_endpoint(p.leader_id, k.leader_endpoints),
    )


def _write_end_request(m: EndQuorumEpochRequest) -> Any:
    partition = _end_request.PartitionData(
        partition_index=0,
        leader_id=m.leader_id,
        leader_epoch=m.leader_epoch,
        preferred_candidates=tuple(
            _end_request.ReplicaInfo(candidate_id=c.id, candidate_directory_id=c.directory_id)
            for c in m.preferred_candidates
        ),
    )
    return _end_request.EndQuorumEpochRequest(
        cluster_id=m.cluster_id,
        topics=named_topic(_end_request.TopicData, partition),
        leader_endpoints=leader_endpoints(_end_request.LeaderEndpoint, m.leader_endpoint),
    )


def _read_end_request(k: Any) -> EndQuorumEpochRequest:
    p = metadata_partition(k.topics, _end_response.EndQuorumEpochResponse)
    if p.preferred_candidates is None:
        raise ConversionError("EndQuorumEpochRequest.preferred_candidates is null")
    return EndQuorumEpochRequest(
        cluster_id=k.cluster_id,
        leader_id=p.leader_id,
        leader_epoch=p.leader_epoch,
        preferred_candidates=tuple(
            ReplicaKey(c.candidate_id, directory(c.candidate_directory_id))
            for c in p.preferred_candidates
        ),
        leader_endpoint=leader_endpoint(p.leader_id, k.leader_endpoints),
    )


def _epoch_response_codec(
    kio: Any, entity: Any, answer: type[BeginQuorumEpochResponse | EndQuorumEpochResponse]
) -> tuple[Any, Any]:
    """Return writer and reader of the responses to Begin and End, which are alike."""

    def write(m: Any) -> Any:
        if m.top_level_error is not _NONE:
            return entity(error_code=m.top_level_error, topics=())
        partition = kio.PartitionData(
            partition_index=0,
            error_code=m.error,
            leader_id=m.leader_id,
            leader_epoch=m.leader_epoch,
        )
        return entity(
            error_code=_NONE,
            topics=named_topic(kio.TopicData, partition),
            node_endpoints=node_endpoints(kio.NodeEndpoint, m.leader_endpoint),
        )

    def read(k: Any) -> Any:
        top = k.error_code
        if top is not _NONE:
            return answer(top, NO_NODE, -1, top_level_error=top)
        p = only_partition(k.topics)
        endpoint = node_endpoint(p.leader_id, k.node_endpoints)
        return answer(p.error_code, p.leader_id, p.leader_epoch, endpoint)

    return write, read


VOTE: Final = RaftCodec(
    ApiKey.VOTE,
    _write_vote_request,
    _read_vote_request,
    _write_vote_response,
    _read_vote_response,
)
BEGIN_QUORUM_EPOCH: Final = RaftCodec(
    ApiKey.BEGIN_QUORUM_EPOCH,
    _write_begin_request,
    _read_begin_request,
    *_epoch_response_codec(
        _begin_response, _begin_response.BeginQuorumEpochResponse, BeginQuorumEpochResponse
    ),
)
END_QUORUM_EPOCH: Final = RaftCodec(
    ApiKey.END_QUORUM_EPOCH,
    _write_end_request,
    _read_end_request,
    *_epoch_response_codec(
        _end_response, _end_response.EndQuorumEpochResponse, EndQuorumEpochResponse
    ),
)

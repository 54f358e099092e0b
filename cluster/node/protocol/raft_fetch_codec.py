"""Fetch (1), FetchSnapshot (59) and DescribeQuorum (55) between flat form and kio."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_NODE,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaDescription,
)
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.convert import ConversionError
from cluster.node.protocol.raft_schema import (
    CONTROLLER_LISTENER,
    RaftCodec,
    Refused,
    directory,
    named_topic,
    node_endpoint,
    node_endpoints,
    only_partition,
    schema,
)

_NONE: Final = ErrorCode.none
_NO_THROTTLE: Final = dt.timedelta(0)

_fetch_request = schema(ApiKey.FETCH, "request")
_fetch_response = schema(ApiKey.FETCH, "response")
_snapshot_request = schema(ApiKey.FETCH_SNAPSHOT, "request")
_snapshot_response = schema(ApiKey.FETCH_SNAPSHOT, "response")
_quorum_request = schema(ApiKey.DESCRIBE_QUORUM, "request")
_quorum_response = schema(ApiKey.DESCRIBE_QUORUM, "response")


def _write_fetch_request(m: FetchRequest) -> Any:
    partition = _fetch_request.FetchPartition(
        partition=0,
        current_leader_epoch=m.current_leader_epoch,
        fetch_offset=m.fetch_offset,
        last_fetched_epoch=m.last_fetched_epoch,
        partition_max_bytes=m.max_bytes,
        replica_directory_id=m.replica_directory_id,
        high_watermark=m.high_watermark,
    )
    return _fetch_request.FetchRequest(
        cluster_id=m.cluster_id,
        replica_state=_fetch_request.ReplicaState(replica_id=m.replica_id),
        max_wait=dt.timedelta(milliseconds=m.max_wait_ms),
        min_bytes=0,
        max_bytes=m.max_bytes,
        topics=(_fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _read_fetch_request(k: Any) -> FetchRequest:
    topics = k.topics
    if topics is None or len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID:
        raise _refused_fetch()
    partitions = topics[0].partitions
    if partitions is None or len(partitions) != 1 or partitions[0].partition != 0:
        raise _refused_fetch()
    p = partitions[0]
    # KafkaRaftClient leaves the partition's limit at 0 and sets the request's.
    limit = min(k.max_bytes, p.partition_max_bytes) if p.partition_max_bytes > 0 else k.max_bytes
    return FetchRequest(
        cluster_id=k.cluster_id,
        replica_id=k.replica_state.replica_id,
        replica_directory_id=directory(p.replica_directory_id),
        current_leader_epoch=p.current_leader_epoch,
        fetch_offset=p.fetch_offset,
        last_fetched_epoch=p.last_fetched_epoch,
        max_wait_ms=round(k.max_wait.total_seconds() * 1000),
        max_bytes=limit,
        high_watermark=p.high_watermark,
    )


def _refused_fetch() -> Refused:
    return Refused(
        _fetch_response.FetchResponse(
            throttle_time=_NO_THROTTLE, error_code=ErrorCode.invalid_request, responses=()
        )
    )


def _write_fetch_response(m: FetchResponse) -> Any:
    if m.top_level_error is not _NONE:
        return _fetch_response.FetchResponse(
            throttle_time=_NO_THROTTLE, error_code=m.top_level_error, responses=()
        )
    tagged: dict[str, Any] = {}
    if m.diverging_epoch is not None:
        tagged["diverging_epoch"] = _fetch_response.EpochEndOffset(
            epoch=m.diverging_epoch.epoch, end_offset=m.diverging_epoch.offset
        )
    if m.snapshot_id is not None:
        tagged["snapshot_id"] = _fetch_response.SnapshotId(
            end_offset=m.snapshot_id.offset, epoch=m.snapshot_id.epoch
        )
    partition = _fetch_response.PartitionData(
        partition_index=0,
        error_code=m.error,
        high_watermark=m.high_watermark,
        log_start_offset=m.log_start_offset,
        current_leader=_fetch_response.LeaderIdAndEpoch(
            leader_id=m.leader_id, leader_epoch=m.leader_epoch
        ),
        aborted_transactions=(),
        records=m.records,  # never null, or Java's followers fail (KAFKA-18646)
        **tagged,
    )
    topic = _fetch_response.FetchableTopicResponse(
        topic_id=METADATA_TOPIC_ID, partitions=(partition,)
    )
    return _fetch_response.FetchResponse(
        throttle_time=_NO_THROTTLE,
        error_code=_NONE,
        responses=(topic,),
        node_endpoints=node_endpoints(_fetch_response.NodeEndpoint, m.leader_endpoint),
    )


def _read_fetch_response(k: Any) -> FetchResponse:
    top = k.error_code
    if top is not _NONE:
        return FetchResponse(top, NO_NODE, -1, -1, -1, top_level_error=top)
    p = only_partition(k.responses)
    leader = p.current_leader
    diverging, snapshot = p.diverging_epoch, p.snapshot_id
    return FetchResponse(
        error=p.error_code,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        high_watermark=p.high_watermark,
        log_start_offset=p.log_start_offset,
        records=p.records or b"",
        diverging_epoch=None
        if diverging.epoch < 0
        else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        snapshot_id=None
        if snapshot.epoch < 0
        else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        leader_endpoint=node_endpoint(leader.leader_id, k.node_endpoints),
    )


def _write_snapshot_request(m: FetchSnapshotRequest) -> Any:
    partition = _snapshot_request.PartitionSnapshot(
        partition=0,
        current_leader_epoch=m.current_leader_epoch,
        snapshot_id=_snapshot_request.SnapshotId(
            end_offset=m.snapshot_id.offset, epoch=m.snapshot_id.epoch
        ),
        position=m.position,
        replica_directory_id=m.replica_directory_id,
    )
    return _snapshot_request.FetchSnapshotRequest(
        cluster_id=m.cluster_id,
        replica_id=m.replica_id,
        max_bytes=m.max_bytes,
        topics=(_snapshot_request.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def _read_snapshot_request(k: Any) -> FetchSnapshotRequest:
    partitions = None
    if k.topics is not None and len(k.topics) == 1 and k.topics[0].name == METADATA_TOPIC:
        partitions = k.topics[0].partitions
    if partitions is None or len(partitions) != 1 or partitions[0].partition != 0:
        raise Refused(
            _snapshot_response.FetchSnapshotResponse(
                throttle_time=_NO_THROTTLE, error_code=ErrorCode.invalid_request, topics=()
            )
        )
    p = partitions[0]
    return FetchSnapshotRequest(
        cluster_id=k.cluster_id,
        replica_id=k.replica_id,
        replica_directory_id=directory(p.replica_directory_id),
        current_leader_epoch=p.current_leader_epoch,
        snapshot_id=OffsetAndEpoch(p.snapshot_id.end_offset, p.snapshot_id.epoch),
        position=p.position,
        max_bytes=k.max_bytes,
    )


def _write_snapshot_response(m: FetchSnapshotResponse) -> Any:
    if m.top_level_error is not _NONE:
        return _snapshot_response.FetchSnapshotResponse(
            throttle_time=_NO_THROTTLE, error_code=m.top_level_error, topics=()
        )
    partition = _snapshot_response.PartitionSnapshot(
        index=0,
        error_code=m.error,
        snapshot_id=_snapshot_response.SnapshotId(
            end_offset=m.snapshot_id.offset, epoch=m.snapshot_id.epoch
        ),
        current_leader=_snapshot_response.LeaderIdAndEpoch(
            leader_id=m.leader_id, leader_epoch=m.leader_epoch
        ),
        size=m.size,
        position=m.position,
        unaligned_records=m.records,
    )
    return _snapshot_response.FetchSnapshotResponse(
        throttle_time=_NO_THROTTLE,
        error_code=_NONE,
        topics=(_snapshot_response.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(_snapshot_response.NodeEndpoint, m.leader_endpoint),
    )


def _read_snapshot_response(k: Any) -> FetchSnapshotResponse:
    top = k.error_code
    if top is not _NONE:
        return FetchSnapshotResponse(top, NO_NODE, -1, OffsetAndEpoch(-1, -1), top_level_error=top)
    p = only_partition(k.topics)
    return FetchSnapshotResponse(
        error=p.error_code,
        leader_id=p.current_leader.leader_id,
        leader_epoch=p.current_leader.leader_epoch,
        snapshot_id=OffsetAndEpoch(p.snapshot_id.end_offset, p.snapshot_id.epoch),
        size=p.size,
        position=p.position,
        records=p.unaligned_records,
        leader_endpoint=node_endpoint(p.current_leader.leader_id, k.node_endpoints),
    )


def _write_quorum_request(m: DescribeQuorumRequest) -> Any:
    del m  # it has no fields
    partition = _quorum_request.PartitionData(partition_index=0)
    return _quorum_request.DescribeQuorumRequest(
        topics=named_topic(_quorum_request.TopicData, partition)
    )


def _read_quorum_request(k: Any) -> DescribeQuorumRequest:
    topics = k.topics
    if topics is None or any(topic.partitions is None for topic in topics):
        raise ConversionError("DescribeQuorumRequest has a null array")
    asked = [(topic.topic_name, p.partition_index) for topic in topics for p in topic.partitions]
    if asked == [(METADATA_TOPIC, 0)]:
        return DescribeQuorumRequest()
    # Unlike the peers' requests, this one is refused for each partition that it names.
    raise Refused(
        _quorum_response.DescribeQuorumResponse(
            error_code=_NONE,
            error_message=None,
            topics=tuple(
                _quorum_response.TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(_unknown_partition(p) for p in topic.partitions),
                )
                for topic in topics
            ),
            nodes=(),
        )
    )


def _unknown_partition(p: Any) -> Any:
    error = ErrorCode.unknown_topic_or_partition
    return _quorum_response.PartitionData(
        partition_index=p.partition_index,
        error_code=error,
        error_message=error.name,
        leader_id=NO_NODE,
        leader_epoch=-1,
        high_watermark=-1,
        current_voters=(),
        observers=(),
    )


def _write_quorum_response(m: DescribeQuorumResponse) -> Any:
    if m.top_level_error is not _NONE:
        return _quorum_response.DescribeQuorumResponse(
            error_code=m.top_level_error,
            error_message=m.top_level_error.name,
            topics=(),
            nodes=(),
        )
    partition = _quorum_response.PartitionData(
        partition_index=0,
        error_code=m.error,
        error_message=None if m.error is _NONE else m.error.name,
        leader_id=m.leader_id,
        leader_epoch=m.leader_epoch,
        high_watermark=m.high_watermark,
        current_voters=tuple(_write_replica(r) for r in m.voters),
        observers=tuple(_write_replica(r) for r in m.observers),
    )
    return _quorum_response.DescribeQuorumResponse(
        error_code=_NONE,
        error_message=None,
        topics=named_topic(_quorum_response.TopicData, partition),
        nodes=tuple(_write_node(e) for e in m.nodes),
    )


def _write_replica(r: ReplicaDescription) -> Any:
    return _quorum_response.ReplicaState(
        replica_id=r.replica_id,
        replica_directory_id=r.directory_id,
        log_end_offset=r.log_end_offset,
        last_fetch_timestamp=r.last_fetch_timestamp_ms,
        last_caught_up_timestamp=r.last_caught_up_timestamp_ms,
    )


def _write_node(e: Endpoint) -> Any:
    listener = _quorum_response.Listener(name=CONTROLLER_LISTENER, host=e.host, port=e.port)
    return _quorum_response.Node(node_id=e.node_id, listeners=(listener,))


def _read_quorum_response(k: Any) -> DescribeQuorumResponse:
    top = k.error_code
    if top is not _NONE:
        return DescribeQuorumResponse(top, NO_NODE, -1, -1, top_level_error=top)
    p = only_partition(k.topics)
    if p.current_voters is None or p.observers is None or k.nodes is None:
        raise ConversionError("DescribeQuorumResponse has a null array")
    return DescribeQuorumResponse(
        error=p.error_code,
        leader_id=p.leader_id,
        leader_epoch=p.leader_epoch,
        high_watermark=p.high_watermark,
        voters=tuple(_read_replica(r) for r in p.current_voters),
        observers=tuple(_read_replica(r) for r in p.observers),
        nodes=tuple(
            Endpoint(node.node_id, node.listeners[0].host, node.listeners[0].port)
            for node in k.nodes
            if node.listeners
        ),
    )


def _read_replica(r: Any) -> ReplicaDescription:
    return ReplicaDescription(
        replica_id=r.replica_id,
        directory_id=directory(r.replica_directory_id),
        log_end_offset=r.log_end_offset,
        last_fetch_timestamp_ms=r.last_fetch_timestamp,
        last_caught_up_timestamp_ms=r.last_caught_up_timestamp,
    )


FETCH: Final = RaftCodec(
    ApiKey.FETCH,
    _write_fetch_request,
    _read_fetch_request,
    _write_fetch_response,
    _read_fetch_response,
)
FETCH_SNAPSHOT: Final = RaftCodec(
    ApiKey.FETCH_SNAPSHOT,
    _write_snapshot_request,
    _read_snapshot_request,
    _write_snapshot_response,
    _read_snapshot_response,
)
DESCRIBE_QUORUM: Final = RaftCodec(
    ApiKey.DESCRIBE_QUORUM,
    _write_quorum_request,
    _read_quorum_request,
    _write_quorum_response,
    _read_quorum_response,
)

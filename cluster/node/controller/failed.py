"""The response to any administrative request of which everything failed alike.

AbstractRequest.getErrorResponse; raft's have the error of the whole response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.node.controller.acls import (
    create_acls_error,
    delete_acls_error,
    describe_acls_error,
)
from cluster.node.controller.broker_apis import ERROR_RESPONSES
from cluster.node.controller.error_responses import (
    alter_configs_error,
    alter_reassignments_error,
    create_partitions_error,
    create_topics_error,
    delete_topics_error,
    elect_leaders_error,
    legacy_alter_configs_error,
    list_reassignments_error,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from cluster.node.protocol.data_messages import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    BrokerId,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListPartitionReassignmentsRequest,
    TopicName,
)

_Failed = Callable[[Any, ErrorCode, str | None], Any]


def _describe_cluster(
    request: DescribeClusterRequest, error: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        endpoint_type=request.endpoint_type,
        cluster_id="",
        controller_id=BrokerId(NO_NODE),
        brokers=(),
    )


def _alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, error: ErrorCode, _message: str | None
) -> AlterReplicaLogDirsResponse:
    partitions: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=TopicName(name), partitions=tuple(found))
            for name, found in partitions.items()
        ),
    )


_RAFT: Final[Mapping[type[Any], _Failed]] = {
    VoteRequest: lambda _request, error, _message: VoteResponse(
        error, NO_NODE, -1, vote_granted=False, top_level_error=error
    ),
    BeginQuorumEpochRequest: lambda _request, error, _message: BeginQuorumEpochResponse(
        error, NO_NODE, -1, top_level_error=error
    ),
    EndQuorumEpochRequest: lambda _request, error, _message: EndQuorumEpochResponse(
        error, NO_NODE, -1, top_level_error=error
    ),
    FetchRequest: lambda _request, error, _message: FetchResponse(
        error, NO_NODE, -1, -1, -1, top_level_error=error
    ),
    FetchSnapshotRequest: lambda request, error, _message: FetchSnapshotResponse(
        error, NO_NODE, -1, request.snapshot_id, top_level_error=error
    ),
    DescribeQuorumRequest: lambda _request, error, _message: DescribeQuorumResponse(
        error, NO_NODE, -1, -1, top_level_error=error
    ),
    AddVoterRequest: lambda _request, error, message: AddVoterResponse(error, message),
    RemoveVoterRequest: lambda _request, error, message: RemoveVoterResponse(error, message),
    UpdateVoterRequest: lambda _request, error, _message: UpdateVoterResponse(error, NO_NODE, -1),
}
_OTHERS: Final[Mapping[type[Any], _Failed]] = {
    CreateTopicsRequest: create_topics_error,
    DeleteTopicsRequest: delete_topics_error,
    CreatePartitionsRequest: create_partitions_error,
    IncrementalAlterConfigsRequest: alter_configs_error,
    AlterConfigsRequest: legacy_alter_configs_error,
    ElectLeadersRequest: elect_leaders_error,
    AlterPartitionReassignmentsRequest: alter_reassignments_error,
    ListPartitionReassignmentsRequest: list_reassignments_error,
    DescribeAclsRequest: describe_acls_error,
    CreateAclsRequest: create_acls_error,
    DeleteAclsRequest: delete_acls_error,
    DescribeClusterRequest: _describe_cluster,
    ListConfigResourcesRequest: lambda _request, error, _message: ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE, error_code=error, config_resources=()
    ),
    DescribeLogDirsRequest: lambda _request, error, _message: DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=error, results=()
    ),
    AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
}


def failed_response(message: Any, error: ErrorCode, text: str | None) -> Any:
    """Return the response to a request with this error in every place that has one.

    Raises KeyError for a request that no guard refuses and no broker forwards.
    """
    kind = type(message)
    if kind in ERROR_RESPONSES:
        return ERROR_RESPONSES[kind](error, text)
    failed = _RAFT.get(kind)
    return (_OTHERS[kind] if failed is None else failed)(message, error, text)

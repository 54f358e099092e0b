"""The response to a request of which everything failed alike (AbstractRequest.getErrorResponse)."""

from __future__ import annotations

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterConfigsResourceResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    BrokerId,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)


def create_topics_error(
    request: CreateTopicsRequest, error: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """Return the error for every topic name, once."""
    return CreateTopicsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            CreatableTopicResult(
                name=name, topic_id=None, error_code=error, error_message=message, configs=()
            )
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ),
    )


def delete_topics_error(
    request: DeleteTopicsRequest, error: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """Return the error for every topic."""
    return DeleteTopicsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error, error_message=message
            )
            for name, topic_id in dict.fromkeys(
                (topic.name, topic.topic_id) for topic in request.topics
            )
        ),
    )


def create_partitions_error(
    request: CreatePartitionsRequest, error: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """Return the error for every topic name, once."""
    return CreatePartitionsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ),
    )


def alter_configs_error(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Return the error for every resource, once."""
    return IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource_type,
                resource_name=resource_name,
            )
            for resource_type, resource_name in dict.fromkeys(
                (item.resource_type, item.resource_name) for item in request.resources
            )
        ),
    )


def describe_configs_error(
    request: DescribeConfigsRequest, error: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """Return the error for every resource."""
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            DescribeConfigsResult(
                error_code=error,
                error_message=message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
                configs=(),
            )
            for item in request.resources
        ),
    )


def metadata_error(
    request: MetadataRequest, error: ErrorCode, _message: str | None
) -> MetadataResponse:
    """Return the error at the top (v13) and, for older versions, for every topic asked for."""
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        controller_id=BrokerId(-1),
        topics=tuple(
            MetadataResponseTopic(
                error_code=error, name=item.name, topic_id=item.topic_id, partitions=()
            )
            for item in request.topics or ()
        ),
        error_code=error,
    )


def elect_leaders_error(
    request: ElectLeadersRequest, error: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    """Return the error at the top, which version 0 lacks, and for every partition asked about."""
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        replica_election_results=tuple(
            ElectLeadersTopicResult(
                topic=topic.topic,
                partition_result=tuple(
                    ElectLeadersPartitionResult(
                        partition_id=index, error_code=error, error_message=message
                    )
                    for index in dict.fromkeys(topic.partitions)
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def alter_reassignments_error(
    _request: AlterPartitionReassignmentsRequest, error: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    """Return the error at the top."""
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, responses=()
    )


def list_reassignments_error(
    _request: ListPartitionReassignmentsRequest, error: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    """Return the error at the top."""
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, topics=()
    )

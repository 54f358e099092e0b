"""The response to a request that a broker could not have the active controller answer.

AbstractRequest.getErrorResponse, of what is forwarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.node.controller.broker_apis import ERROR_RESPONSES
from cluster.node.controller.error_responses import (
    alter_configs_error,
    alter_reassignments_error,
    create_partitions_error,
    create_topics_error,
    delete_topics_error,
    elect_leaders_error,
    list_reassignments_error,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_NODE, DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from cluster.node.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)

_Failed = Callable[[Any, ErrorCode, str | None], Any]
_FAILED: Final[Mapping[type[Any], _Failed]] = {
    CreateTopicsRequest: create_topics_error,
    DeleteTopicsRequest: delete_topics_error,
    CreatePartitionsRequest: create_partitions_error,
    IncrementalAlterConfigsRequest: alter_configs_error,
    ElectLeadersRequest: elect_leaders_error,
    AlterPartitionReassignmentsRequest: alter_reassignments_error,
    ListPartitionReassignmentsRequest: list_reassignments_error,
    DescribeQuorumRequest: lambda _request, error, _message: DescribeQuorumResponse(
        error, NO_NODE, -1, -1, top_level_error=error
    ),
    AddVoterRequest: lambda _request, error, message: AddVoterResponse(error, message),
    RemoveVoterRequest: lambda _request, error, message: RemoveVoterResponse(error, message),
}


def failed_response(message: Any, error: ErrorCode, text: str | None) -> Any:
    """Return the response to a forwarded request with this error in every place that has one.

    Raises KeyError for a request that no broker forwards.
    """
    kind = type(message)
    if kind in ERROR_RESPONSES:
        return ERROR_RESPONSES[kind](error, text)
    return _FAILED[kind](message, error, text)

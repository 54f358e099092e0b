"""The response to a request of which everything failed alike (AbstractRequest.getErrorResponse)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_NODE, DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from cluster.node.protocol import messages as m

_Failed = Callable[[Any, ErrorCode, str | None], Any]

_EMPTY: Final[Mapping[str, Any]] = {
    "throttle_time": m.NO_THROTTLE,
    "controller_id": m.BrokerId(-1),
    "topic_id": None,
    "should_shut_down": False,
    "producer_id_start": m.ProducerId(0),
    "producer_id_len": m.i32(0),
}
"""Fields of responses that hold nothing when all failed; those that are not here are lists."""


def error_response(request: Any, error: ErrorCode, message: str | None) -> Any:
    """Return the response with this error in every place that has one.

    Raises KeyError for a request that never fails as a whole.
    """
    return _FAILED[type(request)](request, error, message)


def _fill(entity: type[Any], error: ErrorCode, message: str | None, **known: Any) -> Any:
    values = {**_EMPTY, "error_code": error, "error_message": message, **known}
    return entity(
        **{
            field.name: values.get(field.name, ())
            for field in fields(entity)
            if field.name in values or field.default is MISSING
        }
    )


def _whole(response: type[Any]) -> _Failed:
    """Return what puts the error at the top."""
    return lambda _request, error, message: _fill(response, error, message)


def _each(
    response: type[Any], rows: str, row: type[Any], asked: str, *keys: str, once: bool = True
) -> _Failed:
    """Return what gives every element of `asked` a row with the error, and equal ones one row.

    `rows` is the response's field for them, `keys` are the fields that a row repeats.
    """

    def fail(request: Any, error: ErrorCode, message: str | None) -> Any:
        elements = [tuple(getattr(e, key) for key in keys) for e in getattr(request, asked) or ()]
        filled = (
            _fill(row, error, message, **dict(zip(keys, element, strict=True)))
            for element in (dict.fromkeys(elements) if once else elements)
        )
        return _fill(response, error, message, **{rows: tuple(filled)})

    return fail


def _elections(
    request: m.ElectLeadersRequest, error: ErrorCode, message: str | None
) -> m.ElectLeadersResponse:
    """Return the error at the top, which version 0 lacks, and for every partition asked about."""
    return m.ElectLeadersResponse(
        throttle_time=m.NO_THROTTLE,
        error_code=error,
        replica_election_results=tuple(
            m.ElectLeadersTopicResult(
                topic=topic.topic,
                partition_result=tuple(
                    _fill(m.ElectLeadersPartitionResult, error, message, partition_id=index)
                    for index in dict.fromkeys(topic.partitions)
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


_RESOURCE = "resource_type", "resource_name"
_FAILED: Final[Mapping[type[Any], _Failed]] = {
    m.CreateTopicsRequest: _each(
        m.CreateTopicsResponse, "topics", m.CreatableTopicResult, "topics", "name"
    ),
    m.DeleteTopicsRequest: _each(
        m.DeleteTopicsResponse, "responses", m.DeletableTopicResult, "topics", "name", "topic_id"
    ),
    m.CreatePartitionsRequest: _each(
        m.CreatePartitionsResponse, "results", m.CreatePartitionsTopicResult, "topics", "name"
    ),
    m.IncrementalAlterConfigsRequest: _each(
        m.IncrementalAlterConfigsResponse,
        "responses",
        m.AlterConfigsResourceResponse,
        "resources",
        *_RESOURCE,
    ),
    m.DescribeConfigsRequest: _each(
        m.DescribeConfigsResponse,
        "results",
        m.DescribeConfigsResult,
        "resources",
        *_RESOURCE,
        once=False,
    ),
    # At the top since version 13; for older ones, for every topic.
    m.MetadataRequest: _each(
        m.MetadataResponse,
        "topics",
        m.MetadataResponseTopic,
        "topics",
        "name",
        "topic_id",
        once=False,
    ),
    m.ElectLeadersRequest: _elections,
    m.AlterPartitionReassignmentsRequest: _whole(m.AlterPartitionReassignmentsResponse),
    m.ListPartitionReassignmentsRequest: _whole(m.ListPartitionReassignmentsResponse),
    m.BrokerRegistrationRequest: _whole(m.BrokerRegistrationResponse),
    m.BrokerHeartbeatRequest: _whole(m.BrokerHeartbeatResponse),
    m.UnregisterBrokerRequest: _whole(m.UnregisterBrokerResponse),
    m.ControllerRegistrationRequest: _whole(m.ControllerRegistrationResponse),
    m.AlterPartitionRequest: _whole(m.AlterPartitionResponse),
    m.AssignReplicasToDirsRequest: _whole(m.AssignReplicasToDirsResponse),
    m.AllocateProducerIdsRequest: _whole(m.AllocateProducerIdsResponse),
    m.UpdateFeaturesRequest: _whole(m.UpdateFeaturesResponse),
    DescribeQuorumRequest: lambda _request, error, _message: DescribeQuorumResponse(
        error, NO_NODE, -1, -1, top_level_error=error
    ),
    AddVoterRequest: lambda _request, error, message: AddVoterResponse(error, message),
    RemoveVoterRequest: lambda _request, error, message: RemoveVoterResponse(error, message),
}

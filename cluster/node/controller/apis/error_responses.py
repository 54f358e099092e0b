"""The response to a request of which everything failed alike (AbstractRequest.getErrorResponse)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.kraft import voter_messages
from cluster.node.kraft.messages import NO_NODE, DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import ApiKey, highest_response_class
from cluster.node.protocol.convert import schema_default
from cluster.node.wire.schema import element, is_array

_RESOURCE = "resource_type", "resource_name"
_ROWS: Final[Mapping[type[Any], tuple[str, str, tuple[str, ...]]]] = {
    m.CreateTopicsRequest: ("topics", "topics", ("name",)),
    m.DeleteTopicsRequest: ("responses", "topics", ("name", "topic_id")),
    m.CreatePartitionsRequest: ("results", "topics", ("name",)),
    m.IncrementalAlterConfigsRequest: ("responses", "resources", _RESOURCE),
    m.DescribeConfigsRequest: ("results", "resources", _RESOURCE),
    # At the top since version 13; for older ones, for every topic.
    m.MetadataRequest: ("topics", "topics", ("name", "topic_id")),
}
"""Where an answer has an error for each thing asked for: the answer's field, the request's,
and the fields that a row repeats. All others have one at the top."""
_REPEATED: Final = (m.DescribeConfigsRequest, m.MetadataRequest)
"""Requests whose answers have a row for each element; others have one for equal elements."""


def error_response(request: Any, error: ErrorCode, message: str | None) -> Any:
    """Return the response with this error in every place that has one."""
    match request:
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(error, NO_NODE, -1, -1, top_level_error=error)
        case voter_messages.AddVoterRequest():
            return voter_messages.AddVoterResponse(error, message)
        case voter_messages.RemoveVoterRequest():
            return voter_messages.RemoveVoterResponse(error, message)
        case m.ElectLeadersRequest():
            return _elections(request, error, message)
    response = highest_response_class(ApiKey(request.__api_key__))
    rows = _ROWS.get(type(request))
    if rows is None:
        return _fill(response, error, message)
    name, asked, keys = rows
    row = element(response.__dataclass_fields__[name].type)
    elements = [tuple(getattr(e, key) for key in keys) for e in getattr(request, asked) or ()]
    if not isinstance(request, _REPEATED):
        elements = list(dict.fromkeys(elements))
    filled = (_fill(row, error, message, **dict(zip(keys, e, strict=True))) for e in elements)
    return _fill(response, error, message, **{name: tuple(filled)})


def _fill(entity: type[Any], error: ErrorCode, message: str | None, **known: Any) -> Any:
    values = {"error_code": error, "error_message": message, **known}
    for field in fields(entity):
        if field.name not in values and field.default is MISSING:
            values[field.name] = () if is_array(field.type) else schema_default(field, entity)
    has = entity.__dataclass_fields__
    return entity(**{name: value for name, value in values.items() if name in has})


def _elections(request: m.ElectLeadersRequest, error: ErrorCode, message: str | None) -> Any:
    """Return the error at the top, which version 0 lacks, and for every partition asked about."""
    results = tuple(
        m.ElectLeadersTopicResult(
            topic=topic.topic,
            partition_result=tuple(
                _fill(m.ElectLeadersPartitionResult, error, message, partition_id=index)
                for index in dict.fromkeys(topic.partitions)
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return _fill(m.ElectLeadersResponse, error, message, replica_election_results=results)

"""Requests that the active controller carries out; every other node answers NOT_CONTROLLER."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, Final

from cluster.node.controller.brokers.broker_lifecycle import broker_heartbeat
from cluster.node.controller.brokers.cluster_control import (
    register_broker,
    register_controller,
    unregister_broker,
)
from cluster.node.controller.configs.configuration_control import incremental_alter_configs
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.core.feature_control import update_features
from cluster.node.controller.metadata.registrations import ClusterInfo, checked_epoch
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import NEXT_PRODUCER_ID, MetadataState
from cluster.node.controller.partitions.alter_partition import (
    alter_partition,
    assign_replicas_to_dirs,
)
from cluster.node.controller.partitions.elections import elect_leaders
from cluster.node.controller.partitions.reassignment import alter_partition_reassignments
from cluster.node.controller.records.kinds import ProducerIdsRecord
from cluster.node.controller.topics.topic_changes import create_partitions, delete_topics
from cluster.node.controller.topics.topic_creation import create_topics
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    NO_NODE,
    AddVoterRequest,
    AddVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from cluster.node.ports import Random
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import ApiKey, highest_response_class
from cluster.node.protocol.convert import schema_default
from cluster.node.protocol.messages import ProducerId, i32
from cluster.node.wire.schema import element, is_array

# The response to a request of which everything failed alike (AbstractRequest.getErrorResponse).

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
        case AddVoterRequest():
            return AddVoterResponse(error, message)
        case RemoveVoterRequest():
            return RemoveVoterResponse(error, message)
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


PRODUCER_ID_BLOCK_SIZE = 1_000
"""ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE"""
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    request: m.AllocateProducerIdsRequest, state: MetadataState
) -> ControllerResult[m.AllocateProducerIdsResponse]:
    """Give the next block of ids, which no broker gets twice (KIP-730, ProducerIdControlManager).

    Raises RequestError: STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when there is none left.
    """
    checked_epoch(state, request.broker_id, request.broker_epoch)
    first = state.producer_ids.get(NEXT_PRODUCER_ID) or 0
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        message = f"Exhausted all producerIds as the next block's end would exceed {first}"
        raise RequestError(ErrorCode.unknown_server_error, message)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    return ControllerResult(
        records=(record,),
        response=m.AllocateProducerIdsResponse(
            throttle_time=m.NO_THROTTLE,
            error_code=ErrorCode.none,
            producer_id_start=ProducerId(first),
            producer_id_len=i32(PRODUCER_ID_BLOCK_SIZE),
        ),
    )


DEFAULT_TIMEOUT_MS = 30_000.0
Generate = Callable[[Any, MetadataState], ControllerResult[Any]]
Handler = Callable[[str, Any, Callable[[Any], None]], None]


class WriteApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController, cluster: ClusterInfo, random: Random) -> None:
        self._controller = controller
        self._cluster = cluster
        generators: dict[type, Generate] = {
            m.CreateTopicsRequest: lambda r, state: create_topics(r, state, cluster, random),
            m.DeleteTopicsRequest: delete_topics,
            m.CreatePartitionsRequest: lambda r, state: create_partitions(
                r, state, cluster, random
            ),
            m.IncrementalAlterConfigsRequest: lambda r, state: incremental_alter_configs(
                r, state, cluster
            ),
            m.ElectLeadersRequest: elect_leaders,
            m.AlterPartitionReassignmentsRequest: lambda r, state: alter_partition_reassignments(
                r, state, cluster
            ),
            m.BrokerRegistrationRequest: self._register_broker,
            m.BrokerHeartbeatRequest: self._heartbeat,
            m.UnregisterBrokerRequest: lambda r, state: unregister_broker(
                r, state, controller.heartbeats
            ),
            m.ControllerRegistrationRequest: register_controller,
            m.AlterPartitionRequest: alter_partition,
            m.AssignReplicasToDirsRequest: assign_replicas_to_dirs,
            m.AllocateProducerIdsRequest: allocate_producer_ids,
            m.UpdateFeaturesRequest: lambda r, state: update_features(r, state, cluster),
        }
        self.handlers: dict[type, Handler] = {
            request_type: self._handler(generate) for request_type, generate in generators.items()
        }

    def _handler(self, generate: Generate) -> Handler:
        def handle(_listener: str, request: Any, reply: Callable[[Any], None]) -> None:
            if isinstance(request, m.BrokerHeartbeatRequest):
                self._controller.heartbeats.note_arrival(request.broker_id, request.broker_epoch)
            timeout = getattr(request, "timeout", None)
            self._controller.append_write_event(
                lambda state: generate(request, state),
                partial(error_response, request),
                DEFAULT_TIMEOUT_MS if timeout is None else timeout.total_seconds() * 1000,
                reply,
            )

        return handle

    def _register_broker(
        self, request: m.BrokerRegistrationRequest, state: MetadataState
    ) -> ControllerResult[m.BrokerRegistrationResponse]:
        controller = self._controller
        result = register_broker(request, state, self._cluster, controller.heartbeats)
        controller.periodic_tasks.start()
        return result

    def _heartbeat(
        self, request: m.BrokerHeartbeatRequest, state: MetadataState
    ) -> ControllerResult[m.BrokerHeartbeatResponse]:
        return broker_heartbeat(request, state, self._controller.heartbeats)

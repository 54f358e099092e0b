"""Requests that a broker-type listener takes for the active controller.

A broker wraps them in an Envelope and sends them on (ForwardingManager, KIP-590); stock clients
rely on it, because they may ask any broker. Only that listener forwards: a harness that talks to
controller listeners learns from NOT_CONTROLLER that nothing was appended.

What becomes of a request after a failed forwarding is reported as far as it is known: never sent is
NOT_CONTROLLER, sent without an answer is REQUEST_TIMED_OUT. An Envelope that the controller refuses
is UNKNOWN_SERVER_ERROR, as in Kafka: whatever is wrong with it is not the client's fault. Kafka
waits for another controller after NOT_CONTROLLER; here the client gets the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.node.controller.error_responses import (
    alter_configs_error,
    alter_reassignments_error,
    create_partitions_error,
    create_topics_error,
    delete_topics_error,
    elect_leaders_error,
    list_reassignments_error,
)
from cluster.node.controller.scram_control import alter_scram_error
from cluster.node.envelope import EnvelopeError, seal, unseal_response
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from cluster.node.ports import Endpoint, Failure, Network
from cluster.node.protocol.codec import MalformedError
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cluster.node.protocol.origin import ANONYMOUS, Origin

DEFAULT_TIMEOUT_MS: Final = 30_000.0
"""For requests that carry no time-out of their own."""

_NOT_SENT: Final = frozenset({Failure.NOT_SENT, Failure.UNSUPPORTED_VERSION})

_ERROR_RESPONSES: Final[dict[type[Any], Callable[[Any, ErrorCode, str | None], Any]]] = {
    CreateTopicsRequest: create_topics_error,
    DeleteTopicsRequest: delete_topics_error,
    CreatePartitionsRequest: create_partitions_error,
    IncrementalAlterConfigsRequest: alter_configs_error,
    ElectLeadersRequest: elect_leaders_error,
    AlterPartitionReassignmentsRequest: alter_reassignments_error,
    ListPartitionReassignmentsRequest: list_reassignments_error,
    AlterUserScramCredentialsRequest: alter_scram_error,
    UnregisterBrokerRequest: lambda _request, error, message: UnregisterBrokerResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message
    ),
    UpdateFeaturesRequest: lambda _request, error, message: UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message
    ),
    DescribeQuorumRequest: lambda _request, error, _message: DescribeQuorumResponse(
        error, -1, -1, -1, top_level_error=error
    ),
    AddVoterRequest: lambda _request, error, message: AddVoterResponse(error, message),
    RemoveVoterRequest: lambda _request, error, message: RemoveVoterResponse(error, message),
}


def is_for_controller(message: object) -> bool:
    """Return whether only the active controller can answer a request."""
    return type(message) in _ERROR_RESPONSES


def forward(
    network: Network,
    leader: Endpoint,
    message: Any,
    reply: Callable[[object], None],
    origin: Origin = ANONYMOUS,
) -> None:
    """Send a request on to the leader's controller listener, and its answer back."""
    timeout = getattr(message, "timeout", None)
    timeout_ms = DEFAULT_TIMEOUT_MS if timeout is None else timeout.total_seconds() * 1000
    if isinstance(message, AddVoterRequest):
        timeout_ms = message.timeout_ms
    answered = False

    def on_reply(response: object) -> None:
        nonlocal answered
        if answered:  # a faulty network may deliver twice
            return
        answered = True
        reply(_unsealed(message, leader, response))

    network.request(leader, seal(message, origin), max(timeout_ms, 1.0), on_reply)


def _unsealed(message: Any, leader: Endpoint, response: Any) -> object:
    if isinstance(response, Failure):
        unsent = response in _NOT_SENT
        error = ErrorCode.not_controller if unsent else ErrorCode.request_timed_out
        detail = response.value
    else:
        try:
            return unseal_response(message, response)
        except EnvelopeError as refused:
            known = refused.error is ErrorCode.not_controller
            error = refused.error if known else ErrorCode.unknown_server_error
            detail = f"{refused} ({refused.error.name})"
        except MalformedError as malformed:
            error, detail = ErrorCode.unknown_server_error, str(malformed)
    text = f"forwarding to node {leader.node_id}: {detail}"
    return _ERROR_RESPONSES[type(message)](message, error, text)

"""AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82) between flat form and kio."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    AddVoterResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from cluster.node.log.batch.control import VoterListener
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.convert import ConversionError
from cluster.node.protocol.raft_schema import RaftCodec, directory, reachable, schema

_NO_THROTTLE: Final = dt.timedelta(0)

_add_request = schema(ApiKey.ADD_RAFT_VOTER, "request")
_add_response = schema(ApiKey.ADD_RAFT_VOTER, "response")
_remove_request = schema(ApiKey.REMOVE_RAFT_VOTER, "request")
_remove_response = schema(ApiKey.REMOVE_RAFT_VOTER, "response")
_update_request = schema(ApiKey.UPDATE_RAFT_VOTER, "request")
_update_response = schema(ApiKey.UPDATE_RAFT_VOTER, "response")


def _write_listeners(entity: Any, listeners: tuple[VoterListener, ...]) -> tuple[Any, ...]:
    return tuple(
        entity(name=listener.name, host=listener.host, port=listener.port) for listener in listeners
    )


def _read_listeners(listeners: Any) -> tuple[VoterListener, ...]:
    if listeners is None:
        raise ConversionError("the array of listeners is null")
    return tuple(
        VoterListener(listener.name, listener.host, listener.port) for listener in listeners
    )


def _write_add_request(m: AddVoterRequest) -> Any:
    return _add_request.AddRaftVoterRequest(
        cluster_id=m.cluster_id,
        timeout=dt.timedelta(milliseconds=m.timeout_ms),
        voter_id=m.voter_id,
        voter_directory_id=m.voter_directory_id,
        listeners=_write_listeners(_add_request.Listener, m.listeners),
        ack_when_committed=m.ack_when_committed,
    )


def _read_add_request(k: Any) -> AddVoterRequest:
    return AddVoterRequest(
        cluster_id=k.cluster_id,
        timeout_ms=round(k.timeout.total_seconds() * 1000),
        voter_id=k.voter_id,
        voter_directory_id=directory(k.voter_directory_id),
        listeners=_read_listeners(k.listeners),
        ack_when_committed=k.ack_when_committed,
    )


def _write_remove_request(m: RemoveVoterRequest) -> Any:
    return _remove_request.RemoveRaftVoterRequest(
        cluster_id=m.cluster_id,
        voter_id=m.voter_id,
        voter_directory_id=m.voter_directory_id,
    )


def _read_remove_request(k: Any) -> RemoveVoterRequest:
    return RemoveVoterRequest(k.cluster_id, k.voter_id, directory(k.voter_directory_id))


def _change_response_codec(
    entity: Any, answer: type[AddVoterResponse | RemoveVoterResponse]
) -> tuple[Any, Any]:
    """Return writer and reader of the responses to Add and Remove, which are alike."""

    def write(m: Any) -> Any:
        return entity(throttle_time=_NO_THROTTLE, error_code=m.error, error_message=m.message)

    def read(k: Any) -> Any:
        return answer(k.error_code, k.error_message)

    return write, read


def _write_update_request(m: UpdateVoterRequest) -> Any:
    return _update_request.UpdateRaftVoterRequest(
        cluster_id=m.cluster_id,
        current_leader_epoch=m.current_leader_epoch,
        voter_id=m.voter_id,
        voter_directory_id=m.voter_directory_id,
        listeners=_write_listeners(_update_request.Listener, m.listeners),
        k_raft_version_feature=_update_request.KRaftVersionFeature(
            min_supported_version=m.min_kraft_version,
            max_supported_version=m.max_kraft_version,
        ),
    )


def _read_update_request(k: Any) -> UpdateVoterRequest:
    return UpdateVoterRequest(
        cluster_id=k.cluster_id,
        current_leader_epoch=k.current_leader_epoch,
        voter_id=k.voter_id,
        voter_directory_id=directory(k.voter_directory_id),
        listeners=_read_listeners(k.listeners),
        min_kraft_version=k.k_raft_version_feature.min_supported_version,
        max_kraft_version=k.k_raft_version_feature.max_supported_version,
    )


def _write_update_response(m: UpdateVoterResponse) -> Any:
    where: dict[str, Any] = {"host": "", "port": 0}  # nobody listens there: not known
    if m.leader_endpoint is not None:
        where = {"host": m.leader_endpoint.host, "port": m.leader_endpoint.port}
    leader = _update_response.CurrentLeader(
        leader_id=m.leader_id, leader_epoch=m.leader_epoch, **where
    )
    return _update_response.UpdateRaftVoterResponse(
        throttle_time=_NO_THROTTLE, error_code=m.error, current_leader=leader
    )


def _read_update_response(k: Any) -> UpdateVoterResponse:
    leader = k.current_leader
    endpoint = None
    if leader.leader_id != NO_NODE:
        endpoint = reachable(leader.leader_id, leader.host, leader.port)
    return UpdateVoterResponse(k.error_code, leader.leader_id, leader.leader_epoch, endpoint)


ADD_VOTER: Final = RaftCodec(
    ApiKey.ADD_RAFT_VOTER,
    _write_add_request,
    _read_add_request,
    *_change_response_codec(_add_response.AddRaftVoterResponse, AddVoterResponse),
)
REMOVE_VOTER: Final = RaftCodec(
    ApiKey.REMOVE_RAFT_VOTER,
    _write_remove_request,
    _read_remove_request,
    *_change_response_codec(_remove_response.RemoveRaftVoterResponse, RemoveVoterResponse),
)
UPDATE_VOTER: Final = RaftCodec(
    ApiKey.UPDATE_RAFT_VOTER,
    _write_update_request,
    _read_update_request,
    _write_update_response,
    _read_update_response,
)

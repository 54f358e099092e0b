"""Envelope: a client's request on its way from a broker to the active controller (KIP-590).

The broker names the principal that asks, and its address; the controller answers with the wrapped
response, or with an error of the envelope itself, in which case the request was not carried out:

    NOT_CONTROLLER                    as the wrapped response would have said (EnvelopeUtils)
    PRINCIPAL_DESERIALIZATION_FAILURE no principal that can be read
    INVALID_REQUEST                   no address, or an API that is not forwarded
    UNSUPPORTED_VERSION               an embedded request that cannot be read

A client of the controller listener may send envelopes, as in Kafka without an authorizer. At a node
of ours the principal decides nothing; a controller of Kafka authorizes it.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import struct
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from cluster.node.controller.records.schema import Message, read_message, write_message
from cluster.node.controller.records.wire import BOOL, STRING, MetadataRecordError, Reader
from cluster.node.errors import ErrorCode
from cluster.node.protocol import codec
from cluster.node.protocol.apis import SERVED, ApiKey, Origin, VersionRange
from cluster.node.protocol.messages import EnvelopeRequest, EnvelopeResponse
from cluster.node.wire.bounds import MalformedError
from cluster.values import valueclass

FORWARDABLE: Final[Mapping[int, VersionRange]] = {
    int(key): SERVED[key]
    for key in (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
}
"""What a broker may pass on (ApiKeys.forwardable), of what is served here."""

_SIZE_BYTES: Final = 4
_KEY: Final = struct.Struct(">h")
_VERSION: Final = struct.Struct(">h")
_PRINCIPAL_VERSION: Final = 0
_CORRELATION_ID: Final = 0


@valueclass(kw_only=True)
class _DefaultPrincipalData(Message):
    """Kafka's DefaultPrincipalData.json, version 0."""

    type: Annotated[str, STRING]
    name: Annotated[str, STRING]
    token_authenticated: Annotated[bool, BOOL] = False


class EnvelopeError(Exception):
    """The request in an envelope is not carried out; `error` is the code that says so."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def seal(message: Any, origin: Origin) -> EnvelopeRequest:
    """Wrap a client's request, in the highest version: what an older one said is in it."""
    version = SERVED[codec.api_key_of(message)].highest
    frame = codec.write_request(message, version, _CORRELATION_ID, origin.client_id)
    principal = bytearray(_VERSION.pack(_PRINCIPAL_VERSION))
    data = _DefaultPrincipalData(type=origin.principal_type, name=origin.principal_name)
    write_message(principal, data, _PRINCIPAL_VERSION)
    return EnvelopeRequest(
        request_data=frame[_SIZE_BYTES:],
        request_principal=bytes(principal),
        client_host_address=_pack(origin.address),
    )


def unseal_response(message: Any, response: EnvelopeResponse) -> Any:
    """Return the response to a request that was sealed. Raises EnvelopeError, MalformedError."""
    if response.error_code is not ErrorCode.none:
        raise EnvelopeError(response.error_code, "the controller refused the envelope")
    key = codec.api_key_of(message)
    if response.response_data is None:
        raise MalformedError("an envelope without a response")
    return codec.read_response(response.response_data, key, SERVED[key].highest)


def unseal(envelope: EnvelopeRequest) -> tuple[codec.Request, Origin]:
    """Return the request in an envelope, and its origin. Raises EnvelopeError."""
    principal = _principal(envelope.request_principal)
    if len(envelope.client_host_address) not in {4, 16}:
        raise EnvelopeError(ErrorCode.invalid_request, "no address of the client")
    address = str(ipaddress.ip_address(envelope.client_host_address))
    frame = envelope.request_data
    if len(frame) < _KEY.size:
        raise EnvelopeError(ErrorCode.unsupported_version, "no header of a request")
    (key,) = _KEY.unpack_from(frame)
    if key not in FORWARDABLE:
        raise EnvelopeError(ErrorCode.invalid_request, f"API {key} is not eligible for forwarding")
    try:
        request = codec.read_request(frame, FORWARDABLE)
    except MalformedError as error:
        raise EnvelopeError(ErrorCode.unsupported_version, str(error)) from error
    return request, Origin(principal.type, principal.name, address, request.client_id or "")


def answer_to(request: codec.Request, reply: Callable[[object], None]) -> Callable[[Any], None]:
    """Return what takes the answer to a request out of an envelope, and replies with another."""

    def on_answer(message: Any) -> None:
        if contains(message, ErrorCode.not_controller):
            reply(refusal(ErrorCode.not_controller))
            return
        try:
            frame = codec.write_response(request, message)
        except codec.UnwritableError:
            reply(refusal(ErrorCode.unknown_server_error))
        else:
            data = frame[_SIZE_BYTES:]
            reply(EnvelopeResponse(response_data=data, error_code=ErrorCode.none))

    return on_answer


def refusal(error: ErrorCode) -> EnvelopeResponse:
    """Return an envelope that holds nothing but an error of its own."""
    return EnvelopeResponse(response_data=None, error_code=error)


def contains(value: Any, error: ErrorCode) -> bool:
    """Return whether an error code is anywhere in a response (AbstractResponse.errorCounts)."""
    if isinstance(value, ErrorCode):
        return value is error
    if isinstance(value, tuple):
        return any(contains(item, error) for item in value)
    if dataclasses.is_dataclass(value):
        return any(
            contains(getattr(value, field.name), error) for field in dataclasses.fields(value)
        )
    return False


def _principal(data: bytes | None) -> _DefaultPrincipalData:
    try:
        return _read_principal(data or b"")
    except (MetadataRecordError, struct.error) as error:
        raise EnvelopeError(ErrorCode.principal_deserialization_failure, str(error)) from error


def _read_principal(data: bytes) -> _DefaultPrincipalData:
    (version,) = _VERSION.unpack_from(data)
    if version != _PRINCIPAL_VERSION:
        raise MetadataRecordError(f"a principal of version {version}")
    reader = Reader(data[_VERSION.size :])
    found = read_message(reader, _DefaultPrincipalData, version)
    if reader.remaining:
        raise MetadataRecordError(f"{reader.remaining} bytes after the principal")
    return found


def _pack(address: str) -> bytes:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).packed
    except ValueError:  # a world without addresses
        return ipaddress.IPv4Address(0).packed

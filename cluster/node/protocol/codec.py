"""Requests and responses as bytes: headers, bodies, and the version that was agreed.

A message object is either flat (`cluster.node.kraft.messages`, Produce and Fetch of
`cluster.node.protocol.data_messages`) or of the highest version that is served
(`cluster.node.protocol.messages`); this module is where it meets any other version. A Fetch is of
data on a broker-type listener and of metadata on others, which its bytes do not say. Whatever
a peer sends, reading it either gives a message or raises `MalformedError`. kio alone does not keep
that promise, so `cluster.node.wire.bounds` walks every frame before kio reads it: no length can
make us allocate more than a small multiple of what arrived, and unknown tagged fields are skipped.

Source: Kafka protocol guide; request header v1 or v2 (KIP-482), response header v0 or v1, and v0
always for ApiVersions (KIP-511).
"""

from __future__ import annotations

import io
import struct
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import (
    SPOKEN,
    ApiKey,
    ListenerType,
    VersionRange,
    highest_request_class,
    highest_response_class,
    request_class,
    response_class,
)
from cluster.node.protocol.convert import ConversionError, convert
from cluster.node.protocol.data_codecs import FETCH, PRODUCE
from cluster.node.protocol.data_messages import FetchRequest, ProduceRequest
from cluster.node.protocol.data_schema import DataCodec
from cluster.node.protocol.raft_codec import CODECS, REQUEST_KEYS
from cluster.node.protocol.raft_schema import RaftCodec, Refused
from cluster.node.wire.bounds import MalformedError, bound_frame
from cluster.node.wire.schema import element
from cluster.values import valueclass

_SIZE_AND_REQUEST: Final = struct.Struct(">ihhi")
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_REQUEST_START: Final = struct.Struct(">hhi")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")

MAX_REQUEST_ELEMENTS: Final = 10_000
"""How many array elements and tagged fields a request may hold, all its arrays together.

Kafka has no such limit. Here one thread reads, serves and answers a request in one piece, at up to
15 us an element, so that 100,000 of them kept the node from everybody else for 1.5 s, and whoever
reaches a listener may send them. 10,000 stay below 200 ms in every API (benchmarks.node.requests);
Kafka's controller makes as many records of a request at most (MAX_RECORDS_PER_USER_OP), and a
broker assigns 2,250 replicas to folders at a time (AssignmentsManager).
"""
MAX_RESPONSE_ELEMENTS: Final = 1_000_000
"""The same of a response, which peers send that this node asked: 100,000 partitions with all
replicas. Of ApiVersions as many as of a request: anybody can have a node asked as a new voter."""

_DATA_REQUESTS: Final[Mapping[type[Any], DataCodec]] = {
    ProduceRequest: PRODUCE,
    FetchRequest: FETCH,
}
"""Which mapping is each flat request's."""
_DATA_CODECS: Final = {codec.key: codec for codec in _DATA_REQUESTS.values()}
_CODECS: Final[Mapping[ListenerType, Mapping[ApiKey, RaftCodec | DataCodec]]] = {
    ListenerType.BROKER: {**CODECS, **_DATA_CODECS},
    ListenerType.CONTROLLER: {**_DATA_CODECS, **CODECS},
}
"""They differ in what a Fetch is."""

_READ_ERRORS: Final = (
    SerialError,
    ConversionError,
    ValueError,
    OverflowError,
    TypeError,
    LookupError,
)
"""What kio and the mappings raise for bytes that they cannot read."""


class UnwritableError(Exception):
    """A message that the agreed version has no bytes for."""


@valueclass
class Request:
    """A request as it arrived, and what its answer must look like."""

    key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    message: Any
    """Flat, or of the highest served version; ErrorCode when `refusal` is set."""
    refusal: Any = None
    """kio's response to a request that no handler must see."""
    listener: ListenerType = ListenerType.CONTROLLER
    """The type of the listener that it came to."""


def api_key_of(message: object) -> ApiKey:
    """Return the API of a request message."""
    of_data = _DATA_REQUESTS.get(type(message))
    if of_data is not None:
        return of_data.key
    key = REQUEST_KEYS.get(type(message))
    return ApiKey(message.__api_key__) if key is None else key  # type: ignore[attr-defined]  # every kio payload has it


def listener_of(message: object) -> ListenerType:
    """Return the type of listener that reads a request as what it is: see Fetch."""
    return ListenerType.BROKER if type(message) in _DATA_REQUESTS else ListenerType.CONTROLLER


def spoken_versions(message: object) -> VersionRange:
    """Return the versions in which a request of ours can be sent: of kio's, its class's at most."""
    of_data = _DATA_REQUESTS.get(type(message))
    if of_data is not None:
        return of_data.versions_for(message)  # type: ignore[arg-type]  # of the type that it was found by
    spoken = SPOKEN[api_key_of(message)]
    newest: int = getattr(message, "__version__", spoken.highest)
    return VersionRange(spoken.lowest, min(spoken.highest, newest))


def read_request(
    frame: bytes,
    served: Mapping[int, VersionRange],
    listener: ListenerType = ListenerType.CONTROLLER,
) -> Request:
    """Read a request frame (without its size) of an API that the listener serves.

    An ApiVersions request of an unknown version is refused in version 0 with
    UNSUPPORTED_VERSION, as KIP-511 asks. Raises MalformedError for everything unreadable, an API
    or version that is not served included: Kafka closes the connection then.
    """
    if len(frame) < _REQUEST_START.size:
        raise MalformedError("a frame without a header")
    key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    versions = served.get(key)
    if versions is None:
        raise MalformedError(f"API key {key} is not served here")
    if version not in versions:
        if key == ApiKey.API_VERSIONS:
            return Request(
                ApiKey.API_VERSIONS, 0, correlation_id, None, ErrorCode.unsupported_version
            )
        raise MalformedError(f"{ApiKey(key).name} version {version} is not served here")
    api = ApiKey(key)
    entity: Any = request_class(key, version)
    frame = bound_frame(
        frame, (entity.__header_schema__, entity), max_elements=MAX_REQUEST_ELEMENTS
    )
    try:
        header, offset = entity_reader(entity.__header_schema__)(frame, 0)
        # Bytes may be left: librdkafka sends three too many with Metadata v13 for all topics, and
        # Kafka does not look.
        body, _ = entity_reader(entity)(frame, offset)
        message = _lift(_CODECS[listener].get(api), body, highest_request_class(api))
    except Refused as refused:
        return Request(
            api, version, correlation_id, header.client_id, None, refused.response, listener
        )
    except _READ_ERRORS as error:
        raise MalformedError(f"{api.name} version {version}: {error}") from error
    return Request(api, version, correlation_id, header.client_id, message, listener=listener)


def _lift(codec: RaftCodec | DataCodec | None, body: Any, highest: type[Any]) -> Any:
    """Return a request or response of any version as the message that nodes handle."""
    if codec is None:
        return convert(body, highest)
    if isinstance(codec, RaftCodec) and type(body) is not highest:
        body = convert(body, highest)
    is_request = body.__type__ is EntityType.request
    return codec.read_request(body) if is_request else codec.read_response(body)


def write_response(request: Request, message: Any) -> bytes:
    """Return the frame, with its size, that answers `request`. Raises UnwritableError."""
    codec = _CODECS[request.listener].get(request.key)
    if codec is not None and type(message) is not highest_response_class(request.key):
        if isinstance(codec, DataCodec):
            message = codec.write_response(message, request.version)
        else:
            message = codec.write_response(message)
    entity = response_class(request.key, request.version)
    if request.key is ApiKey.UPDATE_FEATURES and type(message) is not entity:
        message = _with_results(request, message, entity)
    buffer = io.BytesIO()
    buffer.write(_SIZE_AND_CORRELATION.pack(0, request.correlation_id))
    if entity.__header_schema__.__flexible__:
        buffer.write(b"\0")
    _write_body(buffer, entity, message)
    return _read_sized(buffer)


def _with_results(request: Request, response: Any, entity: Any) -> Any:
    """Return UpdateFeatures' answer with a result for each feature, which version 2 dropped.

    As in Kafka there are results only when all features were updated (KIP-1022).
    """
    old = convert(response, entity)
    if response.error_code is not ErrorCode.none:
        return old
    result = element(typing.get_type_hints(entity)["results"])
    names = [update.feature for update in request.message.feature_updates]
    return replace(
        old,
        results=tuple(
            result(feature=name, error_code=ErrorCode.none, error_message="NONE") for name in names
        ),
    )


def write_request(message: Any, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return the whole frame of a request. Raises UnwritableError."""
    key = api_key_of(message)
    codec = _CODECS[listener_of(message)].get(key)
    if isinstance(codec, DataCodec):
        message = codec.write_request(message, version)
    elif codec is not None:
        message = codec.write_request(message)
    entity: Any = request_class(key, version)
    client = client_id.encode()
    buffer = io.BytesIO()
    buffer.write(_SIZE_AND_REQUEST.pack(0, key, version, correlation_id))
    buffer.write(_INT16.pack(len(client)))
    buffer.write(client)
    if entity.__header_schema__.__flexible__:
        buffer.write(b"\0")
    _write_body(buffer, entity, message)
    return _read_sized(buffer)


def correlation_id_of(frame: bytes) -> int:
    """Return the correlation id of a response frame. Raises MalformedError."""
    if len(frame) < _INT32.size:
        raise MalformedError("a response without a header")
    (correlation_id,) = _INT32.unpack_from(frame)
    return int(correlation_id)


def read_response(
    frame: bytes, key: ApiKey, version: int, listener: ListenerType = ListenerType.CONTROLLER
) -> Any:
    """Return the response to a request of this version. Raises MalformedError."""
    if key == ApiKey.API_VERSIONS and len(frame) >= 6 and version > 0:
        (error,) = _INT16.unpack_from(frame, _INT32.size)
        if error == ErrorCode.unsupported_version:
            version = 0  # so is the body of this one error (KIP-511)
    entity: Any = response_class(key, version)
    most = MAX_REQUEST_ELEMENTS if key is ApiKey.API_VERSIONS else MAX_RESPONSE_ELEMENTS
    frame = bound_frame(frame, (entity.__header_schema__, entity), max_elements=most)
    try:
        _, offset = entity_reader(entity.__header_schema__)(frame, 0)
        body, size = entity_reader(entity)(frame, offset)
        if offset + size != len(frame):
            raise MalformedError(f"{len(frame) - offset - size} bytes after {entity.__name__}")
        return _lift(_CODECS[listener].get(key), body, highest_response_class(key))
    except _READ_ERRORS as error:
        raise MalformedError(f"response to {key.name} version {version}: {error}") from error


def _write_body(buffer: io.BytesIO, entity: Any, message: Any) -> None:
    try:
        if type(message) is not entity:
            message = convert(message, entity)
        entity_writer(entity)(buffer, message)
    except (SerialError, ConversionError) as error:
        raise UnwritableError(f"{entity.__name__} v{entity.__version__}: {error}") from error


def _read_sized(buffer: io.BytesIO) -> bytes:
    view = buffer.getbuffer()
    _INT32.pack_into(view, 0, len(view) - _INT32.size)
    view.release()
    return buffer.getvalue()

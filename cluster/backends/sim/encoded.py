"""Requests and responses that cross the simulated network as bytes: those of a foreign node.

Nodes of one kind exchange the very bytes, which no codec of ours touches. Rules and faults that
look at a message's type find it in `kind`, and at its fields by decoding it once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final

from cluster.node.protocol import codec
from cluster.node.protocol.apis import (
    LISTENER_APIS,
    ApiKey,
    Features,
    ListenerType,
    request_class,
    response_class,
)
from cluster.node.protocol.raft_codec import REQUEST_KEYS
from cluster.node.protocol.server import ListenerService, RequestHandler

_CONTROLLER: Final = ListenerType.CONTROLLER
_REQUEST_HEADER: Final = struct.Struct(">hhih")
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4
_NAMES: Final = {
    ApiKey.API_VERSIONS: "ApiVersions",
    **{key: flat.__name__.removesuffix("Request") for flat, key in REQUEST_KEYS.items()},
}


class _Encoded:
    """A body in one version of its API, decoded when a field of its message is read."""

    __slots__ = ("_message", "api", "body", "version")
    suffix: ClassVar[str]

    def __init__(self, api: int, version: int, body: bytes) -> None:
        self.api = api
        self.version = version
        self.body = body
        self._message: Any = None

    @property
    def kind(self) -> str:
        """Name of the class that this repository's nodes use for it."""
        return f"{_NAMES[ApiKey(self.api)]}{self.suffix}"

    @property
    def message(self) -> Any:
        """The message of this repository's nodes. Raises MalformedError."""
        if self._message is None:
            self._message = self._decode()
        return self._message

    def _decode(self) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)


class EncodedRequest(_Encoded):
    """A request's body in one version of its API."""

    __slots__ = ()
    suffix = "Request"

    def encode_response(self, response: Any) -> EncodedResponse:
        """Encode what answers it. Raises MalformedError, UnwritableError."""
        frame = codec.write_response(self._request(), response)
        flexible = _is_flexible(response_class(self.api, self.version))
        body = frame[_SIZE_BYTES + _CORRELATION_BYTES + flexible :]
        return EncodedResponse(self.api, self.version, body)

    def _decode(self) -> Any:
        return self._request().message

    def _request(self) -> codec.Request:
        head = _REQUEST_HEADER.pack(self.api, self.version, 0, 0)
        tags = b"\0" if _is_flexible(request_class(self.api, self.version)) else b""
        return codec.read_request(head + tags + self.body, LISTENER_APIS[_CONTROLLER], _CONTROLLER)


class EncodedResponse(_Encoded):
    """A response's body in the version of its request."""

    __slots__ = ()
    suffix = "Response"

    def _decode(self) -> Any:
        tags = b"\0" if _is_flexible(response_class(self.api, self.version)) else b""
        frame = bytes(_CORRELATION_BYTES) + tags + self.body
        return codec.read_response(frame, ApiKey(self.api), self.version, _CONTROLLER)


def encode_request(message: Any, version: int) -> EncodedRequest:
    """Encode a request of this repository's nodes and clients. Raises UnwritableError."""
    api = codec.api_key_of(message)
    frame = codec.write_request(message, version, 0, "")
    head = _SIZE_BYTES + _REQUEST_HEADER.size + _is_flexible(request_class(api, version))
    return EncodedRequest(int(api), version, frame[head:])


def _is_flexible(entity: Any) -> bool:
    return bool(entity.__header_schema__.__flexible__)


ENCODED: Final = frozenset({EncodedRequest, EncodedResponse})


class WireService:
    """A listener of a simulated node behind the wire protocol: messages become bytes and back.

    Simulated messages cross as objects, which is fast and hides nothing but the codec. This way of
    serving takes each of them through `cluster.node.protocol`, both ways, as two real nodes would.
    """

    def __init__(
        self, listener: str, handler: RequestHandler, features: Callable[[], Features]
    ) -> None:
        kind = ListenerType.CONTROLLER if listener == "CONTROLLER" else ListenerType.BROKER
        self._kind = kind
        self._service = ListenerService(listener, kind, handler, features)
        self._apis = LISTENER_APIS[kind]
        self._correlation_id = 0

    def serve(self, message: Any, reply: Callable[[Any], None]) -> None:
        """Serve a request by its bytes and pass its response on. Raises MalformedError."""
        key = codec.api_key_of(message)
        version = codec.spoken_versions(message).highest_common(self._apis[key])
        assert version is not None, f"{key.name}: nodes of ours speak the same versions"
        self._correlation_id += 1
        frame = codec.write_request(message, version, self._correlation_id, "kraftprobe")

        def respond(response: bytes | None) -> None:
            if response:  # else there is none, or the connection ends: silence is what is left here
                reply(codec.read_response(response[_SIZE_BYTES:], key, version, self._kind))

        self._service.serve(frame[_SIZE_BYTES:], respond)

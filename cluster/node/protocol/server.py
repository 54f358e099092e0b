"""A listener without its sockets: a request frame goes in, a response frame comes out, once.

What is answered here needs no node: ApiVersions, SASL requests out of place, and raft requests
about another partition than the metadata partition. All else goes to the node's `RequestHandler`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol, cast

from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.apis import (
    ANONYMOUS,
    LISTENER_APIS,
    NO_FEATURES,
    ApiKey,
    Features,
    ListenerType,
    Origin,
    listed_apis,
)
from cluster.node.protocol.codec import Request, UnwritableError, read_request, write_response
from cluster.node.protocol.data_messages import wants_response
from cluster.node.protocol.messages import i16, i64
from cluster.values import valueclass

_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_OUT_OF_PLACE: Final[Mapping[ApiKey, Any]] = {
    ApiKey.SASL_HANDSHAKE: messages.SaslHandshakeResponse(
        error_code=ErrorCode.illegal_sasl_state, mechanisms=()
    ),
    ApiKey.SASL_AUTHENTICATE: messages.SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime=cast("messages.i64Timedelta", dt.timedelta(0)),
    ),
}
"""What SASL requests get where there is nothing to authenticate, or nothing any more."""


class RequestHandler(Protocol):
    """The node behind its listeners."""

    def handle(
        self,
        listener: str,
        message: object,
        reply: Callable[[object], None],
        origin: Origin = ANONYMOUS,
    ) -> None:
        """Take a request of `cluster.node.kraft.messages` or `cluster.node.protocol.messages`.

        Those of a broker-type listener's data path are `cluster.node.protocol.data_messages`'.
        `reply` is to be called at most once, maybe much later, or never; it takes the response to
        a Produce with acks 0 like any other, and only sees from it whether there was an error.
        """


@valueclass
class ListenerService:
    """One listener of a node: its name, what it serves, and what answers."""

    name: str
    type: ListenerType
    handler: RequestHandler
    features: Callable[[], Features] = lambda: NO_FEATURES
    """Asked anew for each ApiVersions request."""

    @property
    def serves_nodes(self) -> bool:
        """Whether nodes ask here what only they ask; a Fetch of data, too, has a key of theirs."""
        return self.type is ListenerType.CONTROLLER

    authenticated: ClassVar[bool] = True
    over: ClassVar[bool] = False
    """Whether nothing more is served after the response that was just given."""
    max_frame_bytes: ClassVar[int | None] = None

    def serve(
        self, frame: bytes, respond: Callable[[bytes | None], None], origin: Origin = ANONYMOUS
    ) -> None:
        """Serve one request of `origin`; `respond` gets the response frame, None to hang up.

        The frame is empty where the request wants no response: the next one may be served.
        `respond` is called at most once, maybe within this call. Raises MalformedError for a frame
        that has no answer: the caller closes the connection.
        """
        request = read_request(frame, LISTENER_APIS[self.type], self.type)
        if request.key is ApiKey.API_VERSIONS:
            respond(write_response(request, self._api_versions(request)))
        elif request.key in _OUT_OF_PLACE:
            respond(write_response(request, _OUT_OF_PLACE[request.key]))
        elif request.refusal is not None:
            respond(write_response(request, request.refusal))
        else:
            origin = replace(origin, client_id=request.client_id or "")
            self.handler.handle(self.name, request.message, _Reply(request, respond), origin)

    def _api_versions(self, request: Request) -> messages.ApiVersionsResponse:
        error = ErrorCode.none
        message: messages.ApiVersionsRequest | ErrorCode = request.message
        if isinstance(message, ErrorCode):
            error = message
        elif not (_valid(message.client_software_name) and _valid(message.client_software_version)):
            error = ErrorCode.invalid_request
        features = self.features() if error is ErrorCode.none else NO_FEATURES
        return messages.ApiVersionsResponse(
            error_code=error,
            api_keys=tuple(
                messages.ApiVersion(
                    api_key=i16(key), min_version=i16(v.lowest), max_version=i16(v.highest)
                )
                for key, v in listed_apis(self.type).items()
            ),
            throttle_time=messages.NO_THROTTLE,
            supported_features=_supported_features(features, request.version),
            finalized_features_epoch=i64(features.finalized_epoch),
            finalized_features=tuple(
                messages.FinalizedFeatureKey(
                    name=f.name, min_version_level=i16(f.level), max_version_level=i16(f.level)
                )
                for f in features.finalized
            ),
        )


def _supported_features(
    features: Features, version: int
) -> tuple[messages.SupportedFeatureKey, ...]:
    # Clients before version 4 refuse the whole answer at a feature from level 0 on (KAFKA-17011).
    lowest = 0 if version >= 4 else 1
    return tuple(
        messages.SupportedFeatureKey(
            name=f.name, min_version=i16(f.min_level), max_version=i16(f.max_level)
        )
        for f in features.supported
        if f.min_level >= lowest
    )


def _valid(software: str) -> bool:
    # Empty is what versions below 3, which do not carry it, are lifted to.
    return software == "" or _SOFTWARE_NAME.fullmatch(software) is not None


class _Reply:
    """Turns the handler's one answer into a frame of the version that was asked in."""

    __slots__ = ("_request", "_respond")

    def __init__(self, request: Request, respond: Callable[[bytes | None], None]) -> None:
        self._request = request
        self._respond: Callable[[bytes | None], None] | None = respond

    def __call__(self, message: Any) -> None:
        respond, self._respond = self._respond, None
        assert respond is not None, f"{self._request.key.name} was answered twice"
        if not wants_response(self._request.message):
            # The end of the connection is all that can say that something went wrong.
            failed = any(row.error is not ErrorCode.none for row in message.partitions)
            respond(None if failed else b"")
            return
        try:
            frame = write_response(self._request, message)
        except UnwritableError:
            # A sound answer without a form in an old version, such as a long string: Kafka, too,
            # ends the connection then.
            respond(None)
        else:
            respond(frame)

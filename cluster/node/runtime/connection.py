"""One client connection: asks for versions, authenticates where it must, carries frames."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import SPOKEN, ApiKey, VersionRange
from cluster.node.protocol.codec import correlation_id_of, read_response, write_request
from cluster.node.protocol.frames import FrameError, FrameSplitter
from cluster.node.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from cluster.node.security.mechanisms import ClientExchange, SaslError
from cluster.node.security.tls import ClientSecurity
from cluster.node.wire.bounds import MalformedError

_ASK_VERSIONS: Final = ApiVersionsRequest(
    client_software_name="kraftprobe", client_software_version="1"
)
_ASKED_VERSION: Final = 3
"""The highest that every broker since 2.4 reads: another would cost a round trip."""
_SETUP_CORRELATION_ID: Final = 0
"""Of all requests that are sent, one after the other, before the owner's first."""


class ConnectionOwner(Protocol):
    """What is notified of a connection's events."""

    @property
    def awaits_answer(self) -> bool:
        """Whether any request has no answer yet."""

    def connection_made(self, connection: PeerConnection) -> None:
        """Take a connection that just opened."""

    def on_versions(self, versions: Mapping[int, VersionRange]) -> None:
        """Learn which versions the peer serves."""

    def response(self, connection: PeerConnection, correlation_id: int, frame: bytes) -> None:
        """Take a response frame. May raise MalformedError."""

    def writable_again(self) -> None:
        """Learn that the socket takes bytes again."""

    def connection_ended(self, connection: PeerConnection, *, unreadable: bool = False) -> None:
        """Learn that the connection is over; `unreadable`: for what the peer sent."""


class PeerConnection(asyncio.Protocol):
    """Notifies its owner of responses and of its end, in the loop's callbacks."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: ConnectionOwner,
        client_id: str,
        security: ClientSecurity,
    ) -> None:
        self._loop = loop
        self._owner = owner
        self._client_id = client_id
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._asked_version = _ASKED_VERSION
        self._security = security
        self._awaited = ApiKey.API_VERSIONS
        self._versions: Mapping[int, VersionRange] = {}
        self._exchange: ClientExchange | None = None
        self._ready = False

    @property
    def writable(self) -> bool:
        """Whether a frame may be written now: connected, and nothing older still in our hands."""
        transport = self._transport
        return transport is not None and not self._paused and not transport.is_closing()

    def write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    def abort(self) -> None:
        """Close at once; the owner hears no more of it."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for versions. asyncio has set TCP_NODELAY."""
        self._transport = cast("asyncio.Transport", transport)
        # With no buffer of our own, a request waits unsent behind one that the socket refused.
        # asyncio's TLS pauses at the limit instead of above it: at 0 with nothing to write, too.
        self._transport.set_write_buffer_limits(high=0 if self._security.tls is None else 1)
        self._owner.connection_made(self)
        self._ask_versions()

    def data_received(self, data: bytes) -> None:
        if self._ready and not self._owner.awaits_answer:
            self._end(unreadable=True)  # nobody asked for this
            return
        try:
            for frame in self._splitter.feed(data):
                if self._transport is None:
                    return
                self._take(frame)
        except (FrameError, MalformedError):
            self._end(unreadable=True)
        except SaslError:
            self._end()
        except Exception as error:  # noqa: BLE001 - asyncio would swallow an OSError of a callback
            self._loop.call_exception_handler(
                {"message": "a response's callback failed", "exception": error}
            )
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner, unless it aborted itself."""
        del exc
        if self._transport is not None:
            self._transport = None
            self._owner.connection_ended(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._transport is not None and self._ready:
            self._owner.writable_again()

    def _end(self, *, unreadable: bool = False) -> None:
        if self._transport is not None:
            self.abort()
            self._owner.connection_ended(self, unreadable=unreadable)

    # --- setting up ---

    def _ask(self, message: object, version: int) -> None:
        self.write(write_request(message, version, _SETUP_CORRELATION_ID, self._client_id))

    def _ask_versions(self) -> None:
        self._ask(_ASK_VERSIONS, self._asked_version)

    def _take(self, frame: bytes) -> None:
        correlation_id = correlation_id_of(frame)
        if self._ready:
            self._owner.response(self, correlation_id, frame)
            return
        if correlation_id != _SETUP_CORRELATION_ID:
            raise MalformedError("an answer before the one that was asked for")
        if self._awaited is ApiKey.API_VERSIONS:
            self._take_versions(frame)
        elif self._awaited is ApiKey.SASL_HANDSHAKE:
            self._take_handshake(frame)
        else:
            self._take_token(frame)

    def _take_versions(self, frame: bytes) -> None:
        answer: Any = read_response(frame, ApiKey.API_VERSIONS, self._asked_version)
        if answer.error_code is ErrorCode.unsupported_version and self._asked_version > 0:
            self._asked_version = 0
            self._ask_versions()
            return
        if answer.error_code is not ErrorCode.none:
            raise MalformedError(f"ApiVersions was answered with {answer.error_code.name}")
        self._versions = {
            k.api_key: VersionRange(k.min_version, k.max_version) for k in answer.api_keys
        }
        self._exchange = self._security.begin()
        if self._exchange is None:
            self._set_up()
            return
        assert self._security.mechanism is not None
        self._awaited = ApiKey.SASL_HANDSHAKE
        version = self._agreed(ApiKey.SASL_HANDSHAKE)
        self._ask(SaslHandshakeRequest(mechanism=self._security.mechanism), version)

    def _take_handshake(self, frame: bytes) -> None:
        answer: Any = read_response(
            frame, ApiKey.SASL_HANDSHAKE, self._agreed(ApiKey.SASL_HANDSHAKE)
        )
        if answer.error_code is not ErrorCode.none:
            raise SaslError(f"SaslHandshake was answered with {answer.error_code.name}")
        assert self._exchange is not None
        self._awaited = ApiKey.SASL_AUTHENTICATE
        self._send_token(self._exchange.first())

    def _take_token(self, frame: bytes) -> None:
        answer: Any = read_response(
            frame, ApiKey.SASL_AUTHENTICATE, self._agreed(ApiKey.SASL_AUTHENTICATE)
        )
        if answer.error_code is not ErrorCode.none:
            raise SaslError(f"SaslAuthenticate was answered with {answer.error_code.name}")
        assert self._exchange is not None
        token = self._exchange.next(answer.auth_bytes)
        if token is None:
            self._set_up()
        else:
            self._send_token(token)

    def _send_token(self, token: bytes) -> None:
        version = self._agreed(ApiKey.SASL_AUTHENTICATE)
        self._ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def _agreed(self, key: ApiKey) -> int:
        served = self._versions.get(key)
        version = None if served is None else SPOKEN[key].highest_common(served)
        if version is None:
            raise SaslError(f"the peer serves no version of {key.name} that we speak")
        return version

    def _set_up(self) -> None:
        self._ready = True
        self._owner.on_versions(self._versions)

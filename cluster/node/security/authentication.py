"""A connection to a SASL listener: first authenticated, then served.

States are those of Kafka's SaslServerAuthenticator: ApiVersions is answered, then SaslHandshake
(KIP-43) names a mechanism, then SaslAuthenticate (KIP-152) carries the mechanism's tokens; after
version 0 of the handshake they come bare, each a frame by itself. Anything else ends the
connection. A mechanism that is not enabled and a failed proof are answered with their error code,
and end it too; a bare token has no answer that could say so.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, cast

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import ANONYMOUS, SERVED, ApiKey, Origin, VersionRange
from cluster.node.protocol.codec import Request, read_request, write_response
from cluster.node.protocol.messages import (
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    i64Timedelta,
)
from cluster.node.protocol.server import ListenerService
from cluster.node.security.mechanisms import (
    PlainServer,
    SaslError,
    ScramCredential,
    ScramServer,
    ServerExchange,
    scram_credential,
)
from cluster.node.security.settings import PLAIN, SaslSettings, SecuritySettingsError

_BEFORE_MECHANISM: Final[Mapping[int, VersionRange]] = {
    int(key): SERVED[key] for key in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
}
_BEFORE_PROOF: Final[Mapping[int, VersionRange]] = {
    int(ApiKey.SASL_AUTHENTICATE): SERVED[ApiKey.SASL_AUTHENTICATE]
}
_SIZE: Final = struct.Struct(">i")
_NO_LIFETIME: Final = cast("i64Timedelta", dt.timedelta(0))


class Authenticator:
    """What a SASL listener knows of its users. Raises SecuritySettingsError.

    A SCRAM password is kept as its salted keys, made once: 4096 iterations take milliseconds. What
    the metadata say of a user (`find`, by mechanism and user) counts more than the configuration.
    """

    def __init__(
        self,
        settings: SaslSettings,
        find: Callable[[str, str], ScramCredential | None] = lambda _mechanism, _user: None,
    ) -> None:
        self._find = find
        self.mechanisms = settings.mechanisms
        self.max_receive_bytes = settings.max_receive_bytes
        self._plain = settings.users.get(PLAIN, {})
        self._scram: dict[str, dict[str, ScramCredential]] = {}
        for mechanism in settings.mechanisms:
            if mechanism != PLAIN:
                self._scram[mechanism] = _credentials(mechanism, settings.users[mechanism])

    def begin(self, mechanism: str) -> ServerExchange:
        """Begin one client's attempt with an enabled mechanism."""
        if mechanism == PLAIN:
            return PlainServer(self._plain)
        configured = self._scram[mechanism]
        return ScramServer(
            mechanism, lambda user: self._find(mechanism, user) or configured.get(user)
        )


def _credentials(mechanism: str, users: Mapping[str, str]) -> dict[str, ScramCredential]:
    try:
        return {user: scram_credential(mechanism, word) for user, word in users.items()}
    except SaslError as error:
        raise SecuritySettingsError(
            f"{mechanism.lower()}.sasl.jaas.config: a password has no form in SCRAM"
        ) from error


class SaslSession:
    """One connection. It serves as a `ListenerService` does, but only after its proof."""

    def __init__(self, service: ListenerService, authenticator: Authenticator) -> None:
        self._service = service
        self._authenticator = authenticator
        self._exchange: ServerExchange | None = None
        self._bare = False
        self._user: str | None = None
        self.authenticated = False
        self.over = False

    @property
    def serves_nodes(self) -> bool:
        return self._service.serves_nodes

    @property
    def max_frame_bytes(self) -> int | None:
        """How long a frame may be before the proof; None afterwards: as long as any."""
        return None if self.authenticated else self._authenticator.max_receive_bytes

    def serve(
        self, frame: bytes, respond: Callable[[bytes | None], None], origin: Origin = ANONYMOUS
    ) -> None:
        """Serve one request, as the user's once there is a proof. Raises MalformedError."""
        if self.authenticated:
            assert self._user is not None
            self._service.serve(frame, respond, replace(origin, principal_name=self._user))
        elif self._exchange is None:
            self._agree(frame, respond)
        elif self._bare:
            self._prove_bare(self._exchange, frame, respond)
        else:
            self._prove(self._exchange, frame, respond)

    def _agree(self, frame: bytes, respond: Callable[[bytes | None], None]) -> None:
        request = read_request(frame, _BEFORE_MECHANISM)
        if request.key is ApiKey.API_VERSIONS:
            self._service.serve(frame, respond)
            return
        error = ErrorCode.none
        if request.message.mechanism in self._authenticator.mechanisms:
            self._exchange = self._authenticator.begin(request.message.mechanism)
            self._bare = request.version == 0
        else:
            error = ErrorCode.unsupported_sasl_mechanism
            self.over = True
        answer = SaslHandshakeResponse(error_code=error, mechanisms=self._authenticator.mechanisms)
        respond(write_response(request, answer))

    def _prove(
        self, exchange: ServerExchange, frame: bytes, respond: Callable[[bytes | None], None]
    ) -> None:
        request = read_request(frame, _BEFORE_PROOF)
        try:
            token = exchange.answer(request.message.auth_bytes)
        except SaslError:
            self.over = True
            respond(_refusal(request))
            return
        self._on_proof(exchange)
        answer = SaslAuthenticateResponse(
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=token,
            session_lifetime=_NO_LIFETIME,
        )
        respond(write_response(request, answer))

    def _prove_bare(
        self, exchange: ServerExchange, token: bytes, respond: Callable[[bytes | None], None]
    ) -> None:
        try:
            answer = exchange.answer(token)
        except SaslError:
            self.over = True
            respond(None)
            return
        self._on_proof(exchange)
        respond(_SIZE.pack(len(answer)) + answer)

    def _on_proof(self, exchange: ServerExchange) -> None:
        self._user = exchange.user
        self.authenticated = exchange.user is not None


def _refusal(request: Request) -> bytes:
    answer = SaslAuthenticateResponse(
        error_code=ErrorCode.sasl_authentication_failed,
        error_message="Authentication failed: Invalid username or password",
        auth_bytes=b"",
        session_lifetime=_NO_LIFETIME,
    )
    return write_response(request, answer)

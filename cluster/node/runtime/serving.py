"""One accepted connection: TLS if asked for, then frames in, frames out."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections import deque
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from cluster.node.protocol.apis import ANONYMOUS, PEER_APIS, READ_APIS, Origin
from cluster.node.protocol.frames import FrameError, FrameSplitter
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.limits import Quota, ServerLimits
from cluster.node.security.authentication import SaslSession
from cluster.node.security.principal import subject_of
from cluster.node.wire.bounds import MalformedError

_OF_NODES: Final = frozenset(int(key).to_bytes(2, "big") for key in PEER_APIS)
"""What a frame begins with that only another node sends, where nodes are served."""
_ANSWER_ONLY: Final = frozenset(int(key).to_bytes(2, "big") for key in READ_APIS)
"""What a frame begins with whose answer is its only effect: without a reader it is not served."""
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)  # Linux has it
_TURN_S: Final = 0.01
"""How long one connection's requests are served before everybody else's turn."""
_TLS_SHUTDOWN_S: Final = 2.0
"""How long a peer may take to agree to the end of a TLS connection."""


Session = ListenerService | SaslSession
"""What serves one connection: a listener's service, behind SASL or not."""


class Owner(Protocol):
    """The server, as its connections see it."""

    limits: ServerLimits
    buffered_bytes: int
    authentication_failures: int
    connections: set[Any]

    def make_room(self) -> None:
        """Enforce the bound on what all connections hold."""


def _certificate_origin(origin: Origin, transport: asyncio.Transport) -> Origin:
    """Return the origin with a certificate's principal, if shown. Raises ValueError."""
    certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if certificate is None:
        return origin
    return replace(origin, principal_name=subject_of(certificate))


class ServedConnection(asyncio.Protocol):
    """One peer: cuts its bytes into requests and serves them one after the other."""

    def __init__(
        self, server: Owner, quota: Quota, session: Session, tls: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._quota = quota
        self._session = session
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(session.max_frame_bytes or server.limits.max_frame_bytes)
        self._requests: deque[bytes] = deque()
        self.address = ""
        self.is_of_peer = False
        self._has_place = False
        self._origin = ANONYMOUS
        self._socket: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._securing: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._serving = False
        self._pumping = False
        self._peer_is_slow = False
        self._reading = True
        self._aborted = False
        self.held_bytes = 0
        """Of requests that are not yet served and responses that are not yet taken."""
        self.last_active = self._loop.time()

    # --- asyncio's events ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the peer a place, or hang up. asyncio has set TCP_NODELAY."""
        self._socket = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        self.address = address = str(name[0]) if name else ""
        if not self._quota.take(self):
            self._socket.abort()
            return
        self._has_place = True
        self._origin = Origin(address=address)
        self._server.connections.add(self)
        if self._tls is not None or not self._session.authenticated:
            timeout_s = self._server.limits.handshake_timeout_ms / 1000.0
            self._deadline = self._loop.call_later(timeout_s, self._too_late)
        if self._tls is None:
            self._transport = self._socket
        else:
            self._socket.pause_reading()  # its first bytes are for TLS
            self._securing = self._loop.create_task(self._secure(self._tls))

    def data_received(self, data: bytes) -> None:
        """Take bytes, and serve what is complete."""
        if self._transport is None:
            self._early.append(data)  # TLS is up, but the task that waits for it has not run yet
            return
        self._pump_guarded(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self._has_place:
            return  # it never had one, or has lost it
        self._has_place = False
        self._quota.give_back(self)
        if not self._session.authenticated:
            self._server.authentication_failures += 1
        self._transport = None
        self._requests.clear()
        self._early.clear()
        self._cancel_deadline()
        self._hold(0)
        self._server.connections.discard(self)

    def pause_writing(self) -> None:
        """Serve nothing more until the peer takes what it asked for."""
        self._peer_is_slow = True

    def resume_writing(self) -> None:
        self._peer_is_slow = False
        self.last_active = self._loop.time()
        self.recount()
        self._pump_guarded()

    # --- the way in ---

    async def _secure(self, context: ssl.SSLContext) -> None:
        assert self._socket is not None
        try:
            transport = await self._loop.start_tls(
                self._socket,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=self._server.limits.handshake_timeout_ms / 1000.0,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
            )
        except OSError:  # as all errors of a handshake are
            transport = None
        finally:
            self._securing = None
        if not self._has_place:
            return  # it is over already
        # asyncio calls a handshake that ended with its connection a success.
        if transport is None or transport.is_closing():
            if self._session.authenticated:  # else it is counted when the connection is lost
                self._server.authentication_failures += 1
            self._socket.abort()
            self.connection_lost(None)
            return
        try:
            self._origin = _certificate_origin(self._origin, transport)
        except ValueError:  # a certificate that OpenSSL trusts and that gives no name
            transport.abort()
            self.connection_lost(None)
            return
        self._transport = transport
        if self._session.authenticated:
            self._cancel_deadline()
        early, self._early = b"".join(self._early), []
        if early:
            self.data_received(early)

    def _too_late(self) -> None:
        self._deadline = None
        self.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- serving ---

    def _collect(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._requests.append(frame)
                self.last_active = self._loop.time()
        except FrameError:
            self._hang_up()
            return
        self.recount()
        self._server.make_room()

    def recount(self) -> None:
        """Report to the server what this connection holds now."""
        if self._aborted:
            return
        held = self._splitter.pending_bytes + sum(map(len, self._requests))
        if self._transport is not None and self._socket is not None:
            held += self._transport.get_write_buffer_size()
            if self._transport is not self._socket:
                held += self._socket.get_write_buffer_size()
        self._hold(held)

    def _hold(self, held_bytes: int) -> None:
        self._server.buffered_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes

    def _pump_guarded(self, data: bytes = b"") -> None:
        try:
            if data:
                self._collect(data)
            self._pump()
        except Exception as error:  # noqa: BLE001 - asyncio would swallow an OSError of the node
            self._loop.call_exception_handler(
                {"message": "serving a request failed", "exception": error}
            )
            self.abort()

    def _pump(self) -> None:
        """Serve requests until one is answered later, the peer is slow, or there are no more.

        After `_TURN_S` everybody else comes first: a pipeline of costly requests is no one piece.
        What a peer asked that has hung up is not worked off.
        """
        if self._pumping:
            return
        self._pumping = True
        end = self._loop.time() + _TURN_S
        try:
            while self._requests and not self._serving and not self._peer_is_slow:
                if self._transport is None or self._transport.is_closing():
                    return
                if self._loop.time() > end:
                    self._loop.call_soon(self._pump_guarded)
                    return
                frame = self._requests.popleft()
                if frame[:2] in _ANSWER_ONLY and self._peer_has_left():
                    self.abort()
                    return
                self._hold(self.held_bytes - len(frame))
                self._serving = True
                if self._session.serves_nodes and frame[:2] in _OF_NODES:
                    self.is_of_peer = True
                self._session.serve(frame, self._respond, self._origin)
        except MalformedError:
            self._hang_up()
        finally:
            self._pumping = False
        self._read_if_wanted()

    def _peer_has_left(self) -> bool:
        """Return whether the other end has closed the connection, where the system can say so.

        asyncio hears of it only once all has been read that came before.
        """
        assert self._socket is not None
        poll = select.poll()
        poll.register(self._socket.get_extra_info("socket").fileno(), _HANG_UP)
        return bool(_HANG_UP and poll.poll(0))

    def _respond(self, frame: bytes | None) -> None:
        assert self._serving
        self._serving = False
        if self._transport is None or self._transport.is_closing():
            return
        if frame is None:
            self._hang_up()
            return
        self.last_active = self._loop.time()
        self._transport.write(frame)
        if self._session.over:
            self._hang_up()
            return
        if self._deadline is not None and self._session.authenticated:
            self._cancel_deadline()
            self._splitter.max_frame_bytes = self._server.limits.max_frame_bytes
        if self._peer_is_slow:
            self.recount()
            self._server.make_room()
        if not self._pumping:
            self._pump_guarded()

    def _read_if_wanted(self) -> None:
        wanted = not self._requests and not self._peer_is_slow
        if self._transport is None or self._transport.is_closing() or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _hang_up(self) -> None:
        """Close once earlier responses are out."""
        self._requests.clear()
        if self._transport is not None:
            self._transport.close()

    @property
    def is_authenticated(self) -> bool:
        return self._session.authenticated

    @property
    def is_busy(self) -> bool:
        """See `Member`. A request that is still on its way in is none, however long it takes."""
        return self._serving or bool(self._requests)

    def evict(self) -> None:
        self.abort()
        self.connection_lost(None)

    def abort(self) -> None:
        """Close at once; what it held is no longer counted."""
        self._aborted = True
        self._hold(0)
        if self._transport is not None:
            self._transport.abort()
        elif self._socket is not None:
            self._socket.abort()

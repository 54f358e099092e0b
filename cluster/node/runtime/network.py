"""The `Network` seam over TCP: one connection for each destination, requests pipelined in order.

What a failure says about a request's fate is decided here, and histories rest on it:

- `NOT_SENT`: the request was never handed to a connected socket. It waited for a connection that
  was refused, or that was not there in time, and will not be sent later.
- `TIMED_OUT`: it was handed over and no answer came in time. The connection is closed, because
  answers come in order and this one is still owed.
- `DISCONNECTED`: it was handed over and the connection ended, on either side.
- `WRONG_ANSWER`: it was handed over, and what came could not be read. Answers come in order, so
  what cannot even be placed answers the oldest request. The connection is closed.
- `UNSUPPORTED_VERSION`: on connecting the peer named no version that we speak.

A Produce with acks 0 has no answer: it is done (`UNANSWERED`) once it was handed over.

A destination is connected to when a request wants it. Who asks for a new voter names any address,
so of those to which nothing is under way the oldest are forgotten (`DESTINATIONS_MAX`), and what
they say unasked ends their connection. After a failed or lost connection the next attempt waits,
from 50 ms doubling to 500 ms (Kafka's `reconnect.backoff.ms` and `.max.ms`); requests wait with it
and fail together with it.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import codec
from cluster.node.protocol.apis import ApiKey, VersionRange
from cluster.node.protocol.data_messages import UNANSWERED, wants_response
from cluster.node.runtime.connection import PeerConnection
from cluster.node.security.tls import PLAINTEXT, ClientSecurity
from cluster.node.wire.bounds import MalformedError

RECONNECT_BACKOFF_MS: Final = 50.0
RECONNECT_BACKOFF_MAX_MS: Final = 500.0
SETUP_TIMEOUT_MS: Final = 1000.0
"""How long connecting, TLS, asking for versions and SASL may take together."""
MAX_WAITING: Final = 10_000
"""Requests that may wait for one destination; more of them fail as NOT_SENT."""
DESTINATIONS_MAX: Final = 64
"""Destinations that are remembered, but for those to which something is under way."""

Address = tuple[str, int]
Connect = Callable[[Endpoint], Awaitable[socket.socket]]
"""Opens a connection to an endpoint, as a non-blocking socket; raises OSError."""


class _State(enum.Enum):
    IDLE = enum.auto()
    BACKING_OFF = enum.auto()
    CONNECTING = enum.auto()
    READY = enum.auto()


@dataclass(slots=True, eq=False)
class _Call:
    """One request on its way. `correlation_id` is None until it was handed to a socket."""

    message: object
    key: ApiKey
    on_reply: Callable[[Any], None]
    timer: asyncio.TimerHandle | None = None
    correlation_id: int | None = None
    version: int = -1

    def finish(self, reply: object) -> None:
        if self.timer is None:
            return  # it has its answer
        self.timer.cancel()
        self.timer = None
        self.on_reply(reply)


class TcpNetwork:
    """Connections from one node or client to others. Make it on the running loop; close it.

    `routes` replaces the address of a node by its id, which is how a proxy stands in a link.
    `connect` dials where this process has no route of its own.
    `security` is the same for all destinations. A peer that fails to authenticate, or does not
    believe us, was NOT_SENT whatever waited.
    """

    def __init__(
        self,
        routes: Mapping[int, Address] | None = None,
        client_id: str = "kraftprobe",
        connect: Connect | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.client_id = client_id
        self.dial = connect
        self.security = security
        self._routes = dict(routes or {})
        self._peers: dict[Endpoint, _Peer] = {}
        self._closed = False

    def request(
        self,
        destination: Endpoint,
        message: object,
        timeout_ms: float,
        on_reply: Callable[[Any], None],
    ) -> None:
        if self._closed:
            self.loop.call_soon(on_reply, Failure.NOT_SENT)
            return
        peer = self._peers.pop(destination, None)
        if peer is None:
            self._forget_idle()
            route = self._routes.get(destination.node_id)
            dialled = Endpoint(destination.node_id, *route) if route else destination
            peer = _Peer(self, dialled, destination.host)
        self._peers[destination] = peer  # the last of all
        peer.submit(message, timeout_ms, on_reply)

    def _forget_idle(self) -> None:
        """Make room for one destination more, if any is idle."""
        if len(self._peers) >= DESTINATIONS_MAX:
            idle = next((at for at, peer in self._peers.items() if peer.is_idle), None)
            if idle is not None:
                self._peers.pop(idle).close()

    def close(self) -> None:
        """End all connections; waiting requests get their failures. Idempotent."""
        self._closed = True
        for peer in self._peers.values():
            peer.close()


class _Peer:
    """One destination: its connection, and the requests that wait for it or for answers."""

    def __init__(self, network: TcpNetwork, endpoint: Endpoint, host_name: str) -> None:
        self._network = network
        self._loop = network.loop
        self._endpoint = endpoint
        self._host_name = host_name
        self._state = _State.IDLE
        self._waiting: deque[_Call] = deque()
        self._in_flight: dict[int, _Call] = {}
        self._connection: PeerConnection | None = None
        self._opening: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._setup_timer: asyncio.TimerHandle | None = None
        self._versions: Mapping[int, VersionRange] = {}
        self._next_correlation_id = 1  # 0 is the question for versions
        self._backoff_ms = RECONNECT_BACKOFF_MS
        self._not_before = 0.0
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, not even bytes that the socket has not taken."""
        unsent = self._connection is not None and not self._connection.writable
        return not (self._waiting or self._in_flight or unsent)

    @property
    def awaits_answer(self) -> bool:
        return bool(self._in_flight)

    def submit(self, message: object, timeout_ms: float, on_reply: Callable[[Any], None]) -> None:
        call = _Call(message, codec.api_key_of(message), on_reply)
        call.timer = self._loop.call_later(timeout_ms / 1000.0, self._timed_out, call)
        if len(self._waiting) >= MAX_WAITING:
            self._loop.call_soon(call.finish, Failure.NOT_SENT)
            return
        self._waiting.append(call)
        if self._state is _State.READY:
            self._send_waiting()
        elif self._state is _State.IDLE:
            self._connect_when_due()

    def close(self) -> None:
        self._closed = True
        self._drop_connection()
        self._state = _State.IDLE
        lost, unsent = self._take_in_flight(), list(self._waiting)
        self._waiting.clear()
        for call in lost:
            call.finish(Failure.DISCONNECTED)
        for call in unsent:
            call.finish(Failure.NOT_SENT)

    # --- requests ---

    def _send_waiting(self) -> None:
        connection = self._connection
        assert connection is not None
        while self._waiting and connection.writable:
            self._send(connection, self._waiting.popleft())

    def _send(self, connection: PeerConnection, call: _Call) -> None:
        served = self._versions.get(call.key)
        version = (
            None if served is None else codec.spoken_versions(call.message).highest_common(served)
        )
        if version is None:
            self._loop.call_soon(call.finish, Failure.UNSUPPORTED_VERSION)
            return
        correlation_id, client_id = self._next_correlation_id, self._network.client_id
        try:
            frame = codec.write_request(call.message, version, correlation_id, client_id)
        except codec.UnwritableError:
            self._loop.call_soon(call.finish, Failure.UNSUPPORTED_VERSION)
            return
        self._next_correlation_id = (correlation_id % 0x7FFFFFFF) + 1
        call.correlation_id = correlation_id
        call.version = version
        if wants_response(call.message):
            self._in_flight[correlation_id] = call
        else:
            self._loop.call_soon(call.finish, UNANSWERED)
        connection.write(frame)

    def _timed_out(self, call: _Call) -> None:
        if call.correlation_id is None:
            # A refused one (full queue, no common version) may not be in the queue any more.
            if call in self._waiting:
                self._waiting.remove(call)
            call.finish(Failure.NOT_SENT)
            return
        self._in_flight.pop(call.correlation_id, None)
        self._connection_over()
        call.finish(Failure.TIMED_OUT)

    # --- the connection's events ---

    def response(self, connection: PeerConnection, correlation_id: int, frame: bytes) -> None:
        assert connection is self._connection
        call = self._in_flight.get(correlation_id)
        if call is None:
            raise MalformedError(f"an answer to request {correlation_id}, which was not sent")
        try:
            reply = codec.read_response(
                frame, call.key, call.version, codec.listener_of(call.message)
            )
        except Exception as error:  # whatever reading foreign bytes raises
            del self._in_flight[correlation_id]
            self._in_flight = {correlation_id: call, **self._in_flight}  # it is this one's
            raise MalformedError(str(error)) from error
        del self._in_flight[correlation_id]
        call.finish(reply)

    def on_versions(self, versions: Mapping[int, VersionRange]) -> None:
        self._cancel_setup()
        self._versions = versions
        self._state = _State.READY
        self._backoff_ms = RECONNECT_BACKOFF_MS
        self._send_waiting()

    def writable_again(self) -> None:
        if self._state is _State.READY:
            self._send_waiting()

    def connection_ended(self, connection: PeerConnection, *, unreadable: bool = False) -> None:
        if connection is self._connection:
            self._connection_over(Failure.WRONG_ANSWER if unreadable else Failure.DISCONNECTED)

    def _connection_over(self, oldest: Failure = Failure.DISCONNECTED) -> None:
        """Fail what was sent; what waits is sent on the next connection, if there is one."""
        was_ready = self._state is _State.READY
        self._drop_connection()
        self._back_off()
        unsent: list[_Call] = []
        if not was_ready:
            unsent = list(self._waiting)
            self._waiting.clear()
        for number, call in enumerate(self._take_in_flight()):
            call.finish(Failure.DISCONNECTED if number else oldest)
        for call in unsent:
            call.finish(Failure.NOT_SENT)
        if self._waiting:
            self._connect_when_due()

    def _take_in_flight(self) -> list[_Call]:
        calls = list(self._in_flight.values())
        self._in_flight.clear()
        return calls

    # --- connecting ---

    def _connect_when_due(self) -> None:
        if self._closed or self._state is not _State.IDLE:
            return
        delay = self._not_before - self._loop.time()
        if delay > 0:
            self._state = _State.BACKING_OFF
            self._setup_timer = self._loop.call_later(delay, self._connect)
        else:
            self._connect()

    def _connect(self) -> None:
        self._cancel_setup()
        if not self._waiting:
            self._state = _State.IDLE
            return
        self._state = _State.CONNECTING
        self._setup_timer = self._loop.call_later(SETUP_TIMEOUT_MS / 1000.0, self._connection_over)
        self._connecting = self._loop.create_task(self._open())

    async def _open(self) -> None:
        security, dial = self._network.security, self._network.dial
        connection = self._opening = PeerConnection(
            self._loop, self, self._network.client_id, security
        )
        tls = security.tls
        # A proxy in the link has another address; the certificate is still the peer's.
        name = None if tls is None else self._host_name
        try:
            if dial is None:
                host, port = self._endpoint.host, self._endpoint.port
                await self._loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=name
                )
            else:
                dialled = await dial(self._endpoint)
                try:
                    await self._loop.create_connection(
                        lambda: connection, sock=dialled, ssl=tls, server_hostname=name
                    )
                except BaseException:
                    dialled.close()  # asyncio closes what it made, not what it was given
                    raise
        except (OSError, ValueError, OverflowError):  # a name or a port that cannot be dialled
            self._connecting = None
            self._connection_over()
            return
        self._connecting = None
        if self._connection is not connection:
            connection.abort()  # it was given up while it opened

    def connection_made(self, connection: PeerConnection) -> None:
        if connection is self._opening:
            self._connection = connection

    def _back_off(self) -> None:
        self._state = _State.IDLE
        self._not_before = self._loop.time() + self._backoff_ms / 1000.0
        self._backoff_ms = min(2 * self._backoff_ms, RECONNECT_BACKOFF_MAX_MS)

    def _drop_connection(self) -> None:
        self._cancel_setup()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._opening = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _cancel_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

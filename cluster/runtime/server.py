"""Kafka listeners over TCP: bounded, and deaf to what one peer does to itself.

Each connection is served one request at a time, in order, as Kafka does by muting a channel until
its response is sent; what a peer pipelines waits in its own buffer. Bounds:

- a frame is at most `max_frame_bytes`, and grows only with bytes that arrived;
- reading stops while a request waits behind one that is served, and while the peer does not take
  its responses;
- all connections together hold at most `max_buffered_bytes` of unserved input;
- there are at most `max_connections`; those silent for `max_idle_ms` are closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from cluster.protocol.codec import MalformedError
from cluster.protocol.frames import DEFAULT_MAX_FRAME_BYTES, FrameError, FrameSplitter
from cluster.protocol.server import ListenerService

_SWEEPS_PER_IDLE_TIME: Final = 10


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The bounds of a server; Kafka's defaults where it has them."""

    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    max_buffered_bytes: int = 4 * DEFAULT_MAX_FRAME_BYTES
    max_connections: int = 1000
    max_idle_ms: float = 600_000.0


@dataclass(frozen=True, slots=True)
class Binding:
    """A listener and the address that it is bound to."""

    service: ListenerService
    host: str
    port: int


class TcpServer:
    """All listeners of one node. Make it on the running loop."""

    def __init__(self, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.buffered_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def bind(self, bindings: Sequence[Binding]) -> list[int]:
        """Take all addresses and return their ports; nobody can connect yet. Raises OSError."""
        try:
            for binding in bindings:
                server = await self._loop.create_server(
                    lambda service=binding.service: _Connection(self, service),  # type: ignore[misc]  # bound now, not at the call
                    binding.host,
                    binding.port,
                    backlog=128,
                    start_serving=False,
                )
                self._servers.append(server)
        except OSError:
            self.close()
            raise
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def serve(self) -> None:
        """Let peers connect. Raises OSError, then nothing is bound any more."""
        try:
            for server in self._servers:
                await server.start_serving()
        except OSError:
            self.close()
            raise
        self._schedule_sweep()

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def close(self) -> None:
        """Stop listening and end all connections. Idempotent."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in sorted(self._connections, key=id):
            connection.abort()

    def admit(self, connection: _Connection) -> bool:
        """Count a new connection in, unless there are too many."""
        if len(self._connections) >= self.limits.max_connections:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: _Connection) -> None:
        """Count a closed connection out."""
        self._connections.discard(connection)

    def _schedule_sweep(self) -> None:
        delay = self.limits.max_idle_ms / 1000.0 / _SWEEPS_PER_IDLE_TIME
        self._sweep_timer = self._loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        oldest = self._loop.time() - self.limits.max_idle_ms / 1000.0
        for connection in sorted(self._connections, key=id):
            if connection.last_active < oldest:
                connection.abort()
        self._schedule_sweep()


class _Connection(asyncio.Protocol):
    """One peer: cuts its bytes into requests and serves them one after the other."""

    def __init__(self, server: TcpServer, service: ListenerService) -> None:
        self._server = server
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(server.limits.max_frame_bytes)
        self._requests: deque[bytes] = deque()
        self._held_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._serving = False
        self._pumping = False
        self._peer_is_slow = False
        self._reading = True
        self.last_active = self._loop.time()

    # --- asyncio's events ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer or hang up. asyncio has set TCP_NODELAY."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.admit(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and serve what is complete."""
        self.last_active = self._loop.time()
        try:
            self._collect(data)
            self._pump()
        except Exception as error:  # noqa: BLE001 - asyncio would swallow an OSError of the node
            self._loop.call_exception_handler(
                {"message": "serving a request failed", "exception": error}
            )
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the peer; replies that come later are dropped."""
        del exc
        self._transport = None
        self._requests.clear()
        self._hold(0)
        self._server.forget(self)

    def pause_writing(self) -> None:
        """Serve nothing more until the peer takes what it asked for."""
        self._peer_is_slow = True

    def resume_writing(self) -> None:
        """Go on serving."""
        self._peer_is_slow = False
        self.last_active = self._loop.time()
        self._pump_guarded()

    # --- serving ---

    def _collect(self, data: bytes) -> None:
        try:
            self._requests.extend(self._splitter.feed(data))
        except FrameError:
            self._hang_up()
            return
        self._hold(self._splitter.pending_bytes + sum(map(len, self._requests)))
        if self._server.buffered_bytes > self._server.limits.max_buffered_bytes:
            self.abort()

    def _hold(self, held_bytes: int) -> None:
        self._server.buffered_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes

    def _pump_guarded(self) -> None:
        try:
            self._pump()
        except Exception as error:  # noqa: BLE001 - as in data_received
            self._loop.call_exception_handler(
                {"message": "serving a request failed", "exception": error}
            )
            self.abort()

    def _pump(self) -> None:
        """Serve requests until one is answered later, the peer is slow, or there are no more."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._requests and not self._serving and not self._peer_is_slow:
                if self._transport is None or self._transport.is_closing():
                    return
                frame = self._requests.popleft()
                self._hold(self._held_bytes - len(frame))
                self._serving = True
                self._service.serve(frame, self._respond)
        except MalformedError:
            self._hang_up()
        finally:
            self._pumping = False
        self._read_if_wanted()

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

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

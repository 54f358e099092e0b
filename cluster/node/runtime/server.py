"""Kafka listeners over TCP: bounded, and deaf to what one peer does to itself.

Each connection is served one request at a time, in order, as Kafka does by muting a channel until
its response is sent; what a peer pipelines waits in its own buffer. Bounds (`ServerLimits`):

- a frame is at most `max_frame_bytes`, and grows only with bytes that arrived;
- reading stops while a request waits behind one that is served, and while the peer does not take
  its responses;
- all connections together hold at most `max_buffered_bytes` of requests that are not yet served
  and responses that are not yet taken; when there is more, the connection that holds most is
  closed;
- each listener has so many places, and so many for one address; when all are taken, an idle
  connection makes room for a new one (`Quota`);
- those without a whole request for `max_idle_ms` are closed, however they trickle;
- those not authenticated after `handshake_timeout_ms` are closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cluster.node.assembly import Node
from cluster.node.config import NodeConfig
from cluster.node.config_values import ListenerAddress
from cluster.node.protocol.apis import ListenerType
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.limits import Quota, ServerLimits, connections_that_fit
from cluster.node.runtime.serving import ServedConnection, Session
from cluster.node.security.authentication import Authenticator, SaslSession
from cluster.node.security.tls import server_context
from cluster.values import valueclass

__all__ = ["Binding", "ServerLimits", "TcpServer"]

_SWEEPS_PER_IDLE_TIME: Final = 10


@valueclass
class Binding:
    """A listener, the address that it is bound to, and what it asks of its clients."""

    service: ListenerService
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    authenticator: Authenticator | None = None

    def session(self) -> Session:
        """Return what serves one new connection."""
        if self.authenticator is None:
            return self.service
        return SaslSession(self.service, self.authenticator)


class TcpServer:
    """All listeners of one node. Make it on the running loop."""

    def __init__(self, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.buffered_bytes = 0
        """What all connections hold now; each keeps its own share current."""
        self.authentication_failures = 0
        """Connections that ended before they were authenticated."""
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self.quotas: list[Quota] = []
        self.connections: set[ServedConnection] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def bind(self, bindings: Sequence[Binding]) -> list[int]:
        """Take all addresses and return their ports; nobody can connect yet. Raises OSError."""
        try:
            for binding in bindings:
                quota = Quota(self.limits)
                server = await self._loop.create_server(
                    lambda binding=binding, quota=quota: ServedConnection(  # type: ignore[misc]  # bound now, not at the call
                        self, quota, binding.session(), binding.tls
                    ),
                    binding.host,
                    binding.port,
                    backlog=128,
                    start_serving=False,
                )
                self._servers.append(server)
                self.quotas.append(quota)
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

    def close(self) -> None:
        """Stop listening and end all connections. Idempotent."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in sorted(self.connections, key=id):
            connection.abort()

    def make_room(self) -> None:
        """Close the connection that holds most, while all together hold too much."""
        if self.buffered_bytes <= self.limits.max_buffered_bytes:
            return
        connections = sorted(self.connections, key=id)
        for connection in connections:
            connection.recount()
        while self.buffered_bytes > self.limits.max_buffered_bytes and connections:
            greediest = max(connections, key=lambda connection: connection.held_bytes)
            connections.remove(greediest)
            greediest.abort()

    def _schedule_sweep(self) -> None:
        delay = self.limits.max_idle_ms / 1000.0 / _SWEEPS_PER_IDLE_TIME
        self._sweep_timer = self._loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        oldest = self._loop.time() - self.limits.max_idle_ms / 1000.0
        for connection in sorted(self.connections, key=id):
            if connection.last_active < oldest:
                connection.abort()
        self._schedule_sweep()


# From a node's configuration to the listeners of its server.


def server_limits(config: NodeConfig) -> ServerLimits:
    """Return the bounds of a node's server, and make descriptors for them."""
    return ServerLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_buffered_bytes=config.kraftprobe_buffered_max_bytes,
        max_connections=connections_that_fit(config.max_connections, len(config.listeners)),
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=float(config.connections_max_idle_ms),
        handshake_timeout_ms=float(config.kraftprobe_handshake_timeout_ms),
    )


def with_own_host(config: NodeConfig) -> NodeConfig:
    """Return the configuration with this machine's name where a listener has no host.

    As Kafka's ListenerInfo.withWildcardHostnamesResolved: others must find it by something.
    """
    if all(listener.host for listener in config.advertised_listeners):
        return config
    name = socket.getfqdn()
    advertised = tuple(
        listener if listener.host else replace(listener, host=name)
        for listener in config.advertised_listeners
    )
    return replace(config, advertised_listeners=advertised)


def bindings(config: NodeConfig, node: Node) -> list[Binding]:
    """Return what each listener serves. Raises SecuritySettingsError for unusable files."""
    return [_binding(config, listener, node) for listener in config.listeners]


def _binding(config: NodeConfig, listener: ListenerAddress, node: Node) -> Binding:
    is_controller = listener.name in config.controller_listener_names
    type_ = ListenerType.CONTROLLER if is_controller else ListenerType.BROKER
    security = config.security[listener.name]
    return Binding(
        ListenerService(listener.name, type_, node, node.features),
        listener.host,
        listener.port,
        None if security.tls is None else server_context(security.tls),
        None if security.sasl is None else Authenticator(security.sasl, node.scram_credential),
    )

"""From a node's configuration to the listeners of its server."""

from __future__ import annotations

import socket
from dataclasses import replace

from cluster.node.assembly import Node
from cluster.node.config import NodeConfig
from cluster.node.config_values import ListenerAddress
from cluster.node.protocol.apis import ListenerType
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.limits import ServerLimits, connections_that_fit
from cluster.node.runtime.server import Binding
from cluster.node.security.authentication import Authenticator
from cluster.node.security.tls import server_context


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

"""A node's configuration: Kafka's properties file, Kafka's names and defaults.

    key=value           blank lines and lines that begin with # or ! are skipped

A file as Kafka ships it in its config folder will do. Kafka's other keys have no effect here: they
are named in one warning. Only those that keep somebody out are refused, because a node that ignored
them would be more open than its file says.

Whatever is wrong with the file is reported in one line with the file and the key: an unknown key
(with the nearest known key), a key given twice, a missing key, a value that does not parse or does
not fit the others. Nothing is guessed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

from cluster.names import unknown
from cluster.node import config_values as kinds
from cluster.node.broker.replication.topic_settings import OF_BROKERS
from cluster.node.config_values import (
    BROKER_ROLE,
    CONTROLLER_ROLE,
    ListenerAddress,
    PropertyValueError,
)
from cluster.node.controller.configs.definitions import BROKER, DOCUMENTED
from cluster.node.controller.configs.values import InvalidValueError
from cluster.node.controller.metadata.feature_levels import (
    METADATA_VERSION_LEVEL,
    METADATA_VERSION_MIN,
)
from cluster.node.ports import Endpoint
from cluster.node.protocol.frames import DEFAULT_MAX_FRAME_BYTES
from cluster.node.security import settings as security_settings
from cluster.node.security.settings import (
    ListenerSecurity,
    SecuritySettingsError,
    listener_key,
    parse_security,
)
from cluster.values import valueclass


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line and names file and key."""


@valueclass
class NodeConfig:
    """The settings of one node. Field names are the keys with `_` for `.`.

    Beside a field's type stand what parses it, and its default unless it must be given.
    """

    process_roles: Annotated[frozenset[str], kinds.roles]
    node_id: Annotated[int, kinds.node_id_of]
    cluster_id: Annotated[str, kinds.text_of, ""]
    """Empty when not given: then it is the one that the folder was formatted with."""
    listeners: Annotated[tuple[ListenerAddress, ...], kinds.listeners]
    advertised_listeners: Annotated[tuple[ListenerAddress, ...], kinds.listeners, None]
    """Equal to `listeners` when not given; controller listeners are, each by itself. One without a
    host is reached at the name of the machine."""
    controller_listener_names: Annotated[tuple[str, ...], kinds.names]
    controller_quorum_voters: Annotated[tuple[Endpoint, ...], kinds.endpoints, ()]
    """The static voters by node id; empty when the log holds them (KIP-853)."""
    controller_quorum_bootstrap_servers: Annotated[tuple[Endpoint, ...], kinds.servers, ()]
    """Where to ask for the leader. Their ids are not known, so they are called -2, -3, ..."""
    controller_quorum_auto_join_enable: Annotated[bool, kinds.boolean, False]
    metadata_log_dir: Annotated[Path, kinds.path_of, None]
    """The first of `log.dirs` when not given, or `log.dir`."""
    log_dirs: Annotated[tuple[Path, ...], kinds.paths, ()]
    """Where a broker's logs of data are; `metadata_log_dir` when not given, nor `log.dir`."""
    metadata_log_segment_bytes: Annotated[int, kinds.whole(1024), 1 << 30]
    metadata_log_segment_ms: Annotated[int, kinds.whole(1, 2**63 - 1), 7 * 24 * 3600 * 1000]
    metadata_log_max_record_bytes_between_snapshots: Annotated[
        int, kinds.whole(1, 2**63 - 1), 20 * 1024 * 1024
    ]
    metadata_log_max_snapshot_interval_ms: Annotated[int, kinds.whole(0, 2**63 - 1), 3_600_000]
    metadata_max_retention_bytes: Annotated[int, kinds.whole(-1, 2**63 - 1), 100 * 1024 * 1024]
    metadata_max_retention_ms: Annotated[int, kinds.whole(-1, 2**63 - 1), 7 * 24 * 3600 * 1000]
    metadata_max_idle_interval_ms: Annotated[int, kinds.whole(0), 500]
    controller_quorum_election_timeout_ms: Annotated[int, kinds.whole(1), 1000]
    controller_quorum_fetch_timeout_ms: Annotated[int, kinds.whole(1), 2000]
    controller_quorum_election_backoff_max_ms: Annotated[int, kinds.whole(1), 1000]
    controller_quorum_append_linger_ms: Annotated[int, kinds.whole(0), 25]
    controller_quorum_request_timeout_ms: Annotated[int, kinds.whole(1), 2000]
    controller_quorum_retry_backoff_ms: Annotated[int, kinds.whole(0), 20]
    controller_quorum_fetch_max_bytes: Annotated[int, kinds.whole(1), 1 << 20]
    controller_quorum_fetch_snapshot_max_bytes: Annotated[int, kinds.whole(1), 1 << 20]
    broker_heartbeat_interval_ms: Annotated[int, kinds.whole(1), 2000]
    broker_session_timeout_ms: Annotated[int, kinds.whole(1), 9000]
    initial_broker_registration_timeout_ms: Annotated[int, kinds.whole(1), 60_000]
    broker_rack: Annotated[str | None, kinds.text_of, None]
    inter_broker_listener_name: Annotated[str, kinds.text_of, None]
    """Where this broker asks others for records; its own first one when not given."""
    log_retention_check_interval_ms: Annotated[int, kinds.whole(1, 2**63 - 1), 300_000]
    replica_lag_time_max_ms: Annotated[int, kinds.whole(1, 2**63 - 1), 30_000]
    replica_fetch_wait_max_ms: Annotated[int, kinds.whole(0), 500]
    replica_fetch_backoff_ms: Annotated[int, kinds.whole(0), 1_000]
    replica_socket_timeout_ms: Annotated[int, kinds.whole(1), 30_000]
    controller_socket_timeout_ms: Annotated[int, kinds.whole(1), 30_000]
    replica_fetch_max_bytes: Annotated[int, kinds.whole(0), 1 << 20]
    replica_fetch_response_max_bytes: Annotated[int, kinds.whole(0), 10 << 20]
    min_insync_replicas: Annotated[int, kinds.whole(1, 2**31 - 1), 1]
    num_partitions: Annotated[int, kinds.whole(1), 1]
    default_replication_factor: Annotated[int, kinds.whole(1, 2**15 - 1), 1]
    kraftprobe_registration: Annotated[bool, kinds.boolean, True]
    """Whether brokers and controllers register themselves; else brokers are the configured ones."""
    kraftprobe_forwarding_hold: Annotated[bool, kinds.boolean, True]
    """Whether clients' requests wait for an active controller (`cluster.node.forwarding`)."""
    kraftprobe_metadata_version: Annotated[
        int,
        kinds.whole(METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
        METADATA_VERSION_LEVEL,
    ]
    """The level that a cluster begins at whose folders were formatted without one."""
    kraftprobe_routes: Annotated[Mapping[int, tuple[str, int]], kinds.routes, {}]
    """Where to dial a peer, by its id, instead of at its own address."""
    kraftprobe_broker_routes: Annotated[Mapping[int, tuple[str, int]], kinds.routes, {}]
    """Where to dial another broker for records, by its id, instead of at its own address."""
    kraftprobe_brokers: Annotated[tuple[Endpoint, ...], kinds.endpoints, ()]
    """Client listeners of all brokers, by node id, as long as no broker is registered."""
    kraftprobe_log_clean_interval_ms: Annotated[int, kinds.whole(1), 60_000]
    """How often snapshots and log are cleaned, and how long what goes stays; constants in Kafka."""
    kraftprobe_trace_file: Annotated[Path | None, kinds.path_of, None]
    socket_request_max_bytes: Annotated[int, kinds.whole(1), DEFAULT_MAX_FRAME_BYTES]
    max_connections: Annotated[int, kinds.whole(1), 1000]
    """Of each listener."""
    max_connections_per_ip: Annotated[int, kinds.whole(1), 2**31 - 1]
    connections_max_idle_ms: Annotated[int, kinds.whole(1), 600_000]
    kraftprobe_handshake_timeout_ms: Annotated[int, kinds.whole(1), 10_000]
    kraftprobe_buffered_max_bytes: Annotated[
        int, kinds.whole(1, 2**63 - 1), 4 * DEFAULT_MAX_FRAME_BYTES
    ]
    security: Mapping[str, ListenerSecurity]
    """By listener."""
    properties: Mapping[str, str]
    """Every key that the file has, as it was written."""
    without_effect: tuple[str, ...] = ()
    """What the file says and this node does not do, in the order of the file."""

    def advertised_endpoint(self, controller: bool) -> Endpoint | None:  # noqa: FBT001 - the type of listener
        """Return where this node is reached on its first listener of one type, if it has one."""
        for listener in self.advertised_listeners:
            if (listener.name in self.controller_listener_names) == controller:
                return Endpoint(self.node_id, listener.host, listener.port)
        return None


_REQUIRED: Final = object()


def _keys() -> Iterator[tuple[str, tuple[Callable[[str], Any], Any]]]:
    """Yield each key with what parses it and its default."""
    for name, hint in get_type_hints(NodeConfig, include_extras=True).items():
        if hasattr(hint, "__metadata__"):
            parse, *default = hint.__metadata__
            yield name.replace("_", "."), (parse, default[0] if default else _REQUIRED)


_KEYS: Final = {**dict(_keys()), "log.dir": (kinds.path_of, None)}


_KEEPS_OUT: Final = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "config.providers",
        "connections.max.reauth.ms",
        "delegation.token.secret.key",
        "max.connections.per.ip.overrides",
        "principal.builder.class",
        "security.providers",
        "super.users",
    }
)
"""Kafka's keys beside `ssl.` and `sasl.` that must not be ignored."""


def load_config(path: Path) -> NodeConfig:
    """Read and check a properties file. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{path}: {reason}") from error
    return parse_config(text, str(path))


def parse_config(text: str, source: str) -> NodeConfig:
    """Parse and check properties; `source` is what errors name. Raises ConfigError."""
    properties = _properties(text, source)
    values: dict[str, Any] = {}
    for key, (parse, default) in _KEYS.items():
        if key not in properties:
            if default is _REQUIRED:
                raise ConfigError(f"{source}: {key} is missing")
            values[key] = default
            continue
        try:
            values[key] = parse(properties[key])
        except PropertyValueError as error:
            raise ConfigError(f"{source}: {key}: {error}") from error
    _check_settings_of_logs(properties, source)
    values["advertised.listeners"] = _advertised_listeners(values)
    _set_folders(values, source)
    _set_inter_broker_listener(values, source)
    own_listeners = [listener.name for listener in values["listeners"]]
    try:
        security = parse_security(
            properties,
            # A broker has no controller listener of its own, but dials those of others.
            list(dict.fromkeys([*own_listeners, *values["controller.listener.names"]])),
            values["controller.listener.names"],
        )
    except SecuritySettingsError as error:
        raise ConfigError(f"{source}: {error}") from error
    fields = {key.replace(".", "_"): value for key, value in values.items()}
    ignored = [key for key in properties if _meaning(key) == "none"]
    config = NodeConfig(
        **fields, security=security, properties=properties, without_effect=tuple(ignored)
    )
    problem = _contradiction(config)
    if problem is not None:
        raise ConfigError(f"{source}: {problem}")
    return config


def _check_settings_of_logs(properties: Mapping[str, str], source: str) -> None:
    """Check what the file says for the logs of all topics. Raises ConfigError."""
    for key in properties:
        if key in OF_BROKERS:
            try:
                BROKER[key].parse(properties[key])
            except InvalidValueError as error:
                raise ConfigError(f"{source}: {error}") from error


def _advertised_listeners(values: Mapping[str, Any]) -> tuple[ListenerAddress, ...]:
    """Return where peers and clients find the node (effectiveAdvertised...Listeners)."""
    listeners: tuple[ListenerAddress, ...] = values["listeners"]
    given: tuple[ListenerAddress, ...] | None = values["advertised.listeners"]
    if given is None:
        return listeners
    names = {listener.name for listener in given}
    own = (e for e in listeners if e.name in values["controller.listener.names"])
    return (*given, *(listener for listener in own if listener.name not in names))


def _set_inter_broker_listener(values: dict[str, Any], source: str) -> None:
    """Choose the listener between brokers; a controller alone has none. Raises ConfigError."""
    names = [
        listener.name
        for listener in values["listeners"]
        if listener.name not in values["controller.listener.names"]
    ]
    given = values["inter.broker.listener.name"]
    if not names:
        values["inter.broker.listener.name"] = ""
    elif given is None:
        values["inter.broker.listener.name"] = names[0]
    elif given not in names:
        problem = unknown("listener", given, names)
        raise ConfigError(f"{source}: inter.broker.listener.name: {problem}")


def _set_folders(values: dict[str, Any], source: str) -> None:
    """Choose the folders of the metadata log and of the logs of data. Raises ConfigError."""
    log_dir, log_dirs = values.pop("log.dir"), values["log.dirs"]
    folders = log_dirs or (() if log_dir is None else (log_dir,))
    if values["metadata.log.dir"] is None:
        if not folders:
            raise ConfigError(f"{source}: neither metadata.log.dir nor log.dirs is given")
        values["metadata.log.dir"] = folders[0]
    values["log.dirs"] = folders or (values["metadata.log.dir"],)
    if len(set(values["log.dirs"])) != len(values["log.dirs"]):
        raise ConfigError(f"{source}: log.dirs: a directory is named twice")


def _meaning(key: str) -> Literal["ours", "none", "unsafe", "unknown"]:
    """Say what a key is to this node."""
    if key in _KEYS or key in OF_BROKERS or key in security_settings.KEYS or listener_key(key):
        return "ours"
    if key in _KEEPS_OUT or (key in DOCUMENTED and key.startswith(("ssl.", "sasl."))):
        return "unsafe"
    return "none" if key in DOCUMENTED else "unknown"


def _refusal(key: str) -> str:
    if _meaning(key) == "unsafe":
        return (
            f"{key} would not be obeyed: this node does not have it; remove the line to go without"
        )
    near = difflib.get_close_matches(key, [*_KEYS, *security_settings.KEYS, *DOCUMENTED], n=1)
    return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _properties(text: str, source: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = (part.strip() for part in stripped.partition("="))
        if not separator:
            raise ConfigError(f"{source}: line {number}: expected key=value, not {stripped!r}")
        if _meaning(key) in {"unsafe", "unknown"}:
            raise ConfigError(f"{source}: line {number}: {_refusal(key)}")
        if key in properties:
            raise ConfigError(f"{source}: line {number}: {key} is given twice")
        properties[key] = value
    return properties


def _contradiction(config: NodeConfig) -> str | None:
    """Return what is wrong with values that are right by themselves, None when nothing is."""
    names = [listener.name for listener in config.listeners]
    for listener in config.advertised_listeners:
        if listener.name not in names:
            return f"advertised.listeners: {unknown('listener', listener.name, names)}"
    if not (config.controller_quorum_voters or config.controller_quorum_bootstrap_servers):
        return "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is given"
    is_broker = BROKER_ROLE in config.process_roles
    if CONTROLLER_ROLE in config.process_roles:
        problem = _controller_contradiction(config, names)
    else:
        problem = _broker_contradiction(config, names)
    if problem is not None:
        return problem
    if is_broker and config.advertised_endpoint(controller=False) is None:
        return "listeners: a broker needs a listener that is not in controller.listener.names"
    if not is_broker and config.advertised_endpoint(controller=False) is not None:
        return "listeners: without the role broker all must be in controller.listener.names"
    return _replication_contradiction(config) if is_broker else None


def _replication_contradiction(config: NodeConfig) -> str | None:
    listener = config.inter_broker_listener_name
    sasl, protocol = config.security[listener].sasl, config.security[listener].protocol.name
    wanted = config.properties.get("security.inter.broker.protocol", protocol)
    if wanted != protocol:
        return (
            f"security.inter.broker.protocol: is {wanted}, but brokers ask each other on "
            f"{listener}, which is {protocol}: give inter.broker.listener.name instead"
        )
    if sasl is not None and sasl.client_mechanism is None:
        return (
            "sasl.mechanism.inter.broker.protocol: is missing, brokers ask each other for records "
            f"on {listener}, which asks SASL"
        )
    return None


def _controller_contradiction(config: NodeConfig, names: list[str]) -> str | None:
    for name in config.controller_listener_names:
        if name not in names:
            return f"controller.listener.names: {unknown('listener', name, names)}"
    voters = {voter.node_id for voter in config.controller_quorum_voters}
    if voters and config.node_id not in voters:
        return f"controller.quorum.voters: node.id {config.node_id} is not among them"
    return None


def _broker_contradiction(config: NodeConfig, names: list[str]) -> str | None:
    for name in config.controller_listener_names:
        if name in names:
            return f"listeners: without the role controller {name} must not be among them"
    if config.node_id in {voter.node_id for voter in config.controller_quorum_voters}:
        return (
            f"controller.quorum.voters: node.id {config.node_id} is one of them, but no controller"
        )
    if not config.kraftprobe_registration:
        return "kraftprobe.registration: a node that is a broker only must register"
    return None

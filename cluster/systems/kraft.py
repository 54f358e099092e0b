"""The KRaft node of this repository, `python -m cluster.node`."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from cluster.names import unknown
from cluster.node.controller.metadata.feature_levels import (
    METADATA_VERSION_LEVEL,
    METADATA_VERSION_MIN,
)
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.ports import Endpoint
from cluster.node.security.tls import PLAINTEXT
from cluster.schemas import Schema
from cluster.systems.base import Layout, Placement, System
from cluster.systems.image import MEANING, OPTION, Image, versions_of
from cluster.systems.kinds import SettingError, SystemKind, SystemRequest
from cluster.systems.secured import RunSecurity

REGISTRATION = "kraftprobe.registration"
FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
FORWARDING_HOLD = "kraftprobe.forwarding.hold"
LOG_DIRS = "kraftprobe.log.dirs"
"""How many log directories a node's broker has: the first is that of the metadata."""
LOG_DIRS_MAX = 4
METADATA_VERSION = "kraftprobe.metadata.version"
"""The metadata.version that the cluster begins at: 25 to 30, those of Kafka 4.0 to 4.3."""
SWITCHES = (REGISTRATION, FORWARDING_HOLD)
"""Settings that are 1 or 0 in a plan, true or false in the node's file, and nothing to Kafka."""
OURS = (*SWITCHES, LOG_DIRS, METADATA_VERSION)
"""Settings of which Kafka knows nothing."""
_PYTHON = "python3"
"""On the PATH of an image."""
_ASK_VERSION = """\
from importlib.metadata import PackageNotFoundError, version
try:
    print(version("kraftprobe"))
except PackageNotFoundError:
    print("unknown")
"""

NODE_SETTINGS: Mapping[str, int] = {
    "controller.quorum.election.timeout.ms": 1000,  # Kafka's own
    "controller.quorum.election.backoff.max.ms": 1000,  # Kafka's own
    FETCH_TIMEOUT: 1000,  # Kafka: 2000; fail-over starts with it
    "controller.quorum.append.linger.ms": 25,  # Kafka's own
    "controller.quorum.request.timeout.ms": 1000,  # Kafka: 2000; not above the fetch timeout
    "controller.quorum.retry.backoff.ms": 20,  # Kafka's own
    "controller.quorum.fetch.max.bytes": 8 * 1024 * 1024,  # Kafka's own
    "metadata.log.segment.bytes": 1024 * 1024,  # Kafka: 1 GiB; so that a short run rolls
    "metadata.max.idle.interval.ms": 500,  # Kafka's own
    "metadata.log.max.record.bytes.between.snapshots": 20 * 1024 * 1024,  # Kafka's own
    "metadata.log.max.snapshot.interval.ms": 3_600_000,  # Kafka's own
    "metadata.max.retention.bytes": 100 * 1024 * 1024,  # Kafka's own
    "metadata.max.retention.ms": 7 * 24 * 3_600_000,  # Kafka's own
    "controller.quorum.fetch.snapshot.max.bytes": 1024 * 1024,  # Kafka's own
    "kraftprobe.log.clean.interval.ms": 60_000,  # a constant in Kafka
    "broker.heartbeat.interval.ms": 2000,  # Kafka's own
    "broker.session.timeout.ms": 9000,  # Kafka's own
    "replica.lag.time.max.ms": 10_000,  # Kafka: 30000; so that a short run sees ISRs shrink
    "replica.fetch.wait.max.ms": 500,  # Kafka's own
    "replica.fetch.backoff.ms": 1000,  # Kafka's own
    "replica.fetch.max.bytes": 1024 * 1024,  # Kafka's own; also of a move's steps
    "replica.socket.timeout.ms": 2000,  # Kafka: 30000; a Fetch that a cut lost holds up the ISR
    "controller.socket.timeout.ms": 30_000,  # Kafka's own
    "log.index.interval.bytes": 4096,  # Kafka's own
    "log.retention.check.interval.ms": 300_000,  # Kafka's own
    "initial.broker.registration.timeout.ms": 2**31 - 1,  # Kafka: 60000; a fault may last longer
    REGISTRATION: 1,  # 0: brokers are the configured ones, all of them alive
    LOG_DIRS: 1,
    METADATA_VERSION: METADATA_VERSION_LEVEL,
    FORWARDING_HOLD: 1,  # 0: a broker passes on at once what a controller answers, or that none is
}
"""What a campaign's nodes are configured with unless the plan says otherwise.

Kafka's names and units. Where the value is not Kafka's default, Kafka's is beside it: runs are
short, so time-outs are on the short side and segments small.
"""

API_VERSIONS_PING = struct.pack(">ihhih", 10, 18, 0, 0, -1)
"""ApiVersions (18) version 0, correlation id 0, no client id: every Kafka listener answers it."""


def _check_key(key: str) -> str:
    if key not in NODE_SETTINGS:
        raise ValueError(unknown("node setting", key, NODE_SETTINGS))
    return key


NodeSettings = dict[
    Annotated[str, AfterValidator(_check_key)],
    Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)],
]
"""Some of `NODE_SETTINGS` with other values, as a plan holds them."""

_SETTINGS = Schema(NodeSettings, SettingError)


def cluster_id_of(run_id: str) -> str:
    """Derive a run's cluster id, in Kafka's form: no node takes another run's for peers."""
    digest = hashlib.sha256(run_id.encode()).digest()[:16]  # any 16 bytes will do
    encoded = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return encoded.replace("-", "A")  # a leading dash reads as an option in Kafka's tools


class KraftLayout(Layout):
    """See `cluster.systems.base.Layout`."""

    def data_folder(self, folder: PurePath) -> PurePath:
        return folder / "metadata"

    def log_folder(self, folder: PurePath) -> PurePath:
        return self.data_folder(folder) / METADATA_DIRECTORY

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        """Locate what may be in `log.dirs`: the metadata's folder, and more if a plan wants."""
        more = (folder / f"log-{number}" for number in range(2, LOG_DIRS_MAX + 1))
        return (self.data_folder(folder), *more)


class KraftSystem(KraftLayout, System):
    """Runs `cluster.node` with combined roles: controller and broker in one process."""

    name = "kraft"
    stop_timeout_s = 10.0  # the node gives itself 6
    ready_timeout_s = 120.0  # five of them took over 30 s beside a load of 20 on two cores

    def __init__(
        self,
        node_settings: Mapping[str, Any] | None = None,
        mutant: str | None = None,
        security: RunSecurity | None = None,
        image: Image | None = None,
    ) -> None:
        self.node_settings: Mapping[str, int] = {
            **NODE_SETTINGS,
            **_check_settings(node_settings or {}),
        }
        self.mutant = mutant
        self.image = None if image is None else image.id
        self._security = security
        self.ping = API_VERSIONS_PING if security is None else security.ping(API_VERSIONS_PING)
        self.client_security = PLAINTEXT if security is None else security.client()

    def files(self, node: Placement) -> Mapping[str, str]:
        listeners = (
            f"CLIENT://{node.client.host}:{node.client.port},"
            f"CONTROLLER://{node.controller.host}:{node.controller.port}"
        )
        properties: dict[str, object] = {
            "process.roles": "controller,broker",
            "node.id": node.node_id,
            "cluster.id": cluster_id_of(node.run_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "kraftprobe.brokers": _endpoint_list(node.brokers),
            "metadata.log.dir": self.data_folder(node.folder),
            "kraftprobe.trace.file": self.trace_file(node.folder),
        }
        properties |= quorum_of(node.voters, node.bootstrap)
        if node.routes:
            properties["kraftprobe.routes"] = _route_list(node.routes)
        if node.broker_routes:
            properties["kraftprobe.broker.routes"] = _route_list(node.broker_routes)
        if self._security is not None:
            properties.update(self._security.properties(node.folder))
        properties.update(self.node_settings)
        del properties[LOG_DIRS]
        properties["log.dirs"] = ",".join(
            map(str, self.log_dirs(node.folder)[: self.node_settings[LOG_DIRS]])
        )
        for switch in SWITCHES:
            properties[switch] = "true" if self.node_settings[switch] else "false"
        return {
            "server.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
            **({} if self._security is None else self._security.files(node)),
        }

    def command(self, node: Placement) -> tuple[str, ...]:
        python = node.interpreter if self.image is None else _PYTHON
        program = ("cluster.node",) if self.mutant is None else ("cluster.mutants", self.mutant)
        config = str(node.folder / "server.properties")
        return (python, "-m", *program, "--config", config)


def _check_settings(node_settings: Mapping[str, Any]) -> Mapping[str, int]:
    """Check a plan's node settings. Raises SettingError."""
    checked: Mapping[str, int] = _SETTINGS.read(dict(node_settings), place=("node_settings",))
    if not 1 <= checked.get(LOG_DIRS, 1) <= LOG_DIRS_MAX:
        raise SettingError(f"node_settings.{LOG_DIRS} must be 1 to {LOG_DIRS_MAX}")
    lowest, highest = METADATA_VERSION_MIN, METADATA_VERSION_LEVEL
    if not lowest <= checked.get(METADATA_VERSION, highest) <= highest:
        raise SettingError(f"node_settings.{METADATA_VERSION} must be {lowest} to {highest}")
    return checked


def _check(request: SystemRequest) -> None:
    _check_settings(request.node_settings)


def _create(request: SystemRequest) -> KraftSystem:
    if request.image is not None:
        request.image.run((_PYTHON, "-c", "import cluster.node.process"))
    return KraftSystem(request.node_settings, request.mutant, request.security, request.image)


def _versions(request: SystemRequest) -> Mapping[str, str]:
    if request.image is None:
        return {}
    version = request.image.run((_PYTHON, "-c", _ASK_VERSION)).decode().strip()
    return versions_of(request.image, KraftSystem.name, version)


KIND = SystemKind(
    name=KraftSystem.name,
    title="the KRaft node of Kraftprobe",
    layout=KraftLayout(),
    check=_check,
    create=_create,
    versions=_versions,
    options={OPTION: MEANING},
    # Strands are written for the messages that they name. Registered brokers send others, so a
    # plan that needs them sets this.
    scripted={REGISTRATION: 0},
    has_mutants=True,
    simulated=True,
)


def quorum_of(voters: Sequence[Endpoint], servers: Iterable[Endpoint]) -> dict[str, str]:
    """Return the key that names the static voters, or without any where to ask for the leader."""
    if voters:
        return {"controller.quorum.voters": _endpoint_list(voters)}
    known = ",".join(f"{e.host}:{e.port}" for e in servers)
    return {"controller.quorum.bootstrap.servers": known}


def _route_list(routes: Iterable[Endpoint]) -> str:
    """Write `id=host:port,...`: where each peer is dialled."""
    return ",".join(f"{route.node_id}={route.host}:{route.port}" for route in routes)


def _endpoint_list(endpoints: Iterable[Endpoint]) -> str:
    """Write `id@host:port,...`, as in `controller.quorum.voters`."""
    return ",".join(f"{e.node_id}@{e.host}:{e.port}" for e in endpoints)

"""How a node of Apache Kafka is configured and started, and where its files lie."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from cluster.node.kraft.quorum.config import CHECK_QUORUM_FETCH_TIMEOUTS
from cluster.node.runtime.trace import clock_name
from cluster.node.security.tls import PLAINTEXT
from cluster.node.wire.uuid_text import uuid_to_text
from cluster.systems.base import Listeners, Placement, System, TraceReader
from cluster.systems.kafka.installation import BRIEF, Installation, advertises_controllers
from cluster.systems.kafka.output_traces import OutputReader
from cluster.systems.kafka.roles import Roles
from cluster.systems.kraft import (
    API_VERSIONS_PING,
    FETCH_TIMEOUT,
    KraftLayout,
    cluster_id_of,
    quorum_of,
)
from cluster.systems.secured import RunSecurity

NAME: Final = "apache-kafka"
OUTPUT: Final = "stdout.log"
_CONFIG: Final = "server.properties"
LOGGING: Final = "log4j2.properties"
START_FILE: Final = "start.json"

SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
SETTINGS: Mapping[str, object] = {
    "controller.quorum.election.timeout.ms": 1000,  # Kafka's own
    "controller.quorum.election.backoff.max.ms": 1000,  # Kafka's own
    FETCH_TIMEOUT: 1000,  # Kafka: 2000; fail-over starts with it
    "controller.quorum.request.timeout.ms": 1000,  # Kafka: 2000
    # Kafka: 9000 and 2000. Who was killed can register again only once the session has ended.
    SESSION_TIMEOUT: 3000,
    "broker.heartbeat.interval.ms": 500,
    "initial.broker.registration.timeout.ms": 2**31 - 1,  # Kafka: 60000; a fault may last longer
    "metadata.log.segment.bytes": 8 * 1024 * 1024,  # the least that it takes
    "metadata.log.max.record.bytes.between.snapshots": 20_000,  # Kafka: 20 MiB
    "default.replication.factor": 1,  # Kafka's own
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,  # so that small heaps suffice
    "controlled.shutdown.enable": "false",  # it would wait for a leader that may be cut off
}
"""What nodes are configured with unless the plan says otherwise: Kafka's names and units."""

_PROCESS_ROLES: Final = {"CONTROLLER": "controller", "CLIENT": "broker"}
JVM: Final = ("-Xms256m", "-Xmx256m", *BRIEF)
"""Options of the JVM that a node runs in: a heap that a test machine has for several of them."""

_LOG4J: Final = """\
status = error
shutdownHook = disable
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %nano|%p|%c|%m%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
logger.raft.name = org.apache.kafka.raft.KafkaRaftClient
logger.raft.level = DEBUG
"""
"""`%nano` is System.nanoTime, Linux's monotonic clock: the one that the harness journals by.
Log4j's own hook would end these loggers at SIGTERM, while the node still commits."""


class KafkaLayout(KraftLayout):
    """See `cluster.systems.base.Layout`: the folders are those of this repository's node."""

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        return (folder / "data",)

    def trace_source(self, folder: PurePath) -> PurePath:
        return folder / OUTPUT

    def trace_reader(self, folder: PurePath) -> TraceReader | None:  # noqa: ARG002  (contract)
        return OutputReader()


class KafkaSystem(KafkaLayout, System):
    """Runs each node in its roles, by default as controller and broker in one JVM."""

    name = NAME
    mapped: tuple[str, ...] = (".index", ".timeindex")
    stop_timeout_s = 60.0
    stop_codes = frozenset({0, -signal.SIGTERM, 128 + signal.SIGTERM})  # the JVM's after its hooks
    ready_timeout_s = 300.0  # a JVM took over 180 s beside a load of 38 on two cores
    # The other one opens once the broker has registered, which takes a quorum.
    ready_listeners: Listeners = ("CONTROLLER",)

    def __init__(
        self,
        installation: Installation,
        node_settings: Mapping[str, object],
        *,
        dynamic: bool,
        roles: Roles | None = None,
        features: tuple[str, ...] = (),
        later: tuple[Installation, ...] = (),
        security: RunSecurity | None = None,
    ) -> None:
        """`dynamic`: voters are in the log (KIP-853), else in every node's configuration.

        `features`: those that folders are formatted with, as NAME=LEVEL. `later`: releases that
        nodes can be upgraded to, one after the other.
        """
        self._installations = (installation, *later)
        self.releases = tuple(each.version for each in self._installations) if later else ()
        folders = (folder for each in self._installations for folder in each.folders)
        self.reads = tuple(dict.fromkeys(folders))
        self.image = None if installation.image is None else installation.image.id
        self._settings = {**SETTINGS, **node_settings}
        self._dynamic = dynamic
        self._roles = Roles() if roles is None else roles
        self._changed: dict[int, Listeners] = {}
        self.change_listeners = self._changed.__setitem__
        self._features = features
        self._security = security
        self.ping = API_VERSIONS_PING if security is None else security.ping(API_VERSIONS_PING)
        self.client_security = PLAINTEXT if security is None else security.client()

    def listeners(self, node_id: int) -> Listeners:
        return self._changed.get(node_id) or self._roles.listeners(node_id)

    def files(self, node: Placement) -> Mapping[str, str]:
        node = self._among_controllers(node)
        own = self.listeners(node.node_id)
        places = {"CLIENT": node.client, "CONTROLLER": node.controller}
        listeners, advertised = (
            ",".join(f"{at}://{places[at].host}:{places[at].port}" for at in those)
            for those in (own, self._listeners_to_advertise(node, own))
        )
        properties: dict[str, object] = {
            "process.roles": ",".join(_PROCESS_ROLES[at] for at in own),
            "node.id": node.node_id,
            "listeners": listeners,
            **({"advertised.listeners": advertised} if advertised else {}),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "metadata.log.dir": self.data_folder(node.folder),
            "log.dirs": ",".join(map(str, self.log_dirs(node.folder))),
        }
        known = node.voters or node.bootstrap
        voters, servers = ((), known) if self._dynamic else (known, ())
        properties |= quorum_of(voters, servers)
        if self._security is not None:
            properties.update(self._security.properties(node.folder))
        brokers = sum("CLIENT" in self.listeners(end.node_id) for end in node.brokers)
        # Kafka's own, as far as there are brokers: what one alone has committed goes with its disk.
        properties["offsets.topic.replication.factor"] = min(3, max(1, brokers))
        properties.update(self._settings)
        return {
            _CONFIG: "".join(f"{key}={value}\n" for key, value in properties.items()),
            LOGGING: _LOG4J,
            **({} if self._security is None else self._security.files(node)),
            START_FILE: self._start(node),
        }

    def _listeners_to_advertise(self, node: Placement, own: Listeners) -> Listeners:
        """Leave out what the node's release refuses among advertised listeners."""
        version = self._installations[node.release].version
        return own if advertises_controllers(version) else tuple(at for at in own if at == "CLIENT")

    def _among_controllers(self, node: Placement) -> Placement:
        """Leave out what never votes: a broker alone asks the others, and joins as an observer."""
        voters, bootstrap = (
            tuple(end for end in ends if "CONTROLLER" in self.listeners(end.node_id))
            for ends in (node.voters, node.bootstrap)
        )
        if "CONTROLLER" not in self.listeners(node.node_id):
            voters, bootstrap = (), voters or bootstrap
        return replace(node, voters=voters, bootstrap=bootstrap)

    def command(self, node: Placement) -> tuple[str, ...]:
        return starting(node)

    def environment(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        return {}

    def _start(self, node: Placement) -> str:
        installation = self._installations[node.release]
        folder, java = node.folder, installation.java
        config = str(folder / _CONFIG)
        logging = f"-Dlog4j2.configurationFile={folder / LOGGING}"
        classes = ("-cp", installation.class_path)
        # A disk that was lost is the metadata's; the folder of partitions is still there.
        format_command = [
            *(java, *BRIEF, logging, *classes, "kafka.tools.StorageTool", "format"),
            *("-c", config, "-t", cluster_id_of(node.run_id), "--ignore-formatted"),
            *(word for feature in self._features for word in ("--feature", feature)),
        ]
        run = (java, *JVM, logging, *classes, "kafka.Kafka", config)
        data = str(self.data_folder(folder))
        timeout_ms = CHECK_QUORUM_FETCH_TIMEOUTS * float(str(self._settings[FETCH_TIMEOUT]))
        more = {"check_quorum_timeout_ms": timeout_ms}
        return start_file(node, data, format_command, run, dynamic=self._dynamic, facts=more)


def starting(node: Placement) -> tuple[str, ...]:
    """Name the program that does what the node's `START_FILE` says."""
    config = str(node.folder / START_FILE)
    return (node.interpreter, "-m", "cluster.systems.kafka.start", "--config", config)


def start_file(
    node: Placement,
    data: str,
    format_command: Sequence[str],
    run: Sequence[str],
    *,
    dynamic: bool,
    facts: Mapping[str, object] | None = None,
) -> str:
    """Render what `cluster.systems.kafka.start` does: format the folder `data`, then run the node.

    The first voters of a dynamic quorum are known by their directory ids. A node with another disk
    joins as an observer, and so does one that is configured to join.
    """
    again = ["--no-initial-controllers"] if dynamic else []
    initial = again
    if dynamic and node.voters:
        voters = (
            f"{e.node_id}@{e.host}:{e.port}:{uuid_to_text(_directory(node.run_id, e.node_id))}"
            for e in node.voters
        )
        initial = ["--initial-controllers", ",".join(voters)]
    start = {
        "node_id": node.node_id,
        "clock": clock_name(),
        "facts": facts or {},
        "data": data,
        "format": [*format_command, *initial],
        "format_again": [*format_command, *again],
        "run": run,
    }
    return json.dumps(start, indent=1)


def _directory(run_id: str, node_id: int) -> uuid.UUID:
    """Derive a voter's directory id, which every node has to know before the first is formatted."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{node_id}")

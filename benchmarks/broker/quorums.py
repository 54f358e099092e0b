"""Three combined nodes of either kind, with the same settings, and nothing between them.

The `local` backend would do, but it passes the traffic of its nodes through proxies, so that links
can be cut, and these would be measured, too.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster.systems.kafka.installation import Installation
from cluster.systems.kafka.kafka_system import SETTINGS as KAFKA_SETTINGS
from cluster.systems.kraft import LOG_DIRS, NODE_SETTINGS, cluster_id_of
from tests.cluster.client.nodes import Nodes

CLUSTER_ID = cluster_id_of("benchmark-broker")
COMMON = {
    "broker.session.timeout.ms": 9_000,
    "broker.heartbeat.interval.ms": 500,
    "controller.quorum.election.timeout.ms": 1_000,
    "controller.quorum.fetch.timeout.ms": 2_000,
    "log.segment.delete.delay.ms": 1_000,
}
ALONE = {**COMMON, "broker.session.timeout.ms": 1_000, "broker.heartbeat.interval.ms": 100}
"""For a node that is killed and started again: it registers once its session has ended."""


class OurNodes(Nodes):
    """Nodes of this repository."""

    name = "kraft"

    def __init__(self, folder: Path, count: int, common: Mapping[str, int] = COMMON) -> None:
        """`common`: settings of both kinds."""
        super().__init__(folder, count, **{**NODE_SETTINGS, **common})
        self.common = common

    def properties(self, node: int) -> dict[str, object]:
        found = super().properties(node)
        for key in ("kraftprobe.registration", "kraftprobe.forwarding.hold"):
            found[key] = "true"
        del found["kraftprobe.brokers"], found[LOG_DIRS]
        return {**found, "cluster.id": CLUSTER_ID}

    def kill(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes[node].wait()


class KafkaNodes(OurNodes):
    """Nodes of Apache Kafka; `jvm`: its options."""

    name = "apache-kafka"

    def __init__(
        self,
        folder: Path,
        count: int,
        release: Installation,
        jvm: list[str],
        common: Mapping[str, int] = COMMON,
    ) -> None:
        super().__init__(folder, count, common)
        self._release = release
        self._jvm = jvm

    def properties(self, node: int) -> dict[str, object]:
        ours = super().properties(node)
        kept = {key: ours[key] for key in ours if not key.startswith("kraftprobe.")}
        del kept["cluster.id"]
        for key in NODE_SETTINGS.keys() & kept.keys() - self.common.keys():
            del kept[key]
        listeners = kept["listeners"]
        return {
            **{key: value for key, value in KAFKA_SETTINGS.items() if "quorum" not in key},
            **kept,
            "controlled.shutdown.enable": "true",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": kept["metadata.log.dir"],
            **self.common,
        }

    def _java(self, jvm: list[str], *words: str) -> list[str]:
        return [self._release.java, *jvm, "-cp", self._release.class_path, *words]

    def start(self, node: int) -> subprocess.Popen[bytes]:
        folder = self.node_folder(node)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "server.properties"
        properties = self.properties(node)
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        with (folder / "stderr").open("ab") as output:
            if not (folder / "data" / "meta.properties").exists():
                words = ("format", "-c", str(config), "-t", CLUSTER_ID)
                command = self._java(["-XX:TieredStopAtLevel=1"], "kafka.tools.StorageTool", *words)
                subprocess.run(command, check=True, stdout=output, stderr=output)
            command = self._java(self._jvm, "kafka.Kafka", str(config))
            process = subprocess.Popen(command, stdout=output, stderr=output)
        self.processes[node] = process
        return process

    def stop(self, node: int) -> int:
        code = super().stop(node)
        return 0 if code in (-signal.SIGTERM, 128 + signal.SIGTERM) else code

"""Three controllers and three brokers of either kind, of the same settings, on loopback."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol, Self

from confluent_kafka.admin import AdminClient

from cluster.systems.kafka.installation import find
from cluster.systems.kafka.kafka_system import JVM
from cluster.systems.kraft import cluster_id_of
from tests.cluster.client.nodes import TIMEOUT_S, free_ports, wait_until_listens
from tests.cluster.client.real_brokers import active_controller

CONTROLLERS: Final = (11, 12, 13)
BROKERS: Final = (1, 2, 3)
CLUSTER_ID: Final = cluster_id_of("other-clients")
SETTINGS: Final = {
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 10_000,
    "controller.quorum.request.timeout.ms": 10_000,
    "auto.create.topics.enable": "false",
    "default.replication.factor": 3,
    "num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,  # so that small heaps suffice
}
"""Given to nodes of both kinds."""


class Kind(Protocol):
    """How nodes of one kind are started."""

    def properties(self, place: Path) -> dict[str, object]:
        """Settings that only this kind has."""

    def prepare(self, config: Path) -> list[str]:
        """Return the command that comes before the first start; empty: none."""

    def command(self, config: Path) -> list[str]:
        """Return the command that is the node."""


class Ours:
    """The node of this repository."""

    def properties(self, place: Path) -> dict[str, object]:
        """The cluster's id, which Kafka's folder is formatted with, and where the trace goes."""
        return {"cluster.id": CLUSTER_ID, "kraftprobe.trace.file": place / "trace.jsonl"}

    def prepare(self, config: Path) -> list[str]:
        """Nothing: the folder is formatted at the first start."""
        return []

    def command(self, config: Path) -> list[str]:
        """Run the node in the interpreter of this process."""
        return [sys.executable, "-m", "cluster.node", "--config", str(config)]


class Kafka:
    """A node of a fetched release of Apache Kafka."""

    def __init__(self, version: str) -> None:
        release = find({"version": version})
        self._java = [release.java, *JVM, "-cp", release.class_path]

    def properties(self, place: Path) -> dict[str, object]:
        """None."""
        return {}

    def prepare(self, config: Path) -> list[str]:
        """Format the folder."""
        tool = ("kafka.tools.StorageTool", "format", "-c", str(config), "-t", CLUSTER_ID)
        return [*self._java, *tool]

    def command(self, config: Path) -> list[str]:
        """Run the broker or controller."""
        return [*self._java, "kafka.Kafka", str(config)]


class Cluster:
    """Running nodes; every broker is unfenced when the context is entered."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        ports = free_ports(len(CONTROLLERS) + len(BROKERS))
        self.ports = dict(zip((*CONTROLLERS, *BROKERS), ports, strict=True))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def addresses(self, nodes: tuple[int, ...]) -> str:
        """Join where nodes listen, as clients take it."""
        return ",".join(f"127.0.0.1:{self.ports[node]}" for node in nodes)

    def _place(self, node: int) -> Path:
        return self._folder / f"n{node}"

    def _write(self, node: int) -> Path:
        place, controls = self._place(node), node in CONTROLLERS
        place.mkdir(parents=True)
        properties = {
            "process.roles": "controller" if controls else "broker",
            "node.id": node,
            "listeners": f"{'CONTROLLER' if controls else 'CLIENT'}://127.0.0.1:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(
                f"{each}@127.0.0.1:{self.ports[each]}" for each in CONTROLLERS
            ),
            "log.dirs": place / "data",
            **SETTINGS,
            **self._kind.properties(place),
        }
        config = place / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return config

    def _start(self, node: int) -> None:
        config = self._place(node) / "server.properties"
        with (self._place(node) / "output").open("ab") as output:
            self.processes[node] = subprocess.Popen(
                self._kind.command(config), stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.callback(self._end)
            for node in self.ports:
                command = self._kind.prepare(self._write(node))
                if command:
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                self._start(node)
            for node, port in self.ports.items():
                wait_until_listens(self.processes[node], port, self._place(node) / "output")
            self._wait_until_unfenced()
            undone.pop_all()
        return self

    def _wait_until_unfenced(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.addresses(BROKERS)})
        deadline = time.monotonic() + TIMEOUT_S
        while len(admin.list_topics(timeout=TIMEOUT_S).brokers) < len(BROKERS):
            assert time.monotonic() < deadline, "a broker is not unfenced"
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def fail_over(self) -> int:
        """Restart the active controller gracefully, and return it once it is whole again."""
        node = active_controller({each: self.ports[each] for each in CONTROLLERS})
        process = self.processes[node]
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
        self._start(node)
        wait_until_listens(self.processes[node], self.ports[node], self._place(node) / "output")
        return node

    def ended(self) -> list[int]:
        """Return the nodes that ended by themselves."""
        return [node for node, process in self.processes.items() if process.poll() is not None]

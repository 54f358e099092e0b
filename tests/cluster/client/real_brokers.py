"""Brokers of Apache Kafka on three controllers of ours.

Records are produced with acks=all and consumed by a group while the active controller is killed,
again and again, and each time a partition is given another leader by our controllers. Every
acknowledged record must be consumed.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.client.admin_client import Client
from cluster.client.caller import CallFailed, Peer
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from cluster.systems.kafka.installation import Installation, find
from cluster.systems.kafka.kafka_system import JVM, SETTINGS
from cluster.systems.kraft import cluster_id_of
from tests.cluster.client.nodes import TIMEOUT_S, Nodes, eventually, free_ports, wait_until_listens

TOPIC = "records"
PARTITIONS = 6
QUIET_S = 180.0
"""A consumer that gets nothing for so long has got everything."""
PATIENT = {"operation_timeout": TIMEOUT_S, "request_timeout": TIMEOUT_S}
SESSION = {"broker.session.timeout.ms": 60_000}
"""A busy machine fences no broker: topics have room for all their replicas."""


def active_controller(ports: Mapping[int, int]) -> int:
    """Wait for a node that says that it leads; `ports`: of the controllers, by id."""

    async def ask() -> int:
        network = TcpNetwork()
        client = Client(network, LoopClock(asyncio.get_running_loop()))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for node, port in ports.items():
                with contextlib.suppress(CallFailed):
                    peer = Peer(Endpoint(node, "127.0.0.1", port), 5_000.0)
                    quorum = await client.describe_quorum(peer)
                    if quorum.error is quorum.top_level_error is ErrorCode.none:
                        network.close()
                        await asyncio.sleep(0)
                        return node
            await asyncio.sleep(0.05)
        raise AssertionError("no controller leads")

    return asyncio.run(ask())


class Controllers(Nodes):
    """Our nodes in the role of controllers alone."""

    cluster_id = cluster_id_of("real-brokers")

    def properties(self, node: int) -> dict[str, object]:
        found = super().properties(node)
        del found["kraftprobe.brokers"]
        return {
            **found,
            "process.roles": "controller",
            "cluster.id": self.cluster_id,
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller_ports[node]}",
        }

    def wait_until_listening(self, node: int) -> None:
        wait_until_listens(
            self.processes[node], self.controller_ports[node], self.node_folder(node) / "stderr"
        )

    def active(self) -> int:
        """Wait for a node that says that it leads."""
        return active_controller(self.controller_ports)

    def fail_over(self) -> tuple[int, int]:
        """Kill the active controller, wait for the next one, start the old one again."""
        old = self.active()
        self.processes[old].send_signal(signal.SIGKILL)
        self.processes[old].wait()
        new = self.active()
        self.start(old)
        self.wait_until_listening(old)
        return old, new


class Brokers:
    """Brokers of Kafka, ids from 101."""

    def __init__(
        self,
        folder: Path,
        controllers: Controllers,
        count: int,
        release: Installation,
        settings: Mapping[str, object] | None = None,
    ):
        """`settings`: what their files have beside, or in the place of, the usual."""
        self.folder = folder
        self._settings = settings or {}
        self.ports = dict(enumerate(free_ports(count), start=101))
        self._controllers = controllers
        self._release = release
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _java(self, *words: str) -> list[str]:
        return [self._release.java, *JVM, "-cp", self._release.class_path, *words]

    def start(self, broker: int) -> None:
        place = self.folder / f"b{broker}"
        place.mkdir(parents=True)
        voters = self._controllers.controller_ports.items()
        properties = {
            **{key: value for key, value in SETTINGS.items() if "quorum" not in key},
            "offsets.topic.replication.factor": len(self.ports),
            "process.roles": "broker",
            "node.id": broker,
            "controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{port}" for i, port in voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENT://127.0.0.1:{self.ports[broker]}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": place / "data",
            "group.initial.rebalance.delay.ms": 0,
            **self._settings,
        }
        config = place / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        format_ = ("format", "-c", str(config), "-t", self._controllers.cluster_id)
        with (place / "output").open("ab") as output:
            subprocess.run(
                self._java("kafka.tools.StorageTool", *format_),
                check=True,
                stdout=output,
                stderr=output,
            )
            self.processes[broker] = subprocess.Popen(
                self._java("kafka.Kafka", str(config)), stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        for broker in self.ports:
            self.start(broker)
        for broker, port in self.ports.items():
            wait_until_listens(self.processes[broker], port, self.folder / f"b{broker}" / "output")
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        eventually(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers), len(self.ports))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@dataclass
class Outcome:
    """What became of the records."""

    acknowledged: int = 0
    refused: int = 0
    consumed: int = 0
    repeated: int = 0
    lost: list[str] = field(default_factory=list)
    fail_overs: list[tuple[int, int]] = field(default_factory=list)


def produce_and_consume(folder: Path, version: str, records: int, fail_overs: int) -> Outcome:
    """Produce while controllers fail over, then consume everything."""
    release = find({"version": version})
    outcome = Outcome()
    with (
        Controllers(folder / "controllers", **SESSION) as controllers,
        Brokers(folder / "brokers", controllers, 2, release) as brokers,
    ):
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=2)
        admin.create_topics([topic], **PATIENT)[TOPIC].result(TIMEOUT_S)
        acknowledged: set[str] = set()

        def delivered(error: KafkaError | None, message: object) -> None:
            if error is None:
                acknowledged.add(message.key().decode())
            else:
                outcome.refused += 1

        producer = Producer(
            {
                "bootstrap.servers": brokers.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": round(TIMEOUT_S * 1000),
            }
        )
        every = max(1, records // (fail_overs + 1))
        for number in range(records):
            while True:
                try:
                    producer.produce(
                        TOPIC, key=str(number), value=f"value-{number}", on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            if number % every == every - 1 and len(outcome.fail_overs) < fail_overs:
                outcome.fail_overs.append(controllers.fail_over())
                # The new controller has work to do: it grows the topic and elects leaders.
                name = f"after-{len(outcome.fail_overs)}"
                made = admin.create_topics([NewTopic(name, 3, 2)], **PATIENT)
                made[name].result(TIMEOUT_S)
        assert producer.flush(2 * TIMEOUT_S) == 0, "some record has no outcome"
        outcome.acknowledged = len(acknowledged)
        seen = _consumed(brokers, acknowledged)
        outcome.consumed = len(seen)
        outcome.repeated = sum(count - 1 for count in seen.values())
        outcome.lost = sorted(acknowledged - set(seen))
        for process in (*controllers.processes.values(), *brokers.processes.values()):
            assert process.poll() is None, "a node ended"
    return outcome


def _consumed(brokers: Brokers, wanted: set[str]) -> Counter[str]:
    """Consume by a group until nothing is missing, or nothing comes any more."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    seen: Counter[str] = Counter()
    last = time.monotonic()
    while (len(seen) < len(wanted) or set(seen) != wanted) and time.monotonic() - last < QUIET_S:
        for message in consumer.consume(1000, timeout=1.0):
            if message.error() is None:
                seen[message.key().decode()] += 1
                last = time.monotonic()
    # The log's own ends, which no group can have skipped.
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p)) for p in range(PARTITIONS)]
    assert sum(high - low for low, high in ends) >= len(wanted), ends
    consumer.close()
    return seen

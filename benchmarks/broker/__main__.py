"""Measure three brokers of Kraftprobe and three of Apache Kafka in turns, in one run. See `--help`.

Produce: records of 1 kB to six partitions with three replicas, two of them in sync at least,
acks=all and idempotence, by librdkafka in one process of its own. Recovery: one node each, with a
log of 1 GB in one partition, is started after a controlled stop and after a kill, and with an empty
log beside them; measured is the time from the start of its process to an acknowledged record.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.broker.quorums import ALONE, KafkaNodes, OurNodes
from benchmarks.node.load import processor_s
from cluster.systems.kafka.installation import find
from cluster.systems.kinds import SettingError

CONSOLE = Console(width=120)
TOPIC = "load"
PARTITIONS = 6
START_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Load:
    """How producers send."""

    producers: int
    outstanding: int
    rate: int = 0
    """Records a second of each; 0: no limit."""

    def __str__(self) -> str:
        limit = f"{self.rate} a second" if self.rate else f"{self.outstanding} outstanding each"
        return f"{self.producers} x {limit}"


@dataclass(frozen=True)
class Measured:
    records_per_s: float
    p50_ms: float
    p99_ms: float
    cores: float
    """Processor time of all nodes by time."""


@dataclass
class Side:
    nodes: OurNodes
    segment_mb: int
    loads: dict[Load, list[Measured]] = field(default_factory=dict)

    def produce(self, load: Load, seconds: float) -> Measured:
        """Produce to a topic that is there for this only: all of them would fill a disk."""
        create_topic(self.nodes, TOPIC, PARTITIONS, 3, self.segment_mb)
        try:
            return self._produce(load, seconds)
        finally:
            delete_topic(self.nodes, TOPIC)

    def _produce(self, load: Load, seconds: float) -> Measured:
        pids = [process.pid for process in self.nodes.processes.values()]
        before = sum(map(processor_s, pids))
        began = time.monotonic()
        found = send(
            self.nodes.bootstrap,
            *("--producers", str(load.producers), "--outstanding", str(load.outstanding)),
            *("--rate", str(load.rate), "--seconds", str(seconds)),
        )
        used = (sum(map(processor_s, pids)) - before) / (time.monotonic() - began)
        return Measured(found["records_per_s"], found["p50_ms"], found["p99_ms"], used)


def send(bootstrap: str, *options: str) -> dict[str, float]:
    program = [sys.executable, "-m", "benchmarks.broker.producers"]
    words = [*program, "--bootstrap", bootstrap, "--topic", TOPIC, *options]
    output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(output)
    if found["refused"]:
        raise SystemExit(f"records were refused: {found['refused']}")
    return found


def create_topic(
    nodes: OurNodes, name: str, partitions: int, replicas: int, segment_mb: int = 0
) -> None:
    """Create it once all brokers are there; `segment_mb`: 0 for segments of 1 GB."""
    deadline = time.monotonic() + START_TIMEOUT_S
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
    while len(admin.list_topics(timeout=60).brokers) < replicas:
        if time.monotonic() > deadline:
            raise SystemExit(f"{nodes.name}: brokers are missing")
        time.sleep(0.2)
    config = {"min.insync.replicas": str(min(replicas, 2))}
    if segment_mb:
        config["segment.bytes"] = str(segment_mb << 20)
    topic = NewTopic(name, partitions, replicas, config=config)
    admin.create_topics([topic], operation_timeout=60)[name].result(60)


def delete_topic(nodes: OurNodes, name: str) -> None:
    """Delete it, and wait until its files are gone."""
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
    admin.delete_topics([name], operation_timeout=60)[name].result(60)
    deadline = time.monotonic() + START_TIMEOUT_S
    while list(nodes.folder.glob(f"*/data/{name}-*")):
        if time.monotonic() > deadline:
            raise SystemExit(f"{nodes.name}: topic {name} is deleted, and its files stay")
        time.sleep(0.2)


def measure_produce(
    sides: Sequence[Side], loads: Sequence[Load], asked: argparse.Namespace
) -> None:
    for side in sides:
        CONSOLE.print(f"[dim]warming {side.nodes.name} up", highlight=False)
        side.produce(Load(4, 500), asked.warm_up)
    for repeat in range(1, asked.repeats + 1):
        for load in loads:
            for side in sides:
                CONSOLE.print(f"[dim]repeat {repeat}: {side.nodes.name}, {load}", highlight=False)
                found = side.produce(load, asked.seconds)
                side.loads.setdefault(load, []).append(found)


def show_produce(ours: Side, kafka: Side | None, asked: argparse.Namespace) -> None:
    table = Table(
        title=f"records of 1 kB, acks=all, 3 replicas; medians of {asked.repeats} x "
        f"{asked.seconds:g} s, in turns; load average {os.getloadavg()[1]:.1f}"
    )
    names = ["records/s", "p50 ms", "p99 ms", "cores"]
    columns = ["producers", *names]
    if kafka is not None:
        columns += ["Kafka/s", "p50", "p99", "cores", "ratio", "p99 ratio"]
    for column in columns:
        table.add_column(column, justify="right")
    for load in ours.loads:
        mine = medians(ours.loads[load])
        cells = [str(load), *cells_of(mine)]
        if kafka is not None:
            theirs = medians(kafka.loads[load])
            ratio = mine.records_per_s / theirs.records_per_s
            cells += [*cells_of(theirs), f"{ratio:.2f}", f"{mine.p99_ms / theirs.p99_ms:.2f}"]
        table.add_row(*cells)
    CONSOLE.print(table)


def cells_of(found: Measured) -> list[str]:
    return [
        f"{found.records_per_s:,.0f}",
        f"{found.p50_ms:.0f}",
        f"{found.p99_ms:.0f}",
        f"{found.cores:.2f}",
    ]


def medians(found: Sequence[Measured]) -> Measured:
    def of(name: str) -> float:
        return statistics.median(getattr(one, name) for one in found)

    return Measured(of("records_per_s"), of("p50_ms"), of("p99_ms"), of("cores"))


def seconds_to_record(nodes: OurNodes, node: int) -> float:
    """Start a node that is alone; returns the seconds until it acknowledges a record."""
    began = time.monotonic()
    nodes.start(node)
    nodes.wait_until_listening(node)
    producer = Producer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 20,
            "linger.ms": 0,
        }
    )
    errors: list[object] = []
    producer.produce(TOPIC, b"again", on_delivery=lambda error, _: errors.append(error))
    producer.flush(START_TIMEOUT_S)
    elapsed_s = time.monotonic() - began
    if errors != [None]:
        raise KafkaException(*errors)
    return elapsed_s


def measure_recovery(nodes: OurNodes, asked: argparse.Namespace) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    with nodes:
        create_topic(nodes, TOPIC, 1, 1)

        def again(what: str) -> None:
            CONSOLE.print(f"[dim]{nodes.name}: {what}", highlight=False)
            found.setdefault(what, []).append(seconds_to_record(nodes, 1))

        def stopped_and_killed(log: str) -> None:
            for end, what in ((nodes.stop, "stop"), (nodes.kill, "kill")):
                for _ in range(asked.recoveries):
                    end(1)
                    again(f"{log}, after a {what}")

        stopped_and_killed("empty")
        CONSOLE.print(f"[dim]{nodes.name}: writing {asked.log_mb} MB", highlight=False)
        records = str(1_000 * asked.log_mb)
        unlimited = ("--seconds", "3600", "--records", records, "--outstanding", "5000")
        send(nodes.bootstrap, *unlimited)
        stopped_and_killed(f"{asked.log_mb} MB")
    return found


def show_recovery(ours: dict[str, list[float]], kafka: dict[str, list[float]] | None) -> None:
    table = Table(title="seconds from the start of a node to an acknowledged record, medians")
    columns = ["log", "kraft", *(("Kafka", "ratio") if kafka is not None else ())]
    for column in columns:
        table.add_column(column, justify="right")
    for what, times in ours.items():
        mine = statistics.median(times)
        cells = [what, f"{mine:.2f}"]
        if kafka is not None:
            theirs = statistics.median(kafka[what])
            cells += [f"{theirs:.2f}", f"{mine / theirs:.2f}"]
        table.add_row(*cells)
    CONSOLE.print(table)


def run(asked: argparse.Namespace, folder: Path) -> None:
    release = None if asked.no_kafka else find({"version": asked.version})
    loads = [
        Load(1, asked.outstanding),
        Load(16, asked.outstanding),
        Load(16, 1),
        Load(1, 10_000, asked.rate),
    ]
    if not asked.no_produce:
        with ExitStack() as stack:
            sides = [Side(OurNodes(folder / "ours", 3), asked.segment_mb)]
            if release is not None:
                kafka = KafkaNodes(folder / "kafka", 3, release, asked.jvm.split())
                sides.append(Side(kafka, asked.segment_mb))
            for side in sides:
                CONSOLE.print(f"[dim]starting {side.nodes.name}", highlight=False)
                stack.enter_context(side.nodes)
                if asked.idle_partitions:
                    create_topic(side.nodes, "idle", asked.idle_partitions, 3)
            measure_produce(sides, loads, asked)
        show_produce(sides[0], sides[1] if release is not None else None, asked)
        for side in sides:
            shutil.rmtree(side.nodes.folder)
    if not asked.no_recovery:
        ours = measure_recovery(OurNodes(folder / "our-recovery", 1, ALONE), asked)
        theirs = None
        if release is not None:
            jvm = asked.jvm.split()
            nodes = KafkaNodes(folder / "kafka-recovery", 1, release, jvm, ALONE)
            theirs = measure_recovery(nodes, asked)
        show_recovery(ours, theirs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("--version", default="4.3.1", help="a release of Kafka that was fetched")
    parser.add_argument("--jvm", default="-Xms512m -Xmx512m", help="options of Kafka's JVMs")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--no-produce", action="store_true")
    parser.add_argument("--no-recovery", action="store_true")
    parser.add_argument("--outstanding", type=int, default=500, help="records of each producer")
    parser.add_argument("--rate", type=int, default=500, help="of the producer with a rate")
    parser.add_argument("--segment-mb", type=int, default=0, help="of the topic's; 0: 1 GB")
    parser.add_argument("--idle-partitions", type=int, default=0, help="beside those under load")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=15.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--log-mb", type=int, default=1_000)
    parser.add_argument("--recoveries", type=int, default=3)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kraftprobe-benchmark-"))
    try:
        run(asked, folder)
    except SettingError as error:
        print(f"{error}; --no-kafka measures our brokers alone", file=sys.stderr)
        raise SystemExit(2) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

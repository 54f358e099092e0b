"""Stock clients produce and consume while leaders change.

Three nodes of ours hold a topic for each client, with three replicas, two of them in sync at
least. The client produces numbered records with acks=all and idempotence, and consumes them at the
same time, while the leaders of its partitions are killed, stopped and elected back. Then the other
clients read the whole topic, too. Every record must be acknowledged and consumed by each of them,
once, in the order in which it was sent, and where its acknowledgement says.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.client.leader_changes import LeaderChanges
from tests.cluster.client.nodes import TIMEOUT_S, Nodes
from tests.cluster.client.record_clients import CLIENTS, Place, Process, Task
from tests.kafka_release import VERSION

PARTITIONS: Final = 3
QUIET_S: Final = 180.0
"""A reader that gets nothing for so long will get nothing more."""
SETTINGS: Final = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 10_000,
}


@dataclass(frozen=True)
class Verdict:
    """What one client has read of what another one has sent."""

    producer: str
    consumer: str
    partition: int | None
    """None: all of them."""
    consumed: int
    lost: int
    """Numbers that were not read; acknowledged places, where they are known, that another has."""
    duplicated: int
    out_of_order: int

    @property
    def is_right(self) -> bool:
        return self.lost == self.duplicated == self.out_of_order == 0


@dataclass
class Outcome:
    """What became of the records of one producer."""

    producer: str
    records: int
    acknowledged: int | None
    changes: list[str]
    verdicts: list[Verdict] = field(default_factory=list)
    complaints: str = ""
    """What its processes said on standard error."""


def judged(outcome: Outcome, consumer: str, acks: set[Place], read: Sequence[Place]) -> None:
    """Compare what was read with what was sent: all numbers below the count of records."""

    def verdict(partition: int | None, found: Sequence[Place], missed: int) -> Verdict:
        by_place: dict[tuple[int, int], int] = {}
        for place in found:
            by_place.setdefault((place.partition, place.offset), place.number)
        return Verdict(
            outcome.producer,
            consumer,
            partition,
            len(found),
            missed,
            # The same number at two offsets, or one offset that was read twice.
            len(found) - len({place.number for place in found}),
            0 if partition is None else disordered([by_place[key] for key in sorted(by_place)]),
        )

    rows = []
    for partition in range(PARTITIONS):
        here = [place for place in read if place.partition == partition]
        promised = {place for place in acks if place.partition == partition}
        rows.append(verdict(partition, here, len(promised - set(here))))
    missing = set(range(outcome.records)) - {place.number for place in read}
    outcome.verdicts += [verdict(None, read, len(missing)), *rows]


def disordered(numbers: Iterable[int]) -> int:
    """Count numbers that are lower than one before them."""
    highest, count = -1, 0
    for number in numbers:
        count += number < highest
        highest = max(highest, number)
    return count


class Reading:
    """A client's consumer, in as many processes as it takes."""

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self._task = task
        self._processes: list[Process] = CLIENTS[name].consume(task)

    @property
    def places(self) -> list[Place]:
        return [place for process in self._processes for place in tuple(process.places)]

    def wait_for(self, count: int) -> None:
        """Wait until it has read so many records, or gets no more."""
        last, since = -1, time.monotonic()
        while True:
            now = sum(len(process.places) for process in self._processes)
            if now != last:
                last, since = now, time.monotonic()
            if now >= count or time.monotonic() - since > QUIET_S:
                return
            assert all(process.is_running for process in self._processes), f"{self.name} ended"
            time.sleep(0.05)

    def wait_for_ends(self) -> None:
        """Wait until it has come to the ends of all partitions, or gets no more."""
        reader = Consumer({"bootstrap.servers": self._task.bootstrap, "group.id": "unused"})
        count = 0
        for partition in range(self._task.partitions):
            place = TopicPartition(self._task.topic, partition)
            low, high = reader.get_watermark_offsets(place, timeout=QUIET_S)
            count += high - low
        reader.close()
        self.wait_for(count)

    def end(self) -> str:
        return "".join(process.end() for process in self._processes)


def through_changes(nodes: Nodes, name: str, task: Task, changes: int) -> Outcome:
    """Let a client produce and consume while leaders change, then let it all be read again."""
    moving = LeaderChanges(nodes, task.topic, task.partitions)
    tail = Reading(name, task)
    producer = CLIENTS[name].produce(task)
    made = []
    for number in range(1, changes + 1):
        tail.wait_for(number * task.records // (changes + 1))
        made.append(moving.next())
    code = producer.finish()
    tail.wait_for_ends()
    acknowledged = CLIENTS[name].acknowledged(code, producer, task)
    complaints = producer.end() + tail.end()
    outcome = Outcome(name, task.records, acknowledged, made, complaints=complaints)
    judged(outcome, name, set(producer.places), tail.places)
    return outcome


def read_again(name: str, task: Task, outcome: Outcome) -> None:
    """Let another client read all."""
    again = Reading(name, task)
    again.wait_for_ends()
    outcome.complaints += again.end()
    judged(outcome, name, set(), again.places)


def run(
    folder: Path,
    clients: Sequence[str],
    records: int,
    changes: int,
    rate: int,
    version: str = VERSION,
) -> list[Outcome]:
    """Run each client in turn, on the same nodes."""
    outcomes = []
    with Nodes(folder, 3, **SETTINGS) as nodes:
        nodes.wait_until_registered()
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        for name in clients:
            topic = f"records-of-{name}"
            wanted = NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})
            made = admin.create_topics(
                [wanted], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S
            )
            made[topic].result(TIMEOUT_S)
            task = Task(nodes.bootstrap, topic, PARTITIONS, records, rate, version)
            outcome = through_changes(nodes, name, task, changes)
            for other in clients:
                if other != name:
                    read_again(other, task, outcome)
            outcomes.append(outcome)
        for node, process in nodes.processes.items():
            assert process.poll() is None, f"node {node} ended: {nodes.stderr(node)[-2000:]}"
    return outcomes

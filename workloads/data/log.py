"""Workload `log`: producers, consumers and leaders of partitions that move.

Every record that is sent is unique in the run: record n of worker w is `w<w>.<n>`. A send is one
batch of one to `batch` records; with idempotence it carries a producer id and sequences of its own
(KIP-98), and a producer that does not know what became of a send is done, as its process is. With
`retries` a send whose outcome is not known is tried again within the operation: the same batch,
with the same sequence. Nothing else is ever sent twice. So many workers as `in_flight` says share
a producer, which then has as many batches in flight.

A poll goes on where the last one of its process ended (tailing), from the high watermark on, or
reads again from an offset that is given. Some workers move leaders: a reassignment makes another
replica the preferred leader, and an election of preferred leaders follows. Where there are more
brokers than replicas the partition moves to other brokers, too.

What is read in the end is each partition whole, at its leader first and then at every replica.

Which of a partition's leaders answered is known: each lead is confirmed by a request that only the
leader of this very epoch answers, before anything is sent there (`workloads.data.leads`). Judged by
`checkers.partition_logs` and `checkers.nodes.isr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from checkers.partition_logs.columns import POLL, POLL_ALL, SEND
from checkers.registry import CheckSpec
from cluster.client.batches import CODECS
from cluster.client.data_client import Acks, TopicPartition
from cluster.values import valueclass
from workloads.base import Choice, ClientContext, Op, Option, Role, WorkloadClient, WorkloadKind
from workloads.data.leads import Topics
from workloads.data.log_client import MOVE, AtReplica, LogClient, SharedProducer, log_shapes

if TYPE_CHECKING:
    from workloads.shapes import Shapes

ACKS: Final[Mapping[str, Acks]] = {"all": -1, "1": 1, "0": 0}
OPTIONS: Final[Mapping[str, Option | Choice]] = {
    "topics": Option(2, "how many topics there are", 1, 1_000),
    "partitions": Option(4, "how many partitions each of them has", 1, 1_000),
    "replication_factor": Option(3, "replicas of a partition, at most as many as brokers", 1, 100),
    "min_insync_replicas": Option(2, "min.insync.replicas, at most as many as replicas", 1, 100),
    "acks": Choice("all", "how many replicas have a record when it is acknowledged", (*ACKS,)),
    "idempotence": Option(1, "1: producers have ids and sequences, with acks all only", 0, 1),
    "retries": Option(0, "how often a send may be tried again within its operation", 0, 10),
    "in_flight": Option(1, "most batches that an idempotent producer has in flight", 1, 5),
    "compression": Choice("none", "how producers compress batches", ("none", *CODECS)),
    "batch": Option(3, "most records of one send", 1, 1_000),
    "send_fraction": Option(0.5, "share of operations that are sends", 0.01, 0.99),
    "again_fraction": Option(0.1, "share of polls that read again what lies behind", 0.0, 1.0),
    "move_fraction": Option(0.005, "share of operations that move a leader", 0.0, 0.5),
}
_TARGETS: Final = 1_000_000
"""A move names one of so many placements; which, depends on the brokers that there are."""


@valueclass
class Log(Topics):
    """The workload with its options."""

    topics: int
    acks: str
    idempotence: bool
    retries: int
    in_flight: int
    compression: str
    batch: int
    send_fraction: float
    again_fraction: float
    move_fraction: float
    name: str = "log"
    producers: dict[int, SharedProducer] = field(default_factory=dict, compare=False, repr=False)
    """By the workers that share them."""

    def partition(self, number: int) -> TopicPartition:
        """Name a partition, e.g. `d0-3`: they are numbered through all topics."""
        return TopicPartition(f"d{number // self.partitions}", number % self.partitions)

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Send to random partitions, poll them, move their leaders."""
        sends = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: self.send_fraction}[role]
        count = polls = 0
        while True:
            key = str(self.partition(random.randrange(self.topics * self.partitions)))
            if role is Role.MIXED and random.random() < self.move_fraction:
                yield Op(MOVE, key, random.randrange(_TARGETS))
            elif random.random() < sends:
                values = [f"w{worker}.{count + n}" for n in range(random.randint(1, self.batch))]
                count += len(values)
                yield Op(SEND, key, list(values) if len(values) > 1 else values[0])
            else:
                polls += 1
                again = random.random() < self.again_fraction
                yield Op(POLL, key, random.randrange(1 + polls // 2) if again else None)

    def shapes(self) -> Shapes:
        """All that its clients can do."""
        count = self.topics * self.partitions
        return log_shapes([str(self.partition(number)) for number in range(count)])

    def final_operations(self) -> Sequence[Op]:
        """Read every partition whole: at its leader, and then at each of its replicas."""
        numbers = range(self.topics * self.partitions)
        keys = [str(self.partition(number)) for number in numbers]
        replicas = range(self.replication_factor)
        return (
            *(Op(POLL_ALL, key) for key in keys),
            *(AtReplica(POLL_ALL, key, replica=number) for key in keys for number in replicas),
        )

    def client(self, context: ClientContext) -> WorkloadClient:
        producer = None
        if self.idempotence and self.acks == "all":
            group = context.worker // self.in_flight
            producer = self.producers.setdefault(group, SharedProducer())
        return LogClient(context, self, ACKS[self.acks], self.retries, self.compression, producer)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every partition is a log that keeps what it promised; its ISR is decided by the rules."""
        del reads_lag  # of the metadata, which no operation here shows
        promise = {
            "acks": self.acks,
            "idempotence": self.idempotence and self.acks == "all",
            "retries": self.retries > 0,
        }
        return (
            CheckSpec("log", promise),
            CheckSpec("replica-logs", {"acks": self.acks}),
            CheckSpec("isr"),
        )


def create(options: Mapping[str, Any]) -> Log:
    """Make the workload from validated options."""
    return Log(**{**options, "idempotence": bool(options["idempotence"])})


KIND = WorkloadKind(
    "log",
    "records sent to partitions and polled while leaders move; logs with offsets",
    OPTIONS,
    create,
)

"""Workload `transactions`: transactional producers and consumers of partitions, as lists.

An operation is a transaction in the form of `checkers.transactions`: a key is a partition, an
append is a record with a value that is unique in the run (`w3.17`), a read is what a consumer of
the whole partition sees, in the order of offsets. Reads come first, with isolation.level
read_committed; then the appends, which a coordinator makes one transaction. One that has read also
commits an offset in it, as who reads, processes and writes does: `["commit", "t0-1", 17003]`, of
the group for that partition, and again unique. By its function an operation

- `txn`: commits.
- `abort`: aborts on purpose, and so ends in `fail`.
- `zombie`: before the last append another producer takes over the transactional id; the first goes
  on and commits, and must be fenced: `fail`.
- `outlive`: pauses with its transaction open until that has timed out, as a process does that is
  stopped or cut off, and comes back: it sends its last batch again until the coordinator has
  aborted the transaction and the batch is refused, then commits, and must be fenced: `fail`.
- `txn-late`, `abort-late`: as these, and the request that ended it (EndTxn) arrives once more amid
  the client's next transaction. So it does where a client gave up a connection and asked again on
  another one: TCP orders the bytes of one connection only. With transaction.version 2 an epoch is
  of one transaction and the late request is refused (KIP-890); before, it ends the next transaction
  (KAFKA-17754).
- `read`, `read-uncommitted`: reads alone, with either isolation level: no transaction to Kafka.
- `offsets`: looks up the offset that a group has committed, with require_stable (KIP-447).
- `read-all`, in the end: reads a partition at the leader in which all brokers agree, once nothing
  there is undecided any more.

A worker has one transactional id for all its processes: a new one fences the last one, whose
transaction is committed or aborted by then. Judged by `checkers.transactions.atomic_appends`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from checkers.registry import CheckSpec
from checkers.transactions.atomic_rules import (
    ABORT,
    LATE,
    OUTLIVE,
    READ,
    READ_ALL,
    READ_UNCOMMITTED,
    TXN,
    ZOMBIE,
)
from checkers.transactions.committed_offsets import COMMIT, OFFSETS
from cluster.client.data_client import TopicPartition
from cluster.values import valueclass
from workloads.base import (
    CLIENT,
    OWN,
    Choice,
    ClientContext,
    Op,
    Option,
    Role,
    WorkloadClient,
    WorkloadKind,
)
from workloads.data.java_clients import JAVA, JavaClient
from workloads.data.leads import Topics
from workloads.data.transactions_client import TransactionsClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

OPTIONS: Final[Mapping[str, Option | Choice]] = {
    CLIENT: Choice(
        OWN,
        "java: transactions are of Kafka's own producer, without late ends and pauses",
        (OWN, JAVA),
    ),
    "topics": Option(2, "how many topics there are", 1, 100),
    "partitions": Option(2, "how many partitions each of them has", 1, 100),
    "replication_factor": Option(3, "replicas of a partition, at most as many as brokers", 1, 100),
    "min_insync_replicas": Option(2, "min.insync.replicas, at most as many as replicas", 1, 100),
    "appends": Option(4, "most appends of one transaction", 1, 100),
    "read_fraction": Option(0.3, "share of operations that only read", 0.0, 0.99),
    "abort_fraction": Option(0.15, "share of transactions that abort on purpose", 0.0, 1.0),
    "outlive_fraction": Option(0.0, "share that outlive transaction_timeout_ms", 0.0, 1.0),
    "late_fraction": Option(0.1, "share whose end arrives once more, late", 0.0, 1.0),
    "transaction_timeout_ms": Option(5000, "transaction.timeout.ms", 1000, 600_000),
}
_UNCOMMITTED_FRACTION: Final = 0.2
"""Share of reads alone with read_uncommitted."""
_ZOMBIES_FRACTION: Final = 0.04
"""Share of transactions whose transactional id is taken over."""
_OFFSETS_FRACTION: Final = 0.2
"""Share of a worker's reads that look up an offset."""
_WORKERS_MAX: Final = 1_000
_OPEN_MS: Final = 20_000
"""Beyond its time-out, how long a transaction of nobody may stay open: coordinators look for such
every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms), and end it within 10 s on
a machine that stops them for some. `harness.run.world.FINAL_BOUND_S` has room for it."""


@valueclass
class Transactions(Topics):
    """The workload with its options."""

    topics: int
    appends: int
    read_fraction: float
    abort_fraction: float
    outlive_fraction: float
    late_fraction: float
    transaction_timeout_ms: int
    client_kind: str
    name: str = "transactions"

    def keys(self) -> Sequence[str]:
        """Name all partitions, e.g. `t0-1`."""
        return [
            str(TopicPartition(f"t{topic}", index))
            for topic in range(self.topics)
            for index in range(self.partitions)
        ]

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Read and append to random partitions, now in one transaction and now in two."""
        reads = {Role.READER: 1.0, Role.WRITER: 0.0, Role.MIXED: self.read_fraction}[role]
        keys = self.keys()
        own, count = keys[worker % len(keys)], 0
        while True:
            if random.random() < reads:
                if role is Role.MIXED and random.random() < _OFFSETS_FRACTION:
                    yield Op(OFFSETS, None, _reads([own]))
                    continue
                seen = random.sample(keys, random.randint(1, len(keys)))
                uncommitted = random.random() < _UNCOMMITTED_FRACTION
                yield Op(READ_UNCOMMITTED if uncommitted else READ, None, _reads(seen))
                continue
            seen = random.sample(keys, random.randint(0, 1))
            steps = _reads(seen)
            if seen and self.client_kind == OWN:
                steps.append([COMMIT, own, (count + 1) * _WORKERS_MAX + worker])
            for _ in range(random.randint(1, self.appends)):
                count += 1
                steps.append(["append", random.choice(keys), f"w{worker}.{count}"])
            yield Op(self._function(random), None, steps)

    def _function(self, random: Random) -> str:
        if random.random() < _ZOMBIES_FRACTION:
            return ZOMBIE
        outlives = self.outlive_fraction and random.random() < self.outlive_fraction
        if outlives and self.client_kind == OWN:
            return OUTLIVE
        function = ABORT if random.random() < self.abort_fraction else TXN
        late = random.random() < self.late_fraction and self.client_kind == OWN
        return function + LATE if late else function

    def shapes(self) -> Shapes:
        """Transactions of its partitions, and reads."""
        from workloads.shapes import steps_of  # noqa: PLC0415

        keys, own = self.keys(), self.client_kind == OWN
        steps = steps_of(keys, ("r", "append", *((COMMIT,) if own else ())))
        reads, read = steps_of(keys), steps_of(keys, most=1)
        late = (TXN + LATE, ABORT + LATE, OUTLIVE) if own else ()
        return {
            **{key: {"value": steps} for key in (TXN, ABORT, ZOMBIE, *late)},
            **{key: {"value": reads} for key in (READ, READ_UNCOMMITTED)},
            **{key: {"value": read} for key in (READ_ALL, OFFSETS)},
        }

    def setup_operations(self) -> Sequence[Op]:
        """Read every partition and offset, so that the topics are there."""
        return self._of_each(READ)

    def final_operations(self) -> Sequence[Op]:
        """Read every partition and offset once nothing of it is undecided."""
        return self._of_each(READ_ALL)

    def _of_each(self, read: str) -> Sequence[Op]:
        functions = (read, OFFSETS) if self.client_kind == OWN else (read,)
        return [Op(f, None, _reads([key])) for f in functions for key in self.keys()]

    def client(self, context: ClientContext) -> WorkloadClient:
        java = JavaClient(context) if self.client_kind == JAVA else None
        return TransactionsClient(context, self, self.transaction_timeout_ms, java)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Transactions are atomic, and each partition is one log."""
        del reads_lag  # of the metadata, which no operation here shows
        open_ms = self.transaction_timeout_ms + _OPEN_MS
        atomic = CheckSpec("atomic-appends", {"open_ms": open_ms})
        return (atomic, CheckSpec("replica-logs"), CheckSpec("isr"))


def _reads(keys: Sequence[str]) -> list[Any]:
    return [["r", key, None] for key in keys]


def create(options: Mapping[str, Any]) -> Transactions:
    """Make the workload from validated options."""
    return Transactions(
        client_kind=options[CLIENT], **{k: v for k, v in options.items() if k != CLIENT}
    )


KIND = WorkloadKind(
    "transactions",
    "transactions append to partitions, abort, and are fenced; atomic for read_committed",
    OPTIONS,
    create,
    needs_coordinators=True,
)

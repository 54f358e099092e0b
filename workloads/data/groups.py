"""Workload `groups`: members of one consumer group, and producers of its topic.

Producers and the last reads of the partitions are those of workload `log`. A member is of one
process; one in three workers is a static member (KIP-345). By its function an operation

- `consume`: says by a heartbeat that the member is there, and fetches from the next of its
  partitions; where it has to join, it joins instead, and looks up what is committed.
- `commit`: commits how far the member is in each of its partitions.
- `leave`: leaves the group; the next `consume` joins it as a new member.
- `abandon`: forgets the member, as if its process had died: the group finds out by itself, and a
  static member's successor takes over.
- `zombie-commit`: commits what the last former member of this process had processed, in its name
  and generation: a consumer that wakes up after a pause. It is refused where the member was fenced.
- `join-all`, in the end: joins until the member is alone and is given every partition.

In each generation the leader gives partitions to members in turn, beginning with another member, so
that they move. A process whose commit ended in `info` is done, and so is its member. Judged by
`checkers.groups`.

With Kafka's own clients (`client`) assignments are theirs, `abandon` closes a consumer at once, and
`zombie-commit` is that of a consumer which pauses beyond max.poll.interval.ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from checkers.groups.facts import ABANDON, COMMIT, JOIN_ALL, LEAVE, ZOMBIE_COMMIT
from checkers.partition_logs.columns import CONSUME, POLL, POLL_ALL, SEND
from checkers.registry import CheckSpec
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
from workloads.data.groups_client import GroupsClient
from workloads.data.groups_in_java import JavaGroupsClient
from workloads.data.java_clients import JAVA
from workloads.data.leads import Topics
from workloads.data.log_client import log_shapes

if TYPE_CHECKING:
    from workloads.shapes import Shapes

TOPIC: Final = "g0"
NEXT: Final = "java-consumer"
"""Java's client with the protocol of KIP-848."""
OPTIONS: Final[Mapping[str, Option | Choice]] = {
    CLIENT: Choice(
        OWN, "java: Kafka's own clients; java-consumer: with KIP-848's protocol", (OWN, JAVA, NEXT)
    ),
    "partitions": Option(6, "how many partitions the topic has", 1, 100),
    "replication_factor": Option(3, "replicas of a partition, at most as many as brokers", 1, 100),
    "min_insync_replicas": Option(2, "min.insync.replicas, at most as many as replicas", 1, 100),
}
_SENDS_FRACTION: Final = 0.4
_OF_A_MEMBER: Final = {COMMIT: 0.3, LEAVE: 0.01, ABANDON: 0.02, ZOMBIE_COMMIT: 0.04}
"""Shares of a member's operations; the others consume."""


@valueclass
class Groups(Topics):
    """The workload with its options."""

    client_kind: str
    name: str = "groups"

    def keys(self) -> Sequence[str]:
        """Name all partitions, e.g. `g0-1`."""
        return [str(TopicPartition(TOPIC, index)) for index in range(self.partitions)]

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Send to random partitions; consume, commit, and come and go as a member."""
        sends = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: _SENDS_FRACTION}[role]
        weights = [*_OF_A_MEMBER.values(), 1.0 - sum(_OF_A_MEMBER.values())]
        keys, count = self.keys(), 0
        while True:
            if random.random() < sends:
                count += 1
                yield Op(SEND, random.choice(keys), f"w{worker}.{count}")
            else:
                (function,) = random.choices([*_OF_A_MEMBER, CONSUME], weights)
                yield Op(function)

    def shapes(self) -> Shapes:
        """Those of its logs, and of a member."""
        of_member = (CONSUME, COMMIT, LEAVE, ABANDON, ZOMBIE_COMMIT, JOIN_ALL)
        return {**log_shapes(self.keys()), **{key: {} for key in of_member}}

    def setup_operations(self) -> Sequence[Op]:
        """Poll every partition, so that the topic is there, and join the group."""
        return (*(Op(POLL, key) for key in self.keys()), Op(CONSUME))

    def final_operations(self) -> Sequence[Op]:
        """Read every partition whole, and what is committed."""
        return (*(Op(POLL_ALL, key) for key in self.keys()), Op(JOIN_ALL))

    def client(self, context: ClientContext) -> WorkloadClient:
        own = GroupsClient(context, TOPIC, self)
        if self.client_kind == OWN:
            return own
        return JavaGroupsClient(context, own, TOPIC, self.protocol)

    @property
    def protocol(self) -> str:
        """As group.protocol of Kafka's consumers names it."""
        return "consumer" if self.client_kind == NEXT else "classic"

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """The group keeps its promises, and so do the logs that it reads."""
        del reads_lag  # of the metadata, which no operation here shows
        log = {"acks": "all", "idempotence": True, "retries": False}
        return (
            CheckSpec("groups", {"protocol": self.protocol}),
            CheckSpec("log", log),
            CheckSpec("replica-logs"),
            CheckSpec("isr"),
        )


def create(options: Mapping[str, Any]) -> Groups:
    """Make the workload from validated options."""
    return Groups(client_kind=options[CLIENT], **{k: v for k, v in options.items() if k != CLIENT})


KIND = WorkloadKind(
    "groups",
    "members of a group come, go, commit and are fenced; no commit lost, no record skipped",
    OPTIONS,
    create,
    needs_coordinators=True,
)

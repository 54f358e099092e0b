"""Workload `topics`: create, delete and describe topics of a small pool of names.

Create and delete go to the active controller's CONTROLLER listener; describe is Metadata on the
CLIENT listener, where the active controller names itself as controller and has confirmed its
leadership; an answer of another node may be stale and counts as `fail`, which proves nothing.

Names are few, so that creations and deletions of one name meet. Every creation gets an id of its
own from the controller, so a describe names the one creation that it saw. The number of
partitions differs between creations, so that a topic without all its partitions is seen too.

Where a system promises less of reads (`reads_lag`), creations and deletions that succeed must be
linearizable; any broker answers a describe, and at one broker a client never sees an earlier
creation of a name after a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from checkers.registry import CheckSpec
from cluster.values import valueclass
from workloads.base import Completion, Op, Option, Role, WorkloadKind, lagging_reads
from workloads.keyed import Plain, TargetClient

OPTIONS = {
    "names": Option(12, "how many topic names there are", 1, 10_000),
    "partitions_max": Option(3, "most partitions of a topic", 1, 100),
}


class TopicsClient(TargetClient):
    """One process's client."""

    async def invoke(self, op: Op) -> Completion:
        """Perform a create, delete or describe."""
        assert op.key is not None, "topics have names"
        client, timeout_ms = self._context.client, self._context.timeout_ms
        node = self._target.choose("CLIENT" if op.f == "describe" else "CONTROLLER")
        controller = self._context.endpoint(node, "CONTROLLER")
        if op.f == "create":
            outcome = await client.create_topic(
                controller, op.key, op.value["partitions"], timeout_ms=timeout_ms
            )
        elif op.f == "delete":
            outcome = await client.delete_topic(controller, op.key, timeout_ms=timeout_ms)
        else:
            assert op.f == "describe", f"topics know no {op.f}"
            broker = self._context.endpoint(node, "CLIENT")
            outcome = await client.describe_topic(
                broker, op.key, lags=self._context.reads_lag, timeout_ms=timeout_ms
            )
        return self._completion(node, outcome, op.value)


@valueclass
class Topics(Plain):
    """The workload with its options."""

    makes = TopicsClient
    names: int
    partitions_max: int
    name: str = "topics"

    def topic(self, number: int) -> str:
        """Name of a topic, e.g. `t03`."""
        return f"t{number:0{len(str(self.names - 1))}}"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Create and delete random names and, as often as both together, describe them."""
        reads, writes = ("describe", "describe"), ("create", "delete")
        choices = {Role.READER: reads, Role.WRITER: writes, Role.MIXED: reads + writes}[role]
        del worker  # nothing that a worker sends carries its number
        while True:
            topic = self.topic(random.randrange(self.names))
            f = random.choice(choices)
            partitions = random.randint(1, self.partitions_max)
            yield Op(f, topic, {"partitions": partitions} if f == "create" else None)

    def final_operations(self) -> Sequence[Op]:
        """Describe every name once more."""
        return tuple(Op("describe", self.topic(number)) for number in range(self.names))

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every name is linearizable, and every node ends with what was acknowledged last."""
        # Kafka looks the name of a deletion up in the asked node's image: a refusal lags, too.
        writes = {"functions": ["create", "delete"], "refusals": False} if reads_lag else {}
        return (
            CheckSpec("linearizable", {"model": "topics", **writes}),
            *([lagging_reads(model=self.name)] if reads_lag else []),
            CheckSpec("durability", {"workload": self.name, **writes}),
        )


KIND = WorkloadKind(
    "topics",
    "create, delete and describe on a small pool of names; linearizable",
    OPTIONS,
    lambda options: Topics(**options),
)

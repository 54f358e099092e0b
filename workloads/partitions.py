"""Workload `partitions`: topics that grow by one partition at a time, as counters.

An increment is CreatePartitions for the next partition with one assignment, which a controller
refuses unless exactly one partition is added: so an acknowledged increment added one, a refused one
none, whatever else was growing the topic. A read is the number of partitions beyond the first,
described on the CLIENT listener of the active controller, which has confirmed its leadership. So
every topic is a linearizable counter; and nothing ever lowers it. Where a system promises less of
reads (`reads_lag`), any broker answers them: it may show an earlier number, and never goes back.

A process remembers how many partitions it saw last and guesses that there are still as many; after
a refusal it looks again. A topic that does not exist is created first and counts zero.
"""

from __future__ import annotations

from checkers.registry import CheckSpec
from cluster.client.caller import Outcome
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Option, WorkloadKind
from workloads.keyed import Keyed, TargetClient

OPTIONS = {"topics": Option(16, "how many topics there are", 1, 10_000)}
_WRITES_FRACTION = 0.5


class PartitionsClient(TargetClient):
    """One process's client."""

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._counts: dict[str, int] = {}

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "topics have names"
        if op.f == "read":
            node, outcome = await self._read(op.key)
        else:
            assert op.f == "increment", f"partitions know no {op.f}"
            node, outcome = await self._increment(op.key)
        return self._completion(node, outcome)

    async def _read(self, topic: str) -> tuple[str, Outcome]:
        """Return the node that was asked, and how it answered."""
        context = self._context
        node = self._target.choose("CLIENT")
        peer = context.peer(node, "CLIENT")
        found = await context.client.describe_topic(peer, topic, lags=context.reads_lag)
        if found.type != "ok":
            return node, found
        count = 0 if found.value is None else found.value["partitions"]
        self._counts[topic] = count
        return node, Outcome("ok", max(0, count - 1))

    async def _increment(self, topic: str) -> tuple[str, Outcome]:
        """Return the node that was asked last, and how it answered."""
        context = self._context
        if self._counts.get(topic) is None:
            node, found = await self._read(topic)
            if found.type != "ok":
                return node, Outcome("fail", error=found.error)  # nothing was asked for yet
        node = self._target.choose()
        controller = context.peer(node)
        if self._counts[topic] == 0:
            made = await context.client.create_topic(controller, topic)
            if made.type != "ok":
                del self._counts[topic]
                return node, Outcome("fail", error=made.error)  # the first partition counts nothing
            self._counts[topic] = 1
        count = self._counts.pop(topic)
        # The new partition goes to a broker, which the active controller need not be.
        broker = context.endpoint(self._target.choose("CLIENT"), "CLIENT")
        outcome = await context.client.create_partition(controller, topic, count, (broker.node_id,))
        if outcome.type == "ok":
            self._counts[topic] = count + 1
        return node, outcome


@valueclass
class Partitions(Keyed):
    """The workload with its options."""

    makes = PartitionsClient
    name: str = "partitions"
    letter = "p"
    write = "increment"

    def value(self, worker: int, count: int) -> None:
        """Nothing: an increment has no value."""

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every topic is a linearizable counter; or one that grows, to the same everywhere."""
        reads = "growth" if reads_lag else "linearizable"
        return (
            CheckSpec(reads, {"model": "counter"}),
            CheckSpec("durability", {"workload": self.name}),
        )


KIND = WorkloadKind(
    "partitions",
    "topics grow partition by partition; linearizable counters",
    OPTIONS,
    lambda options: Partitions(options["topics"], _WRITES_FRACTION),
)

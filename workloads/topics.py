"""Workload `topics`: create, delete and describe topics of a small pool of names.

Create and delete go to the active controller's CONTROLLER listener; describe is Metadata on the
CLIENT listener, where the active controller names itself as controller and has confirmed its
leadership; an answer of another node may be stale and counts as `fail`, which proves nothing.

Every other deletion names the topic by its id, as Metadata show it just before: where another one
of that name is there by then, the id is unknown, and there was none in between.

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
from typing import TYPE_CHECKING

from checkers.registry import CheckSpec
from cluster.client.caller import Outcome, Peer
from cluster.node.errors import ErrorCode
from cluster.values import valueclass
from workloads.base import Completion, Op, Option, Role, WorkloadKind, lagging_reads
from workloads.keyed import Plain, TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

OPTIONS = {
    "names": Option(12, "how many topic names there are", 1, 10_000),
    "partitions_max": Option(3, "most partitions of a topic", 1, 100),
}


class TopicsClient(TargetClient):
    """One process's client."""

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "topics have names"
        context = self._context
        node = self._target.choose("CLIENT" if op.f == "describe" else "CONTROLLER")
        if op.f == "create":
            outcome = await context.client.create_topic(
                context.peer(node), op.key, op.value["partitions"]
            )
        elif op.f == "delete":
            outcome = await self._delete(op, node)
        else:
            assert op.f == "describe", f"topics know no {op.f}"
            outcome = await context.client.describe_topic(
                context.peer(node, "CLIENT"), op.key, lags=context.reads_lag
            )
        return self._completion(node, outcome, op.value)

    async def _delete(self, op: Op, node: str) -> Outcome:
        """Delete a topic by its name, or by the id that the node shows for that name."""
        assert op.key is not None, "topics have names"
        context, topic_id = self._context, None
        if op.value is not None:
            shown_at = node if node in context.nodes_at("CLIENT") else self._target.choose("CLIENT")
            shown = await context.client.describe_topic(
                Peer(context.endpoint(shown_at, "CLIENT"), context.timeout_ms / 2),
                op.key,
                lags=context.reads_lag,
            )
            if shown.type != "ok" or shown.value is None:
                error = shown.error or ErrorCode.unknown_topic_or_partition.name
                return Outcome("fail", error=error)  # nothing was asked for yet
            topic_id = shown.value["id"]
        left_ms = context.timeout_ms / (1 if topic_id is None else 2)
        peer = Peer(context.endpoint(node, "CONTROLLER"), left_ms)
        return await context.client.delete_topic(peer, op.key, topic_id=topic_id)


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
            of_f = {
                "create": {"partitions": partitions},
                "delete": {"by": "id"} if random.random() < 0.5 else None,
            }
            yield Op(f, topic, of_f.get(f))

    def shapes(self) -> Shapes:
        """Creations, deletions by name or id, and reads of its names."""
        from workloads.shapes import Identified, Size, one_of  # noqa: PLC0415

        key = one_of([self.topic(number) for number in range(self.names)])
        deletes = {"key": key, "value": (Identified | None, None)}
        return {"create": {"key": key, "value": Size}, "delete": deletes, "describe": {"key": key}}

    def final_operations(self) -> Sequence[Op]:
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

"""Workload `set`: create topics with unique names, then see which of them every node has.

The simplest durability test: a name with an acknowledged creation must be in the final state of
every node, one with a failed creation must not, any other may. Nothing is deleted, so the image
grows for as long as the run lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from checkers.registry import CheckSpec
from cluster.values import valueclass
from workloads.base import Completion, Op, Option, Role, WorkloadKind
from workloads.keyed import Plain, TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

OPTIONS = {"partitions_max": Option(1, "most partitions of a topic", 1, 100)}


class SetClient(TargetClient):
    """One process's client."""

    async def invoke(self, op: Op) -> Completion:
        assert op.f == "add", f"sets know no {op.f}"
        assert op.key is not None, "elements have names"
        node = self._target.choose()
        outcome = await self._context.client.create_topic(
            self._context.peer(node), op.key, op.value["partitions"]
        )
        return self._completion(node, outcome, op.value)


@valueclass
class Set(Plain):
    """The workload with its options."""

    makes = SetClient
    partitions_max: int
    name: str = "set"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Add `s<worker>-<count>`; the name is both key and element."""
        del role  # there is nothing to read
        count = 0
        while True:
            name = f"s{worker}-{count}"
            yield Op("add", name, {"partitions": random.randint(1, self.partitions_max)})
            count += 1

    def shapes(self) -> Shapes:
        """Any name: the topics of a node are all read in the end."""
        from workloads.shapes import Size, Text  # noqa: PLC0415

        return {"add": {"key": Text, "value": Size}}

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:  # noqa: ARG002
        """Acknowledged names are on every node, refused ones on none."""
        return (CheckSpec("durability", {"workload": self.name}),)


KIND = WorkloadKind(
    "set",
    "create unique topics; every acknowledged one on every node at the end",
    OPTIONS,
    lambda options: Set(**options),
    creates_partitions=True,
)

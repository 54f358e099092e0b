"""Workload `append`: lists that grow at the end, IncrementalAlterConfigs APPEND read back whole.

A list is a cell of the system (`cluster.systems.cells`), `kraftprobe.list.<key>`: a configuration
of type LIST of a topic of that name. APPEND makes the controller read the newest value, add an
element and write the whole list anew; two of them that do not see each other lose an element. Reads
go to the controller listener, where only the active controller answers, and only after it confirmed
its leadership. So every key is a linearizable list. Where a system promises less, reads go to
brokers: appends must be linearizable, a read may show an earlier list, and no broker goes back. An
append that finds no topic creates it and fails, and a read that finds none shows the empty list.

Every element is unique in the run (`w<worker>.<count>`), so that every read shows the order of
all appends before it: the check is near-linear (Kingsbury and Alvaro, Elle, 2020). Each append
writes the whole list into the log, so long runs want more keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from checkers.registry import CheckSpec
from cluster.client.caller import Outcome
from cluster.node.errors import ErrorCode
from cluster.systems.cells import LIST_PREFIX
from cluster.values import valueclass
from workloads.base import Completion, Op, Option, WorkloadKind
from workloads.keyed import Keyed, TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

_NO_TOPIC = ErrorCode.unknown_topic_or_partition.name

OPTIONS = {"keys": Option(8, "how many lists there are", 1, 10_000)}
_WRITES_FRACTION = 0.5


class AppendClient(TargetClient):
    """One process's client."""

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "lists have names"
        context = self._context
        node = self._target.choose(context.reads_at if op.f == "read" else "CONTROLLER")
        cell = context.cell(LIST_PREFIX + op.key)
        if op.f == "append":
            assert isinstance(op.value, str)
            outcome = await self._alter_cell(node, cell, "append", cell.encode(op.value))
            if outcome.type == "ok":
                outcome = Outcome("ok", op.value)
            elif outcome.error == _NO_TOPIC:
                await context.client.create_topic(context.peer(node), cell.resource[1])
        else:
            assert op.f == "read", f"lists know no {op.f}"
            outcome = await self._read_cell(node, cell)
            if outcome.type == "ok":
                outcome = Outcome("ok", elements(cell.decode(outcome.value or "")))
            elif outcome.error == _NO_TOPIC:
                outcome = Outcome("ok", [])
        return self._completion(node, outcome, op.value)


@valueclass
class Append(Keyed):
    """The workload with its options."""

    makes = AppendClient
    name: str = "append"
    letter = "l"
    write = "append"

    def cells(self) -> Sequence[str]:
        return tuple(LIST_PREFIX + self.key(number) for number in range(self.keys))

    def shapes(self) -> Shapes:
        """Reads and appends of elements, as the generated ones are."""
        from pydantic import Field  # noqa: PLC0415

        element = Field(pattern=r"^w\d+\.\d+$", description="an element such as w0.1")
        shapes = Keyed.shapes(self)
        return {**shapes, "append": {**shapes["append"], "value": Annotated[str, element]}}

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every key is a linearizable list, or one that only grows; and is whole on every node."""
        reads = "growth" if reads_lag else "linearizable"
        return (
            CheckSpec(reads, {"model": "list-append"}),
            CheckSpec("durability", {"workload": self.name, "config_prefix": LIST_PREFIX}),
        )


def elements(value: str) -> list[str]:
    """Split a config value as the controller does."""
    return [element for element in value.split(",") if element]


KIND = WorkloadKind(
    "append",
    "elements appended to config lists and read back; linearizable lists",
    OPTIONS,
    lambda options: Append(options["keys"], _WRITES_FRACTION),
)

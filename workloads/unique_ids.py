"""Workload `unique-ids`: blocks of producer ids, disjoint and growing.

Every worker is a fake broker, which registers with the active controller and asks it for one block
after another. No id may be given twice, and a block given later lies above every block given
before, because each allocation is one record of the metadata log (KIP-730). Blocks may be lost on
the way to the worker, so gaps are allowed.

A worker's broker has the same incarnation for the whole run: registering again is harmless, and
gives the epoch that it has. It never sends a heartbeat and so stays fenced; ids are given to it all
the same, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal

from checkers.registry import CheckSpec
from cluster.client.broker_client import BrokerClient, FakeBroker
from cluster.client.caller import Outcome
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Option, Role, WorkloadKind
from workloads.keyed import Plain, TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

KEY = "producer-ids"
FIRST_BROKER_ID = 1_000
"""Fake brokers are numbered from here, so that no node is taken for one."""
OPTIONS: dict[str, Option] = {}


class UniqueIdsClient(TargetClient):
    """One process's client; its registration stays."""

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._client = BrokerClient(context.client)
        self._broker = FakeBroker(FIRST_BROKER_ID + context.worker)
        self._epoch: int | None = None

    async def invoke(self, op: Op) -> Completion:
        """Ask for a block, in the name of this worker's broker."""
        assert op.f == "allocate", f"unique ids know no {op.f}"
        node = self._target.choose()
        outcome = await self._allocate(node)
        return self._completion(node, outcome)

    async def _allocate(self, node: str) -> Outcome:
        controller = self._context.peer(node)
        if self._epoch is None:
            registered = await self._client.register(controller, self._broker)
            if registered.type != "ok":
                return Outcome("fail", error=registered.error)  # no id was asked for yet
            self._epoch = registered.value
        outcome = await self._client.allocate_producer_ids(controller, self._broker, self._epoch)
        if outcome.error == "stale_broker_epoch":
            self._epoch = None
        return outcome


@valueclass
class UniqueIds(Plain):
    """The workload; it has no options."""

    makes = UniqueIdsClient
    name: str = "unique-ids"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Ask for one block after another, whatever the role."""
        del worker, random, role
        while True:
            yield Op("allocate", KEY)

    def shapes(self) -> Shapes:
        """One key: blocks of two would be compared with none of the other's."""
        return {"allocate": {"key": Literal["producer-ids"]}}

    def final_operations(self) -> Sequence[Op]:
        """Ask for one more: it must lie above all."""
        return (Op("allocate", KEY),)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:  # noqa: ARG002
        """Blocks do not overlap and grow in real time."""
        return (CheckSpec("linearizable", {"model": "producer-ids"}),)


KIND = WorkloadKind(
    "unique-ids",
    "blocks of producer ids for fake brokers; disjoint and growing",
    OPTIONS,
    lambda _: UniqueIds(),
)

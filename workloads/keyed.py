"""What workloads share: reads and writes of a few keys, and a client that asks a node at a time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from checkers.history import Value
from cluster.backends.base import Listener
from cluster.client.caller import Outcome
from cluster.systems.cells import Cell
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Role, WorkloadClient, completion

if TYPE_CHECKING:
    from workloads.shapes import Shapes


class Plain:
    """A workload that writes no cells, so that its writes show by other means."""

    makes: ClassVar[type[Any]]
    """Class of its clients, made of a ClientContext."""

    def client(self, context: ClientContext) -> WorkloadClient:
        made: WorkloadClient = self.makes(context)
        return made

    def setup_operations(self) -> Sequence[Op]:
        """Return nothing: a node that is up can be written to."""
        return ()

    def final_operations(self) -> Sequence[Op]:
        """Return nothing: final reads of all nodes are enough."""
        return ()

    def cells(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def shapes(self) -> Shapes | None:
        """Return what an operation that a plan lists may say; None: its client refuses."""
        return None


@valueclass
class Keyed(Plain):
    """Reads and writes of random keys, by options: how many keys, and the share of writes."""

    keys: int
    write_fraction: float
    letter: ClassVar[str]
    """What keys begin with."""
    write: ClassVar[str]
    """Name of the operation that writes."""

    def key(self, number: int) -> str:
        """Name of a key, e.g. `k3`."""
        return f"{self.letter}{number:0{len(str(self.keys - 1))}}"

    def value(self, worker: int, count: int) -> Value:
        """Return a worker's value number `count`, unique in the run."""
        return f"w{worker}.{count}"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        fractions = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: self.write_fraction}
        count = 0
        while True:
            key = self.key(random.randrange(self.keys))
            if random.random() < fractions[role]:
                yield Op(self.write, key, self.value(worker, count))
                count += 1
            else:
                yield Op("read", key)

    def shapes(self) -> Shapes:
        """Reads and writes of its keys: no others are read in the end."""
        from workloads.shapes import Text, one_of  # noqa: PLC0415

        key = one_of([self.key(number) for number in range(self.keys)])
        written = {} if self.value(0, 0) is None else {"value": Text}
        return {"read": {"key": key}, self.write: {"key": key, **written}}

    def final_operations(self) -> Sequence[Op]:
        return tuple(Op("read", self.key(number)) for number in range(self.keys))


LEADS_NOT = frozenset({"not_controller", "not_leader_or_follower", "not-sent"})
"""Errors that say at once that this node is not the one to ask."""


class Target:
    """Which node a client asks: the one that it is pinned to, or the one believed to lead.

    Where these have no listener for what it asks, as controllers have none for what brokers answer,
    it asks all that have it in turn.

    Both kinds are needed. Followers of the leader make the load and notice a new leader quickly.
    A pinned client goes on asking a leader that was cut off or deposed, and so sees a stale
    read or an acknowledgement that must not be.
    """

    def __init__(self, context: ClientContext) -> None:
        self._pinned_to = context.pinned_to
        self._leader = context.leader
        self._nodes_at = functools.cache(context.nodes_at)
        self._turns = itertools.count(context.worker)

    def choose(self, listener: Listener = "CONTROLLER") -> str:
        """Name the node to ask now at this listener."""
        nodes = self._nodes_at(listener)
        for node in (self._pinned_to, self._leader.guess):
            if node is not None and node in nodes:
                return node
        return nodes[next(self._turns) % len(nodes)]

    def learn(self, node: str, outcome: Outcome) -> None:
        """Use how `node` answered for the next choice."""
        if node == self._pinned_to or outcome.type == "ok":
            return
        if outcome.type == "info" or outcome.error in LEADS_NOT:
            self._leader.suspect(node)


class TargetClient:
    """One process's client, which holds nothing but what it learned about the leader."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._target = Target(context)

    def _completion(self, node: str, outcome: Outcome, value: Value = None) -> Completion:
        """Learn from how `node` answered, and render it; see `workloads.base.completion`."""
        self._target.learn(node, outcome)
        return completion(outcome, node, value)

    async def _alter_cell(
        self, node: str, cell: Cell, how: Literal["set", "append"], value: Value
    ) -> Outcome:
        """Change a cell by a node's CONTROLLER listener."""
        peer = self._context.peer(node)
        return await self._context.client.alter_config(peer, cell.resource, cell.key, how, value)

    async def _read_cell(self, node: str, cell: Cell) -> Outcome:
        """Read a cell at a node, by the listener at which the system's cells are read."""
        peer = self._context.peer(node, self._context.reads_at)
        return await self._context.client.read_config(peer, cell.resource, cell.key)

    async def close(self) -> None:
        """Nothing is held."""

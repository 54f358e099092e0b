"""What workloads share: reads and writes of a few keys, and a client that asks a node at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import ClassVar

from checkers.history import Value
from cluster.client.admin_client import Outcome
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Role, completion
from workloads.target import Target


class Plain:
    """A workload that writes no cells, so that its writes show by other means."""

    def setup_operations(self) -> Sequence[Op]:
        """Return nothing: a node that is up can be written to."""
        return ()

    def final_operations(self) -> Sequence[Op]:
        """Return nothing: final reads of all nodes are enough."""
        return ()

    def cells(self) -> Sequence[str]:
        """Return nothing."""
        return ()


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
        """Read and write random keys."""
        fractions = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: self.write_fraction}
        count = 0
        while True:
            key = self.key(random.randrange(self.keys))
            if random.random() < fractions[role]:
                yield Op(self.write, key, self.value(worker, count))
                count += 1
            else:
                yield Op("read", key)

    def final_operations(self) -> Sequence[Op]:
        """Read every key once more."""
        return tuple(Op("read", self.key(number)) for number in range(self.keys))


class TargetClient:
    """One process's client, which holds nothing but what it learned about the leader."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._target = Target(context)

    def _completion(self, node: str, outcome: Outcome, value: Value = None) -> Completion:
        """Learn from how `node` answered, and render it; see `workloads.base.completion`."""
        self._target.learn(node, outcome)
        return completion(outcome, node, value)

    async def close(self) -> None:
        """Nothing is held."""

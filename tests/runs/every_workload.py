"""All workloads that read, one inside of another, so that one cluster start suffices for them.

Each worker goes through them in turn; their keys differ. A part of the run is judged by itself, by
the checks of its own workload. Voters change at the beginning only, before any fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from checkers.history import pair
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from checkers.verdict import CheckResult
from cluster.values import valueclass
from results.store.run_store import RunStore
from workloads.base import ClientContext, Completion, Op, Role, Workload, WorkloadKind
from workloads.reconfig import CHANGE
from workloads.registry import workload_named

PARTS = {
    "append": {},
    "brokers": {"brokers": 12},
    "partitions": {"topics": 4},
    "reconfig": {"change_fraction": 0.2},
    "topics": {"names": 6},
    "unique-ids": {},
}
CHANGES_UNTIL = 30
"""Operation of a worker after which it changes no voters."""


def part_of(key: str | None) -> str:
    """Name the workload that a key is of; also that of a topic of this name."""
    if key is None:
        return "reconfig"
    named = {"l": "append", "k": "reconfig", "t": "topics", "producer-ids": "unique-ids"}
    by_digit = "brokers" if key[0].isdigit() else "partitions"
    return named.get(key) or named.get(key[0], by_digit)


@valueclass
class EveryWorkload:
    parts: Mapping[str, Workload]
    name: str = "every-workload"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        seeds = [Random(random.getrandbits(64)) for _ in self.parts]
        streams = [
            part.operations(worker, seed, role)
            for part, seed in zip(self.parts.values(), seeds, strict=True)
        ]
        for number in count():
            op = next(streams[number % len(streams)])
            if op.f != CHANGE or number < CHANGES_UNTIL:
                yield op

    def setup_operations(self) -> Sequence[Op]:
        return ()

    def final_operations(self) -> Sequence[Op]:
        return [op for part in self.parts.values() for op in part.final_operations()]

    def cells(self) -> Sequence[str]:
        return [name for part in self.parts.values() for name in part.cells()]

    def client(self, context: ClientContext) -> _Client:
        return _Client({name: part.client(context) for name, part in self.parts.items()})

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        return ()


class _Client:
    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = parts

    async def invoke(self, op: Op) -> Completion:
        return await self._parts[part_of(op.key)].invoke(op)

    async def close(self) -> None:
        for part in self._parts.values():
            await part.close()


def create(_options: Mapping[str, Any]) -> EveryWorkload:
    return EveryWorkload({name: workload_named(name, given) for name, given in PARTS.items()})


KIND = WorkloadKind("every-workload", "all that read, in turn", {}, create)


def results_of(store: RunStore, name: str) -> list[CheckResult]:
    """Judge one workload's part of a stored run."""
    events, evidence = store.events(), store.evidence(store.plan()).evidence
    reads = {
        node: replace(read, topics={k: v for k, v in read.topics.items() if part_of(k) == name})
        for node, read in evidence.final_reads.items()
    }
    operations = [operation for operation in pair(events) if part_of(operation.key) == name]
    run = RunInput(events, operations, replace(evidence, final_reads=reads))
    own = create({}).parts[name].checks(reads_lag=True)
    return [run_check(spec, run) for spec in (*own, CheckSpec("exercised"))]

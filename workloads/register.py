"""Workload `register`: named registers, written and read through the active controller.

A register is a cell of the system (`cluster.systems.kinds`), `kraftprobe.register.<key>`: of our
node a config of the brokers' cluster-wide default resource. A write is IncrementalAlterConfigs SET,
a read is DescribeConfigs; both go to the controller listener, where only the active controller
answers, and a read only after it confirmed its leadership. So every key must be linearizable,
whatever node was asked. Where a system promises less, reads go to brokers, and every key is judged
by that (`reads_lag`).

Every written value is unique in the run (`w<worker>.<count>`), which makes each read name the one
write that it saw, and the check near-linear (Gibbons and Korach 1997). Keys are few, so that
every key is written several times a second and a read that is stale by a second is seen as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from checkers.registry import CheckSpec
from cluster.values import valueclass
from workloads.base import (
    ClientContext,
    Completion,
    Op,
    Option,
    Role,
    WorkloadClient,
    WorkloadKind,
    completion,
    lagging_reads,
)
from workloads.target import Target

CONFIG_PREFIX = "kraftprobe.register."

OPTIONS = {
    "keys": Option(8, "how many registers there are", 1, 10_000),
    "write_fraction": Option(0.5, "share of operations that are writes", 0.01, 0.99),
}


@valueclass
class Register:
    """The workload with its options."""

    keys: int
    write_fraction: float
    name: str = "register"

    def key(self, number: int) -> str:
        """Name of a register, e.g. `k3`."""
        return f"k{number:0{len(str(self.keys - 1))}}"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Read and write random keys; this worker writes `w<worker>.<count>`."""
        fractions = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: self.write_fraction}
        count = 0
        while True:
            key = self.key(random.randrange(self.keys))
            if random.random() < fractions[role]:
                yield Op("write", key, f"w{worker}.{count}")
                count += 1
            else:
                yield Op("read", key)

    def final_operations(self) -> Sequence[Op]:
        """Read every register once more."""
        return tuple(Op("read", self.key(number)) for number in range(self.keys))

    def cells(self) -> Sequence[str]:
        """All registers."""
        return tuple(CONFIG_PREFIX + self.key(number) for number in range(self.keys))

    def client(self, context: ClientContext) -> WorkloadClient:
        """Make a client for one process."""
        return RegisterClient(context)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every key is linearizable, and every node ends with what was acknowledged last."""
        return (
            lagging_reads() if reads_lag else CheckSpec("linearizable", {"model": "register"}),
            CheckSpec("durability", {"workload": self.name, "config_prefix": CONFIG_PREFIX}),
        )


class RegisterClient:
    """One process's client."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._target = Target(context)

    async def invoke(self, op: Op) -> Completion:
        """Perform a read or a write."""
        assert op.key is not None, "registers have names"
        context = self._context
        cell = context.cell(CONFIG_PREFIX + op.key)
        if op.f == "write":
            node = self._target.choose()
            outcome = await context.client.alter_config(
                context.endpoint(node, "CONTROLLER"),
                cell.resource,
                cell.key,
                "set",
                op.value,
                timeout_ms=context.timeout_ms,
            )
        else:
            assert op.f == "read", f"registers know no {op.f}"
            node = self._target.choose(context.reads_at)
            outcome = await context.client.read_config(
                context.endpoint(node, context.reads_at),
                cell.resource,
                cell.key,
                timeout_ms=context.timeout_ms,
            )
        self._target.learn(node, outcome)
        return completion(outcome, node, op.value)

    async def close(self) -> None:
        """Nothing is held."""


def create(options: Mapping[str, Any]) -> Register:
    """Make the workload from validated options."""
    return Register(keys=options["keys"], write_fraction=options["write_fraction"])


KIND = WorkloadKind(
    "register", "config values written and read back; linearizable per key", OPTIONS, create
)

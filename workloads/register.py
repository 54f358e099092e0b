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

from collections.abc import Sequence
from typing import ClassVar

from checkers.registry import CheckSpec
from cluster.values import valueclass
from workloads.base import Completion, Op, Option, WorkloadKind, lagging_reads
from workloads.keyed import Keyed, TargetClient

CONFIG_PREFIX = "kraftprobe.register."

OPTIONS = {
    "keys": Option(8, "how many registers there are", 1, 10_000),
    "write_fraction": Option(0.5, "share of operations that are writes", 0.01, 0.99),
}


class RegisterClient(TargetClient):
    """One process's client."""

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "registers have names"
        cell = self._context.cell(CONFIG_PREFIX + op.key)
        if op.f == "write":
            node = self._target.choose()
            outcome = await self._alter_cell(node, cell, "set", op.value)
        else:
            assert op.f == "read", f"registers know no {op.f}"
            node = self._target.choose(self._context.reads_at)
            outcome = await self._read_cell(node, cell)
        return self._completion(node, outcome, op.value)


@valueclass
class Register(Keyed):
    """The workload with its options."""

    makes: ClassVar[type[TargetClient]] = RegisterClient
    name: str = "register"
    letter = "k"
    write = "write"

    def cells(self) -> Sequence[str]:
        return tuple(CONFIG_PREFIX + self.key(number) for number in range(self.keys))

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every key is linearizable, and every node ends with what was acknowledged last."""
        return (
            lagging_reads() if reads_lag else CheckSpec("linearizable", {"model": "register"}),
            CheckSpec("durability", {"workload": "register", "config_prefix": CONFIG_PREFIX}),
        )


KIND = WorkloadKind(
    "register",
    "config values written and read back; linearizable per key",
    OPTIONS,
    lambda options: Register(**options),
)

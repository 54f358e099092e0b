"""Backend `ssh`: hosts behind ssh, with all that faults can do to them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePath

from cluster.backends.abilities import Abilities
from cluster.backends.hosted import HostedBackend
from cluster.backends.machine.equip import equip
from cluster.backends.machine.programs import Machine
from cluster.backends.ssh.inventory import Inventory
from cluster.backends.ssh.ssh_hosts import CLOCK_LIBRARY, INTERPRETER, SshProvider
from cluster.backends.terms import Need
from cluster.systems.base import System


class SshBackend(HostedBackend):
    """See `cluster.backends.base.Backend`. `needs`: as of `cluster.backends.machine.equip`."""

    def __init__(
        self,
        inventory: Inventory,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        needs: Collection[Need] = (),
    ) -> None:
        self._hosts = SshProvider(inventory, run_folder, run_id)
        super().__init__(
            self._hosts,
            system,
            run_folder,
            node_count,
            run_id,
            make_abilities=lambda _: self._equip(needs),
        )

    async def read_trace(self, node: str, offset: int) -> bytes:
        return await self._hosts.read_from(node, self.system.trace_source(PurePath()), offset)

    def _equip(self, needs: Collection[Need]) -> Abilities:
        machines = {node: Machine(host, INTERPRETER) for node, host in self.hosts.items()}
        return equip(
            self, machines, needs, abilities=self.abilities(), clock_library=lambda: CLOCK_LIBRARY
        )

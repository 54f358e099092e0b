"""Backend `ssh`: hosts behind ssh, whose files are read over it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePath

from cluster.backends.hosted import HostedBackend
from cluster.backends.ssh.inventory import Inventory
from cluster.backends.ssh.ssh_hosts import SshProvider
from cluster.backends.terms import Need
from cluster.systems.base import System


class SshBackend(HostedBackend):
    """See `cluster.backends.hosted.HostedBackend`."""

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
        super().__init__(self._hosts, system, run_folder, node_count, run_id, needs=needs)

    async def read_trace(self, node: str, offset: int) -> bytes:
        return await self._hosts.read_from(node, self.system.trace_source(PurePath()), offset)

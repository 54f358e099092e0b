"""Backend `netns`: namespaces as hosts, with all that faults can do to them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cluster.backends.hosted import HostedBackend
from cluster.backends.machine.equip import equip
from cluster.backends.machine.programs import Machine
from cluster.backends.netns.netns_hosts import NetnsProvider
from cluster.backends.terms import Need
from cluster.systems.base import System


class NetnsBackend(HostedBackend):
    """See `cluster.backends.base.Backend`. `needs`: as of `cluster.backends.machine.equip`."""

    def __init__(
        self,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        needs: Collection[Need] = (),
    ) -> None:
        super().__init__(
            NetnsProvider(run_folder, run_id),
            system,
            run_folder,
            node_count,
            run_id,
            make_abilities=lambda backend: equip(
                backend,
                {
                    node: Machine(host, backend.provider.interpreter)
                    for node, host in backend.hosts.items()
                },
                needs,
                abilities=backend.abilities(),
            ),
        )

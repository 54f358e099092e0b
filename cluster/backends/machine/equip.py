"""Give a backend of processes the abilities of its machines: clocks, disks, limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import PurePath

from cluster.backends.abilities import Abilities
from cluster.backends.machine.clocks import FakedClocks, library
from cluster.backends.machine.detaching import HostDetachable
from cluster.backends.machine.disks import FuseDisks
from cluster.backends.machine.limits import ProcessLimits
from cluster.backends.machine.programs import Machine
from cluster.backends.machine.signals import NodeSignals
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.backends.processes.releases import NodeReleases
from cluster.backends.terms import Need


def equip(
    backend: ProcessBackend,
    machines: Mapping[str, Machine],
    needs: Collection[Need],
    *,
    abilities: Abilities | None = None,
    clock_library: Callable[[], PurePath | None] = library,
) -> Abilities:
    """Add to `abilities` what the operating system of these machines can do.

    `needs`: what the nodes are to be started with; without it an ability can be probed and not
    used.
    """
    clocks = FakedClocks(machines, clock_library())
    disks = FuseDisks(
        machines,
        {node: backend.system.data_folder(machine.folder) for node, machine in machines.items()},
        backend.system.mapped,
        backend.system.names,
        backend.run_id,
        backend.kill,
        backend.state,
    )
    if "clocks" in needs:
        backend.surround(clocks)
    if "disks" in needs:
        backend.surround(disks)
    return replace(
        abilities or Abilities(),
        clocks=clocks,
        disks=disks,
        detachable=HostDetachable(
            machines,
            {node: backend.system.log_dirs(machine.folder) for node, machine in machines.items()},
        ),
        limits=ProcessLimits(machines),
        releases=NodeReleases(backend) if backend.system.releases else None,
        requests=NodeSignals(
            machines,
            {node: backend.system.log_folder(machine.folder) for node, machine in machines.items()},
        ),
    )

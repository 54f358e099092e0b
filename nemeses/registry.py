"""Faults by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from cluster.names import unknown
from extensions import Registry
from nemeses.base import Fault, ParameterError, Parameters
from nemeses.clocks.wall_clocks import (
    ClockDrift,
    ClockFault,
    ClockJump,
    ClockSkew,
    ClockStrobe,
    TimerRate,
)
from nemeses.disks.corruption import BitFlip, TruncateFile
from nemeses.disks.io_faults import (
    DiskError,
    DiskFaultOf,
    DiskFull,
    DiskSlow,
    DiskStall,
    PowerLoss,
    TornWrite,
)
from nemeses.disks.log_dirs import LogDirLoss, LogDirMove
from nemeses.disks.wipe import DiskWipe
from nemeses.links.hold import Hold
from nemeses.links.partition import Partition
from nemeses.links.shaping import LINK_FAULTS
from nemeses.processes.addresses import AddressChange, RoleChange
from nemeses.processes.limits import Limit
from nemeses.processes.signals import Kill, Pause, Restart, Stop
from nemeses.processes.upgrade import Upgrade
from nemeses.quorum.finalize import Finalize
from nemeses.quorum.requests import Resign, Snapshot
from nemeses.quorum.voters import Voters

_OWN: tuple[Fault, ...] = (
    Kill(),
    Stop(),
    Pause(),
    Restart(),
    Upgrade(),
    AddressChange(),
    RoleChange(),
    Partition(),
    *LINK_FAULTS.values(),
    Hold(),
    Resign(),
    Snapshot(),
    Voters(),
    Finalize(),
    *(ClockJump(), ClockSkew(), ClockDrift(), ClockStrobe()),
    TimerRate(),
    *(DiskStall(), DiskSlow(), DiskFull(), DiskError(), LogDirLoss(), LogDirMove()),
    *(PowerLoss(), TornWrite(), BitFlip(), TruncateFile(), DiskWipe()),
    Limit(),
)

FAULTS: Registry[Fault] = Registry("kraftprobe.faults", Fault, _OWN)


def needs_of(kinds: Iterable[str]) -> frozenset[Literal["clocks", "disks"]]:
    """Say what must be in place around nodes before they start, if these faults are to act."""
    faults = [FAULTS[kind] for kind in kinds if kind in FAULTS]
    clocks = any(isinstance(fault, ClockFault) for fault in faults)
    disks = any(isinstance(fault, DiskFaultOf | PowerLoss) for fault in faults)
    found: set[Literal["clocks", "disks"]] = set()
    if clocks:
        found.add("clocks")
    if disks:
        found.add("disks")
    return frozenset(found)


def fault_named(name: str) -> Fault:
    """Look a fault up. Raises ParameterError that suggests the nearest name."""
    try:
        return FAULTS[name]
    except KeyError:
        raise ParameterError(unknown("fault", name, FAULTS)) from None


def check_fault(name: str, parameters: Parameters, nodes: tuple[str, ...]) -> None:
    """Raise ParameterError, one line, for a fault or parameters that a plan must not name."""
    fault_named(name).check(parameters, nodes)

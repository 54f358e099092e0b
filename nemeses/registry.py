"""Faults by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.names import unknown
from nemeses.base import Fault, ParameterError, Parameters
from nemeses.containers import ContainerKill
from nemeses.links import LINK_FAULTS
from nemeses.partition import Partition
from nemeses.processes import Kill, Pause, Restart
from nemeses.requests import Resign, Snapshot
from nemeses.voters import Voters

_ALL: tuple[Fault, ...] = (
    Kill(),
    Pause(),
    Restart(),
    ContainerKill(),
    Partition(),
    *LINK_FAULTS.values(),
    Resign(),
    Snapshot(),
    Voters(),
)

FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _ALL}


def fault_named(name: str) -> Fault:
    """Look a fault up. Raises ParameterError that suggests the nearest name."""
    try:
        return FAULTS[name]
    except KeyError:
        raise ParameterError(unknown("fault", name, FAULTS)) from None


def check_fault(name: str, parameters: Parameters, nodes: tuple[str, ...]) -> None:
    """Refuse a fault or parameters that a plan must not name: ParameterError, one line."""
    fault_named(name).check(parameters, nodes)

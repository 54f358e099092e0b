"""Faults by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.names import unknown
from nemeses.base import Fault, ParameterError

FAULTS: Mapping[str, Fault] = {}


def fault_named(name: str) -> Fault:
    """Look a fault up. Raises ParameterError that suggests the nearest name."""
    try:
        return FAULTS[name]
    except KeyError:
        raise ParameterError(unknown("fault", name, FAULTS)) from None

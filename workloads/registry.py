"""Workloads by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.names import unknown
from workloads import append, brokers, grow_set, partitions, reconfig, register, topics, unique_ids
from workloads.base import Option, Workload, WorkloadKind

WORKLOADS: Mapping[str, WorkloadKind] = {
    kind.name: kind
    for kind in (
        register.KIND,
        reconfig.KIND,
        append.KIND,
        topics.KIND,
        grow_set.KIND,
        partitions.KIND,
        unique_ids.KIND,
        brokers.KIND,
    )
}


class WorkloadError(ValueError):
    """A plan asks for a workload or an option that does not exist; one line."""


def workload_named(name: str, options: Mapping[str, Any]) -> Workload:
    """Make a workload. Raises WorkloadError, with the nearest name where one is unknown."""
    kind = WORKLOADS.get(name)
    if kind is None:
        raise WorkloadError(unknown("workload", name, WORKLOADS))
    for option in options:
        if option not in kind.options:
            raise WorkloadError(unknown(f"option of workload {name!r}:", option, kind.options))
    values = {
        option: _checked(name, option, declared, options.get(option, declared.default))
        for option, declared in kind.options.items()
    }
    return kind.create(values)


def _checked(workload: str, name: str, option: Option, value: Any) -> float:
    types = (int,) if isinstance(option.default, int) else (int, float)
    said = f"option {name!r} of workload {workload!r}"
    if isinstance(value, bool) or not isinstance(value, types):
        wanted = "a whole number" if types == (int,) else "a number"
        raise WorkloadError(f"{said} must be {wanted}, not {value!r}")
    if not option.minimum <= value <= option.maximum:
        raise WorkloadError(
            f"{said} must be from {option.minimum} to {option.maximum}, not {value!r}"
        )
    number: float = value
    return number

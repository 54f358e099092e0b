"""Workloads by name, so that a plan can name them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from workloads import grow_set, register, topics
from workloads.base import Option, Workload, WorkloadKind

WORKLOADS: Mapping[str, WorkloadKind] = {
    kind.name: kind for kind in (register.KIND, topics.KIND, grow_set.KIND)
}


class WorkloadError(ValueError):
    """A plan asks for a workload or an option that does not exist; one line."""


def workload_named(name: str, options: Mapping[str, Any]) -> Workload:
    """Make a workload. Raises WorkloadError, with the nearest name where one is unknown."""
    kind = WORKLOADS.get(name)
    if kind is None:
        raise WorkloadError(f"unknown workload {name!r}{_nearest(name, WORKLOADS)}")
    for option in options:
        if option not in kind.options:
            hint = _nearest(option, kind.options)
            raise WorkloadError(f"workload {name!r} has no option {option!r}{hint}")
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


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} (known: {', '.join(names)})"

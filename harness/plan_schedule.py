"""What a plan says of its schedule: a list of entries, or how to draw one.

| key of an entry | | default |
|---|---|---|
| `at_s` | seconds after the fault phase began | needed |
| `fault`, `parameters` | see docs/faults.md | needed, none |
| `for_s` | how long until it is healed | 0 |
| `alternatives` | what to try in turn while it is refused or does not bite | the same, 4 times |
"""

from __future__ import annotations

from typing import Any

from cluster.names import unknown
from harness.errors import PlanError
from harness.schedule import Entry, RandomSchedule
from nemeses.base import ParameterError
from nemeses.registry import fault_named

_ENTRIES_MAX = 10_000


def scripted(rows: list[Any], nodes: tuple[str, ...], duration_s: float) -> tuple[Entry, ...]:
    """Read a list of entries. Raises PlanError."""
    if len(rows) > _ENTRIES_MAX:
        raise PlanError(f"a schedule has at most {_ENTRIES_MAX} entries")
    return tuple(_entry(number, row, nodes, duration_s) for number, row in enumerate(rows))


def _entry(number: int, row: Any, nodes: tuple[str, ...], duration_s: float) -> Entry:
    where = f"schedule entry {number + 1}"
    if not isinstance(row, dict):
        raise PlanError(f"{where} must be a table")
    known = ("at_s", "fault", "parameters", "for_s", "alternatives")
    for key in row:
        if key not in known:
            raise PlanError(f"{where}: {unknown('key', key, known)}")
    fault = row.get("fault")
    if not isinstance(fault, str):
        raise PlanError(f"{where} names no fault")
    parameters, alternatives = row.get("parameters", {}), row.get("alternatives", [])
    if not isinstance(parameters, dict):
        raise PlanError(f"{where}: parameters must be a table")
    if not isinstance(alternatives, list) or not all(isinstance(a, dict) for a in alternatives):
        raise PlanError(f"{where}: alternatives must be a list of tables of parameters")
    at_s = bounded(f"{where}: at_s", row.get("at_s"), 0, duration_s)
    for_s = bounded(f"{where}: for_s", row.get("for_s", 0), 0, duration_s)
    try:
        for one in (parameters, *alternatives):
            fault_named(fault).check(one, nodes)
    except ParameterError as error:
        raise PlanError(f"{where}: {error}") from error
    return Entry(at_s, fault, parameters, for_s, tuple(alternatives))


def random_options(scheduled: Any) -> RandomSchedule:
    """Read how a random schedule is to be drawn. Raises PlanError."""
    if not isinstance(scheduled, dict):
        raise PlanError("schedule must be a table of options or a list of entries")
    ranges = {"quiet_s": RandomSchedule().quiet_s, "fault_s": RandomSchedule().fault_s}
    nested = bounded("schedule.nested", scheduled.get("nested", 0), 0, 1)
    for key, value in scheduled.items():
        if key == "nested":
            continue
        if key not in ranges:
            raise PlanError(unknown("key of schedule", key, (*ranges, "nested")))
        if not isinstance(value, list) or len(value) != 2:
            raise PlanError(f"schedule.{key} must be [least, most] in seconds")
        low, high = (bounded(f"schedule.{key}", part, 0.1, 86_400) for part in value)
        if low > high:
            raise PlanError(f"schedule.{key}: the least is above the most")
        ranges[key] = (low, high)
    return RandomSchedule(**ranges, nested=nested)


def bounded(name: str, value: Any, low: float, high: float) -> float:
    """Return a finite number from low to high. Raises PlanError, which tells it by its name."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlanError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise PlanError(f"{name} must be from {low:g} to {high:g}, not {value!r}")
    return value

"""What can be compared with what: runs of the same plan, but for name and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Stratum(NamedTuple):
    """What a run did. Runs of one stratum did the same and can be compared."""

    campaign: str
    workload: str | None
    """None: of each seed of a batch another."""
    system: str
    backend: str
    nodes: int | None
    plan: str
    """Digest of what else its plan asks for (`asked_of`)."""

    def __str__(self) -> str:
        campaign, workload, system, backend, nodes, plan = self
        what = f"campaign {campaign}, {workload} on {nodes} nodes of {system}, backend {backend}"
        return f"{what}, plan {plan}"


_ASIDE = frozenset(
    {
        *("run", "seed", "about", "exposes"),  # what it is called
        *("versions", "system_options"),  # which build: what is compared
        *(
            "checks",
            "command",
            "leaderless",
            "mutant",
        ),  # follow from the rest, or are no observation
    }
)


def asked_of(plan: Mapping[str, Any]) -> str:
    """Digest what a plan asks for, but for its name and seed, and the build that it runs.

    Of a schedule that was drawn from the seed only the kinds of fault count. Its entries are known
    by their alternatives, which nobody writes by hand.
    """
    asked = {name: value for name, value in plan.items() if name not in _ASIDE}
    schedule = asked.get("schedule")
    if isinstance(schedule, list):
        rows = [row for row in schedule if isinstance(row, dict)]
        drawn = sorted({str(row.get("fault")) for row in rows if "alternatives" in row})
        asked["schedule"] = [drawn, [row for row in rows if "alternatives" not in row]]
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def by_stratum(
    runs: Iterable[tuple[Stratum, Mapping[str, float]]],
) -> dict[Stratum, dict[str, list[float]]]:
    """Collect each figure of the runs of each stratum, by name; a run may lack any."""
    found: dict[Stratum, dict[str, list[float]]] = {}
    for stratum, figures in runs:
        samples = found.setdefault(stratum, {})
        for name, value in figures.items():
            samples.setdefault(name, []).append(value)
    return found

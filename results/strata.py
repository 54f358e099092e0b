"""What can be compared with what: runs that did the same, and their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Stratum(NamedTuple):
    """What a run did. Runs of one stratum did the same and can be compared."""

    campaign: str
    workload: str | None
    """None: of each seed of a batch another."""
    system: str
    backend: str
    nodes: int | None

    def __str__(self) -> str:
        campaign, workload, system, backend, nodes = self
        return f"campaign {campaign}, {workload} on {nodes} nodes of {system}, backend {backend}"


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

"""Which fault was tried on whom in which phase of the protocol, and what was not tried yet.

A cell is `fault/role of the target/phase`: `kill/leader/establishing`. Cells that are empty after a
wave of seeds are asked of the next wave (`Steer`), in a fixed order, so that a batch stays a
function of its seeds and of the coverage stored beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from checkers.coverage import PHASES
from harness.sim.draw import PLAIN, Steer

ROLES = ("leader", "follower")
CELLS_ASKED = 2
"""Empty cells that one seed is steered to."""
_UNAIMED = frozenset({"loss", "duplicate", "delay", "hold"})
"""Faults of all links: no role is theirs to aim at."""
_NAMES = {"one-way": "partition"}


def universe() -> tuple[tuple[str, str, str], ...]:
    """All cells that the swarm can be steered to, in order."""
    return tuple(
        (kind, role, phase)
        for phase in PHASES
        for kind in PLAIN
        if kind not in _UNAIMED
        for role in ROLES
        if not (role == "leader" and phase == "electing")
    )


def cell(kind: str, role: str, phase: str) -> str:
    """Name a cell as results have it."""
    return f"{_NAMES.get(kind, kind)}/{role}/{phase}"


def merged(coverages: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum coverages; cells in order of their names."""
    total: Counter[str] = Counter()
    for coverage in coverages:
        total.update(coverage)
    return dict(sorted(total.items()))


def empty(covered: Mapping[str, int]) -> tuple[tuple[str, str, str], ...]:
    """Cells of the universe that were never visited."""
    return tuple(one for one in universe() if not covered.get(cell(*one)))


def steer_for(seed: int, covered: Mapping[str, int]) -> Steer:
    """What one seed is steered to: its share of the empty cells, round and round."""
    cells = empty(covered)
    if not cells or not covered:
        return Steer()
    first = seed * CELLS_ASKED
    chosen = [cells[(first + i) % len(cells)] for i in range(min(CELLS_ASKED, len(cells)))]
    return Steer(tuple(chosen))


def table(covered: Mapping[str, int]) -> list[str]:
    """Lines that show the coverage: one a fault, one column for each role and phase."""
    kinds = sorted({name.split("/")[0] for name in covered})
    lines = []
    for kind in kinds:
        row = {name: count for name, count in covered.items() if name.split("/")[0] == kind}
        told = ", ".join(
            f"{role}/{phase} {row.get(f'{kind}/{role}/{phase}', 0)}"
            for role in (*ROLES, "voter", "dead", "-")
            for phase in PHASES
            if row.get(f"{kind}/{role}/{phase}", 0)
        )
        lines.append(f"{kind}: {told}")
    return lines

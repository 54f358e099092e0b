"""Coverage: which faults hit which roles in which phases of the protocol.

A cell is `fault/role of the target/phase`: `kill/leader/establishing`. The next wave of seeds is
steered to the cells that are still empty (`Steer`), in a fixed order, so that a batch stays a
function of its seeds and of the coverage stored beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from checkers.runs.coverage import PHASES
from harness.sim.swarm.draw import PLAIN, Steer

ROLES = ("leader", "follower")
CELLS_ASKED = 2
"""Empty cells that one seed is steered to."""
_UNAIMED = frozenset({"loss", "duplicate", "delay", "hold"})
"""Faults of all links, which target no role."""
_NAMES = {"one-way": "partition"}


def universe() -> tuple[tuple[str, str, str], ...]:
    """List all cells that the swarm can be steered to, in order."""
    return tuple(
        (kind, role, phase)
        for phase in PHASES
        for kind in PLAIN
        if kind not in _UNAIMED
        for role in ROLES
        if not (role == "leader" and phase == "electing")
    )


def cell(kind: str, role: str, phase: str) -> str:
    """Name a cell as results do."""
    return f"{_NAMES.get(kind, kind)}/{role}/{phase}"


def merge(coverages: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum coverages; cells in order of their names."""
    total: Counter[str] = Counter()
    for coverage in coverages:
        total.update(coverage)
    return dict(sorted(total.items()))


def empty(covered: Mapping[str, int]) -> tuple[tuple[str, str, str], ...]:
    """List the cells of the universe that were never visited."""
    return tuple(parts for parts in universe() if not covered.get(cell(*parts)))


def steer_for(seed: int, covered: Mapping[str, int]) -> Steer:
    """Return the cells that a seed is steered to: its share of the empty ones, in rotation."""
    cells = empty(covered)
    if not cells or not covered:
        return Steer()
    first = seed * CELLS_ASKED
    chosen = [cells[(first + i) % len(cells)] for i in range(min(CELLS_ASKED, len(cells)))]
    return Steer(tuple(chosen))


def table(covered: Mapping[str, int]) -> list[str]:
    """Render the coverage: a line for each fault with its counts by role and phase."""
    kinds = sorted({name.split("/")[0] for name in covered})
    lines = []
    for kind in kinds:
        row = {name: count for name, count in covered.items() if name.split("/")[0] == kind}
        counts = ", ".join(
            f"{role}/{phase} {row.get(f'{kind}/{role}/{phase}', 0)}"
            for role in (*ROLES, "voter", "dead", "-")
            for phase in PHASES
            if row.get(f"{kind}/{role}/{phase}", 0)
        )
        lines.append(f"{kind}: {counts}")
    return lines

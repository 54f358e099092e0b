"""Trials of faulty nodes, and of the true node, in drawn worlds.

A trial is blind: the worlds are those that the true node gets for the same seeds, and what judges
them knows nothing of the mutant. It ends with the first violation, or when its processor time is
used up. A second search of the same worlds, with as much time, heeds nothing but what clients saw:
the checks of the history, the final reads, answers that are wrong by what was asked (`BY_CLIENTS`),
and whether the last operations and these reads were answered within the plan's bound after the heal
(`liveness`), which asks clients alone.
"""

from __future__ import annotations

import time
from types import FunctionType, ModuleType

from checkers.invariants.answers import BY_CLIENTS
from checkers.nodes import durability
from checkers.registry import find_check
from cluster.mutants import find
from cluster.mutants.mechanical import layer_of, mark_count
from cluster.values import valueclass
from harness.plan.plan import Plan
from harness.sim.batch.chunks import HARNESS_ERROR, run_seed
from harness.sim.findings import LIVENESS
from harness.sim.swarm.draw import draw


@valueclass
class Finding:
    """What found a mutant."""

    property: str
    """The violated property, or the check that failed."""
    seed: int
    seeds: int
    """How many worlds it took, this one included."""
    cpu_s: float


@valueclass
class Trial:
    """One mutant's result."""

    mutant: str
    title: str
    layer: str
    """The layer of the node that is changed, as of `cluster.mutants.mechanical.layer_of`."""
    found: Finding | None
    """By whatever judges a world."""
    alone: Finding | None
    """By what clients saw, alone."""
    seeds: int
    """Worlds of the search by all rules."""
    cpu_s: float
    """Of that search."""
    is_reached: bool | None
    """Whether the changed code ran in any world; None: mutants of the catalogue do not say."""
    errors: int
    """Worlds in which the harness itself failed; they find nothing."""


@valueclass
class CleanTrial:
    """The true node's result in one world."""

    seed: int
    verdict: str
    property: str | None


def try_mutant(mutant_id: str, first_seed: int, budget_s: float) -> Trial:
    """Search the worlds from `first_seed` on for a violation of a mutant.

    `budget_s`: processor seconds of each of the two searches; the world in which they run out is
    played to its end, and counts.
    """
    mutant = find(mutant_id)
    before = mark_count()
    every = Search(mutant_id, first_seed, budget_s)
    found = every.run(is_blackbox=False)
    alone = found and (
        found
        if found.property in _blackbox(draw(found.seed))
        else Search(mutant_id, first_seed, budget_s).run(is_blackbox=True)
    )
    owner = mutant.patches[0].owner
    return Trial(
        mutant.id,
        mutant.title,
        layer_of(owner.__name__ if isinstance(owner, ModuleType) else owner.__module__),
        found,
        alone,
        every.seeds,
        round(every.cpu_s, 2),
        mark_count() > before if isinstance(owner, FunctionType) else None,
        every.errors,
    )


def try_clean(seed: int) -> CleanTrial:
    """Judge the true node in the world of a seed."""
    row = run_seed(draw(seed))
    return CleanTrial(seed, row["verdict"], row["property"])


class Search:
    """Worlds of one mutant in sequence."""

    def __init__(self, mutant_id: str, first_seed: int, budget_s: float) -> None:
        self._mutant_id, self._first_seed, self._budget_s = mutant_id, first_seed, budget_s
        self.seeds = self.errors = 0
        self.cpu_s = 0.0

    def run(self, *, is_blackbox: bool) -> Finding | None:
        """Return the first finding, if the time suffices for one."""
        began_s = time.process_time()
        while self.cpu_s < self._budget_s:
            seed = self._first_seed + self.seeds
            plan = draw(seed, mutant=self._mutant_id)
            row = run_seed(plan, _blackbox(plan) if is_blackbox else None)
            self.seeds += 1
            self.cpu_s = time.process_time() - began_s
            if row["property"] == HARNESS_ERROR:
                self.errors += 1
            elif row["property"] is not None:
                return Finding(row["property"], seed, self.seeds, round(self.cpu_s, 2))
        return None


def _blackbox(plan: Plan) -> frozenset[str]:
    """Checks of a world that need nothing but what clients saw."""
    checks = (
        spec.name
        for spec in plan.make_workload().checks()
        if spec.name == durability.NAME or find_check(spec).scope != "evidence"
    )
    return frozenset({LIVENESS, *BY_CLIENTS, *checks})

"""A calibration in its folder: trials are stored as they end, and continued after a kill.

DIR/calibration.json  the request, the digest of the code, and the results so far
DIR/calibration.md    the score and a row for each mutant
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pydantic import TypeAdapter

from checkers.invariants.answers import BY_CLIENTS
from checkers.nodes import durability
from checkers.registry import find_check
from cluster.mutants import find
from cluster.mutants.mechanical import layer_of, mark_count
from cluster.values import valueclass
from extensions.plain_files import read_plain
from harness.errors import BatchError
from harness.plan.plan import Plan
from harness.sim.batch.chunks import HARNESS_ERROR, run_seed
from harness.sim.calibration import score
from harness.sim.findings import LIVENESS
from harness.sim.swarm.draw import draw
from harness.source_digest import source_digest
from results.store.files import write_atomically


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


VERSION = 1
_BYTES_MAX = 1 << 26
_ROWS = TypeAdapter(tuple[list[Trial], list[CleanTrial]])


@valueclass
class CalibrationPlan:
    """What is tried."""

    mutants: tuple[str, ...]
    """Ids."""
    clean_seeds: int
    """Worlds in which the true node is judged."""
    first_seed: int
    """The first world of each mutant, and of the true node."""
    budget_s: float
    """Processor seconds of each search."""

    def to_json(self) -> dict[str, Any]:
        """Render what must be equal for a folder to be continued."""
        return {"version": VERSION, "code": source_digest(), **asdict(self)}


class Calibration:
    """Results of a calibration, stored after each trial."""

    def __init__(self, folder: Path, plan: CalibrationPlan) -> None:
        """Begin or continue it. Raises BatchError if the folder holds another one."""
        self._plan, self._path = plan, folder / "calibration.json"
        self._request = json.loads(json.dumps(plan.to_json()))
        self.trials: list[Mapping[str, Any]] = []
        self.clean: list[Mapping[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            stored = read_calibration(self._path)
            if any(stored.get(name) != value for name, value in self._request.items()):
                raise BatchError(f"{folder}: holds another calibration, or one of other code")
            self.trials, self.clean = list(stored["trials"]), list(stored["clean"])

    @property
    def total(self) -> int:
        """Number of mutants and clean worlds."""
        return len(self._plan.mutants) + self._plan.clean_seeds

    @property
    def document(self) -> dict[str, Any]:
        """The content of `calibration.json`."""
        return {**self._request, "trials": self.trials, "clean": self.clean}

    def run(self) -> Iterator[str]:
        """Run what is left; yields what is tried next, before each trial."""
        first = self._plan.first_seed
        for seed in range(first + len(self.clean), first + self._plan.clean_seeds):
            yield f"true node, seed {seed}"
            self.clean.append(asdict(try_clean(seed)))
            self._store()
        for mutant in self._plan.mutants[len(self.trials) :]:
            yield mutant
            self.trials.append(asdict(try_mutant(mutant, first, self._plan.budget_s)))
            self._store()
        self._store()

    def _store(self) -> None:
        lines = "\n".join(score.page(self.document)) + "\n"
        write_atomically(self._path, render(self.document))
        write_atomically(self._path.with_suffix(".md"), lines.encode())


def render(document: Mapping[str, Any]) -> bytes:
    """Return the content of the file."""
    return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"


def read_calibration(path: Path) -> dict[str, Any]:
    """Read a stored calibration. Raises BatchError."""
    try:
        found = json.loads(read_plain(path, bytes_max=_BYTES_MAX))
        _ROWS.validate_json(json.dumps((found["trials"], found["clean"])), strict=True)
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise BatchError(f"{path}: this is no calibration") from error
    return dict(found)

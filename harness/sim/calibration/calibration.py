"""A calibration in its folder: trials are stored as they end, and continued after a kill.

DIR/calibration.json  the request, the digest of the code, and the results so far
DIR/calibration.md    the score and a row for each mutant
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cluster.values import valueclass
from extensions.plain_files import read_plain
from harness.errors import BatchError
from harness.sim.calibration import score
from harness.sim.calibration.trial import CleanTrial, Trial, try_clean, try_mutant
from harness.source_digest import source_digest
from results.store.files import write_atomically

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
        self._folder, self._plan = folder, plan
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
    def _path(self) -> Path:
        return self._folder / "calibration.json"

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

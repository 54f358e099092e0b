"""The catalogue: one row a run, read from what each run's folder says about itself.

Nothing is kept beside the runs, so nothing can be out of date. The catalogue shows what is stored;
whether that can be believed is the gate's business.

| column | type | meaning |
|---|---|---|
| `run` | string | its name, as in the plan and in the tables of its history |
| `verdict` | string | PASS, FAIL, UNKNOWN, UNDER-EXERCISED; `not judged`, `damaged` |
| `campaign`, `workload`, `system`, `backend` | string | of the plan |
| `build` | string | the build under test: version, commit, image |
| `nodes`, `seed` | int64 | of the plan |
| `mutant` | string, null | a deliberately faulty node |
| `asked` | string | digest of what the plan asks for, but for its name, seed and build |
| `started` | timestamp (UTC), null | from the run's name |
| `duration_s` | float64, null | of clients acting |
| `operations`, `ok` | int64, null | of clients |
| `leader_changes` | int64, null | |
| `faults` | string | kinds that bit, with how often: `kill 2, pause 1` |
| `write_p99_ms`, `read_p99_ms` | float64, null | of the slowest function |
| `unavailability_s` | float64, null | the longest without an `ok`, or without one of a write |
| `recovery_s` | float64, null | the longest |
| `signed` | bool | whether there is a signature; whose it is, the gate says |
| `folder` | string | |
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkers.runs.exercised import NAME as EXERCISED
from checkers.runs.statistics import NAME as STATISTICS
from checkers.runs.statistics import READS
from checkers.verdict import CheckResult
from results.store.facts import asked_of, builds_of, matches, started_of
from results.store.files import StoreError
from results.store.folders import Walk
from results.store.model import RunResults
from results.store.run_store import RunStore, list_runs

NOT_JUDGED = "not judged"
DAMAGED = "damaged"
_TEXT_MAX = 10_000
_PATTERNS = ("campaign", "workload", "system", "backend")


@dataclass(frozen=True, slots=True)
class Row:
    """One run; the module says what the columns mean."""

    run: str
    verdict: str
    campaign: str
    workload: str
    system: str
    build: str
    backend: str
    nodes: int | None
    seed: int | None
    mutant: str | None
    asked: str
    started: dt.datetime | None
    duration_s: float | None
    operations: int | None
    ok: int | None
    leader_changes: int | None
    faults: str
    write_p99_ms: float | None
    read_p99_ms: float | None
    unavailability_s: float | None
    recovery_s: float | None
    signed: bool
    folder: str

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON has it, times as text."""
        started = None if self.started is None else f"{self.started:%Y-%m-%dT%H:%M:%SZ}"
        return {**asdict(self), "started": started}


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, its row, and its judgement where there is one that can be read."""

    store: RunStore
    row: Row
    builds: tuple[str, ...]
    results: RunResults | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs are wanted: those that match each pattern that is given (`*`, `?`)."""

    verdict: tuple[str, ...] = ()
    """Any of them; PASS is also that of a run which left out a fault."""
    campaign: str | None = None
    workload: str | None = None
    system: str | None = None
    backend: str | None = None
    build: str | None = None
    """Of one of the names of the build."""

    def takes(self, row: Row, builds: Iterable[str]) -> bool:
        """Return whether a run is wanted."""
        if self.verdict and row.verdict.partition(" WITHOUT ")[0] not in self.verdict:
            return False
        asked = [(getattr(self, name), [getattr(row, name)]) for name in _PATTERNS]
        return all(
            pattern is None or matches(pattern, names)
            for pattern, names in [*asked, (self.build, builds)]
        )


def catalogue(root: Path, wanted: Filter | None = None, found: Walk | None = None) -> list[Entry]:
    """List the runs below a folder, by campaign and run. No stored content raises.

    `found`: what is there, where it was looked into before.
    """
    entries = (entry_of(store) for store in list_runs(root, found))
    return [entry for entry in entries if wanted is None or wanted.takes(entry.row, entry.builds)]


def entry_of(store: RunStore) -> Entry:
    """Read what a run says about itself. No stored content raises."""
    try:
        plan: Mapping[str, Any] = store.plan()
    except StoreError:
        plan = {}
    results = None
    try:
        results = store.read_results()
        verdict = results.verdict
        if not plan or results.unlike(plan) is not None:
            verdict, results = DAMAGED, None  # what was judged was another plan
    except StoreError:
        is_judged = store.results_path.exists() or not plan
        verdict = DAMAGED if is_judged else NOT_JUDGED
    builds = builds_of(plan)
    return Entry(store, _row(store, plan, verdict, builds, results), builds, results)


def _row(
    store: RunStore,
    plan: Mapping[str, Any],
    verdict: str,
    builds: tuple[str, ...],
    results: RunResults | None,
) -> Row:
    checks = {} if results is None else {check.checker: check for check in results.checks}
    tried = _figures(checks.get(EXERCISED))
    figures = _figures(checks.get(STATISTICS))
    faults, by_type = tried.get("faults_verified"), figures.get("by_type")
    bit = faults.items() if isinstance(faults, dict) else ()
    return Row(
        run=_text(plan.get("run", store.folder.name)),
        verdict=verdict,
        campaign=_text(plan.get("campaign", "?")),
        workload=_text(plan.get("workload", "?")),
        system=_text(plan.get("system", "kraft" if plan else "?")),
        build=_text(builds[0]) if builds else "?",
        backend=_text(plan.get("backend", "?")),
        nodes=_int(plan.get("nodes")),
        seed=_int(plan.get("seed")),
        mutant=None if plan.get("mutant") is None else _text(plan["mutant"]),
        asked=asked_of(plan),
        started=started_of(str(plan.get("run", store.folder.name))),
        duration_s=_float(figures.get("duration_s")),
        operations=None if results is None else _int(results.statistics.get("operations")),
        ok=_int(by_type.get("ok") if isinstance(by_type, dict) else None),
        leader_changes=_int(tried.get("leader_changes")),
        faults=_text(", ".join(f"{kind} {count}" for kind, count in bit)),
        write_p99_ms=_slowest_p99(figures, is_read=False),
        read_p99_ms=_slowest_p99(figures, is_read=True),
        unavailability_s=_longest_s(
            [figures.get(f"longest_{name}") for name in ("unavailability", "write_outage")],
            "duration_ms",
        ),
        recovery_s=_longest_s(figures.get("recoveries"), "recovery_ms"),
        signed=store.signature_path.exists(),
        folder=_text(str(store.folder)),
    )


def _figures(check: CheckResult | None) -> Mapping[str, Any]:
    return {} if check is None else check.statistics


def _slowest_p99(figures: Mapping[str, Any], *, is_read: bool) -> float | None:
    by_function = figures.get("latency_ms")
    if not isinstance(by_function, dict):
        return None
    wanted = [row for name, row in by_function.items() if (name in READS) is is_read]
    found = [_float(row.get("p99")) for row in wanted if isinstance(row, dict)]
    return max((ms for ms in found if ms is not None), default=None)


def _longest_s(rows: object, key: str) -> float | None:
    if not isinstance(rows, Sequence):
        return None
    found = [_float(row.get(key)) for row in rows if isinstance(row, dict)]
    return max((ms / 1000 for ms in found if ms is not None), default=None)


def _text(value: object) -> str:
    """Return a text of unknown origin that Arrow can hold and a terminal can show."""
    return "".join(c if c.isprintable() else " " for c in str(value)[:_TEXT_MAX])


def _int(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return value if good else None  # type: ignore[return-value]  # it is an int


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None

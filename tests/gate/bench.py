"""Runs to try the gate on, and edits that forge them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.plan.document import from_document
from harness.plan.stored_document import checks_for
from harness.plan.strands import Step, Strand
from harness.sim.batch.batch import Batch, run_plainly
from harness.sim.batch.chunks import BatchPlan
from harness.sim.runner import run_stored
from results.judge.pipeline import judge
from results.store import digests
from results.store.digests import Step as DigestStep
from results.store.digests import read_chain
from results.store.run_store import RunStore
from tests.command_line import kraftprobe
from tests.harness.sim.plans import sim_plan
from tests.results.factory import make_run

_VARIABLE = (
    (r"\S*/\d{3}/", ""),
    (r"\b[0-9a-f]{16}\b", "…"),
    (r"\(known: [^)]*\)", "(known: …)"),
    (r"it is [\d.]+ (days|h) old", "it is N days old"),
    (r"\bplan [0-9a-f]{8}\b", "plan …"),
    (r"\bkraft \d+\.\d+\.\d+\b", "kraft …"),
)
"""Folders of this very run of the bench, digests of the code, names known, ages, versions."""
SKIPPED = {"fault": "clock-jump", "reason": "no library of faked clocks", "remedy": ""}


Arguments = list[Path | str]
Make = Callable[["Bench"], Arguments]
Rows = dict[str, Make | tuple[Make, int] | tuple[Make, int, str]]
"""By the name of a situation: its arguments; the exit code, if not 3; part of the line that counts."""


@dataclass(frozen=True)
class Situation:
    """A folder to gate, and the exit code that it must give; RESULTS.md holds the sentence."""

    name: str
    make: Make
    """Arguments of `kraftprobe gate`."""
    exit_code: int
    line: str = ""
    """Part of the line that counts, where it is not the worst."""


def situations(table: Rows) -> tuple[Situation, ...]:
    """Situations by their names."""
    rows = {name: row if isinstance(row, tuple) else (row, 3) for name, row in table.items()}
    return tuple(Situation(name, *row) for name, row in rows.items())


@dataclass(frozen=True)
class Outcome:
    """What the gate said."""

    exit_code: int
    lines: list[str]
    took_s: float
    """How long the gate took, by the clock."""
    cpu_s: float
    """Processor time of the gate, with that of its child processes."""

    @property
    def sentence(self) -> str:
        """The worst line: of the first run that does not pass, else the first."""
        closed = [line for line in self.lines[:-1] if ": PASS" not in line or "PASS, but" in line]
        return (closed or self.lines or [""])[0]

    def row(self, situation: Situation) -> str:
        """The situation as a row of benchmarks/RESULTS.md, without what is never the same."""
        said = (line for line in self.lines if situation.line and situation.line in line)
        line = next(said, self.sentence).removeprefix("kraftprobe: ")
        for pattern, shown in _VARIABLE:
            line = re.sub(pattern, shown, line)
        line = line.replace("|", "\\|").replace("<", "&lt;")
        return f"| {situation.name} | {self.exit_code} | {line} |"

    def problem(self, situation: Situation) -> str | None:
        """Say what is not as expected."""
        if self.exit_code != situation.exit_code:
            return f"exit code {self.exit_code}, not {situation.exit_code}"
        if not any(situation.line in line for line in self.lines):
            return f"no line says {situation.line!r}"
        if any(len(line) > 900 or not line.isprintable() for line in self.lines):
            return "a line is too long, or not printable"
        return None


class Bench:
    """Makes each kind of run once, and hands out copies."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._count = 0
        self._made: dict[str, Path] = {}

    def try_gate(self, situation: Situation) -> Outcome:
        """Run the gate in the situation."""
        arguments = ["gate", *map(str, situation.make(self))]
        began, began_s = os.times(), time.monotonic()
        result = kraftprobe(*arguments)
        took_s = time.monotonic() - began_s
        cpu_s = sum(os.times()[:4]) - sum(began[:4])
        return Outcome(result.exit_code, result.output.splitlines(), took_s, cpu_s)

    def folder(self) -> Path:
        """Make an empty folder of a campaign."""
        self._count += 1
        folder = self._place / f"{self._count:03d}" / "synthetic"
        folder.mkdir(parents=True)
        return folder

    def copy(self, kind: str, folder: Path | None = None) -> RunStore:
        """Copy a judged run of a kind: a key of `_MAKERS`."""
        if kind not in self._made:
            with contextlib.redirect_stdout(io.StringIO()):
                self._made[kind] = _MAKERS[kind](self._place / "made" / kind)
        source = self._made[kind]
        target = (folder or self.folder()) / source.name
        shutil.copytree(source, target)
        return RunStore(target)


def _judged(**options: Any) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        store = make_run(root, **{"duration_s": 20, "rate_per_s": 20, **options})
        judge(store)
        return store.folder

    return make


def _copied(root: Path) -> Path:
    """Make the run that "good" is, in a folder of another name."""
    folder = _judged(seed=7)(root)
    return folder.rename(folder.with_name("copied"))


def _skipped(root: Path) -> Path:
    store = make_run(root, duration_s=20, rate_per_s=20, ended=False)
    plan = {**store.plan(), "skipped": [SKIPPED]}
    specs = checks_for(from_document(plan))
    plan["checks"] = [{"name": spec.name, "options": spec.options} for spec in specs]
    store.plan_path.write_text(json.dumps(plan))
    forge(store, rejudge=True)
    return store.folder


def _plan(seed: int) -> dict[str, Any]:
    """A kill of the leader, enough operations before and behind it."""
    plan = sim_plan(
        seed=seed,
        nodes=3,
        duration_s=4.0,
        workload_options={"keys": 4},
        concurrency=4,
        rate_per_s=60.0,
        faults=("kill",),
        strands=(Strand(1_500.0, (Step("kill", targets="leader"),)),),
    )
    return plan.to_json()


def _simulated(root: Path) -> Path:
    assert run_stored(from_document(_plan(5)), root / "run") == 0, "the node keeps its promises"
    return root / "run"


def _batch(root: Path) -> Path:
    """Make seeds that play one plan: what a swarm draws for them changes with every fault."""
    with Batch(root / "seeds", BatchPlan(14, 17, campaign=_plan(14))) as batch:
        run_plainly(batch, lambda row: None)
        batch.finish()
    return root / "seeds"


def _mutant_batch(root: Path) -> Path:
    with Batch(root / "seeds", BatchPlan(0, 1, "M35", duration_ms=500.0)) as batch:
        run_plainly(batch, lambda row: None)
        batch.finish()
    return root / "seeds"


_MAKERS: dict[str, Callable[[Path], Path]] = {
    "good": _judged(seed=7),
    "other": _judged(seed=8, run="other"),
    "bad": _judged(seed=9, stale_reads=3, run="bad"),
    "lossy": _judged(seed=10, lost_on="n2", run="lossy"),
    "mutant": _judged(seed=11, mutant="M15", run="mutant"),
    "good-again": _copied,
    "canary": _judged(seed=15, mutant="M15", stale_reads=3, run="canary"),
    **{f"earlier-{n}": _judged(seed=20 + n, run=f"earlier-{n}") for n in range(5)},
    **{f"same-{n}": _judged(seed=30 + n, run=f"same-{n}") for n in range(5)},
    **{f"slower-{n}": _judged(seed=40 + n, slower=1.5, run=f"slower-{n}") for n in range(5)},
    **{f"busier-{n}": _judged(seed=50 + n, rate_per_s=30, run=f"busier-{n}") for n in range(5)},
    "quiet": _judged(seed=12, faults=(), run="quiet"),
    "killed": _judged(seed=13, ended=False, run="killed"),
    "blind": _judged(seed=14, evidence=False, run="blind"),
    "skipped": _skipped,
    "simulated": _simulated,
    "batch": _batch,
    "mutant-batch": _mutant_batch,
}


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON document in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def forge(store: RunStore, *, rejudge: bool) -> None:
    """Write the whole chain anew from what is there now, and what follows from it."""
    store.digests_path.unlink()
    digests.append(store.digests_path, store._rows(DigestStep.RECORDED, ["plan.json"]), None)
    store.end_recording()
    if rejudge:
        judge(store)
        record_pages(store)
        return

    def follow(results: dict[str, Any]) -> None:
        results["inputs"] = store.input_digests()
        head = read_chain(store.digests_path).head
        results["recording"] = {"head": head, "ended": True, "problems": []}

    edit(store.results_path, follow)
    rejudge_digest(store)


def rejudge_digest(store: RunStore) -> None:
    """Append the digest of the results as they are now, as a judgement does."""
    rows = store._rows(DigestStep.JUDGED, ["certificates.jsonl", "results.json"])
    digests.append(store.digests_path, rows, read_chain(store.digests_path))
    record_pages(store)


def record_pages(store: RunStore) -> None:
    """Append the digests of the pages as they are now."""
    names = [path.name for path in (store.junit_path, store.report_path) if path.is_file()]
    rows = store._rows(DigestStep.JUDGED, names)
    digests.append(store.digests_path, rows, read_chain(store.digests_path))

"""Many seeds: run, kept as they finish, continued after a kill, grouped when they failed.

    DIR/batch.json                    what was asked for, of which code; a folder holds one batch
    DIR/running/<first>-<last>.jsonl  seeds of a chunk that is under way, one line each
    DIR/results/<first>-<last>.parquet  a finished chunk
    DIR/failures/<property>-<seed>.json the plan of a seed that failed, with what was found
    DIR/summary.json, summary.txt     groups of failures, coverage, figures

A seed's line is written the moment it has finished, so whoever is killed, driver or worker, loses
no finished seed; running the same command again takes up what is there and runs the rest. Chunks
are tasks of Spark or the turns of a plain loop: the same function does either. Seeds run in waves;
the coverage of the waves before decides what a wave is steered to, so a batch is a function of its
range and of the code: who changed the code begins another folder. One process at a time runs a
batch.

The verdict of a batch is the worst of its seeds, but that a seed which tried too little by itself
(UNDER-EXERCISED: a small world, mostly without a leader) does not decide. The floor of
`checkers.exercised` is held against the totals instead: the finished seeds together must have tried
what each of them would have to, so that the mean seed is above its floor, and every kind of fault
that any of them planned must have bitten in one. Where they have not, nothing was found and the
batch is UNDER-EXERCISED. The summary counts and names the quiet seeds in either case.
"""

from __future__ import annotations

import fcntl
import json
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from checkers import exercised
from checkers.verdict import Status, worst
from cluster.values import valueclass
from harness.errors import BatchError
from harness.plan import Plan
from harness.sim import coverage
from harness.sim.draw import draw
from harness.sim.findings import SimResult, Violation, generalised, grouped
from harness.sim.runner import run_plan
from harness.sim.source import source_digest
from results.session import one_line_errors

VERSION = 4
WAVE = 100
CHUNK = 4
Row = dict[str, Any]

_NO_RESULTS = "these are no results of seeds"
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("verdict", pa.string()),
        ("property", pa.string()),
        ("explanation", pa.string()),
        ("causes", pa.list_(pa.string())),
        ("plan", pa.string()),
        ("statistics", pa.string()),
        ("coverage", pa.string()),
        ("exercise", pa.string()),
    ]
)


@valueclass
class BatchPlan:
    """What was asked for. Seeds are `first` to `last - 1`."""

    first: int
    last: int
    mutant: str | None = None
    duration_ms: float | None = None
    steered: bool = True
    stop_at_first: bool = False

    def to_json(self) -> Row:
        """What must be equal for a folder to be continued."""
        told = asdict(self)
        del told["stop_at_first"]
        return {"version": VERSION, "code": source_digest(), **told}


@valueclass
class Chunk:
    """Seeds that run one after the other, in one task."""

    seeds: tuple[int, ...]
    plan: BatchPlan
    folder: str
    covered: Mapping[str, int]
    code: str
    """Digest of the sources that the batch runs with."""

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.seeds[0]:09d}-{self.seeds[-1]:09d}"


def plan_of(plan: BatchPlan, seed: int, covered: Mapping[str, int]) -> Plan:
    """The plan of a seed of a batch."""
    steer = coverage.steer_for(seed, covered) if plan.steered else None
    return draw(seed, mutant=plan.mutant, duration_ms=plan.duration_ms, steer=steer)


def run_seed(plan: Plan) -> Row:
    """Run one plan; a failure of the simulator itself is a finding too."""
    try:
        result = run_plan(plan)
    except Exception as error:  # noqa: BLE001  (one seed must not end the others)
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = " <- ".join(f"{Path(f.filename).name} {f.name}" for f in reversed(frames))
        told = f"{type(error).__name__}: {error}"
        broken = Violation("harness-error", f"{told} ({place})", (generalised(told), place))
        result = SimResult(plan.seed, Status.FAIL, (broken,), {}, {})
    return row_of(plan, result)


def row_of(plan: Plan, result: SimResult) -> Row:
    """One line of results. The plan is kept where it did not pass."""
    first = result.violations[0] if result.violations else None
    kept = None if result.verdict is Status.PASS else json.dumps(plan.to_json())
    return {
        "seed": result.seed,
        "verdict": result.verdict.value,
        "property": None if first is None else first.property,
        "explanation": None if first is None else first.explanation,
        "causes": [] if first is None else list(first.causes),
        "plan": kept,
        "statistics": json.dumps(dict(result.statistics)),
        "coverage": json.dumps(dict(result.coverage)),
        "exercise": json.dumps(dict(result.exercise)),
    }


def run_chunk(chunk: Chunk, told: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    """Run the seeds of a chunk and store them; `told` hears of each and may say to stop.

    Whatever ends it early leaves the finished seeds in `running`.
    """
    folder = Path(chunk.folder)
    line_path = folder / "running" / f"{chunk.name}.jsonl"
    rows: list[Row] = []
    with line_path.open("a", encoding="utf-8") as lines:
        for seed in chunk.seeds:
            row = run_seed(plan_of(chunk.plan, seed, chunk.covered))
            rows.append(row)
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            if not told(row):
                break
    _store(folder, rows)
    line_path.unlink()
    return rows


def _store(folder: Path, rows: Sequence[Row]) -> None:
    name = f"{rows[0]['seed']:09d}-{rows[-1]['seed']:09d}.parquet"
    path = folder / "results" / name
    temporary = path.with_suffix(f".tmp{os.getpid()}")
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), temporary)
    temporary.replace(path)


def _stored(path: Path) -> list[Row]:
    """Read rows that are stored. Raises BatchError."""
    try:
        table = pq.read_table(path)
        if not table.schema.equals(SCHEMA) or table.column("seed").null_count:
            raise BatchError(f"{path}: {_NO_RESULTS}")
        return list(table.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BatchError(f"{path}: {_NO_RESULTS}") from error


def _running(path: Path) -> list[Row]:
    """Read rows that were written as they came, up to the line that a kill tore.

    Raises BatchError where a whole line is none.
    """
    rows: list[Row] = []
    for line in path.read_bytes().splitlines():
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or type(row.get("seed")) is not int:
            raise BatchError(f"{path}: {_NO_RESULTS}")
        rows.append(row)
    return rows


class Batch:
    """A batch in its folder, which is this process's alone until it is closed."""

    def __init__(self, folder: Path, plan: BatchPlan) -> None:
        """Open or begin it. Raises BatchError when the folder holds another one or is in use."""
        self.folder = folder
        self.plan = plan
        for name in ("running", "results", "failures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.rows: dict[int, Row] = {}
        self._code = ""
        """What the seeds run with: taken once, as sources may change under a long batch."""
        self._claim = os.open(folder / "batch.json", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the folder to others. Idempotent."""
        claim, self._claim = self._claim, -1
        if claim >= 0:
            os.close(claim)

    def _begin(self) -> None:
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BatchError(f"{self.folder}: another process is running this batch") from error
        path, asked = self.folder / "batch.json", self.plan.to_json()
        self._code = asked["code"]
        text = path.read_text(encoding="utf-8", errors="replace")
        if not text:
            path.write_text(json.dumps(asked) + "\n", encoding="utf-8")
        else:
            self._compare(text, asked)
        self.load()

    def _compare(self, text: str, asked: Row) -> None:
        """Raise BatchError unless what is in the folder is what was asked for."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BatchError(f"{self.folder / 'batch.json'}: this is no batch") from error
        if found == asked:
            return
        if isinstance(found, dict) and {**found, "code": asked["code"]} == asked:
            raise BatchError(
                f"{self.folder}: its seeds ran with other code ({found.get('code')}, this is "
                f"{asked['code']}); go on with that code, or begin another folder"
            )
        raise BatchError(f"{self.folder}: holds another batch ({json.dumps(found)[:200]})")

    def load(self) -> None:
        """Take up what finished before, or was written by workers whose driver did not hear it."""
        self.rows = {}  # what is known of and not stored yet lies in `running`
        for path in sorted((self.folder / "results").glob("*.parquet")):
            for row in _stored(path):
                self.rows[row["seed"]] = row
        for path in sorted((self.folder / "running").glob("*.jsonl")):
            rows = _running(path)
            fresh = [row for row in rows if row["seed"] not in self.rows]
            if fresh:
                try:
                    _store(self.folder, fresh)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    raise BatchError(f"{path}: {_NO_RESULTS}") from error
            self.rows |= {row["seed"]: row for row in fresh}
            path.unlink()

    def waves(self) -> Iterator[list[Chunk]]:
        """What is left, wave by wave; a wave is made when the one before has been added."""
        covered: dict[str, int] = {}
        for first in range(self.plan.first, self.plan.last, WAVE):
            seeds = range(first, min(first + WAVE, self.plan.last))
            left = [seed for seed in seeds if seed not in self.rows]
            if left:
                yield [
                    Chunk(
                        tuple(left[i : i + CHUNK]), self.plan, str(self.folder), covered, self._code
                    )
                    for i in range(0, len(left), CHUNK)
                ]
            if self.plan.steered:
                rows = (self.rows[seed] for seed in seeds if seed in self.rows)
                covered = coverage.merged((covered, *(json.loads(row["coverage"]) for row in rows)))

    def add(self, rows: Sequence[Row]) -> None:
        """Take in finished seeds; the plans of those that failed become files."""
        for row in rows:
            self.rows[row["seed"]] = row

    @property
    def failures(self) -> list[Row]:
        """Seeds that failed, in order."""
        return [row for _, row in sorted(self.rows.items()) if row["verdict"] == Status.FAIL.value]

    def finish(self) -> Row:
        """Write failures and summary; returns the summary."""
        for row in self.failures:
            path = self.folder / "failures" / f"{row['property']}-{row['seed']}.json"
            document = {**json.loads(row["plan"]), "found": found_in(row)}
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        summary = self.summary()
        text = json.dumps(summary, indent=1)
        (self.folder / "summary.json").write_text(text + "\n", encoding="utf-8")
        (self.folder / "summary.txt").write_text("\n".join(lines_of(summary)) + "\n", "utf-8")
        return summary

    def summary(self) -> Row:
        """Everything that is told of a batch."""
        return summarise(self.plan, self._code, self.rows)


def summarise(plan: BatchPlan, code: str, by_seed: Mapping[int, Row]) -> Row:
    """Return what `summary.json` says of the seeds that have finished, by their rows alone."""
    rows = [row for _, row in sorted(by_seed.items())]
    figures = [json.loads(row["statistics"]) for row in rows]
    failures = [
        (row["seed"], Violation(row["property"], row["explanation"], tuple(row["causes"])))
        for row in rows
        if row["verdict"] == Status.FAIL.value
    ]
    covered = coverage.merged(json.loads(row["coverage"]) for row in rows)
    tried = exercised.total(filter(None, (json.loads(row["exercise"]) for row in rows)))
    short = [anomaly["explanation"] for anomaly in exercised.shortfalls(tried)]
    quiet = [row["seed"] for row in rows if row["verdict"] == Status.UNDER_EXERCISED.value]
    return {
        "version": VERSION,
        "code": code,
        "seeds": [plan.first, plan.last],
        "mutant": plan.mutant,
        "finished": len(rows),
        "left": plan.last - plan.first - len(rows),
        "verdict": _verdict(rows, short).value,
        "verdicts": {
            status.value: sum(row["verdict"] == status.value for row in rows) for status in Status
        },
        "first_failure": failures[0][0] if failures else None,
        "groups": [asdict(group) for group in grouped(failures)],
        "simulated_s": round(sum(figure.get("simulated_s", 0.0) for figure in figures), 1),
        "cpu_s": round(sum(figure.get("cpu_s", 0.0) for figure in figures), 1),
        "operations": sum(figure.get("operations", 0) for figure in figures),
        "faults": sum(figure.get("faults", 0) for figure in figures),
        "exercise": tried,
        "too_little": short,
        "quiet": quiet,
        "coverage": covered,
        "cells_empty": ["/".join(one) for one in coverage.empty(covered)],
    }


def _verdict(rows: Sequence[Row], short: Sequence[str]) -> Status:
    """See the module. `short`: what was tried too little over all rows."""
    found = {Status(row["verdict"]) for row in rows} - {Status.UNDER_EXERCISED}
    if rows:
        found.add(Status.UNDER_EXERCISED if short else Status.PASS)
    return worst(found)


def found_in(row: Row) -> Row:
    """What a failure file says of the failure; replaying compares with it."""
    return {key: row[key] for key in ("property", "explanation", "causes")}


def lines_of(summary: Row) -> list[str]:
    """Render a summary for a terminal."""
    counts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items() if count)
    lines = [
        (
            f"{summary['finished']} seeds ({counts or 'none'}), {summary['left']} left; "
            f"{summary['simulated_s']:g} simulated seconds in {summary['cpu_s']:g} CPU seconds; "
            f"{summary['operations']} operations, {summary['faults']} faults"
        ),
    ]
    if summary["quiet"]:
        lines.append(
            f"tried too little by themselves: {len(summary['quiet'])} of {summary['finished']} "
            f"seeds ({_seeds(summary['quiet'])})"
        )
    lines += [f"tried too little by all seeds together: {told}" for told in summary["too_little"]]
    for group in summary["groups"]:
        told = _seeds(group["seeds"])
        lines.append(f"{group['property']}: {len(group['seeds'])} seeds ({told})")
        lines += [f"    {depth * '  '}{cause}" for depth, cause in enumerate(group["causes"][1:])]
        lines.append(f"    e.g. {group['explanation']}")
    lines.append("coverage (fault: role/phase times):")
    lines += [f"    {line}" for line in coverage.table(summary["coverage"])]
    if summary["cells_empty"]:
        shown = ", ".join(summary["cells_empty"][:12])
        lines.append(f"    never: {shown}{' ...' if len(summary['cells_empty']) > 12 else ''}")
    return lines


def _seeds(seeds: Sequence[int]) -> str:
    more = f" and {len(seeds) - 8} more" if len(seeds) > 8 else ""
    return ", ".join(str(seed) for seed in seeds[:8]) + more


# -- who runs the chunks --------------------------------------------------------------------------


def run_plainly(batch: Batch, told: Callable[[Row], None]) -> None:
    """Run everything that is left, one seed after the other."""
    stop = False

    def each(row: Row) -> bool:
        nonlocal stop
        batch.add([row])
        told(row)
        stop = batch.plan.stop_at_first and row["verdict"] == Status.FAIL.value
        return not stop

    for wave in batch.waves():
        for chunk in wave:
            run_chunk(chunk, each)
            if stop:
                return


def run_on_spark(batch: Batch, spark: Any, told: Callable[[Row], None]) -> None:
    """Run everything that is left, chunks as tasks.

    Tasks write their results themselves: `batch.folder` must be one that all workers see. Raises
    BatchError when a worker has other code, SparkError when Spark dies; what ran is kept.
    """
    for wave in batch.waves():
        with one_line_errors():
            tasks = spark.sparkContext.parallelize(wave, len(wave)).map(_run_task).collect()
        others: set[str] = set()
        for found in tasks:
            if isinstance(found, str):
                others.add(found)
                continue
            batch.add(found)
            for row in found:
                told(row)
        if others:
            raise BatchError(
                f"workers of Spark have other code ({', '.join(sorted(others))}) than this "
                f"({wave[0].code}): install the same Kraftprobe on all of them"
            )
        if batch.plan.stop_at_first and batch.failures:
            return


def _run_task(chunk: Chunk) -> list[Row] | str:
    """Run a chunk in a worker; its digest where the worker has other code than the batch."""
    own = _own_digest()
    return run_chunk(chunk) if own == chunk.code else own


@cache
def _own_digest() -> str:
    return source_digest()

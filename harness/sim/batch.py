"""Batches of seeds: run, stored as they finish, continued after a kill, failures grouped.

    DIR/batch.json                    the request and the digest of the code; one batch a folder
    DIR/running/<first>-<last>.jsonl  seeds of a chunk that is under way, one line each
    DIR/results/<first>-<last>.parquet  a finished chunk
    DIR/failures/<property>-<seed>.json the plan of a failed seed, with its violation
    DIR/summary.json, summary.txt     groups of failures, coverage, figures

A seed's line is written the moment it has finished, so a kill of the driver or of a worker loses no
finished seed; the same command run again loads them and runs the rest. A chunk is a Spark task or a
turn of a plain loop, by the same function. Seeds run in waves, and the coverage of the earlier
waves steers the next one, so a batch is a function of its range and of the code: changed code needs
another folder. One process at a time runs a batch.

The verdict of a batch is the worst verdict of its seeds, except that a seed that is UNDER-EXERCISED
(a quiet seed: a small world, mostly without a leader) does not decide. Instead the floor of
`checkers.exercised` applies to the totals: the finished seeds together must reach the sum of their
floors, and every kind of fault that any of them planned must have taken effect in at least one.
Otherwise, if no seed failed, the batch is UNDER-EXERCISED. The summary always counts and lists the
quiet seeds.
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
    """The request of a batch. Seeds are `first` to `last - 1`."""

    first: int
    last: int
    mutant: str | None = None
    duration_ms: float | None = None
    steered: bool = True
    stop_at_first: bool = False

    def to_json(self) -> Row:
        """Render what must be equal for a folder to be continued."""
        fields = asdict(self)
        del fields["stop_at_first"]
        return {"version": VERSION, "code": source_digest(), **fields}


@valueclass
class Chunk:
    """Seeds that run in sequence, in one task."""

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
    """Draw the plan of a seed of a batch."""
    steer = coverage.steer_for(seed, covered) if plan.steered else None
    return draw(seed, mutant=plan.mutant, duration_ms=plan.duration_ms, steer=steer)


def run_seed(plan: Plan) -> Row:
    """Run a plan; an exception of the simulator becomes a violation, `harness-error`."""
    try:
        result = run_plan(plan)
    except Exception as error:  # noqa: BLE001  (one seed must not end the others)
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = " <- ".join(f"{Path(f.filename).name} {f.name}" for f in reversed(frames))
        message = f"{type(error).__name__}: {error}"
        broken = Violation("harness-error", f"{message} ({place})", (generalised(message), place))
        result = SimResult(plan.seed, Status.FAIL, (broken,), {}, {})
    return row_of(plan, result)


def row_of(plan: Plan, result: SimResult) -> Row:
    """Make a seed's row of results. The plan is kept unless it passed."""
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


def run_chunk(chunk: Chunk, on_row: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    """Run the seeds of a chunk and store them. `on_row` gets each row; False ends the chunk.

    An exception or a kill leaves the finished seeds in `running`.
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
            if not on_row(row):
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
    """Read the rows of a finished chunk. Raises BatchError."""
    try:
        table = pq.read_table(path)
        if not table.schema.equals(SCHEMA) or table.column("seed").null_count:
            raise BatchError(f"{path}: {_NO_RESULTS}")
        return list(table.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BatchError(f"{path}: {_NO_RESULTS}") from error


def _running(path: Path) -> list[Row]:
    """Read the rows of an unfinished chunk, up to a line that a kill tore.

    Raises BatchError for a JSON line that is no row.
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
    """A batch in its folder, which it locks until it is closed."""

    def __init__(self, folder: Path, plan: BatchPlan) -> None:
        """Open or begin it. Raises BatchError when the folder holds another batch or is in use."""
        self.folder = folder
        self.plan = plan
        for name in ("running", "results", "failures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.rows: dict[int, Row] = {}
        self._code = ""
        """Digest of the code, computed once: the sources may be edited during a long batch."""
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
        """Unlock the folder. Idempotent."""
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
        """Raise BatchError unless the folder's batch is the requested one."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BatchError(f"{self.folder / 'batch.json'}: this is no batch") from error
        if found == asked:
            return
        if isinstance(found, dict) and {**found, "code": asked["code"]} == asked:
            raise BatchError(
                f"{self.folder}: its seeds ran with other code ({found.get('code')}, this is "
                f"{asked['code']}); continue with that code, or use another folder"
            )
        raise BatchError(f"{self.folder}: holds another batch ({json.dumps(found)[:200]})")

    def load(self) -> None:
        """Load finished seeds, also those of workers whose driver was killed."""
        self.rows = {}  # rows that are not stored yet are in `running`
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
        """Yield the chunks of each wave; a wave is made when the rows of the last were added."""
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
        """Add the rows of finished seeds."""
        for row in rows:
            self.rows[row["seed"]] = row

    @property
    def failures(self) -> list[Row]:
        """Rows of the failed seeds, in order."""
        return [row for _, row in sorted(self.rows.items()) if row["verdict"] == Status.FAIL.value]

    def finish(self) -> Row:
        """Write the plans of failed seeds and the summary; returns the summary."""
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
        """Summarise the finished seeds."""
        return summarise(self.plan, self._code, self.rows)


def summarise(plan: BatchPlan, code: str, by_seed: Mapping[int, Row]) -> Row:
    """Make the content of `summary.json` from the rows of the finished seeds."""
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
        "cells_empty": ["/".join(cell) for cell in coverage.empty(covered)],
    }


def _verdict(rows: Sequence[Row], short: Sequence[str]) -> Status:
    """Apply the rule of the module's docstring. `short`: shortfalls of the totals."""
    found = {Status(row["verdict"]) for row in rows} - {Status.UNDER_EXERCISED}
    if rows:
        found.add(Status.UNDER_EXERCISED if short else Status.PASS)
    return worst(found)


def found_in(row: Row) -> Row:
    """Return the recorded violation of a failure file, which `replay` compares with."""
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
    lines += [f"tried too little by all seeds together: {short}" for short in summary["too_little"]]
    for group in summary["groups"]:
        count, listed = len(group["seeds"]), _seeds(group["seeds"])
        lines.append(f"{group['property']}: {count} seeds ({listed})")
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


# -- in a loop, or on Spark -----------------------------------------------------------------------


def run_plainly(batch: Batch, on_row: Callable[[Row], None]) -> None:
    """Run the remaining seeds in sequence."""
    stop = False

    def each(row: Row) -> bool:
        nonlocal stop
        batch.add([row])
        on_row(row)
        stop = batch.plan.stop_at_first and row["verdict"] == Status.FAIL.value
        return not stop

    for wave in batch.waves():
        for chunk in wave:
            run_chunk(chunk, each)
            if stop:
                return


def run_on_spark(batch: Batch, spark: Any, on_row: Callable[[Row], None]) -> None:
    """Run the remaining seeds, each chunk as a task.

    Tasks write their results themselves, so `batch.folder` must be visible to all workers. Raises
    BatchError when a worker has other code, SparkError when Spark dies; finished seeds are kept.
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
                on_row(row)
        if others:
            raise BatchError(
                f"workers of Spark have other code ({', '.join(sorted(others))}) than this "
                f"({wave[0].code}): install the same Kraftprobe on all of them"
            )
        if batch.plan.stop_at_first and batch.failures:
            return


def _run_task(chunk: Chunk) -> list[Row] | str:
    """Run a chunk in a worker; returns the worker's digest if its code is not the batch's."""
    own = _own_digest()
    return run_chunk(chunk) if own == chunk.code else own


@cache
def _own_digest() -> str:
    return source_digest()

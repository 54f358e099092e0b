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
`runs.exercised` applies to the totals: the finished seeds together must reach the sum of their
floors, and every kind of fault that any of them planned must have taken effect in at least one.
Otherwise, if no seed failed, the batch is UNDER-EXERCISED. The summary always counts and lists the
quiet seeds.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from checkers.runs import exercised
from checkers.verdict import Status, worst
from extensions.plain_files import read_plain
from harness.errors import BatchError
from harness.plan.system_request import system_unlike_real
from harness.sim.batch.chunks import (
    NO_RESULTS,
    VERSION,
    BatchPlan,
    Chunk,
    Row,
    plan_of,
    read_finished,
    read_unfinished,
    run_chunk,
    store_rows,
    write_digests,
)
from harness.sim.findings import Violation, generalise, group
from harness.sim.swarm import coverage
from harness.source_digest import source_digest
from results.judge.session import SparkError, one_line_errors


def summarise(plan: BatchPlan, code: str, by_seed: Mapping[int, Row]) -> Row:
    """Make the content of `summary.json` from the rows of the finished seeds."""
    rows = [row for _, row in sorted(by_seed.items())]
    first = plan_of(plan, plan.first, {})
    figures = [json.loads(row["statistics"]) for row in rows]
    failures = [
        (row["seed"], Violation(row["property"], row["explanation"], tuple(row["causes"])))
        for row in rows
        if row["verdict"] == Status.FAIL.value
    ]
    undecided = [
        (row["seed"], Violation(row["verdict"], reason, (generalise(reason),)))
        for row in rows
        if row["verdict"] in (Status.UNKNOWN.value, Status.UNDER_EXERCISED.value)
        for reason in row["causes"]
    ]
    covered = coverage.merge(json.loads(row["coverage"]) for row in rows)
    tried = exercised.total(filter(None, (json.loads(row["exercise"]) for row in rows)))
    short = [anomaly["explanation"] for anomaly in exercised.shortfalls(tried)]
    quiet = [row["seed"] for row in rows if row["verdict"] == Status.UNDER_EXERCISED.value]
    return {
        "version": VERSION,
        "code": code,
        "seeds": [plan.first, plan.last],
        "mutant": first.mutant,
        "unlike_real": system_unlike_real(first),
        "finished": len(rows),
        "left": plan.last - plan.first - len(rows),
        "verdict": _verdict(rows, short).value,
        "verdicts": {
            status.value: sum(row["verdict"] == status.value for row in rows) for status in Status
        },
        "first_failure": failures[0][0] if failures else None,
        "groups": [asdict(each) for each in group(failures)],
        "undecided": [asdict(each) for each in group(undecided)],
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
    """Apply the rule of `harness.sim.batch.batch`. `short`: shortfalls of the totals."""
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
        )
    ]
    if summary.get("unlike_real"):
        lines.append(f"of system {summary['unlike_real']}")
    if summary["quiet"]:
        lines.append(
            f"tried too little by themselves: {len(summary['quiet'])} of {summary['finished']} "
            f"seeds ({_seeds(summary['quiet'])})"
        )
    lines += [
        f"    {found['property']}: {len(found['seeds'])} seeds ({_seeds(found['seeds'])}), e.g. "
        f"{found['explanation']}"
        for found in summary["undecided"]
    ]
    lines += [f"tried too little by all seeds together: {short}" for short in summary["too_little"]]
    for found in summary["groups"]:
        count, listed = len(found["seeds"]), _seeds(found["seeds"])
        lines.append(f"{found['property']}: {count} seeds ({listed})")
        lines += [f"    {depth * '  '}{cause}" for depth, cause in enumerate(found["causes"][1:])]
        lines.append(f"    e.g. {found['explanation']}")
    lines.append("coverage (fault: role/phase times):")
    lines += [f"    {line}" for line in coverage.table(summary["coverage"])]
    if summary["cells_empty"]:
        shown = ", ".join(summary["cells_empty"][:12])
        lines.append(f"    never: {shown}{' ...' if len(summary['cells_empty']) > 12 else ''}")
    return lines


def _seeds(seeds: Sequence[int]) -> str:
    more = f" and {len(seeds) - 8} more" if len(seeds) > 8 else ""
    return ", ".join(str(seed) for seed in seeds[:8]) + more


WAVE = 100
CHUNK = 4
_REPORT_S = 1.0
"""Interval of looking for rows that workers have stored."""
_REQUEST_BYTES_MAX = 1 << 24


class Batch:
    """A batch in its folder, which it locks until it is closed."""

    def __init__(self, folder: Path, plan: BatchPlan) -> None:
        """Open or begin it. Raises BatchError when the folder holds another batch or is in use."""
        self.folder = folder
        self.plan = plan
        for name in ("running", "results", "failures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.rows: dict[int, Row] = {}
        self._read: set[str] = set()
        """Names of the files of finished chunks that `stored` has read."""
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

    def __exit__(self, *_: object) -> None:
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
        text = read_plain(path, bytes_max=_REQUEST_BYTES_MAX).decode("utf-8", errors="replace")
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
        """Load finished seeds, also those of workers whose driver was killed.

        A worker may live a little longer than Spark, and finish its chunk meanwhile: it stores the
        rows, then removes its file in `running`. So that folder is read first, and what is missing
        there by then is in `results`; where seeds of it were loaded before, they are there twice.
        So they are in the file of a chunk whose worker died and that Spark began again.
        """
        unfinished: dict[Path, list[Row]] = {}
        for path in sorted((self.folder / "running").glob("*.jsonl")):
            with contextlib.suppress(FileNotFoundError):
                unfinished[path] = read_unfinished(path)
        self.rows = {}
        for path in sorted((self.folder / "results").glob("*.parquet")):
            rows = read_finished(path)
            fresh = self.add(rows)
            if len(fresh) < len(rows) and (not fresh or store_rows(self.folder, fresh) != path):
                path.unlink()
        for path, rows in unfinished.items():
            if fresh := self.add(rows):
                try:
                    store_rows(self.folder, fresh)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    raise BatchError(f"{path}: {NO_RESULTS}") from error
            path.unlink(missing_ok=True)

    def waves(self) -> Iterator[list[Chunk]]:
        """Yield the chunks of each wave; a wave is made when the rows of the last were added."""
        covered: dict[str, int] = {}
        folder = str(self.folder.absolute())  # Spark's workers run in a folder of their own
        for first in range(self.plan.first, self.plan.last, WAVE):
            seeds = range(first, min(first + WAVE, self.plan.last))
            left = [seed for seed in seeds if seed not in self.rows]
            if left:
                yield [
                    Chunk(tuple(left[i : i + CHUNK]), self.plan, folder, covered, self._code)
                    for i in range(0, len(left), CHUNK)
                ]
            rows = (self.rows[seed] for seed in seeds if seed in self.rows)
            covered = coverage.merge((covered, *(json.loads(row["coverage"]) for row in rows)))

    def add(self, rows: Sequence[Row]) -> list[Row]:
        """Add the rows of finished seeds; returns those that are new."""
        fresh = {row["seed"]: row for row in rows if row["seed"] not in self.rows}
        self.rows |= fresh
        return list(fresh.values())

    def new_rows(self) -> list[Row]:
        """Read the rows that workers have stored since the last call, and of unfinished chunks."""
        found: list[Row] = []
        for path in (self.folder / "running").glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # its chunk has finished
                found += read_unfinished(path)
        for path in (self.folder / "results").glob("*.parquet"):
            if path.name not in self._read:
                found += read_finished(path)
                self._read.add(path.name)
        return found

    @property
    def failures(self) -> list[Row]:
        """Rows of the failed seeds, in order."""
        return [row for _, row in sorted(self.rows.items()) if row["verdict"] == Status.FAIL.value]

    def finish(self) -> Row:
        """Write the plans of failed seeds, the summary and the digests; returns the summary."""
        for row in self.failures:
            path = self.folder / "failures" / f"{row['property']}-{row['seed']}.json"
            document = {**json.loads(row["plan"]), "found": found_in(row)}
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        summary = summarise(self.plan, self._code, self.rows)
        text = json.dumps(summary, indent=1)
        (self.folder / "summary.json").write_text(text + "\n", encoding="utf-8")
        (self.folder / "summary.txt").write_text("\n".join(lines_of(summary)) + "\n", "utf-8")
        write_digests(self.folder)
        return summary


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

    def report(rows: Sequence[Row]) -> None:
        for row in batch.add(rows):
            on_row(row)

    for wave in batch.waves():
        found = _collect(spark, wave, lambda: report(batch.new_rows()))
        others = {digest for digest in found if isinstance(digest, str)}
        for rows in found:
            if not isinstance(rows, str):
                report(rows)
        if others:
            raise BatchError(
                f"workers of Spark have other code ({', '.join(sorted(others))}) than this "
                f"({wave[0].code}): install the same Kraftprobe on all of them"
            )
        if batch.plan.stop_at_first and batch.failures:
            return


def _collect(
    spark: Any, wave: Sequence[Chunk], meanwhile: Callable[[], None]
) -> list[list[Row] | str]:
    """Run the chunks of a wave as tasks; `meanwhile` is called each second until they have ended.

    The job has a thread of its own, as only its end can be awaited in Python. An exception of
    `meanwhile` leaves the thread behind; it ends with the session.
    """
    ended: Future[list[list[Row] | str]] = Future()

    def run() -> None:
        try:
            tasks = spark.sparkContext.parallelize(wave, len(wave)).map(_run_task)
            ended.set_result(tasks.collect())
        except BaseException as error:  # noqa: BLE001  (raised again where it is awaited)
            ended.set_exception(error)

    threading.Thread(target=run, name="spark-wave", daemon=True).start()
    while not wait((ended,), timeout=_REPORT_S).done:
        meanwhile()
    with one_line_errors():
        found = ended.result()
    if len(found) != len(wave):  # PySpark takes the end of a broken stream for the end of its items
        raise SparkError("a Spark job died: it returned a part of its results")
    return found


def _run_task(chunk: Chunk) -> list[Row] | str:
    """Run a chunk in a worker; returns the worker's digest if its code is not the batch's."""
    own = source_digest()
    if own != chunk.code:
        return own
    rows = run_chunk(chunk)
    # Python looks for garbage of this age only when it has grown by a quarter: with long seeds a
    # worker came to 1.4 GB of worlds that were over.
    gc.collect()
    return rows

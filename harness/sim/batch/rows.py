"""The rows of a batch, read by somebody who does not trust them.

They must be those of the whole range of `batch.json`, each seed once, and each must agree with its
own verdict; the summary is computed from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.runs.exercised import shortfalls
from checkers.verdict import Status
from harness.errors import PlanError
from harness.sim.batch.chunks import HARNESS_ERROR, SCHEMA, VERSION, BatchPlan, Row, plan_of
from harness.sim.batch.summary import summarise
from results.store.files import StoreError, parse_json, read_bounded, read_json_object

_FIGURES = ("operations", "faults", "simulated_s", "cpu_s")
_SUMMED = ("verdict", "verdicts", "seeds", "mutant", "code", "operations", "faults", "exercise")
"""Keys of a summary that do not depend on the wording of any version of the code."""
_CHUNK_BYTES_MAX = 1 << 28
_UNPACKED = f"unpacked it is larger than {_CHUNK_BYTES_MAX >> 20} MiB"
_NUMBER_END = 2**63
_COUNTS = ("ok", "reads", "writes", "leader_changes")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it lies in its folder."""

    plan: BatchPlan
    code: str
    """Digest of the code that ran, as it says."""
    rows: Mapping[int, Row]
    summary: Row
    """Computed from the rows."""


def read_batch(folder: Path) -> StoredBatch:
    """Read a batch that has run to its end. Raises StoreError where it has not, or is damaged."""
    plan, code = _plan(folder)
    rows = _rows(folder, plan)
    for row in rows.values():
        _check_row(row)
    return StoredBatch(plan, code, rows, _summary(plan, code, rows))


def wrong_summary(folder: Path, summary: Row) -> str | None:
    """Say what the files beside the rows say otherwise than these. Raises StoreError."""
    failed = summary["verdicts"][Status.FAIL.value]
    kept = sum(1 for _ in (folder / "failures").glob("*.json"))
    if kept != failed:
        return f"{failed} of its seeds failed and it keeps {kept} failures: it is damaged"
    if (folder / "summary.json").exists():
        said = read_json_object(folder / "summary.json")
        follows = json.loads(json.dumps({name: summary[name] for name in _SUMMED}))
        odd = sorted(name for name in follows if said.get(name) != follows[name])
        if odd:
            name = "verdict" if "verdict" in odd else odd[0]
            return (
                f"its summary.json says {said.get(name)!r:.60} of its {name} where its seeds say "
                f"{follows[name]!r:.60}"
            )
    return None


def _summary(plan: BatchPlan, code: str, rows: Mapping[int, Row]) -> Row:
    """Summarise rows of unknown origin. Raises StoreError."""
    try:
        return summarise(plan, code, rows)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise StoreError(f"its rows cannot be added up ({type(error).__name__})") from error


def _plan(folder: Path) -> tuple[BatchPlan, str]:
    """Read the request of the batch, and the digest of the code that ran."""
    path = folder / "batch.json"
    fields = read_json_object(path)
    if fields.get("version") != VERSION:
        raise StoreError(f"{path}: it is of version {fields.get('version')!r:.50}, not {VERSION}")
    first, last = fields.get("first"), fields.get("last")
    duration_ms, mutant = fields.get("duration_ms"), fields.get("mutant")
    campaign, system = fields.get("campaign"), fields.get("system")
    good = (
        type(first) is int
        and type(last) is int
        and 0 <= first < last <= 2**31
        and isinstance(mutant, str | None)
        and mutant != ""
        and (duration_ms is None or _is_duration(duration_ms))
        and isinstance(fields.get("code"), str)
        and isinstance(campaign, dict | None)
        and (system is None or _is_system(system))
    )
    if not good:
        raise StoreError(f"{path}: this is no batch")
    plan = BatchPlan(
        first,  # type: ignore[arg-type]  # checked above
        last,  # type: ignore[arg-type]  # checked above
        mutant,
        duration_ms,
        campaign=campaign,
        system=system,
    )
    try:
        plan_of(plan, plan.first, {})
    except PlanError as error:
        raise StoreError(f"{path}: its campaign is no plan: {error}") from error
    ran, present = fields.get("builds"), plan.to_json().get("builds")
    if ran != present:
        raise StoreError(f"{path}: its seeds ran {ran!r:.200}, and here is {present!r:.200}")
    return plan, fields["code"]


def _is_duration(given: object) -> bool:
    """Whether it is a length, in ms, that `sim --duration` takes."""
    return isinstance(given, int | float) and 1 <= given <= 86_400_000


def _is_system(given: object) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("system"), str):
        return False
    options = given.get("system_options", {})
    return isinstance(options, dict) and all(isinstance(text, str) for text in options.values())


def _rows(folder: Path, plan: BatchPlan) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for path in sorted((folder / "results").glob("*.parquet")):
        for row in _table(path, plan.last - plan.first).to_pylist():
            if row["seed"] in rows:
                raise StoreError(f"{path}: seed {row['seed']} is there twice")
            rows[row["seed"]] = row
    unfinished = [p for p in (folder / "running").glob("*.jsonl") if p.stat().st_size]
    total = plan.last - plan.first  # up to 2^31, as the request says: not to be counted one by one
    found = sum(seed is not None and plan.first <= seed < plan.last for seed in rows)
    if unfinished or found < total:
        raise StoreError(f"{folder}: only {found} of {total} seeds have finished")
    if len(rows) != total:
        odd = next(seed for seed in rows if seed is None or not plan.first <= seed < plan.last)
        raise StoreError(f"{folder}: seed {odd} is not one of {plan.first}..{plan.last}")
    return rows


def _table(path: Path, rows_max: int) -> pa.Table:
    """Read a chunk's rows. Raises StoreError."""
    try:
        data = pa.BufferReader(read_bounded(path, _CHUNK_BYTES_MAX))
        file = pq.ParquetFile(data, page_checksum_verification=True)
        if file.metadata.num_rows > rows_max:
            raise StoreError(f"{path}: it holds more rows than the batch has seeds")
        if _unpacked_bytes(file.metadata) > _CHUNK_BYTES_MAX:
            raise StoreError(f"{path}: {_UNPACKED}")
        table = _bounded_table(file, path)
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path}: it cannot be read ({type(error).__name__})") from error
    if not table.schema.equals(SCHEMA):
        raise StoreError(f"{path}: its columns are not those of a batch")
    return table


def _bounded_table(file: pq.ParquetFile, path: Path) -> pa.Table:
    """Read row by row: a dictionary holds a value once, and any number of rows can repeat it."""
    left, rows = _CHUNK_BYTES_MAX, []
    for row in file.iter_batches(batch_size=1):
        left -= row.nbytes
        if left < 0:
            raise StoreError(f"{path}: {_UNPACKED}")
        rows.append(row)
    return pa.Table.from_batches(rows, file.schema_arrow)


def _unpacked_bytes(metadata: pq.FileMetaData) -> int:
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(int(group.total_byte_size) for group in groups)


def _check_row(row: Row) -> None:
    """Raise StoreError where a row is damaged or contradicts its verdict."""
    where = f"seed {row['seed']}"
    try:
        status = Status(row["verdict"])
        figures, exercise = (parse_json(row[name]) for name in ("statistics", "exercise"))
        parse_json(row["coverage"])
        has_world = status is not Status.FAIL or row["property"] != HARNESS_ERROR
        counted = [figures[name] if has_world else figures.get(name, 0) for name in _FIGURES]
        if exercise:
            counted += [exercise[name] for name in _COUNTS]
            counted += [exercise["needed"][name] for name in _COUNTS]
            counted += [*exercise["faults_verified"].values(), *exercise["faults_tried"].values()]
            short = bool(shortfalls(exercise))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise StoreError(f"{where} is damaged ({type(error).__name__})") from error
    if not all(type(n) in (int, float) and 0 <= n < _NUMBER_END for n in counted):
        raise StoreError(f"{where} is damaged: it holds an impossible number")
    found = [name for name in ("property", "explanation") if row[name] is not None]
    if status is Status.PASS and (found or row["causes"] or row["plan"]):
        raise StoreError(f"{where} is a PASS that holds a finding")
    if status is Status.PASS and (not exercise or short):
        raise StoreError(f"{where} is a PASS in which too little was tried")

"""Chunks of a batch: seeds that run in one task, and the files of their rows."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.verdict import Status
from cluster.systems.kinds import SystemRequest
from cluster.systems.registry import system_named
from cluster.values import valueclass
from extensions.plain_files import open_plain, read_lines
from harness.errors import BatchError
from harness.plan.document import in_simulation
from harness.plan.plan import Plan
from harness.sim.findings import SimResult, Violation, generalise
from harness.sim.runner import run_plan
from harness.sim.swarm import coverage
from harness.sim.swarm.draw import draw
from harness.source_digest import source_digest
from results.gate.signature import Signers, signer_of
from results.store.digests import SIGNATURE_SUFFIX, digest_of, files_below
from results.store.files import StoreError, read_bounded, write_atomically

VERSION = 4
HARNESS_ERROR = "harness-error"
"""Name of the violation that an exception of the harness or the simulator becomes."""
Row = dict[str, Any]

NO_RESULTS = "these are no results of seeds"
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
    stop_at_first: bool = False
    campaign: Mapping[str, Any] | None = None
    """The document that each seed plays; None: the swarm draws each seed's plan."""
    system: Mapping[str, Any] | None = None
    """What is run in drawn worlds, as of `harness.sim.swarm.draw.draw`."""

    def to_json(self) -> Row:
        """Render what must be equal for a folder to be continued."""
        fields = asdict(self)
        del fields["stop_at_first"]
        if self.system is None:
            del fields["system"]
        if (document := self.campaign or self.system) is not None:
            system = system_named(document.get("system", "kraft"))
            request = SystemRequest({}, document.get("system_options", {}))
            fields["builds"] = dict(system.versions(request))  # what lies in a folder may change
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
    """Return the plan of a seed of a batch, its own or the campaign's. Raises PlanError."""
    if plan.campaign is not None:
        length = {} if plan.duration_ms is None else {"duration_s": plan.duration_ms / 1000.0}
        return in_simulation({**plan.campaign, **length, "seed": seed}, plan.mutant)
    steer = coverage.steer_for(seed, covered)
    return draw(
        seed, mutant=plan.mutant, duration_ms=plan.duration_ms, steer=steer, system=plan.system
    )


def run_seed(plan: Plan, wanted: frozenset[str] | None = None) -> Row:
    """Run a plan; an exception of the simulator becomes a violation, HARNESS_ERROR.

    `wanted`: the properties that are judged; None: all.
    """
    try:
        result = run_plan(plan, wanted)
    except Exception as error:  # noqa: BLE001  (one seed must not end the others)
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = " <- ".join(f"{Path(f.filename).name} {f.name}" for f in reversed(frames))
        message = f"{type(error).__name__}: {error}"
        broken = Violation(HARNESS_ERROR, f"{message} ({place})", (generalise(message), place))
        result = SimResult(plan.seed, Status.FAIL, (broken,), {}, {})
    return row_of(plan, result)


def row_of(plan: Plan, result: SimResult) -> Row:
    """Make a seed's row of results. The plan is kept unless it passed.

    Without a violation its causes are the reasons of its verdict.
    """
    first = result.violations[0] if result.violations else None
    kept = None if result.verdict is Status.PASS else json.dumps(plan.to_json())
    return {
        "seed": result.seed,
        "verdict": result.verdict.value,
        "property": None if first is None else first.property,
        "explanation": None if first is None else first.explanation,
        "causes": list(result.reasons if first is None else first.causes),
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
    store_rows(folder, rows)
    line_path.unlink(missing_ok=True)  # a driver whose Spark died may have loaded it
    return rows


def store_rows(folder: Path, rows: Sequence[Row]) -> Path:
    """Write the rows of a finished chunk, atomically; returns their file."""
    name = f"{rows[0]['seed']:09d}-{rows[-1]['seed']:09d}.parquet"
    path = folder / "results" / name
    temporary = path.with_suffix(f".tmp{os.getpid()}")
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), temporary, write_page_checksum=True)
    temporary.replace(path)
    return path


def read_finished(path: Path) -> list[Row]:
    """Read the rows of a finished chunk. Raises BatchError."""
    try:
        with open_plain(path) as file:
            table = pq.read_table(file, page_checksum_verification=True)
        if not table.schema.equals(SCHEMA) or table.column("seed").null_count:
            raise BatchError(f"{path}: {NO_RESULTS}")
        return list(table.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BatchError(f"{path}: {NO_RESULTS}") from error


def read_unfinished(path: Path) -> list[Row]:
    """Read the rows of an unfinished chunk, up to a line that a kill tore.

    Raises BatchError for a JSON line that is no row.
    """
    rows: list[Row] = []
    for line in read_lines(path):
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or type(row.get("seed")) is not int:
            raise BatchError(f"{path}: {NO_RESULTS}")
        rows.append(row)
    return rows


DIGESTS_FILE = "digests.sha256"
_DIGESTS_MAX = 1 << 26


def write_digests(folder: Path) -> None:
    """Write the digests of a batch that has finished. Raises StoreError, OSError."""
    write_atomically(folder / DIGESTS_FILE, _digests(folder))


def refuse_other_files(folder: Path) -> None:
    """Raise StoreError where files are not those with which the batch ended: before any is read."""
    if os.path.lexists(folder / DIGESTS_FILE):
        said = read_bounded(folder / DIGESTS_FILE, _DIGESTS_MAX).splitlines()
        for line in sorted({*said} - {*_digests(folder).splitlines()}):
            name = line.partition(b"  ")[2].decode(errors="replace")
            raise StoreError(f"{name!r:.200} is not what {DIGESTS_FILE} says: it was changed")


def batch_signer(folder: Path, signers: Signers) -> tuple[str | None, str]:
    """Name the principal who signed a batch, or say why there is none. Raises StoreError."""
    path = folder / DIGESTS_FILE
    data = read_bounded(path, _DIGESTS_MAX) if os.path.lexists(path) else b""
    signer, why = signer_of(path, data, signers, "batch")
    if signer is not None and data != _digests(folder):
        return None, f"its files are not those of {DIGESTS_FILE}, which {signer} signed"
    return signer, why


def _digests(folder: Path) -> bytes:
    lines = []
    for name in files_below(folder):
        if name in {DIGESTS_FILE, DIGESTS_FILE + SIGNATURE_SUFFIX}:
            continue
        sha256 = digest_of(folder / name).sha256
        if sha256 is None or not name.isprintable():  # a line break would make two files of it
            raise StoreError(f"{folder / name}: this is no file of a batch")
        lines.append(f"{sha256}  {name}\n")
    return "".join(lines).encode()

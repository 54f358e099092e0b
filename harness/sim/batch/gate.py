"""Gates a batch of simulated seeds: recomputes the verdict from rows that it does not trust.

The rows must be those of the whole range of `batch.json`, each seed once, and each must agree with
its own verdict. The batch's verdict is computed from them; a different `summary.json` refuses the
gate. A batch keeps no journals: judging again runs its seeds again, and the same code must give the
same rows.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.runs.exercised import shortfalls
from checkers.verdict import Status, worst
from cluster.systems.kinds import SettingError, SystemRequest
from harness.errors import PlanError
from harness.plan.plan import Plan
from harness.sim.batch.batch import Batch, run_plainly, summarise
from harness.sim.batch.chunks import (
    HARNESS_ERROR,
    SCHEMA,
    VERSION,
    BatchPlan,
    Row,
    batch_signer,
    plan_of,
    refuse_other_files,
)
from harness.source_digest import source_digest
from results.gate.policy_gate import GateEntry
from results.gate.signature import Signers
from results.store.digests import digest_of
from results.store.facts import Facts, builds_of
from results.store.files import StoreError, parse_json, read_bounded, read_json_object
from results.store.folders import BATCH_MARK
from results.store.model import one_line

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
        groups = (file.metadata.row_group(n) for n in range(file.metadata.num_row_groups))
        if sum(int(group.total_byte_size) for group in groups) > _CHUNK_BYTES_MAX:
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


def gate_batch(
    folder: Path, *, allow_no_faults: bool, judge_again: bool, signers: Signers | None = None
) -> GateEntry:
    """Gate a batch. No stored content raises; errors are reported in the entry's line.

    `signers`: of whom one must have signed it.
    """
    resolved = folder.resolve()
    name = one_line(f"{resolved.parent.name}/{resolved.name}")
    facts, identity = None, str(resolved)
    try:
        status, line, facts = _gate(
            folder, allow_no_faults=allow_no_faults, judge_again=judge_again, signers=signers
        )
        # Code and request decide every row, so that a copy of a batch is the same batch.
        identity = digest_of(folder / BATCH_MARK).sha256 or identity
    except (StoreError, SettingError) as error:
        status, line = Status.UNKNOWN, f"not judged: {one_line(str(error))}"
    except (OSError, RecursionError) as error:
        line = f"cannot be read: {one_line(str(error)) or type(error).__name__}"
        status = Status.UNKNOWN
    return GateEntry(name, status, f"{name}: {line}", identity, facts)


def _gate(
    folder: Path, *, allow_no_faults: bool, judge_again: bool, signers: Signers | None
) -> tuple[Status, str, Facts]:
    refuse_other_files(folder)
    batch = read_batch(folder)
    plan, code, rows, summary = batch.plan, batch.code, batch.rows, batch.summary
    status, tried = Status(summary["verdict"]), summary["exercise"]
    here = source_digest()
    counts = ", ".join(f"{n:,} {name}" for name, n in summary["verdicts"].items() if n)
    text = (
        f"{len(rows):,} seeds ({counts}), {tried['ok']:,} operations ok ({tried['reads']:,} reads, "
        f"{tried['writes']:,} writes), {sum(tried['faults_verified'].values()):,} faults that bit, "
        f"{tried['leader_changes']:,} leader changes in {summary['simulated_s']:,g} simulated s; "
        f"code {one_line(code, 40)}{'' if code == here else f', which is not this one ({here})'}"
    )
    signer, unsigned = (None, "") if signers is None else batch_signer(folder, signers)
    facts = replace(_facts(plan, code, rows, summary), signer=signer, unsigned=unsigned)
    refusal = _refusal(folder, summary)
    if refusal is not None:
        return worst((status, Status.UNKNOWN)), f"{status}, but {refusal}", facts
    if judge_again:
        again = _not_again(plan, signer) or _again(plan, code, rows)
        status = worst((status, again[0]))
        text += f"; {again[1]}"
    if summary["too_little"]:
        text += f"; too little by all seeds together: {one_line(summary['too_little'][0])}"
    if status is Status.PASS and tried["without_faults"] and not allow_no_faults:
        line = f"PASS: {text}: no fault was tried (--allow-no-faults)"
        return Status.UNDER_EXERCISED, line, facts
    return status, f"{status}: {text}", facts


def _facts(plan: BatchPlan, code: str, rows: Mapping[int, Row], summary: Row) -> Facts:
    """Return what a policy asks about a batch, all seeds together."""
    first, tried, is_drawn = plan_of(plan, plan.first, {}), summary["exercise"], not plan.campaign
    exercised = {seed: json.loads(row["exercise"]) or {} for seed, row in rows.items()}
    return Facts(
        campaign="seeds" if is_drawn else one_line(first.campaign, 64),
        workload=None if is_drawn else first.workload,
        system=first.system,
        builds=(*_releases(plan, first), f"code {one_line(code, 40)}", one_line(code, 40)),
        backend="sim",
        nodes=None if is_drawn else first.nodes,
        mutant=summary["mutant"],
        seeds=tuple(range(plan.first, plan.last)),
        started=None,
        duration_s=float(summary["simulated_s"]),
        ok=int(tried["ok"]),
        leader_changes=int(tried["leader_changes"]),
        faults=dict(tried["faults_verified"]),
        of_seeds={
            seed: (int(each.get("ok", 0)), int(each.get("leader_changes", 0)))
            for seed, each in exercised.items()
        },
    )


def _options(plan: BatchPlan) -> dict[str, str]:
    """Return the system's options, which name what its nodes ran where that is not this code."""
    return dict((plan.campaign or plan.system or {}).get("system_options", {}))


def _releases(plan: BatchPlan, first: Plan) -> tuple[str, ...]:
    """Name what its nodes ran where that is not this code; each seed draws of the same releases."""
    options = {**first.system_options, **_options(plan)}
    versions = dict(first.kind.versions(SystemRequest(first.node_settings, options)))
    return builds_of({"system": first.system, "versions": versions})


def _refusal(folder: Path, summary: Row) -> str | None:
    if summary["mutant"]:
        return (
            f"it ran mutant {one_line(summary['mutant'])}: a run of a faulty variant says nothing "
            "about a release"
        )
    return wrong_summary(folder, summary)


def _not_again(plan: BatchPlan, signer: str | None) -> tuple[Status, str] | None:
    """Say why a batch may not run again: nobody vouches for a program that a stored file names."""
    if signer is not None or not any(os.sep in value for value in _options(plan).values()):
        return None
    line = "it is not judged again: its build lies in a folder, and no signer of a policy names it"
    return Status.UNKNOWN, line


def _again(plan: BatchPlan, code: str, rows: Mapping[int, Row]) -> tuple[Status, str]:
    """Run every seed again and compare."""
    if code != source_digest():
        return Status.UNKNOWN, "it cannot be judged again: its seeds ran with other code"
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kraftprobe-gate-") as place,
            Batch(Path(place), plan) as batch,
        ):
            run_plainly(batch, lambda row: None)  # noqa: ARG005  (no progress is shown)
            fresh = batch.rows
    except OSError as error:  # of this machine, and nothing that the batch says
        return Status.UNKNOWN, f"not judged again: {one_line(str(error))}"
    unlike = [s for s in sorted(fresh) if _fixed_part(fresh[s]) != _fixed_part(rows[s])]
    if not unlike:
        return Status.PASS, "judged again: the same"
    seed = unlike[0]
    status = worst((Status.UNKNOWN, Status(fresh[seed]["verdict"])))
    again, before = fresh[seed]["verdict"], rows[seed]["verdict"]
    how = f"seed {seed} was {before}, is {again}"
    if again == before:
        how = f"seed {seed} is {again} with other figures"
    return status, f"judged again: {len(unlike)} of {len(fresh)} seeds differ: {how}"


def _fixed_part(row: Row) -> tuple[Any, ...]:
    """Return the parts of a row that the code and the seed alone determine: all but CPU time."""
    figures = json.loads(row["statistics"])
    return (
        *(row[name] for name in ("verdict", "property", "explanation")),
        list(row["causes"]),
        {name: value for name, value in figures.items() if name != "cpu_s"},
        *(json.loads(row[name]) for name in ("coverage", "exercise")),
    )

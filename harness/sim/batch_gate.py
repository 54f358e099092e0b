"""Gates a batch of simulated seeds: recomputes the verdict from rows that it does not trust.

The rows must be those of the whole range of `batch.json`, each seed once, and each must agree with
its own verdict. The batch's verdict is computed from them; a different `summary.json` refuses the
gate. A batch keeps no journals: judging again runs its seeds again, and the same code must give the
same rows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.exercised import shortfalls
from checkers.verdict import Status, worst
from harness.errors import PlanError
from harness.sim.batch import Batch, run_plainly
from harness.sim.chunks import SCHEMA, VERSION, BatchPlan, Row, plan_of
from harness.sim.summary import summarise
from harness.source import source_digest
from results.facts import Facts
from results.files import StoreError, parse_json, read_json_object
from results.gate import GateEntry
from results.refusals import one_line

_FIGURES = ("operations", "faults", "simulated_s", "cpu_s")
_SUMMED = ("verdict", "verdicts", "seeds", "mutant", "code", "operations", "faults", "exercise")
"""Keys of a summary that do not depend on the wording of any version of the code."""
_COUNTS = ("ok", "reads", "writes", "leader_changes")


def gate_batch(folder: Path, *, allow_no_faults: bool, judge_again: bool) -> GateEntry:
    """Gate a batch. No stored content raises; errors are reported in the entry's line."""
    resolved = folder.resolve()
    name = one_line(f"{resolved.parent.name}/{resolved.name}")
    facts = None
    try:
        status, line, facts = _gate(
            folder, allow_no_faults=allow_no_faults, judge_again=judge_again
        )
    except StoreError as error:
        status, line = Status.UNKNOWN, f"not judged: {one_line(str(error))}"
    except (OSError, RecursionError) as error:
        line = f"cannot be read: {one_line(str(error)) or type(error).__name__}"
        status = Status.UNKNOWN
    return GateEntry(name, status, f"{name}: {line}", str(resolved), facts)


def _gate(folder: Path, *, allow_no_faults: bool, judge_again: bool) -> tuple[Status, str, Facts]:
    plan, code = _plan(folder)
    rows = _rows(folder, plan)
    for row in rows.values():
        _check_row(row)
    summary = _summary(plan, code, rows)
    status, tried = Status(summary["verdict"]), summary["exercise"]
    here = source_digest()
    counts = ", ".join(f"{n:,} {name}" for name, n in summary["verdicts"].items() if n)
    text = (
        f"{len(rows):,} seeds ({counts}), {tried['ok']:,} operations ok ({tried['reads']:,} reads, "
        f"{tried['writes']:,} writes), {sum(tried['faults_verified'].values()):,} faults that bit, "
        f"{tried['leader_changes']:,} leader changes in {summary['simulated_s']:,g} simulated s; "
        f"code {one_line(code, 40)}{'' if code == here else f', which is not this one ({here})'}"
    )
    facts = _facts(plan, code, summary)
    refusal = _refusal(folder, plan, summary)
    if refusal is not None:
        return worst((status, Status.UNKNOWN)), f"{status}, but {refusal}", facts
    if judge_again:
        again = _again(plan, code, rows)
        status = worst((status, again[0]))
        text += f"; {again[1]}"
    if summary["too_little"]:
        text += f"; too little by all seeds together: {one_line(summary['too_little'][0])}"
    if status is Status.PASS and tried["without_faults"] and not allow_no_faults:
        line = f"PASS: {text}: no fault was tried (--allow-no-faults)"
        return Status.UNDER_EXERCISED, line, facts
    return status, f"{status}: {text}", facts


def _facts(plan: BatchPlan, code: str, summary: Row) -> Facts:
    """Return what a policy asks about a batch, all seeds together."""
    campaign, tried = plan.campaign or {}, summary["exercise"]
    workload, nodes = campaign.get("workload"), campaign.get("nodes")
    return Facts(
        campaign=one_line(str(campaign.get("campaign", "seeds")), 64),
        workload=None if workload is None else one_line(str(workload), 64),
        system="kraft",
        builds=(f"code {one_line(code, 40)}", one_line(code, 40)),
        backend="sim",
        nodes=nodes if isinstance(nodes, int) else None,
        mutant=plan.mutant,
        seeds=tuple(range(plan.first, plan.last)),
        started=None,
        duration_s=float(summary["simulated_s"]),
        ok=int(tried["ok"]),
        leader_changes=int(tried["leader_changes"]),
        faults=dict(tried["faults_verified"]),
        unsigned="a batch of seeds cannot be signed",
    )


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
    campaign = fields.get("campaign")
    good = (
        type(first) is int
        and type(last) is int
        and 0 <= first < last <= 2**31
        and isinstance(mutant, str | None)
        and isinstance(duration_ms, int | float | None)
        and isinstance(fields.get("steered"), bool)
        and isinstance(fields.get("code"), str)
        and isinstance(campaign, dict | None)
    )
    if not good:
        raise StoreError(f"{path}: this is no batch")
    plan = BatchPlan(
        first,  # type: ignore[arg-type]  # checked above
        last,  # type: ignore[arg-type]  # checked above
        mutant,
        duration_ms,
        steered=fields["steered"],
        campaign=campaign,
    )
    try:
        plan_of(plan, plan.first, {})
    except PlanError as error:
        raise StoreError(f"{path}: its campaign is no plan: {error}") from error
    return plan, fields["code"]


def _rows(folder: Path, plan: BatchPlan) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for path in sorted((folder / "results").glob("*.parquet")):
        try:
            if pq.read_metadata(path).num_rows > plan.last - plan.first:
                raise StoreError(f"{path}: it holds more rows than the batch has seeds")
            table = pq.read_table(path)
        except (pa.ArrowException, ValueError, TypeError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{path}: it cannot be read ({type(error).__name__})") from error
        if not table.schema.equals(SCHEMA):
            raise StoreError(f"{path}: its columns are not those of a batch")
        for row in table.to_pylist():
            if row["seed"] in rows:
                raise StoreError(f"{path}: seed {row['seed']} is there twice")
            rows[row["seed"]] = row
    unfinished = [p for p in (folder / "running").glob("*.jsonl") if p.stat().st_size]
    missing = [seed for seed in range(plan.first, plan.last) if seed not in rows]
    if unfinished or missing:
        total = plan.last - plan.first
        raise StoreError(f"{folder}: only {total - len(missing)} of {total} seeds have finished")
    if len(rows) != plan.last - plan.first:
        odd = next(seed for seed in rows if seed is None or not plan.first <= seed < plan.last)
        raise StoreError(f"{folder}: seed {odd} is not one of {plan.first}..{plan.last}")
    return rows


def _check_row(row: Row) -> None:
    """Raise StoreError where a row is damaged or contradicts its verdict."""
    where = f"seed {row['seed']}"
    try:
        status = Status(row["verdict"])
        figures, exercise = (parse_json(row[name]) for name in ("statistics", "exercise"))
        parse_json(row["coverage"])
        counted = [figures[name] for name in _FIGURES]
        if exercise:
            counted += [exercise[name] for name in _COUNTS]
            counted += [exercise["needed"][name] for name in _COUNTS]
            counted += [*exercise["faults_verified"].values(), *exercise["faults_tried"].values()]
            short = bool(shortfalls(exercise))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise StoreError(f"{where} is damaged ({type(error).__name__})") from error
    if any(isinstance(n, bool) or not isinstance(n, int | float) or n < 0 for n in counted):
        raise StoreError(f"{where} is damaged: it holds an impossible number")
    found = [name for name in ("property", "explanation") if row[name] is not None]
    if status is Status.PASS and (found or row["causes"] or row["plan"]):
        raise StoreError(f"{where} is a PASS that holds a finding")
    if status is Status.PASS and (not exercise or short):
        raise StoreError(f"{where} is a PASS in which too little was tried")


def _refusal(folder: Path, plan: BatchPlan, summary: Row) -> str | None:
    if plan.mutant:
        return (
            f"it ran mutant {one_line(plan.mutant)}: a run of a faulty variant says nothing "
            "about a release"
        )
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


def _again(plan: BatchPlan, code: str, rows: Mapping[int, Row]) -> tuple[Status, str]:
    """Run every seed again and compare."""
    if code != source_digest():
        return Status.UNKNOWN, "it cannot be judged again: its seeds ran with other code"
    with (
        tempfile.TemporaryDirectory(prefix="kraftprobe-gate-") as place,
        Batch(Path(place), plan) as batch,
    ):
        run_plainly(batch, lambda row: None)  # noqa: ARG005  (no progress is shown)
        fresh = batch.rows
    unlike = [s for s in sorted(fresh) if _determined(fresh[s]) != _determined(rows[s])]
    if not unlike:
        return Status.PASS, "judged again: the same"
    seed = unlike[0]
    status = worst((Status.UNKNOWN, Status(fresh[seed]["verdict"])))
    again, before = fresh[seed]["verdict"], rows[seed]["verdict"]
    how = f"seed {seed} was {before}, is {again}"
    if again == before:
        how = f"seed {seed} is {again} with other figures"
    return status, f"judged again: {len(unlike)} of {len(fresh)} seeds differ: {how}"


def _determined(row: Row) -> tuple[Any, ...]:
    """Return the parts of a row that the code and the seed alone determine: all but CPU time."""
    figures = json.loads(row["statistics"])
    return (
        *(row[name] for name in ("verdict", "property", "explanation")),
        list(row["causes"]),
        {name: value for name, value in figures.items() if name != "cpu_s"},
        *(json.loads(row[name]) for name in ("coverage", "exercise")),
    )

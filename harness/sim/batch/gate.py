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
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.verdict import Status, worst
from cluster.systems.kinds import SettingError, SystemRequest
from harness.plan.plan import Plan
from harness.sim.batch.batch import Batch, run_plainly
from harness.sim.batch.chunks import BatchPlan, Row, batch_signer, plan_of
from harness.sim.batch.rows import read_batch, wrong_summary
from harness.source_digest import source_digest
from results.gate.policy_gate import GateEntry
from results.gate.signature import Signers
from results.store.digests import digest_of
from results.store.facts import Facts, builds_of
from results.store.files import StoreError
from results.store.folders import BATCH_MARK
from results.store.model import one_line


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

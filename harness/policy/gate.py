"""The gate over runs and batches, its policy included.

Here is its use of the harness: judge a run from its raw files, run a batch's seeds again, hold what
was found against what a release asks.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from checkers.verdict import Status
from cluster.systems.kinds import SettingError
from harness.evidence.recomputation import made_anew
from harness.full_disk import full_disk_of, lack_of_room
from harness.judge.stored_runs import walk_targets
from harness.plan.stored_document import derive
from harness.policy.canary import canary_of
from harness.policy.document import Policy
from harness.policy.requirements import (
    comparisons_of,
    hold_against,
    refuse_unsigned,
    requirements_of,
)
from harness.sim.batch.gate import gate_batch
from results.gate.policy_gate import GateDecision, GateEntry, Rules, decide, gate_run
from results.gate.signature import Signers
from results.judge import pipeline
from results.store.files import StoreError
from results.store.folders import Walk, is_batch, is_run
from results.store.model import RunResults, one_line
from results.store.run_store import RunStore


def gate_all(folders: Sequence[Path], policy: Policy, now: dt.datetime) -> GateDecision:
    """Gate runs and batches, and hold them against a policy. Raises UsageError, StoreError.

    A full disk that keeps runs from being judged again is no verdict, unless one of them FAILed.
    """
    rules, full = rules_of(policy), list[OSError]()

    def judge_again(store: RunStore) -> RunResults:
        try:
            return recompute(store)
        except OSError as error:
            full.extend(filter(None, [lack_of_room(error)]))
            raise

    rules = replace(rules, recompute=rules.recompute and judge_again)
    gate_once = cache(lambda folder: gate_folder(folder, rules))
    found = walk_targets(folders)
    entries = [
        hold_against(entry, policy.each, now)
        for entry in refuse_copies([gate_once(folder.resolve()) for folder in found.runs])
    ]
    entries += unread_entries(found)
    requirements = requirements_of(policy, entries)
    if policy.baseline is not None:
        earlier = walk_targets([Path(name) for name in policy.baseline.runs])
        known = [gate_once(folder.resolve()) for folder in earlier.runs]
        baseline = [refuse_unsigned(entry, policy.each) for entry in known]
        baseline += unread_entries(earlier)
        requirements += comparisons_of(policy.baseline, entries, baseline)
    canary = None if policy.no_canary or not entries else canary_of(entries)
    decision = decide(entries, requirements, canary)
    if full and decision.status is not Status.FAIL:
        place = Path(tempfile.gettempdir())
        with full_disk_of(place):
            raise full[0]
    return decision


def unread_entries(found: Walk) -> list[GateEntry]:
    """Return an entry for each thing that was not looked into: a run may lie behind it."""
    return [
        GateEntry(one_line(str(path)), Status.UNKNOWN, one_line(f"{path}: {what}: not looked into"))
        for path, what in found.unread
    ]


def refuse_copies(entries: Sequence[GateEntry]) -> list[GateEntry]:
    """Let no two runs pass on different seeds that did and saw the very same."""
    first: dict[str, GateEntry] = {}
    found = []
    for entry in entries:
        other = first.setdefault(entry.identity, entry) if entry.identity else entry
        if entry.facts and other.facts and entry.facts.seeds != other.facts.seeds and entry.passed:
            copied = f"its operations are those of {other.run}, which says that it ran another seed"
            found.append(entry.held_against([(Status.UNKNOWN, copied)]))
        else:
            found.append(entry)
    return found


def rules_of(policy: Policy) -> Rules:
    """Return what the gate of a single run needs to know of a policy. Raises StoreError."""
    each = policy.each
    signers = None
    if each.allowed_signers is not None:
        signers = Signers(Path(each.allowed_signers), each.signed_by)
        signers.check()
    return Rules(
        derive,
        allow_skipped=policy.allow_skipped,
        allow_no_faults=policy.allow_no_faults,
        recompute=recompute if policy.judge_again else None,
        canaries=policy.canaries,
        signers=signers,
        measure=policy.baseline is not None
        or each.unavailability_max_s is not None
        or each.recovery_max_s is not None,
    )


def gate_folder(folder: Path, rules: Rules) -> GateEntry:
    """Gate a run, or a batch of simulated seeds."""
    if is_batch(folder) and is_run(folder):
        name = one_line(str(folder))
        line = f"{name}: it holds a run and a batch of seeds, and one of them is not its own"
        return GateEntry(name, Status.UNKNOWN, line)
    if is_batch(folder):
        judge_again = rules.recompute is not None
        return gate_batch(
            folder,
            allow_no_faults=rules.allow_no_faults,
            judge_again=judge_again,
            signers=rules.signers,
        )
    return gate_run(RunStore(folder), rules)


def recompute(store: RunStore) -> RunResults:
    """Judge a run from its plan, its journal and its nodes' raw files, changing nothing.

    Logs and quorum states are decoded again and must equal the stored evidence, and so must traces
    that were made from a node's output; others are raw already. Final reads exist only as stored.
    The stored certificates must prove what is linearizable.
    Raises StoreError and what `results.judge.pipeline.judge` raises.
    """
    try:
        with made_anew(store) as (copy, problems):
            if problems:
                raise StoreError(problems[0].what)
            return pipeline.judge(copy, keep=False, certificates=store.certificates_path)
    except SettingError as error:  # of a package that is not installed here, say
        raise StoreError(str(error)) from error

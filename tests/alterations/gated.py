"""What the gate says of an altered run, by its own function, in each state that a forger leaves."""

from __future__ import annotations

from checkers.verdict import Status
from harness.policy.document import Policy
from harness.policy.gate import gate_folder, rules_of
from results.gate.policy_gate import GateEntry
from tests.alterations.runs import Alteration, Altered, problem_of, read_text
from tests.gate.bench import forge


def complaints(run: Altered, alteration: Alteration, *, judged_by_gate: bool) -> list[str]:
    """Alter a run, and say where judging or the gate does not say what it must.

    The gate is asked three times. Of the run with the digests that it had: that must not pass. With
    `judged_by_gate` of one whose digests follow from what it holds now, and whose stored judgement
    is the old PASS: `--judge-again` must give the alteration's verdict. And once it was judged
    again: that must be the same verdict.
    """
    alteration.change(run)
    found = []
    as_it_is = _gate(run)
    if as_it_is.status is Status.PASS:
        found.append(f"the gate, by digests: {as_it_is.line}")
    if judged_by_gate:
        forge(run.store, rejudge=False)
        found += _unlike(_gate(run, judge_again=True), alteration, "judging again")
    results = run.judged()
    problem = problem_of(results, alteration)
    if problem is not None:
        found.append(f"{problem}\n{read_text(results)}")
    return found + _unlike(_gate(run), alteration, "by what was judged")


def _gate(run: Altered, *, judge_again: bool = False) -> GateEntry:
    return gate_folder(run.store.folder, rules_of(Policy(judge_again=judge_again)))


def _unlike(entry: GateEntry, alteration: Alteration, how: str) -> list[str]:
    if entry.status is alteration.status:
        return []
    return [f"the gate, {how}: {entry.status}, not {alteration.status}: {entry.line}"]

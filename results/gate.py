"""The gate: may this build be released? Only PASS, stored and unchanged, says so.

What does not pass: any other verdict; a run that nobody judged, or whose results are damaged; a
run whose plan, journal or evidence is not what was judged; a run of a mutant, even when it passed,
for it says nothing about a release; a run that left out faults as impossible where it ran, unless
whoever opens the gate says that these may be missing; and no runs at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.verdict import EXIT_CODES, Status, worst
from results.files import StoreError
from results.model import RunResults, skipped_faults
from results.store import RunStore

_USAGE = 2


@dataclass(frozen=True, slots=True)
class GateEntry:
    """What the gate says of one run."""

    run: str
    status: Status
    """PASS only if the run passes the gate."""
    line: str
    """For a person."""

    @property
    def passed(self) -> bool:
        """Whether this run lets a release through."""
        return self.status is Status.PASS


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the gate says of all runs."""

    entries: tuple[GateEntry, ...]
    exit_code: int

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each run, and the decision."""
        passed = sum(entry.passed for entry in self.entries)
        told = "gate open" if self.exit_code == 0 else "gate closed"
        last = f"{told}: {passed} of {len(self.entries)} runs pass"
        return (*(entry.line for entry in self.entries), last)


def gate(runs: Sequence[RunStore], *, allow_skipped: bool = False) -> GateDecision:
    """Decide over stored runs. The exit code is that of the worst; of no runs at all it is 2.

    `allow_skipped`: runs that left out faults as impossible may pass, and are told to have done so;
    otherwise such a PASS is as good as UNDER-EXERCISED.
    """
    entries = tuple(_judge_run(store, allow_skipped=allow_skipped) for store in runs)
    if not entries:
        return GateDecision((), _USAGE)
    return GateDecision(entries, EXIT_CODES[worst(entry.status for entry in entries)])


def _judge_run(store: RunStore, *, allow_skipped: bool) -> GateEntry:
    name = f"{store.folder.parent.name}/{store.folder.name}"
    try:
        results = store.read_results()
        refusal = _refusal(store, results)
    except StoreError as error:
        return GateEntry(name, Status.UNKNOWN, f"{name}: not judged: {error}")
    except OSError as error:
        reason = f"{error.filename or store.folder}: {error.strerror}"
        return GateEntry(name, Status.UNKNOWN, f"{name}: cannot be read: {reason}")
    if refusal is not None:
        # A verdict that is worse than the refusal stays what it is.
        status = worst((results.status, Status.UNKNOWN))
        return GateEntry(name, status, f"{name}: {results.status}, but {refusal}")
    if results.status is Status.PASS:
        if results.skipped and not allow_skipped:
            told = f"{name}: {results.verdict}: it was not tried with these (--allow-skipped)"
            return GateEntry(name, Status.UNDER_EXERCISED, told)
        return GateEntry(name, Status.PASS, f"{name}: {results.verdict}")
    told = next(
        (
            f"{c.checker}: {_one_line(c.summary)}"
            for c in results.checks
            if c.status is results.status
        ),
        "nothing was checked",
    )
    return GateEntry(name, results.status, f"{name}: {results.status}: {told}")


def _refusal(store: RunStore, results: RunResults) -> str | None:
    """Say why even a PASS of this run would not count."""
    plan = store.plan()
    mutant = plan.get("mutant") or results.plan.get("mutant")
    if mutant:
        return (
            f"it ran mutant {_one_line(str(mutant))}: a run of a faulty variant says nothing "
            "about a release"
        )
    if results.run != store.folder.name:
        return f"its results are those of run {_one_line(results.run)}"
    if results.skipped != skipped_faults(plan):
        return "its results and its plan name different faults as skipped"
    found = store.input_digests(plan)
    changed = sorted(
        name
        for name in found.keys() | results.inputs.keys()
        if found.get(name) != results.inputs.get(name)
    )
    if changed:
        return f"{_one_line(changed[0])} is not what was judged; judge the run again"
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]

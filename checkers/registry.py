"""Checks by name, so that a plan can say in JSON what judges it.

A workload lists `CheckSpec`s; they are stored in the run's plan; the pipeline looks the names up
here. A check has a scope that says what it is given and how it may run in parallel:

- `key`: the operations of one key; called once for each key, in parallel, then merged.
- `run`: the whole run as a `RunInput`: raw events (nemesis included) and client operations.
- `evidence`: the same `RunInput`, whose `evidence` holds what the nodes themselves left behind.

`run_check` runs one in this process; where the checker itself dies, that is UNKNOWN.

`_OWN` lists them with the options of each, which its module explains. Unknown limits
(None) mean the defaults of `linearizability.linearizable`; its filters are `evidence`, `functions`
and `refusals` (see `judged_operations`).
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkers import groups, partition_logs, transactions
from checkers.evidence import assisted
from checkers.guarantees import growth, sessions
from checkers.history import Operation
from checkers.history.foreign import Reading
from checkers.history.recorded import Recorded
from checkers.invariants import stored as invariants
from checkers.jepsen import set_full
from checkers.linearizability import linearizable
from checkers.linearizability.columnar import check_columns
from checkers.nodes import (
    agreement,
    durability,
    isr,
    records,
    replica_logs,
    snapshots,
    upgrades,
    voter_changes,
)
from checkers.run_input import RunInput, asked_for
from checkers.runs import answers, exercised, monitor, statistics
from checkers.transactions import atomic_appends
from checkers.verdict import ALLOWED, COUNTS, PROMISE, CheckResult, Status, anomaly, worst
from extensions import Registry
from porcupine_py.columns import Columns
from porcupine_py.names import nearest
from porcupine_py.search.outcome import Cancelled, never

__all__ = [
    "CHECKS",
    "Cancelled",
    "Check",
    "CheckError",
    "CheckSpec",
    "KeyCheck",
    "RunCheck",
    "RunInput",
    "changes_of",
    "check_keys",
    "check_operations",
    "find_check",
    "group_by_key",
    "judged_operations",
    "never",
    "run_check",
]

Options = Mapping[str, Any]
"""JSON-able options of a check, by name."""

ANOMALIES_KEPT_MAX = 20
"""How many anomalies a merged result shows; `statistics["anomalies"]` counts them all."""


class CheckError(ValueError):
    """A plan asks for a check that does not exist, or gives it an option it cannot take."""


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """One check that a plan asks for."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """JSON-able; for `linearizable`: {"model": "register", "time_limit_s": 60, ...}."""


def _nothing(options: Options) -> None:
    """Accept options that need no further validation."""
    del options


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """A check that judges each key by itself."""

    name: str
    function: Callable[[Sequence[Operation], Options, Cancelled], CheckResult]
    options: Mapping[str, type | tuple[type, ...]] = field(default_factory=dict)
    """Option names and the types they take."""
    required: tuple[str, ...] = ()
    validate: Callable[[Options], None] = _nothing
    """Raises ValueError when a value cannot be taken."""
    columnar: Callable[[Columns, Options, Cancelled], list[CheckResult]] | None = None
    """Judges all keys of operations in columns, with the same verdicts; None: there is no such."""
    scope: str = "key"
    takes_failures: bool = False
    """It looks at failed operations itself, and takes them for what never happened."""

    def check_key(
        self, operations: Sequence[Operation], options: Options, cancelled: Cancelled = never
    ) -> CheckResult:
        """Judge the operations of one key (all with the same `key`)."""
        try:
            return _check_result(self.function(operations, options, cancelled))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (it died, and judged nothing)
            key = operations[0].key if operations else None
            return _crash_result(self.name, error, key=key, operations=len(operations))

    def merge(self, results: Sequence[CheckResult]) -> CheckResult:
        """One verdict over the keys: the worst status, all counts, the first anomalies."""
        return merge(self.name, results)


@dataclass(frozen=True, slots=True)
class RunCheck:
    """A check that judges the run as a whole."""

    name: str
    scope: str
    """`run` or `evidence`."""
    function: Callable[[RunInput, Options, Cancelled], CheckResult]
    options: Mapping[str, type | tuple[type, ...]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    validate: Callable[[Options], None] = _nothing

    def check_run(
        self, run: RunInput, options: Options, cancelled: Cancelled = never
    ) -> CheckResult:
        """Judge the run; without the evidence that it needs: UNKNOWN."""
        if self.scope == "evidence" and run.evidence is None:
            summary = "no evidence from the nodes is stored, so nothing was checked"
            return CheckResult(self.name, Status.UNKNOWN, summary)
        try:
            return _check_result(self.function(run, options, cancelled))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (it died, and judged nothing)
            return _crash_result(self.name, error, operations=len(run.operations))


Check = KeyCheck | RunCheck

_NUMBER = (int, float)
_JSON = (str, bool, int, float, list, tuple, dict)
_OWN: tuple[Check, ...] = (
    KeyCheck(
        linearizable.NAME,
        linearizable.check_key,
        {
            "model": str,
            "algorithm": str,
            "initial": _JSON,
            "time_limit_s": _NUMBER,
            "memory_limit_mb": _NUMBER,
            "evidence": bool,
            "functions": list,
            "refusals": bool,
        },
        ("model",),
        linearizable.validate,
        check_columns,
    ),
    KeyCheck(
        sessions.NAME,
        sessions.check_key,
        {"guarantees": list, "per_node": bool, "model": str, "functions": list},
        validate=sessions.validate,
    ),
    KeyCheck(growth.NAME, growth.check_key, {"model": str}, ("model",), growth.validate),
    KeyCheck(set_full.NAME, set_full.check_key, set_full.OPTIONS, takes_failures=True),
    RunCheck(
        transactions.NAME,
        "run",
        transactions.check,
        {
            "model": str,
            "consistency": str,
            "wfr_keys": bool,
            "sequential_keys": bool,
            "linearizable_keys": bool,
            "transaction_order": dict,
        },
        validate=transactions.validate,
    ),
    RunCheck(
        atomic_appends.NAME,
        "run",
        atomic_appends.check,
        {"open_ms": _NUMBER},
        validate=atomic_appends.validate,
    ),
    RunCheck(groups.NAME, "run", groups.check, {"protocol": str}, validate=groups.validate),
    RunCheck(
        durability.NAME,
        "evidence",
        durability.check,
        {"workload": str, "config_prefix": str, "nodes": list, "functions": list, "refusals": bool},
        ("workload",),
        durability.validate,
    ),
    RunCheck(agreement.NAME, "evidence", agreement.check),
    RunCheck(snapshots.NAME, "evidence", snapshots.check),
    RunCheck(
        records.NAME,
        "evidence",
        records.check,
        {"workload": str, "traced": list, "nodes": list, "timeout_ms": _NUMBER, "one_clock": bool},
    ),
    RunCheck(voter_changes.NAME, "evidence", voter_changes.check),
    RunCheck(upgrades.NAME, "evidence", upgrades.check, {"steps": dict, "session_ms": int}),
    RunCheck(isr.NAME, "evidence", isr.check, {"session_ms": int}),
    RunCheck(
        invariants.NAME,
        "evidence",
        invariants.check,
        {"traced": list, "whole": list, "starts": dict, "pids": bool, "files": bool},
        validate=invariants.validate,
    ),
    RunCheck(
        partition_logs.NAME,
        "run",
        partition_logs.check,
        {"acks": str, "idempotence": bool, "retries": bool},
        validate=partition_logs.validate,
    ),
    RunCheck(
        replica_logs.NAME,
        "evidence",
        replica_logs.check,
        {"acks": str},
        validate=partition_logs.validate,
    ),
    RunCheck(monitor.NAME, "run", monitor.check),
    RunCheck(answers.NAME, "run", answers.check),
    RunCheck(
        exercised.NAME,
        "run",
        exercised.check,
        {"expectations": dict, "skipped": list, "nothing_left": bool},
        validate=exercised.validate,
    ),
    RunCheck(statistics.NAME, "run", statistics.check),
)

CHECKS: Registry[Check] = Registry("kraftprobe.checkers", (KeyCheck, RunCheck), _OWN)


def find_check(spec: CheckSpec) -> Check:
    """Look the check up and validate its options.

    Raises CheckError with one line that names the nearest check or option.
    """
    if spec.name not in CHECKS:
        raise CheckError(f"unknown check {spec.name!r}; {nearest(spec.name, CHECKS)}")
    check = CHECKS[spec.name]
    for name, value in spec.options.items():
        types = check.options.get(name)
        if types is None:
            hint = f"; {nearest(name, check.options)}"
            raise CheckError(f"check {spec.name!r} has no option {name!r}{hint}")
        known = types if isinstance(types, tuple) else (types,)
        if value is not None and (
            not isinstance(value, types) or (isinstance(value, bool) and bool not in known)
        ):
            raise CheckError(f"option {name!r} of check {spec.name!r} cannot be {value!r}")
    for name in check.required:
        if spec.options.get(name) is None:
            raise CheckError(f"check {spec.name!r} needs the option {name!r}")
    try:
        check.validate(spec.options)
    except ValueError as error:
        raise CheckError(f"check {spec.name!r}: {error}") from error
    return check


def group_by_key(operations: Sequence[Operation]) -> dict[str | None, list[Operation]]:
    """Operations by key, keys in order of first use, each group in order of invocation."""
    groups: dict[str | None, list[Operation]] = {}
    for operation in operations:
        groups.setdefault(operation.key, []).append(operation)
    return groups


def reading_for(checks: Iterable[Check], reading: Reading) -> Reading:
    """Return how a file is to be read for checks, some of which look at failures themselves."""
    if all(isinstance(check, KeyCheck) and check.takes_failures for check in checks):
        return replace(reading, refusals=True)
    return reading


def judged_operations(spec: CheckSpec, run: RunInput) -> Sequence[Operation]:
    """Return the operations that a check by key is given: resolved by the evidence where asked.

    The very `run.operations` where there is nothing to resolve or `evidence` is false, and all
    functions and refusals are judged.
    """
    return asked_for(_resolve(spec, run).operations, spec.options)


def changes_of(spec: CheckSpec, run: RunInput) -> dict[int, assisted.Change]:
    """Return what evidence changes of the operations that a check by key is given, by index."""
    changes = _resolve(spec, run).changes
    return {run.operations[row].index: change for row, change in changes.items()}


def _resolve(spec: CheckSpec, run: RunInput) -> assisted.Resolved:
    wanted = spec.name == linearizable.NAME and spec.options.get("evidence") is not False
    wanted = wanted and run.extent.closed  # what was written later is in the logs as well
    return assisted.resolve(run.operations, run.evidence if wanted else None)


def check_keys(
    check: KeyCheck, spec: CheckSpec, run: RunInput, cancelled: Cancelled = never
) -> list[CheckResult]:
    """Judge each key of a run by itself, in order of first use; `check.merge` makes one of them."""
    return check_operations(check, spec, judged_operations(spec, run), cancelled)


def check_operations(
    check: KeyCheck, spec: CheckSpec, operations: Sequence[Operation], cancelled: Cancelled = never
) -> list[CheckResult]:
    """Judge each key of the operations that a check by key is given."""
    if not isinstance(operations, Recorded):
        groups = group_by_key(operations).values()
        return [check.check_key(group, spec.options, cancelled) for group in groups]
    if not len(operations):
        return []
    if check.columnar is not None:
        # One key that no model knows must not decide about the others: then each is judged alone.
        with contextlib.suppress(Exception):
            return check.columnar(operations.columns, spec.options, cancelled)
    parts = operations.columns.parts()
    return [check.check_key(part.operations(), spec.options, cancelled) for part in parts]


def run_check(spec: CheckSpec, run: RunInput, cancelled: Cancelled = never) -> CheckResult:
    """Run one check over a whole run in this process.

    Raises CheckError for an unknown name or an option that it cannot take.
    """
    check = find_check(spec)
    if isinstance(check, KeyCheck):
        return check.merge(check_keys(check, spec, run, cancelled))
    return check.check_run(run, spec.options, cancelled)


def merge(checker: str, results: Sequence[CheckResult]) -> CheckResult:
    """One verdict over the keys of a run; of no keys at all UNDER-EXERCISED.

    Results come in any order; the merged result does not depend on it.
    """
    if not results:
        summary = "there was no operation to check"
        return CheckResult(checker, Status.UNDER_EXERCISED, summary)
    ordered = sorted(results, key=lambda result: (result.key is not None, result.key or ""))
    status = worst(result.status for result in ordered)
    counts = {kind.value: sum(r.status is kind for r in ordered) for kind in Status}
    telling = sorted(ordered, key=lambda result: result.status is not status)
    anomalies = [  # no key that was not decided takes the place of one that fails
        {"key": result.key, **anomaly} for result in telling for anomaly in result.anomalies
    ]
    operations = sum(result.operations for result in ordered)
    shown = next(result for result in ordered if result.status is status)
    algorithms = sorted({result.algorithm for result in ordered if result.algorithm})
    if status is Status.PASS:
        by = f" (by {', '.join(algorithms)})" if algorithms else ""
        promises = {str(r.statistics[PROMISE]) for r in ordered if PROMISE in r.statistics}
        kept = f"keeps {'; '.join(sorted(promises))}" if promises else "passes"
        summary = f"{operations} operations on {len(ordered)} keys: every key {kept}{by}"
    else:
        summary = shown.summary
        if len(ordered) > 1:
            few = f"{counts[status.value]} of {len(ordered)} keys {status.value}"
            first = "without a key" if shown.key is None else f"key {shown.key!r}"
            summary = f"{few}; first, {first}: {summary}"
        elif shown.key is not None:
            summary = f"key {shown.key!r}: {summary}"
    return CheckResult(
        checker,
        status,
        summary,
        algorithm=", ".join(algorithms) or None,
        operations=operations,
        anomalies=tuple(anomalies[:ANOMALIES_KEPT_MAX]),
        statistics={
            **_figures(ordered),
            "keys": len(ordered),
            "anomalies": len(anomalies),
            "by_status": counts,
        },
    )


def _figures(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the figures of checks that count: added up, and all of them where there is one key."""
    counted = [result for result in results if COUNTS in result.statistics]
    if not counted:
        return {}
    total: Counter[str] = Counter()
    for result in counted:
        total.update(result.statistics[COUNTS])
    allowed = [{"key": result.key, **note} for result in counted for note in result.allowed]
    own = counted[0].statistics if len(results) == 1 else {}
    figures = {**own, COUNTS: dict(total)}
    return {**figures, ALLOWED: allowed[:ANOMALIES_KEPT_MAX]} if allowed else figures


def add_notes(result: CheckResult, notes: Sequence[str]) -> CheckResult:
    """Return a result that says how its history was read."""
    if not notes:
        return result
    return replace(result, statistics={**result.statistics, "notes": list(notes)})


def _check_result(answer: CheckResult) -> CheckResult:
    """Return what a check answered, maybe of a package. Raises TypeError, ValueError."""
    if not isinstance(answer, CheckResult) or not isinstance(answer.status, Status):
        raise TypeError(f"a check answers with a CheckResult, not {ascii(answer)[:80]}")
    answer.check_types()
    json.dumps([answer.anomalies, answer.certificate, answer.statistics], allow_nan=False)
    if answer.status is Status.PASS and answer.anomalies:
        raise ValueError("a PASS that holds an anomaly")
    return answer


def _crash_result(
    checker: str, error: BaseException, *, key: str | None = None, operations: int = 0
) -> CheckResult:
    summary = f"the checker itself failed: {type(error).__name__}: {error}"
    return CheckResult(
        checker,
        Status.UNKNOWN,
        summary,
        key=key,
        operations=operations,
        anomalies=(anomaly("checker-failed", summary),),
    )

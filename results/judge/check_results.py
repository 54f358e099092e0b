"""What judging a stored run and judging a lone file share: check after check, and the results."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.earned import verdict
from checkers.linearizability.certificates import certificate_lines
from checkers.registry import Cancelled, CheckSpec, KeyCheck, RunInput, find_check, run_check
from checkers.verdict import CheckResult
from results.judge.session import SparkHandle
from results.store.files import write_atomically
from results.store.model import PLAN_FIELDS, RunResults, as_stored

Checked = tuple[list[CheckResult], list[CheckResult], list[float]]
"""Results in the order of the plan, those of single keys, and how many seconds each check took."""


KeyChecker = Callable[[KeyCheck, CheckSpec, RunInput, Cancelled], list[CheckResult]]
"""`checkers.registry.check_keys`, or what does the same elsewhere."""


def check_each(
    run: RunInput, specs: Sequence[CheckSpec], cancelled: Cancelled, by_keys: KeyChecker
) -> Checked:
    """Judge by every check."""
    checks: list[CheckResult] = []
    proofs: list[CheckResult] = []
    times_s = []
    for spec in specs:
        since = time.monotonic()
        check = find_check(spec)
        if isinstance(check, KeyCheck):
            by_key = by_keys(check, spec, run, cancelled)
            proofs += by_key
            checks.append(check.merge(by_key))
        else:
            checks.append(run_check(spec, run, cancelled))
        times_s.append(time.monotonic() - since)
    return checks, proofs, times_s


def results_of(
    name: str,
    plan: Mapping[str, Any],
    checks: Sequence[CheckResult],
    times_s: Sequence[float],
    statistics: dict[str, Any],
    *,
    spark: SparkHandle | None,
    began: float,
) -> RunResults:
    """Return the judgement; `began`: when, of the monotonic clock."""
    plain = tuple(as_stored(check) for check in checks)
    engine = None
    if spark is not None:
        engine = {"version": spark.version, "master": spark.master, "jvm": spark.jvm.version}
    return RunResults(
        status=verdict(plain),
        checks=plain,
        statistics=statistics,
        run=name,
        plan={field: plan[field] for field in PLAN_FIELDS if field in plan},
        inputs={},
        judged_with={"spark": engine},
        judging={
            "at": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "duration_s": round(time.monotonic() - began, 3),
            "checks_s": [round(time_s, 6) for time_s in times_s],
        },
    )


def write_certificates(path: Path, results: Sequence[CheckResult]) -> None:
    """Store the proof of each key's verdict, whole or not at all. Raises OSError."""
    try:
        write_atomically(path, "".join(certificate_lines(results)).encode("ascii"))
    except OSError as error:  # it names a file that nobody asked for
        raise OSError(error.errno, error.strerror, str(path)) from error

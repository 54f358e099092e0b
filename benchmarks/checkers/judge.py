"""One history judged in a process of its own, so that its peak of memory is its own.

`python -m benchmarks.checkers.judge FILE MODEL SECONDS` prints one JSON object. The file is what
`save` wrote. Times are of `judge_columns`: from columns to verdicts, orders verified, windows made
small and verified; without the long lists of operation numbers that a certificate is stored as.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from checkers.linearizability.columnar import judge_columns
from checkers.verdict import CheckResult, Status
from porcupine_py.columns import Columns
from porcupine_py.models import model_named
from porcupine_py.search.rules import log
from porcupine_py.search.rules.log import LogColumns

REPEATS = 5
"""After a first time that does not count."""


def save(columns: Columns | LogColumns, path: Path) -> None:
    if isinstance(columns, Columns):
        columns = replace(columns, rest=None)
    with path.open("wb") as out:
        pickle.dump(columns, out, protocol=5)


def _peak_mb() -> int:
    """Peak of this process since it began; `ru_maxrss` would count that of its parent as well."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1]) // 1024


def _log(columns: LogColumns) -> CheckResult:
    """Judge a log as its rule does when the records are decoded, which takes longer than that."""
    verdict = log.judge_columns(columns)
    assert verdict is not None
    right = verdict.kind is None and verdict.order is not None
    return CheckResult(
        "linearizable", Status.PASS if right else Status.FAIL, "", algorithm="log-order"
    )


def main() -> None:
    path, model, limit = sys.argv[1:]
    with Path(path).open("rb") as stored:
        columns = pickle.load(stored)  # written by this benchmark a moment ago

    def judged() -> list[CheckResult]:
        if isinstance(columns, LogColumns):
            return [_log(columns)]
        fresh = replace(columns, _cache={})  # nothing is remembered from the time before
        return judge_columns(
            fresh, model_named(model), time_limit_s=float(limit), certificates=False
        )

    loaded_mb = _peak_mb()
    begun = time.perf_counter()
    judged()  # loads what is needed
    warm_s = time.perf_counter() - begun
    times: list[float] = []
    cpu: list[float] = []
    while len(times) < REPEATS and sum(times) < 3_000:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        results = judged()
        times.append(1e3 * (time.perf_counter() - begun))
        cpu.append(1e3 * (time.process_time() - cpu_begun))
    statuses = Counter(result.status.value for result in results)
    worst = next(s for s in ("FAIL", "UNKNOWN", "PASS") if statuses[s])
    report = {
        "verdict": worst if worst != "UNKNOWN" else "?",
        "times_ms": times,
        "cpu_ms": cpu,
        "peak_mb": _peak_mb(),
        "loaded_mb": loaded_mb,
        "warm_s": warm_s,
        "algorithms": sorted({result.algorithm or "-" for result in results}),
        "summary": next(r.summary for r in results if r.status.value == worst),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()

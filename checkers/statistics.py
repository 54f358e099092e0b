"""Figures of a run for its report: availability, latency, throughput, recovery after faults.

Nothing here judges correctness: the check PASSes when there was at least one `ok` operation.

- availability: `ok` share of the completed operations, over the run and per bucket of time;
- latency: p50, p90, p99 and maximum for each function, of `ok` operations, in milliseconds
  (nearest-rank percentiles);
- the longest unavailability: the longest time without any `ok` completion, from the first
  invocation to the last event of a client;
- recovery: for each injected and each healed fault, the time from its completion to the first `ok`
  completion of an operation with effect (else of any) that was invoked after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.run_input import Cancelled, RunInput, never
from checkers.verdict import CheckResult, Status

NAME = "statistics"
BUCKET_MS = 1000
_BUCKETS_MAX = 100_000
READS = frozenset({"read", "describe", "get", "poll", "poll-all"})
"""Functions without effect: they may be served while writes are not."""
_NS_PER_MS = 1_000_000


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a bucket that is not positive."""
    bucket_ms = options.get("bucket_ms")
    if bucket_ms is not None and bucket_ms <= 0:
        raise ValueError(f"bucket_ms must be above 0, not {bucket_ms}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Return the figures as `statistics`, all plain data."""
    del cancelled
    figures = figures_of(run, int(options.get("bucket_ms") or BUCKET_MS))
    ok = figures["by_type"]["ok"]
    total = len(run.operations)
    share = f"{ok} of {total} operations ok, {figures['throughput_per_s']:.1f} a second"
    return CheckResult(
        NAME,
        Status.PASS if ok else Status.UNDER_EXERCISED,
        share if ok else "no operation was ok",
        operations=total,
        statistics=figures,
    )


def figures_of(run: RunInput, bucket_ms: int = BUCKET_MS) -> dict[str, Any]:
    """Compute all figures of a run."""
    operations = run.operations
    begin_ns, end_ns = _span(run)
    by_type = {t.value: 0 for t in (EventType.OK, EventType.FAIL, EventType.INFO)}
    for operation in operations:
        by_type[operation.type.value] += 1
    duration_s = (end_ns - begin_ns) / 1e9
    errors: dict[str, int] = {}
    for operation in operations:
        if operation.error is not None:
            errors[operation.error] = errors.get(operation.error, 0) + 1
    return {
        "by_type": by_type,
        "duration_s": duration_s,
        "throughput_per_s": by_type["ok"] / duration_s if duration_s else 0.0,
        "availability": by_type["ok"] / len(operations) if operations else 0.0,
        "latency_ms": _latencies(operations),
        "errors": dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))[:20]),
        "longest_unavailability": _longest_gap(operations, begin_ns, end_ns),
        "recoveries": _recoveries(run),
        "bucket_ms": bucket_ms,
        "buckets": _buckets(run, bucket_ms),
    }


def _span(run: RunInput) -> tuple[int, int]:
    """Return the times of the first and the last client event."""
    times = [event.time_ns for event in run.events if event.process != NEMESIS]
    return (times[0], times[-1]) if times else (0, 0)


def _latencies(operations: Sequence[Operation]) -> dict[str, dict[str, float]]:
    by_function: dict[str, list[int]] = {}
    for operation in operations:
        if operation.type is EventType.OK:
            latency_ns = operation.complete_ns - operation.invoke_ns
            by_function.setdefault(operation.f, []).append(latency_ns)
    return {f: _percentiles(sorted(found)) for f, found in sorted(by_function.items())}


def _percentiles(latencies_ns: Sequence[int]) -> dict[str, float]:
    def rank(share: float) -> float:
        return latencies_ns[max(0, math.ceil(share * len(latencies_ns)) - 1)] / _NS_PER_MS

    return {
        "count": len(latencies_ns),
        "p50": rank(0.5),
        "p90": rank(0.9),
        "p99": rank(0.99),
        "max": latencies_ns[-1] / _NS_PER_MS,
    }


def _longest_gap(operations: Sequence[Operation], begin_ns: int, end_ns: int) -> dict[str, Any]:
    done = sorted(o.complete_ns for o in operations if o.type is EventType.OK)
    points = [begin_ns, *done, end_ns]
    from_ns, to_ns = max(pairwise(points), key=lambda gap: gap[1] - gap[0])
    return {"duration_ms": (to_ns - from_ns) / _NS_PER_MS, "from_ns": from_ns, "to_ns": to_ns}


def _recoveries(run: RunInput) -> list[dict[str, Any]]:
    """Return how long it took, after each fault and each heal, until writes were served again."""
    ok = [o for o in run.operations if o.type is EventType.OK]
    writes = [o for o in ok if o.f not in READS] or ok
    writes.sort(key=lambda operation: operation.invoke_ns)
    first_done = _first_completion_from(writes)
    found = []
    for event in run.events:
        phase = _phase(event)
        if phase is None:
            continue
        done_ns = _lookup(first_done, event.time_ns)
        recovery_ms = None if done_ns is None else (done_ns - event.time_ns) / _NS_PER_MS
        found.append(
            {
                "fault": event.f,
                "phase": phase,
                "targets": event.value.get("targets", []),
                "at_ns": event.time_ns,
                "recovery_ms": recovery_ms,
            }
        )
    return found


def _phase(event: Event) -> str | None:
    """Return `inject` or `heal` for the completion of a fault."""
    if event.process != NEMESIS or event.type is EventType.INVOKE:
        return None
    phase = event.value.get("phase") if isinstance(event.value, dict) else None
    return phase if phase in ("inject", "heal") else None


def _first_completion_from(operations: Sequence[Operation]) -> list[tuple[int, int]]:
    """Return (invocation, earliest completion of this or a later invoked one), by invocation."""
    found: list[tuple[int, int]] = []
    earliest_ns: int | None = None
    for operation in reversed(operations):
        complete_ns = operation.complete_ns
        earliest_ns = complete_ns if earliest_ns is None else min(earliest_ns, complete_ns)
        found.append((operation.invoke_ns, earliest_ns))
    found.reverse()
    return found


def _lookup(first_done: Sequence[tuple[int, int]], time_ns: int) -> int | None:
    low, high = 0, len(first_done)
    while low < high:
        middle = (low + high) // 2
        if first_done[middle][0] < time_ns:
            low = middle + 1
        else:
            high = middle
    return first_done[low][1] if low < len(first_done) else None


def _buckets(run: RunInput, bucket_ms: int) -> list[dict[str, Any]]:
    """Count completions by type in each bucket of time, and the latency of `ok` ones in it."""
    done: dict[int, dict[str, list[int]]] = {}
    for operation in run.operations:
        kind = operation.type.value
        # An indeterminate operation counts where it began: it may have no end.
        at_ns = operation.invoke_ns if kind == "info" else operation.complete_ns
        bucket = min(at_ns // (bucket_ms * _NS_PER_MS), _BUCKETS_MAX)
        latency_ns = operation.complete_ns - operation.invoke_ns
        done.setdefault(bucket, {}).setdefault(kind, []).append(latency_ns)
    rows: list[dict[str, Any]] = []
    for bucket in range(max(done, default=-1) + 1):
        kinds = done.get(bucket, {})
        counts = {t: len(kinds.get(t, ())) for t in ("ok", "fail", "info")}
        total = sum(counts.values())
        latencies = sorted(kinds.get("ok", ()))
        figures = _percentiles(latencies) if latencies else {}
        rows.append(
            {
                "from_ms": bucket * bucket_ms,
                **counts,
                "availability": counts["ok"] / total if total else None,
                "p50_ms": figures.get("p50"),
                "p99_ms": figures.get("p99"),
            }
        )
    return rows

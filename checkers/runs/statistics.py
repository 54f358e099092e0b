"""Figures of a run for its report: availability, latency, throughput, recovery after faults.

Nothing here judges correctness: the check PASSes when there was at least one `ok` operation.

- availability: `ok` share of the completed operations;
- latency: p50, p90, p99 and maximum for each function, of `ok` operations, in milliseconds
  (nearest-rank percentiles);
- the longest unavailability: the longest time without any `ok` completion, from the first
  invocation to the last event of a client;
- the longest outage of writes: the longest time before the last heal without any `ok` completion of
  an operation with effect, while clients tried some; reads may have been served all along;
- recovery: for each injected and each healed fault, the time from its completion to the first `ok`
  completion of an operation with effect (else of any) that was invoked after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from checkers.history import INFINITY_NS, Event, EventType, seconds
from checkers.history.recorded import columns_of, ended_ns, span_of, statements
from checkers.run_input import RunInput
from checkers.runs.faults import HEAL, phases
from checkers.verdict import CheckResult, Status
from porcupine_py.columns import KINDS, OK, Columns, Int64s
from porcupine_py.search.outcome import Cancelled, never

NAME = "statistics"
READS = frozenset(
    {
        *("read", "read-all", "read-uncommitted", "describe", "get", "poll", "poll-all"),
        *("consume", "join-all", "abandon", "offsets"),  # of groups
    }
)
"""Functions without effect: they may be served while writes are not."""
_SEND = "send"
_NS_PER_MS = 1_000_000


def writes_in(functions: Iterable[str]) -> list[str]:
    """Return those of a history's functions that have an effect.

    Where records are sent these count alone: a controller that moves a partition's leader, or a
    coordinator that lets a member leave, serves nobody who waits for a partition.
    """
    names = {*functions}
    return [_SEND] if _SEND in names else sorted(names - READS)


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Return the figures as `statistics`, all plain data."""
    del options, cancelled
    figures = figures_of(run)
    ok = figures["by_type"]["ok"]
    total = len(run.operations)
    share = f"{ok} of {total} operations ok, {figures['throughput_per_s']:.1f} a second"
    if outage := figures["longest_write_outage"]:
        since = seconds(outage["from_ns"], 3)
        share += f"; longest time without a write that was ok: {outage['duration_ms'] / 1000:.1f} s"
        share += f" from {since}"
    return CheckResult(
        NAME,
        Status.PASS if ok else Status.UNDER_EXERCISED,
        share if ok else "no operation was ok",
        operations=total,
        statistics=figures,
    )


def figures_of(run: RunInput) -> dict[str, Any]:
    """Compute all figures of a run."""
    operations = columns_of(run.operations)
    begin_ns, end_ns = span_of(run.events)
    counts = np.bincount(operations.type, minlength=len(KINDS)).tolist()
    by_type = {kind.value: count for kind, count in zip(KINDS, counts, strict=True)}
    duration_s = (end_ns - begin_ns) / 1e9
    failed = np.bincount(operations.error, minlength=len(operations.errors)).tolist()
    errors = {e: n for e, n in zip(operations.errors, failed, strict=True) if n and e is not None}
    return {
        "by_type": by_type,
        "duration_s": duration_s,
        "throughput_per_s": by_type["ok"] / duration_s if duration_s else 0.0,
        "availability": by_type["ok"] / len(operations) if operations else 0.0,
        "latency_ms": _latencies(operations),
        "errors": dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))[:20]),
        "longest_unavailability": _longest_gap(operations, begin_ns, end_ns),
        "longest_write_outage": _write_outage(
            operations, ended_ns(run.operations, run.events), run.notes
        ),
        "recoveries": _recoveries(operations, run.notes),
    }


def _latencies(operations: Columns) -> dict[str, dict[str, float]]:
    ok = operations.type == OK
    latency_ns = operations.complete_ns - operations.invoke_ns
    found = {}
    for code in np.unique(operations.f[ok]).tolist():
        mine = np.sort(latency_ns[ok & (operations.f == code)])
        found[operations.functions[code]] = latency_figures(mine)
    return dict(sorted(found.items()))


def latency_figures(latencies_ns: Int64s) -> dict[str, float]:
    """Return count and percentiles, in ms, of sorted latencies, of which there is one at least."""

    def rank(share: float) -> float:
        place = max(0, math.ceil(share * len(latencies_ns)) - 1)
        return int(latencies_ns[place]) / _NS_PER_MS

    return {
        "count": len(latencies_ns),
        "p50": rank(0.5),
        "p90": rank(0.9),
        "p99": rank(0.99),
        "max": rank(1),
    }


def _longest_gap(operations: Columns, begin_ns: int, end_ns: int) -> dict[str, Any]:
    done = np.sort(operations.complete_ns[operations.type == OK])
    points = np.concatenate([[begin_ns], done, [end_ns]]).astype(np.int64)
    widest = int(np.argmax(np.diff(points)))
    from_ns, to_ns = int(points[widest]), int(points[widest + 1])
    return {"duration_ms": (to_ns - from_ns) / _NS_PER_MS, "from_ns": from_ns, "to_ns": to_ns}


def waited_until(invoke_ns: Int64s, ends_ns: Int64s, stop_ns: int, forgiven_ns: int = 0) -> Int64s:
    """Return until when clients waited for each of some operations, but not beyond `stop_ns`.

    `ends_ns`: when each ended, also that of `info`; -1: never. Of each wait the last `forgiven_ns`
    do not count.
    """
    never_ns = invoke_ns if stop_ns == INFINITY_NS else stop_ns
    waited = np.where(ends_ns < 0, never_ns, np.minimum(ends_ns, stop_ns)) - forgiven_ns
    until_ns: Int64s = np.maximum(invoke_ns, waited)
    return until_ns


def _write_outage(
    operations: Columns, ends_ns: Int64s, notes: Sequence[Event]
) -> dict[str, Any] | None:
    """Return the longest time without a write that was ok; None where clients wrote nothing.

    From the invocation of the first write that was not ok in time to the next completion that was,
    or to when clients waited for none any more: while nobody writes, nothing is down.
    """
    heal_ns = next((at_ns for name, at_ns in phases(notes) if name == HEAL), INFINITY_NS)
    writes = operations.calls(*writes_in(operations.functions)) & (operations.invoke_ns < heal_ns)
    invoked = np.sort(operations.invoke_ns[writes])
    if not len(invoked):
        return None
    done = np.sort(operations.complete_ns[writes & (operations.type == OK)])
    last_ns = int(waited_until(operations.invoke_ns[writes], ends_ns[writes], heal_ns).max())
    ends = np.append(done, max([last_ns, *done[-1:].tolist()]))
    # Behind each completion: the next write that was asked for begins what ends with the next one.
    places = np.searchsorted(invoked, np.append(-1, done), side="right")
    tried = places < len(invoked)
    begins = np.where(tried, invoked[np.minimum(places, len(invoked) - 1)], ends)
    widest = int(np.argmax(ends - begins))
    from_ns, to_ns = int(begins[widest]), int(ends[widest])
    return {"duration_ms": (to_ns - from_ns) / _NS_PER_MS, "from_ns": from_ns, "to_ns": to_ns}


def _recoveries(operations: Columns, notes: Sequence[Event]) -> list[dict[str, Any]]:
    """Return how long it took, after each fault and each heal, until writes were served again."""
    ok = operations.type == OK
    writes = ok & operations.calls(*writes_in(operations.functions))
    chosen = writes if writes.any() else ok
    order = np.argsort(operations.invoke_ns[chosen], kind="stable")
    invoked = operations.invoke_ns[chosen][order]
    # Of each: the earliest completion of it or of what was invoked later.
    first_done = np.minimum.accumulate(operations.complete_ns[chosen][order][::-1])[::-1]
    found = []
    for event in statements(notes):
        phase = event.value.get("phase")
        if phase not in ("inject", "heal") or event.type is EventType.INVOKE:
            continue
        place = int(np.searchsorted(invoked, event.time_ns))
        served = place < len(invoked)
        recovery_ms = (int(first_done[place]) - event.time_ns) / _NS_PER_MS if served else None
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

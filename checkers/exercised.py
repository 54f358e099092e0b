"""Tell whether enough was tried for a PASS to mean anything.

Compares what the plan expected (`expectations`) with what the journal says happened:

- `min_operations`: at least as many `ok` operations of clients (one, where the plan is silent);
- `faults`: each named fault was injected at least once and verified to bite;
- `leader_changes`: at least as often another node was seen to lead than before.

`skipped` names faults that the user had wanted and that could not work there, `nothing_left` says
that these were all: then nothing that was asked for has been tried.

Short of any of these: UNDER-EXERCISED, naming each. It never FAILs: nothing wrong was seen.

`statistics` hold how much was tried, for whoever decides on a PASS (results/gate.py):

| key | meaning |
|---|---|
| `ok`, `reads`, `writes` | operations of clients that were ok; `checkers.statistics.READS` read |
| `faults_planned` | kinds of fault that had to bite, sorted |
| `faults_tried`, `faults_verified` | kind -> injections that completed, and that bit |
| `leader_changes` | how often another node was seen to lead than before |
| `without_faults` | true when no fault bit, so also where none was planned |
| `skipped` | kinds that were left out as impossible |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from checkers.history import NEMESIS, Event, EventType
from checkers.run_input import Cancelled, RunInput, never
from checkers.statistics import READS
from checkers.verdict import CheckResult, Status

NAME = "exercised"
KNOWN = ("min_operations", "faults", "leader_changes")


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError when an expectation is unknown or an option is not of its type."""
    skipped = options.get("skipped", [])
    if not isinstance(skipped, list) or not all(isinstance(fault, str) for fault in skipped):
        raise ValueError(f"option 'skipped' cannot be {skipped!r}")
    expectations = options.get("expectations") or {}
    for name, value in expectations.items():
        if name not in KNOWN:
            raise ValueError(f"unknown expectation {name!r}; known: {', '.join(KNOWN)}")
        if name == "faults":
            good = isinstance(value, list) and all(isinstance(fault, str) for fault in value)
        else:
            good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not good:
            raise ValueError(f"expectation {name!r} cannot be {value!r}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Compare the journal with the option `expectations`."""
    del cancelled
    expectations = options.get("expectations") or {}
    done = [operation for operation in run.operations if operation.type is EventType.OK]
    ok, reads = len(done), sum(operation.f in READS for operation in done)
    wanted = max(1, int(expectations.get("min_operations", 1)))
    verified, tried = _injections(run.events)
    changes = _leader_changes(run.events)
    wanted_changes = int(expectations.get("leader_changes", 0))
    anomalies: list[dict[str, Any]] = []
    if ok < wanted:
        told = f"{ok} operations were ok, {wanted} were expected"
        anomalies.append({"kind": "too-few-operations", "explanation": told})
    planned = sorted(set(expectations.get("faults", [])))
    for fault in planned:
        if not verified[fault]:
            told = f"the fault {fault!r} never bit: injected {tried[fault]} times, verified never"
            anomalies.append({"kind": "fault-did-not-bite", "explanation": told, "fault": fault})
    if changes < wanted_changes:
        told = f"the leader changed {changes} times, {wanted_changes} were expected"
        anomalies.append({"kind": "too-few-leader-changes", "explanation": told})
    skipped = [str(fault) for fault in options.get("skipped", [])]
    if skipped and options.get("nothing_left"):
        told = f"every fault that was asked for was skipped: {', '.join(skipped)}"
        anomalies.append({"kind": "nothing-left", "explanation": told})
    faults = ", ".join(f"{fault} {count}" for fault, count in sorted(verified.items()))
    good = f"{ok} operations ok, faults that bit: {faults or 'none'}, {changes} leader changes"
    if skipped:
        good += f"; SKIPPED as impossible there: {', '.join(skipped)}"
    return CheckResult(
        NAME,
        Status.UNDER_EXERCISED if anomalies else Status.PASS,
        "; ".join(str(anomaly["explanation"]) for anomaly in anomalies) or good,
        operations=len(run.operations),
        anomalies=tuple(anomalies),
        statistics={
            "ok": ok,
            "reads": reads,
            "writes": ok - reads,
            "faults_planned": planned,
            "faults_verified": dict(sorted(verified.items())),
            "faults_tried": dict(sorted(tried.items())),
            "leader_changes": changes,
            "without_faults": not verified,
            "skipped": skipped,
        },
    )


def _injections(events: Sequence[Event]) -> tuple[Counter[str], Counter[str]]:
    """Count the injections of each fault: (verified to bite, all that completed).

    One that was found at its heal to have ended by itself did not bite.
    """
    verified: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    entries: set[object] = set()
    for event in events:
        if event.process != NEMESIS or event.type is EventType.INVOKE:
            continue
        value = event.value if isinstance(event.value, dict) else {}
        if value.get("phase") == "inject":
            tried[event.f] += 1
            bit = event.type is EventType.OK and value.get("verified") is True
            verified[event.f] += bit
            if bit:
                entries.add(value.get("entry"))
        elif value.get("phase") == "heal" and _ended_early(value) and value.get("entry") in entries:
            verified[event.f] -= 1
            entries.discard(value.get("entry"))
    return verified + Counter(), tried


def _ended_early(value: Mapping[str, Any]) -> bool:
    detail = value.get("detail")
    return isinstance(detail, dict) and bool(detail.get("ended_early"))


def _leader_changes(events: Sequence[Event]) -> int:
    leaders = [
        event.value.get("leader")
        for event in events
        if event.process == NEMESIS and event.f == "leader" and isinstance(event.value, dict)
    ]
    return sum(before != after for before, after in pairwise(leaders))

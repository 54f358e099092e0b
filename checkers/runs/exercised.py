"""Whether enough was tried for a PASS to mean anything: else UNDER-EXERCISED, naming what lacks.

What must have been tried is what the plan expects, and never less than the *floor*, which nothing
removes: no option, no `expectations` of a plan, no plan that leaves this check out (`options_of`,
which every judgement of a stored run applies to its plan). docs/checkers.md#exercised-statistics
has the floor, and why 50: the "rule of three" (Hanley and Lippman-Hand, JAMA 1983). A tenth of the
planned rate is asked for because a quorum that serves less has been down for nearly all of the run,
or the machine was too slow to run it.

A leader change is an election after the first one and after the first fault began: a leader of a
later epoch was seen, and each epoch begins with a LeaderChangeMessage (KIP-595). The same node may
win it. Without faults all elections but the first count. A stored plan with `leaderless` is of a
system in which no node leads: no change is expected.

Options: `expectations` (`min_operations`, `faults`, `leader_changes`: more than the floor);
`skipped` names faults that the user had wanted and that could not work there; `nothing_left` says
that these were all: then nothing that was asked for has been tried.

`statistics` hold how much was tried, for the decision on a PASS (results/gate/policy_gate.py):

| key | meaning |
|---|---|
| `ok`, `reads`, `writes` | operations of clients that were ok; `runs.statistics.READS` read |
| `faults_planned` | kinds of fault that had to bite, sorted |
| `faults_tried`, `faults_verified` | kind -> injections that completed, and that bit |
| `leader_changes` | how often a leader of a later epoch was seen, once a fault had begun |
| `without_faults` | true when no fault bit, so also where none was planned |
| `names` | where disks say it: the model of losses of power (`with-file`, `posix`) |
| `steps` | scripted: that never came (`wanted`, `others`), or without their condition (`unmet`) |
| `skipped` | kinds that were left out as impossible |
| `needed` | what had to be: `ok`, `reads`, `writes`, `leader_changes` |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.history.recorded import Recorded, failures, statements, tally
from checkers.run_input import RunInput
from checkers.runs.faults import HEAL, began_ns, fault_spans, phases
from checkers.runs.statistics import READS
from checkers.verdict import CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "exercised"
OUTAGE = "write_outage_max_s"
"""How long writes may fail while most nodes are whole (`checkers.earned.outages`)."""
KNOWN = ("min_operations", "faults", "leader_changes", OUTAGE)

OPERATIONS_MIN = 50
READS_MIN = 10
WRITES_MIN = 10
SHARE_MIN = 0.1
"""See the module."""

MISSING = "missing"
"""Note of a timed fault or a step, with `place` and `kind`, that never came till the faults ended,
or, with `until`, acted without that condition. `wanted`: the plan asks for what it does."""
VERBS = frozenset({"wait", "cast", "op", "expect", "heal", "release"})
"""Steps of strands that are no faults."""
DOWN = frozenset({"kill", "stop", "power-loss", "torn-write", "pause"})
"""Faults whose targets are dead, or stopped, from when that was measured until the heal begins."""
DEPOSING = DOWN | {
    *("restart", "upgrade", "address-change", "role-change", "partition", "resign", "voters"),
    *("disk-error", "bit-flip", "truncate-file", "disk-wipe"),
    "log-dir-loss",  # its heal starts the node anew
}
"""Faults that end, stop, cut off or dismiss the node that they hit.
Not those that only slow it down: whether a leader survives these is a matter of degree."""
_KEEPS_LEADER = frozenset({"follower", "followers", "bridge", "majorities-ring"})
"""Targets and shapes that leave the leader alone, or with a majority."""
_KEEPS_LEADER_ONE_WAY = frozenset({"random", "leader-to-follower"})
_NUMBER_MAX = 1e12
_ERRORS_SHOWN = 3


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError when an expectation is unknown or an option is not of its type."""
    skipped = options.get("skipped", [])
    if not isinstance(skipped, list) or not all(isinstance(fault, str) for fault in skipped):
        raise ValueError(f"option 'skipped' cannot be {skipped!r}")
    expectations = options.get("expectations") or {}
    if not isinstance(expectations, Mapping):
        raise ValueError(f"expectations cannot be {expectations!r}")  # noqa: TRY004  (of a file)
    for name, value in expectations.items():
        if name not in KNOWN:
            raise ValueError(f"unknown expectation {name!r}; known: {', '.join(KNOWN)}")
        if name == OUTAGE:
            good = _is_number(value) and 0 < value <= _NUMBER_MAX
        elif name == "faults":
            good = isinstance(value, list) and all(isinstance(fault, str) for fault in value)
        else:
            good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not good:
            raise ValueError(f"expectation {name!r} cannot be {value!r}")


def options_of(plan: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options for a run of a plan: what it expects, and never less than the floor.

    `own` are the options that the plan gives this check, if it does. Raises ValueError when a field
    of the plan that counts here is not of its type.
    """
    given = [plan.get("expectations") or {}, (own or {}).get("expectations") or {}]
    for expectations in given:
        validate({"expectations": expectations})
    planned = planned_faults(plan)
    skipped = [row.get("fault") for row in _rows(plan, "skipped")]
    _number(plan, "operation_timeout_ms")  # of which `checkers.earned.outages` makes ns
    possible = _number(plan, "rate_per_s") * _number(plan, "duration_s")
    least: dict[str, Any] = {
        "min_operations": max(OPERATIONS_MIN, math.floor(possible * SHARE_MIN)),
        "faults": list(planned),
        "leader_changes": int(can_depose(plan) and plan.get("leaderless") is not True),
    }
    faults = (fault for expected in (least, *given) for fault in expected.get("faults", []))
    options: dict[str, Any] = {
        "expectations": {
            "min_operations": max(
                expected.get("min_operations", 0) for expected in (least, *given)
            ),
            "faults": list(dict.fromkeys(faults)),
            "leader_changes": max(
                expected.get("leader_changes", 0) for expected in (least, *given)
            ),
        }
    }
    if bounds := [expected[OUTAGE] for expected in given if OUTAGE in expected]:
        options["expectations"][OUTAGE] = min(bounds)
    if skipped:
        options["skipped"] = [str(fault) for fault in skipped]
        options["nothing_left"] = not planned
    return options


def planned_faults(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of fault that a plan names or schedules, in order."""
    faults = plan.get("faults") or []
    if not isinstance(faults, list) or not all(isinstance(fault, str) for fault in faults):
        raise ValueError("faults must be a list of names")
    return tuple(dict.fromkeys([*faults, *(str(entry["fault"]) for entry in _entries(plan))]))


def _entries(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return each fault of a schedule as {"fault", "parameters"}, also those of strands."""
    for row in _rows(plan, "schedule"):
        if "fault" in row:
            parameters = row.get("parameters") or {}
            if not isinstance(parameters, Mapping):
                raise ValueError("schedule: parameters must be a table")
            yield {"fault": _name(row, "fault"), "parameters": parameters}
        for step in _rows(row, "steps"):
            if _name(step, "kind") not in VERBS:
                yield {"fault": _name(step, "kind"), "parameters": step}


def can_depose(plan: Mapping[str, Any]) -> bool:
    """Return whether a fault of a plan can take the lead from a node, and give it to another."""
    if _number(plan, "nodes") < 2:
        return False
    entries = list(_entries(plan))
    scheduled = {entry["fault"] for entry in entries}
    if any(kind in DEPOSING for kind in planned_faults(plan) if kind not in scheduled):
        return True
    return any(_can_depose(entry) for entry in entries)


def _can_depose(entry: Mapping[str, Any]) -> bool:
    parameters = entry["parameters"]
    aim = _name(parameters, "targets") or _name(parameters, "shape")
    if aim == "one-way" and (_name(parameters, "direction") or "random") in _KEEPS_LEADER_ONE_WAY:
        return False
    return entry["fault"] in DEPOSING and aim not in _KEEPS_LEADER


def _name(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"schedule: {key} must be a name, not {value!r}")
    return value


def _number(plan: Mapping[str, Any], key: str) -> float:
    value = plan.get(key, 0)
    if not _is_number(value) or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"{key} must be a number from 0 to {_NUMBER_MAX:g}")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rows(plan: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = plan.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"{key} must be a list of tables")
    return rows


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Compare the journal with the option `expectations` and with what any run must have tried."""
    del cancelled
    tried = _count_tries(run, options)
    anomalies = shortfalls(tried)
    skipped = tried["skipped"]
    if skipped and options.get("nothing_left"):
        explanation = f"every fault that was asked for was skipped: {', '.join(skipped)}"
        anomalies.append(anomaly("nothing-left", explanation))
    return CheckResult(
        NAME,
        Status.UNDER_EXERCISED if anomalies else Status.PASS,
        "; ".join(str(anomaly["explanation"]) for anomaly in anomalies) + _errors(run, anomalies)
        if anomalies
        else _summary(tried),
        operations=len(run.operations),
        anomalies=tuple(anomalies),
        statistics=tried,
    )


def _errors(run: RunInput, anomalies: Sequence[Mapping[str, Any]]) -> str:
    """Say what clients met most often where too little was ok: it may be their own mistake."""
    if not any(str(anomaly["kind"]).startswith("too-few-o") for anomaly in anomalies):
        return ""
    errors = Counter(event.error for event in failures(run.events, "") if event.process != NEMESIS)
    commonest = ", ".join(
        f"{error} ({count})" for error, count in errors.most_common(_ERRORS_SHOWN)
    )
    return f"; the commonest errors of clients: {commonest}" if commonest else ""


def _count_tries(run: RunInput, options: Mapping[str, Any]) -> dict[str, Any]:
    expectations = options.get("expectations") or {}
    counts = tally(before_heal(run))
    done = sum(count for (_, kind), count in counts.items() if kind is EventType.OK)
    reads = sum(counts[f, EventType.OK] for f in READS)
    has_reads = any(f in READS for f, _ in counts)
    spans = fault_spans(run.notes)
    tried = Counter(span.fault for span in spans)
    verified = Counter(s.fault for s in spans if s.verified and not s.ended_early)
    return {
        "ok": done,
        "reads": reads,
        "writes": done - reads,
        "faults_planned": sorted(set(expectations.get("faults", []))),
        "faults_tried": dict(sorted(tried.items())),
        "faults_verified": dict(sorted(verified.items())),
        "leader_changes": _leader_changes(run.notes),
        "without_faults": not verified,
        **({"names": sorted(names)} if (names := _names(run.notes)) else {}),
        **({"steps": steps} if (steps := _missing_steps(run.notes)) else {}),
        "skipped": [str(fault) for fault in options.get("skipped", [])],
        "needed": {
            "ok": max(OPERATIONS_MIN, int(expectations.get("min_operations", 0))),
            "reads": READS_MIN if has_reads else 0,
            "writes": WRITES_MIN,
            "leader_changes": int(expectations.get("leader_changes", 0)),
        },
    }


def before_heal(run: RunInput) -> Sequence[Operation]:
    """Return the operations that were invoked among faults; all without a mark of the heal.

    What a workload does first, and what it does last, is no load.
    """
    begun = dict(reversed(phases(run.notes)))
    if HEAL not in begun:
        return run.operations
    from_ns, to_ns = begun.get("faults", 0), begun[HEAL]
    if isinstance(run.operations, Recorded):
        invoke_ns = run.operations.columns.invoke_ns
        return run.operations.where((from_ns <= invoke_ns) & (invoke_ns < to_ns))
    return [operation for operation in run.operations if from_ns <= operation.invoke_ns < to_ns]


def shortfalls(tried: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an anomaly for each thing that was tried too little, by this check's `statistics`."""
    found: list[dict[str, Any]] = []
    needed = tried["needed"]
    for key, kind, text in (
        ("ok", "too-few-operations", "{} operations were ok"),
        ("reads", "too-few-reads", "{} reads were ok"),
        ("writes", "too-few-writes", "{} writes were ok"),
        ("leader_changes", "too-few-leader-changes", "the leader changed {} times"),
    ):
        if tried[key] < needed[key]:
            explanation = f"{text.format(tried[key])}, {needed[key]} were expected"
            found.append(anomaly(kind, explanation))
    for fault in tried["faults_planned"]:
        if not tried["faults_verified"].get(fault):
            times = tried["faults_tried"].get(fault, 0)
            explanation = f"the fault {fault!r} never bit: injected {times} times, verified never"
            found.append(anomaly("fault-did-not-bite", explanation, fault=fault))
    never = tried.get("steps", {}).get("wanted", ())
    said = (f"{step} never came before the faults ended" for step in never)
    return [*found, *(anomaly("step-never-came", explanation) for explanation in said)]


def total(many: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the `statistics` of many runs, what was tried in them and what was needed.

    Held against `shortfalls`, they show whether the mean run was tried enough, and whether each
    planned kind of fault bit, and each step that is wanted came, in one of them.
    """
    rows = list(many)
    counts = ("ok", "reads", "writes", "leader_changes")
    verified, tried = (
        sum((Counter(row[key]) for row in rows), Counter())
        for key in ("faults_verified", "faults_tried")
    )
    steps = [{*row.get("steps", {}).get("wanted", ())} for row in rows]
    never = set[str]().union(*steps).intersection(*steps)
    return {
        **{key: sum(row[key] for row in rows) for key in counts},
        **({"steps": {"wanted": sorted(never)}} if never else {}),
        "faults_planned": sorted({fault for row in rows for fault in row["faults_planned"]}),
        "faults_tried": dict(sorted(tried.items())),
        "faults_verified": dict(sorted(verified.items())),
        "without_faults": not verified,
        "skipped": sorted({fault for row in rows for fault in row["skipped"]}),
        "needed": {key: sum(row["needed"][key] for row in rows) for key in counts},
    }


def _summary(tried: Mapping[str, Any]) -> str:
    faults = ", ".join(f"{fault} {count}" for fault, count in tried["faults_verified"].items())
    in_order = "with-file" in tried.get("names", ())
    changes = tried["leader_changes"]
    plural = "s" * (changes != 1)
    kept = ", which kept sectors whole and names with their files" * in_order
    summary = (
        f"{tried['ok']} operations ok ({tried['reads']} reads, {tried['writes']} writes), "
        f"faults that bit: {faults or 'none'}{kept}, {changes} leader change{plural}"
    )
    skipped = ", ".join(tried["skipped"])
    summary += f"; SKIPPED as impossible there: {skipped}" if skipped else ""
    steps = tried.get("steps", {})
    for how, what in (("others", "never came"), ("unmet", "acted without their condition")):
        if found := steps.get(how):
            summary += f"; steps that {what}: {len(found)}, first {found[0]}"
    return summary


def _missing_steps(events: Sequence[Event]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in statements(events, MISSING):
        value = event.value
        how = "unmet" if "until" in value else "wanted" if value.get("wanted") else "others"
        found.setdefault(how, []).append(f"{value.get('place')} ({value.get('kind')})")
    return found


def _names(events: Sequence[Event]) -> set[str]:
    """Return the models of losses of power (`cluster.systems.base.Names`)."""
    seen = set()
    for event in statements(events):
        detail = event.value.get("detail")
        nodes = detail.get("nodes") if isinstance(detail, dict) else None
        for found in nodes.values() if isinstance(nodes, dict) else ():
            lost = found.get("lost") if isinstance(found, dict) else None
            if isinstance(lost, dict) and isinstance(lost.get("names"), str):
                seen.add(lost["names"])
    return seen


def _leader_changes(events: Sequence[Event]) -> int:
    """Count epochs first seen with a leader once a fault had begun; without faults, all but one."""
    notes = list(statements(events))
    injections = [note for note in notes if note.value.get("phase") == "inject"]
    first_ns = min(map(began_ns, injections), default=math.inf)
    epochs: dict[object, bool] = {}
    begun = False
    for note in notes:
        begun = begun or note.time_ns > first_ns or note.value.get("phase") == "inject"
        if note.f == "leader":
            epochs.setdefault(note.value.get("epoch"), begun)
    if not injections or all(epochs.values()):
        return max(0, len(epochs) - 1)
    return sum(epochs.values())

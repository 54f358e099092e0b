"""Upgrades: levels of features in the log were asked for, and are supported by all nodes.

From the log of the quorum, and from what the nemesis journaled of its faults `finalize` (answers of
leaders to UpdateFeatures) and `upgrade` (what the processes printed):

- `refused-change-made`: a level that was asked for, and refused each time, is in the log.
- `level-lost`: a level whose change was acknowledged is not in the log, or a log lacks its
  record and has later ones in common with a log that holds it. kraft.version is in the log where
  raft's control record is (KIP-853): Kafka 4.0 acknowledges a FeatureLevelRecord of that name, and
  skips it when it is replayed (KAFKA-18979; since 4.1 the change goes to raft, KAFKA-16538).
- `above-support`: a level is in force beyond what a registered broker or controller supports. A
  controller decides about levels and registrations one after the other, and knows all that is in
  the log before: it refuses the later one of the two that do not fit. So it is the log's order that
  counts, and it is never the network that explains it. A node that is made a release which does
  not support what is finalized registers nothing: it ends, and `log-agreement` counts its end.

Doubts: an upgrade after which the node printed another release, or none until the run ended; a
broker that was fenced for no reason (`checkers.nodes.fences`).
UNDER-EXERCISED: fewer of the plan's upgrades and finalizations took effect than it has. A level
that was final already is no effect where a node got a new release later: nobody asked for that.

Check `records` judges, of all runs, that no level goes back (`setbacks`). Cannot see: what a node
supports that never registered; levels that a snapshot replaced, where the log begins above 0.
Complexity: O(records x nodes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from checkers.evidence import Evidence, LogRecord
from checkers.evidence.evidence_result import evidence_result, without_log
from checkers.evidence.trace_fields import LEADER_CHANGE
from checkers.history import Event, EventType, seconds
from checkers.history.recorded import statements
from checkers.nodes import fences
from checkers.nodes.in_sync import newest_records
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME: Final = "upgrade"
UPGRADE, FINALIZE = "upgrade", "finalize"
KRAFT: Final = "kraft.version"
SETBACK: Final = "level-went-back"
_ACCEPTED: Final = "none"
_REFUSALS: Final = frozenset(
    {"invalid_update_version", "feature_update_failed", "invalid_request", "unsupported_version"}
)
_DOWNGRADES: Final = frozenset({"safe-downgrade", "unsafe-downgrade"})
_REGISTRATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "RegisterBrokerRecord": ("brokerId", "broker"),
    "RegisterControllerRecord": ("controllerId", "controller"),
}
_REMOVALS: Final[Mapping[str, tuple[str, str]]] = {
    "UnregisterBrokerRecord": ("brokerId", "broker"),
    "UnregisterControllerRecord": ("controllerId", "controller"),
}


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the newest log by what was asked for; `steps`: how many of each fault the plan has."""
    evidence = run.required_evidence
    missing = without_log(evidence)
    log = newest_records(evidence)
    asked = _requests(run.notes)
    changes = list(_changes(log))
    anomalies = list(_refusals_made(changes, asked))
    lost = list(_losses(changes, asked)) if log and log[0].offset == 0 else []
    lost += _gaps(evidence)
    sure = run.extent.finished and not missing
    upgrades = _injections(run.notes, UPGRADE)
    doubts = [] if sure else lost
    if not run.extent.finished:  # it says nothing of the change that it was just asking for
        doubts = [*(found for found in anomalies if found["feature"] != KRAFT), *doubts]
        anomalies = [found for found in anomalies if found["feature"] == KRAFT]
    anomalies += _above_support(log)
    doubts += _other_releases(upgrades, evidence)
    doubts += fences.fence_doubts(run, evidence, log, options.get("session_ms", fences.SESSION_MS))
    steps = options.get("steps") or {}
    asked_in_time = [note for note in asked if not _is_early(note, upgrades)]
    short = _shortfall(steps, {UPGRADE: upgrades, FINALIZE: asked_in_time})
    result = evidence_result(
        NAME,
        [*anomalies, *(lost if sure else ())],
        missing=missing,
        doubts=[],
        cancelled=cancelled(),
        exercised=True,
        good=f"{len(changes)} levels fit what was asked for and what {_nodes(log)} nodes support",
        looked_at=len(changes),
        statistics={"levels": _now(changes), "upgrades": len(upgrades), "asked": len(asked)},
    )
    if result.status is Status.PASS and (doubts or short):
        status = Status.UNKNOWN if doubts else Status.UNDER_EXERCISED
        said = str(doubts[0]["explanation"]) if doubts else short
        return replace(result, status=status, summary=said, anomalies=tuple(doubts))
    return result


def _injections(notes: Sequence[Event], fault: str) -> list[Event]:
    """Return the completed injections of a fault that acted."""
    return [
        note
        for note in statements(notes, fault)
        if note.type is not EventType.INVOKE
        and note.value.get("phase") == "inject"
        and isinstance(note.value.get("detail"), dict)
        and (note.value["detail"].get("answers") or note.value["detail"].get("to"))
    ]


def _requests(notes: Sequence[Event]) -> list[Event]:
    return [note for note in _injections(notes, FINALIZE) if _level(note) is not None]


def _level(note: Event) -> tuple[str, int] | None:
    detail = note.value["detail"]
    feature, level = detail.get("feature"), detail.get("level")
    return (feature, level) if isinstance(feature, str) and type(level) is int else None


def _before(note: Event) -> object:
    """Return the level that the leader showed before it was asked; 0: none."""
    return note.value["detail"].get("before")


def _is_same(note: Event) -> bool:
    return bool(_before(note) == note.value["detail"].get("level"))


def _answers(note: Event) -> list[str]:
    answers = note.value["detail"].get("answers")
    return [str(answer) for answer in answers] if isinstance(answers, list) else []


def _is_refused(note: Event) -> bool:
    return set(_answers(note)) <= _REFUSALS


def _changes(log: Sequence[LogRecord]) -> Iterator[tuple[LogRecord, str, int]]:
    """Yield each record of a level, the feature and the level."""
    for record in log:
        level: object = None
        name: object = KRAFT
        if record.kind == "FeatureLevelRecord" and record.value.get("name") != KRAFT:
            name, level = record.value.get("name"), record.value.get("featureLevel")
        elif record.kind == "control:KRAFT_VERSION":
            level = record.value.get("kraftVersion")
        if isinstance(name, str) and type(level) is int:
            yield record, name, level


Changes = Sequence[tuple[LogRecord, str, int]]


def _now(changes: Changes) -> dict[str, int]:
    return {name: level for _, name, level in changes}


def setbacks(log: Sequence[LogRecord], notes: Sequence[Event]) -> Iterator[Anomaly]:
    """Find levels below those before, though nobody asked for that, or no leader accepted it.

    kraft.version never goes back.
    """
    changes = list(_changes(log))
    lowered = Counter[tuple[str, int] | None]()
    """How often a level may have been gone back to: once for each request that was not refused."""
    for note in _requests(notes):
        if note.value["detail"].get("change") in _DOWNGRADES:
            lowered[_level(note)] += sum(answer not in _REFUSALS for answer in _answers(note))
    for feature in sorted(_now(changes)):
        own = [(record, level) for record, name, level in changes if name == feature]
        for (_, before), (record, level) in pairwise(own):
            if level >= before:
                continue
            lowered[feature, level] -= 1
            if feature == KRAFT or lowered[feature, level] < 0:
                text = (
                    f"{feature} went back from {before} to {level} at {_place(record)}, and no "
                    "downgrade to it was accepted"
                )
                yield anomaly(SETBACK, text, feature=feature, offset=record.offset)


def _refusals_made(changes: Changes, asked: Sequence[Event]) -> Iterator[Anomaly]:
    allowed = {_level(note) for note in asked if not _is_refused(note)}
    before: dict[str, int] = {}
    made = []
    for record, feature, level in changes:
        if before.get(feature) != level:
            made.append((record, feature, level, feature not in before))
        before[feature] = level
    off = {feature for _, feature, level in changes if level == 0}
    for note in asked:
        wanted = _level(note)
        if not _is_refused(note) or wanted in allowed:
            continue
        # A feature that had no level when it was asked for has none of the first records either.
        was_absent = _before(note) == 0 and not off.intersection(wanted or ())
        for record, feature, level, is_first in made:
            if (feature, level) == wanted and (was_absent or not is_first):
                text = (
                    f"{feature} {level} was refused ({_answers(note)[-1]}) at "
                    f"{seconds(note.time_ns)}, and is in the log at {_place(record)}"
                )
                yield anomaly("refused-change-made", text, feature=feature, offset=record.offset)


def _losses(changes: Changes, asked: Sequence[Event]) -> Iterator[Anomaly]:
    held = {(feature, level) for _, feature, level in changes}
    for note in asked:
        wanted = _level(note)
        if wanted is None or (_is_same(note) and (wanted[0] == KRAFT or wanted[1] == 0)):
            # No change: a quorum that begins with voters has it in its first snapshot, and a
            # feature without a record is at level 0.
            continue
        if _answers(note)[-1:] == [_ACCEPTED] and wanted not in held:
            text = (
                f"{wanted[0]} {wanted[1]} was acknowledged by {seconds(note.time_ns)}, and "
                f"no {'control ' if wanted[0] == KRAFT else ''}record of the log holds it"
            )
            yield anomaly("level-lost", text, feature=wanted[0])


def _gaps(evidence: Evidence) -> Iterator[Anomaly]:
    """Find logs that lack a level's record which another has, though both have a later one.

    By Log Matching they are the same up to what both have. Without that the level may have been the
    end of a log that was cut.
    """
    places = {node: {(r.epoch, r.offset) for r in log} for node, log in evidence.logs.items()}
    levels = {node: list(_changes(log)) for node, log in evidence.logs.items()}
    for node, log in evidence.logs.items():
        held = {(record.epoch, record.offset) for record, _, _ in levels[node]}
        for other in sorted(evidence.logs.keys() - {node}):
            end = max((offset for _, offset in places[node] & places[other]), default=-1)
            for record, feature, level in levels[other]:
                place = (record.epoch, record.offset)
                if place not in held and record.offset < end and log[0].offset <= record.offset:
                    text = (
                        f"the log of {node} lacks {feature} {level}, which {other} has at "
                        f"{_place(record)}"
                    )
                    yield anomaly(
                        "level-lost", text, feature=feature, node=node, offset=record.offset
                    )


def _above_support(log: Sequence[LogRecord]) -> Iterator[Anomaly]:
    """Find levels in force that a registered node does not support, when either comes.

    A feature that a registration does not name is one of which the node supports level 0 alone
    (Kafka's `QuorumFeatures.DISABLED`).
    """
    levels: dict[str, int] = {}
    supports: dict[tuple[str, int], dict[str, int]] = {}
    for record in log:
        if record.kind == "FeatureLevelRecord":
            name, level = record.value.get("name"), record.value.get("featureLevel")
            if not isinstance(name, str) or type(level) is not int or name == KRAFT:
                continue
            levels[name] = level
            for node, most in supports.items():
                found = _beyond(record, node, name, level, most)
                yield from (each for each in found if not _speaks_later(log, record, node))
        elif (of := _REGISTRATIONS.get(record.kind)) is not None:
            node = (of[1], int(record.value.get(of[0], -1)))
            if not isinstance(record.value.get("features"), list):
                continue
            supports[node] = _most(record.value["features"])
            for name, level in levels.items():
                yield from _beyond(record, node, name, level, supports[node])
        elif (of := _REMOVALS.get(record.kind)) is not None:
            supports.pop((of[1], int(record.value.get(of[0], -1))), None)


def _speaks_later(log: Sequence[LogRecord], record: LogRecord, node: tuple[str, int]) -> bool:
    """Whether a node is the controller that wrote a record, and registers behind it.

    Such a one goes by what it supports itself, of which the log may not say yet.
    """
    leads = any(
        ("controller", each.value.get("leaderId")) == node
        for each in log
        if each.kind == LEADER_CHANGE and each.epoch == record.epoch
    )
    return leads and any(
        ("controller", each.value.get("controllerId")) == node and each.offset > record.offset
        for each in log
        if each.kind == "RegisterControllerRecord" and isinstance(each.value.get("features"), list)
    )


def _most(features: Sequence[object]) -> dict[str, int]:
    """Return the highest level of each feature that a registration says."""
    return {
        str(row.get("name")): row["maxSupportedVersion"]
        for row in features
        if isinstance(row, dict) and type(row.get("maxSupportedVersion")) is int
    }


def _beyond(
    record: LogRecord, node: tuple[str, int], name: str, level: int, most: Mapping[str, int]
) -> Iterator[Anomaly]:
    role, number = node
    if level <= most.get(name, 0):
        return
    supported = f"supports {most[name]} at most" if name in most else "does not support it"
    text = f"{name} is {level} at {_place(record)}, and {role} n{number} {supported}"
    yield anomaly("above-support", text, feature=name, node=f"n{number}", offset=record.offset)


def _place(record: LogRecord) -> str:
    return f"offset {record.offset} of epoch {record.epoch}"


def _nodes(log: Sequence[LogRecord]) -> int:
    return len({r.value.get("brokerId") for r in log if r.kind == "RegisterBrokerRecord"})


def _other_releases(upgrades: Sequence[Event], evidence: Evidence) -> Iterator[Anomaly]:
    """Find upgrades that did not take effect: what a node printed later counts as well."""
    for note in upgrades:
        if note.value.get("verified") is True:
            continue
        for node, wanted in note.value["detail"]["to"].items():
            if wanted not in _printed_behind(note, node, evidence):
                said = note.value["detail"].get("reason") or "it was not measured"
                yield anomaly(
                    "not-upgraded",
                    f"{node} should have become {wanted} by {seconds(note.time_ns)}: {said}",
                    node=node,
                )


def _printed_behind(note: Event, node: str, evidence: Evidence) -> set[str]:
    """Return what processes of a node printed after an upgrade was journaled."""
    return {
        f"{event.fields.get('version')}, commit {event.fields.get('commit')}"
        for event in evidence.traces.get(node, ())
        if event.event == "release" and (evidence.run_ns(event) or 0) > note.time_ns
    }


def _is_early(note: Event, upgrades: Sequence[Event]) -> bool:
    """Whether a level was final already, and a node was made a release later that it never ran."""
    ran = {
        release
        for upgrade in upgrades
        if upgrade.time_ns < note.time_ns
        for release in upgrade.value["detail"].get("from", {}).values()
    }
    return _is_same(note) and any(
        note.time_ns < upgrade.time_ns
        and not ran.issuperset(upgrade.value["detail"]["to"].values())
        for upgrade in upgrades
    )


def _shortfall(steps: Mapping[str, Any], tried: Mapping[str, Sequence[Event]]) -> str:
    for fault, notes in tried.items():
        wanted = steps.get(fault, 0)
        worked = sum(note.value.get("verified") is True for note in notes)
        if worked < wanted:
            return f"{worked} of {wanted} steps of fault {fault} took effect"
    return ""

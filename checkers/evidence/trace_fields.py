"""Sort out evidence that is not what `docs/evidence.md` says, before any rule reads it.

A trace line, a quorum-state file or a LeaderChange record that lacks a field, or has one of another
type, cannot be judged, nor can a record that the harness does not know, as of a later release. It
is left out and described in a sentence; the check that needed it ends in UNKNOWN at best, and what
the rest shows still counts. Nothing is accused by leaving something out: every rule compares things
that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from checkers.evidence import Evidence, LogRecord, TraceEvent

LEADER_CHANGE = "control:LEADER_CHANGE"
VOTERS = "control:KRAFT_VOTERS"
UNDECODABLE = "undecodable"
"""Kind of a record that the harness could not decode; of a control record with a prefix."""
SENTENCES_MAX = 3
"""Sentences for each node; the rest is counted."""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _offsets(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_whole(end) for end in value.values())


def _directories(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_text(directory) for directory in value.values())


def wholes(value: Any) -> bool:
    """Whether this is a list of whole numbers."""
    return isinstance(value, list) and all(map(_whole, value))


_PARTITION = {"topic": _text, "partition": _whole}
_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "start": {"node_id": _whole},
    "state": {"state": _text, "epoch": _whole, "leader_id": _whole, "voted_id": _whole},
    "vote": {"epoch": _whole, "candidate_id": _whole, "pre_vote": _flag, "granted": _flag},
    "voters": {"voters": _directories, "offset": _whole},
    "voter-change": {"epoch": _whole, "voters": _directories},
    "epoch-start": {"epoch": _whole, "offset": _whole},
    "contradiction": {
        "epoch": _whole,
        "claimed_epoch": _whole,
        "claimed_id": _whole,
        "message": _text,
        "reason": _text,
    },
    "commit": {"last_offset": _whole},
    "claim": {"epoch": _whole, "offset": _whole},
    "append": {"epoch": _whole, "base_offset": _whole, "last_offset": _whole},
    "truncate": {"end_offset": _whole, "epoch": _whole},
    "truncate-fully": {"start_offset": _whole, "epoch": _whole},
    "flush": {"end_offset": _whole},
    "recovered": {"start_offset": _whole, "end_offset": _whole, "last_epoch": _whole},
    "log-end": {"end_offset": _whole},
    "fetch-snapshot": {"snapshot_offset": _whole},
    "snapshot": {"offset": _whole, "epoch": _whole},
    "fetch": {"offset": _whole, "durable_end_offset": _whole},
    "hw": {"epoch": _whole, "offset": _whole, "role": _text},
    "ack": {"epoch": _whole, "offset": _whole, "high_watermark": _whole},
    "read": {"epoch": _whole, "offset": _whole, "confirmed": _flag, "query": _flag},
    "renounce": {"epoch": _whole},
    "release": {"version": _text, "commit": _text},
    "replica-leader": {
        **_PARTITION,
        **dict.fromkeys(("leader_epoch", "partition_epoch"), _whole),
        **dict.fromkeys(("start_offset", "high_watermark"), _whole),
        "isr": wholes,
    },
    "replica-follower": {**_PARTITION, "leader_epoch": _whole},
    "replica-isr": {**_PARTITION, "partition_epoch": _whole, "isr": wholes},
    "replica-truncated": {
        **_PARTITION,
        **dict.fromkeys(("leader_epoch", "from_offset", "to_offset", "high_watermark"), _whole),
    },
}
"""What the rules read, by event; an event that is not here is read by none."""
_QUORUM_STATE = ("leaderId", "leaderEpoch", "votedId")


def incomplete(before: Evidence, after: Evidence) -> frozenset[str]:
    """Name the nodes with traces that lost lines in `well_formed`.

    A rule that accuses by what is *not* there must leave them out.
    """
    return frozenset(
        node for node, trace in before.traces.items() if len(after.traces[node]) != len(trace)
    )


def well_formed(evidence: Evidence) -> tuple[Evidence, list[str]]:
    """Return the evidence without what is malformed, and a sentence for each such thing."""
    problems: list[str] = []
    traces = {node: _trace(node, trace, problems) for node, trace in evidence.traces.items()}
    logs = {node: _log(node, log, problems) for node, log in evidence.logs.items()}
    for each in (one for held in evidence.snapshots.values() for one in held):
        if any(kind.endswith(UNDECODABLE) for kind, _ in each.records):
            place = f"snapshot {each.offset}-{each.epoch}"
            problems.append(f"{each.node} ({place} holds a record that cannot be decoded)")
    states = {}
    for node, state in evidence.quorum_states.items():
        wrong = [name for name in _QUORUM_STATE if not _whole(state.get(name))]
        if wrong:
            problems.append(f"{node} (quorum-state without a whole number as {wrong[0]})")
        else:
            states[node] = state
    return replace(evidence, traces=traces, logs=logs, quorum_states=states), problems


def _trace(node: str, trace: Sequence[TraceEvent], problems: list[str]) -> list[TraceEvent]:
    kept: list[TraceEvent] = []
    bad: list[str] = []
    for number, event in enumerate(trace, 1):
        wrong = wrong_field(event.event, event.fields)
        if wrong is None:
            kept.append(event)
        else:
            bad.append(f"{node} (line {number} of its trace: {event.event!r} {wrong})")
    problems += _few(node, bad, "lines in its trace")
    return kept


def _few(node: str, bad: Sequence[str], what: str) -> list[str]:
    more = len(bad) - SENTENCES_MAX
    return [*bad[:SENTENCES_MAX], *([f"{node} ({more} more malformed {what})"] if more > 0 else [])]


def wrong_field(event: str, found: Mapping[str, Any]) -> str | None:
    """Say what a trace event of this name lacks, or has of another type; None: nothing."""
    fields = dict(_FIELDS.get(event, {}))
    if event == "hw" and found.get("role") == "leader":
        fields["replicas"] = _offsets
    for name, right in fields.items():
        if name not in found:
            return f"without {name}"
        if not right(found[name]):
            return f"with {name} {found[name]!r}"
    return None


def _log(node: str, log: Sequence[LogRecord], problems: list[str]) -> Sequence[LogRecord]:
    """Keep records for their offsets and checksums; report those that say nothing."""
    kept = []
    bad: list[str] = []
    for record in log:
        odd = ""
        if record.kind == LEADER_CHANGE and not _whole(record.value.get("leaderId", 0)):
            odd = "LeaderChange at offset {} names no leader"
        elif record.kind == VOTERS and not _voters(record.value.get("voters", [])):
            odd = "VotersRecord at offset {} names no voters"
        elif record.kind.endswith(UNDECODABLE):
            odd = "the record at offset {} cannot be decoded"
        if odd:
            bad.append(f"{node} ({odd.format(record.offset)})")
        kept.append(replace(record, value={}) if odd else record)
    problems += _few(node, bad, "records in its log")
    return kept


def voter_ids(state: Mapping[str, Any]) -> list[int]:
    """Read the ids of a quorum-state's `currentVoters`, as a file of version 0 holds them."""
    voters = state.get("currentVoters")
    named = voters if isinstance(voters, list) else []
    ids = (voter.get("voterId") for voter in named if isinstance(voter, dict))
    return [voter_id for voter_id in ids if isinstance(voter_id, int)]


def _voters(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(voter, Mapping)
        and _whole(voter.get("voterId"))
        and _text(voter.get("directoryId"))
        for voter in value
    )

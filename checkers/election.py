"""Election safety, and the rules of persistence and commit that each node traces about itself.

- at most one leader an epoch: over what all nodes believed (`state`), the leaders
  themselves (`epoch-start`, `claim`), their quorum-state files and the LeaderChange records
  (Election Safety of Raft; `NeverTwoLeadersInSameEpoch` of the public TLA+ specifications);
- a voter grants its vote to one candidate an epoch, whatever restarts lie between (`vote` with
  `pre_vote` false, `state`, quorum-state file);
- a node's epoch never decreases, over its restarts and into its quorum-state file;
- a node that knew a committed VotersRecord goes by no older one within the same incarnation
  (KIP-853: the newest of the log counts, and a committed record is not truncated);
- a voter fetches only from what it has made durable: the fetch offset is its acknowledgement;
- a leader's high watermark is at most what a majority of voters had, recomputed from `replicas`;
- nobody leads on without a majority that fetches (check quorum; `checkers.leader_age`);
- a write is acknowledged only below the high watermark, a read answered only after leadership was
  confirmed.

What it cannot see: what no trace tells; whether `replicas` holds what the voters really had. A
node without trace or quorum-state makes the verdict UNKNOWN. Complexity: O(events + records).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.evidence import Evidence, TraceEvent
from checkers.evidence_result import Anomaly, evidence_result, without
from checkers.leader_age import leaders_without_quorum
from checkers.run_input import Cancelled, RunInput, never
from checkers.trace_fields import LEADER_CHANGE, incomplete, well_formed
from checkers.verdict import CheckResult

NAME = "election-safety"
_NONE = -1
"""Kafka's id of no node."""
_PER_NODE_AND_KIND_MAX = 3
"""Anomalies shown of one kind on one node; the first tell enough."""

Claim = tuple[int, int, str]
"""(epoch, leader or candidate id, which evidence says so)"""


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge traces, quorum-state files and LeaderChange records of all nodes."""
    del options
    assert run.evidence is not None, "the registry asks for evidence first"
    evidence, malformed = well_formed(run.evidence)
    leaders: dict[Claim, TraceEvent | None] = {}
    for claim, event in _leader_claims(evidence):
        leaders.setdefault(claim, event)
    anomalies: list[Anomaly] = []
    for found in (
        _two_leaders(evidence, leaders),
        _two_votes(evidence),
        _epochs(evidence),
        _forgotten_voters(evidence),
        leaders_without_quorum(evidence, incomplete(run.evidence, evidence), run.events),
    ):
        if not cancelled():
            anomalies.extend(found)
    shown: dict[tuple[str, str], int] = {}
    events = 0
    for trace in evidence.traces.values():
        for event in trace:
            events += 1
            broken = _rule(event)
            if broken is None:
                continue
            kind, what = broken
            shown[event.node, kind] = shown.get((event.node, kind), 0) + 1
            if shown[event.node, kind] <= _PER_NODE_AND_KIND_MAX:
                told = f"{event.node} {what}, at {evidence.when(event)}"
                anomalies.append({"kind": kind, "explanation": told, **evidence.place(event)})
    epochs = {epoch for epoch, _, _ in leaders}
    good = f"{len(epochs)} epochs with at most one leader each, {events} events within the rules"
    states = {node: [e for e in t if e.event == "state"] for node, t in evidence.traces.items()}
    missing = without(evidence, "trace", evidence.traces)
    missing += [f"{node} (no state in its trace)" for node in sorted(states) if not states[node]]
    if not run.extent.outlived:
        missing += without(evidence, "quorum-state", evidence.quorum_states)
    missing += malformed
    statistics = {
        "epochs_with_leader": len(epochs),
        "events": events,
        "repeated": {f"{kind} on {node}": n for (node, kind), n in sorted(shown.items())},
    }
    return evidence_result(
        NAME,
        anomalies,
        missing=missing,
        cancelled=cancelled(),
        exercised=bool(epochs),
        good=good,
        looked_at=events,
        statistics=statistics,
    )


def node_id(evidence: Evidence, node: str) -> int | None:
    """Return the node's id: as it traced it, else the number in its name."""
    for event in evidence.traces.get(node, ()):
        if event.event == "start":
            return int(event.fields["node_id"])
    digits = node.lstrip("abcdefghijklmnopqrstuvwxyz-")
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def _leader_claims(evidence: Evidence) -> Iterator[tuple[Claim, TraceEvent | None]]:
    """Yield each claim with the event that makes it, if it is one of a trace."""
    for node, trace in evidence.traces.items():
        own_id = node_id(evidence, node)
        for event in trace:
            fields = event.fields
            if event.event == "state" and fields["leader_id"] != _NONE:
                leader = int(fields["leader_id"])
                yield (int(fields["epoch"]), leader, f"{event.event} of {node}"), event
            elif event.event in ("epoch-start", "claim") and own_id is not None:
                yield (int(fields["epoch"]), own_id, f"{event.event} of {node}"), event
    for node, state in evidence.quorum_states.items():
        if state["leaderId"] != _NONE:
            claim = int(state["leaderEpoch"]), int(state["leaderId"]), f"quorum-state of {node}"
            yield claim, None
    for node, log in evidence.logs.items():
        for record in log:
            named = record.value.get("leaderId") if record.kind == LEADER_CHANGE else None
            if named is not None:
                yield (record.epoch, int(named), f"LeaderChange in the log of {node}"), None


def _two_leaders(
    evidence: Evidence, claims: Mapping[Claim, TraceEvent | None]
) -> Iterator[Anomaly]:
    def by(claim: Claim) -> str:
        event = claims[claim]
        at = "" if event is None else f" at {evidence.when(event)}"
        return f"{claim[1]} (by {claim[2]}{at})"

    first: dict[int, Claim] = {}
    told: set[int] = set()
    for claim in sorted(claims):
        epoch, leader, _ = claim
        other = first.setdefault(epoch, claim)
        if other[1] != leader and epoch not in told:
            told.add(epoch)
            explanation = f"epoch {epoch} has two leaders: {by(other)} and {by(claim)}"
            yield {"kind": "two-leaders", "explanation": explanation, "epoch": epoch}


def _two_votes(evidence: Evidence) -> Iterator[Anomaly]:
    for node in evidence.nodes:
        first: dict[int, tuple[Any, str]] = {}
        told: set[int] = set()
        for epoch, candidate, source in _votes(evidence, node):
            other, other_source = first.setdefault(epoch, (candidate, source))
            if other != candidate and epoch not in told:
                told.add(epoch)
                explanation = (
                    f"{node} voted twice in epoch {epoch}: for {other} (by {other_source}) and "
                    f"for {candidate} (by {source})"
                )
                yield {"kind": "two-votes", "explanation": explanation, "node": node}


def _votes(evidence: Evidence, node: str) -> Iterator[Claim]:
    for event in evidence.traces.get(node, ()):
        fields = event.fields
        if event.event == "vote" and fields["granted"] and not fields["pre_vote"]:
            source = f"its answer at {evidence.when(event)}, in incarnation {event.incarnation}"
            yield int(fields["epoch"]), int(fields["candidate_id"]), source
        elif event.event == "state" and fields["voted_id"] != _NONE:
            source = f"its state at {evidence.when(event)}, in incarnation {event.incarnation}"
            yield int(fields["epoch"]), int(fields["voted_id"]), source
    state = evidence.quorum_states.get(node)
    if state is not None and state["votedId"] != _NONE:
        yield int(state["leaderEpoch"]), int(state["votedId"]), "its quorum-state"


def _epochs(evidence: Evidence) -> Iterator[Anomaly]:
    """Follow each node's epoch; the first decrease of each node.

    With another directory id it is another replica, whose disk was empty (KIP-853): it begins anew.
    """
    for node in evidence.nodes:
        epoch = -1
        for following, source in _epochs_of(evidence, node):
            if following is None:
                epoch = -1
                continue
            if following < epoch:
                told = f"{node} went back from epoch {epoch} to {following} ({source})"
                yield {"kind": "epoch-decrease", "explanation": told, "node": node}
                break
            epoch = following


def _epochs_of(evidence: Evidence, node: str) -> Iterator[tuple[int | None, str]]:
    """List the epochs that a node was in, in order; None where another directory began."""
    directory: object = None
    for event in evidence.traces.get(node, ()):
        if event.event == "start":
            told = event.fields.get("directory_id")
            if None not in (told, directory) and told != directory:
                yield None, ""
            directory = told or directory
        elif event.event == "state":
            source = f"its state at {evidence.when(event)}, in incarnation {event.incarnation}"
            yield int(event.fields["epoch"]), source
    state = evidence.quorum_states.get(node)
    if state is not None:
        yield int(state["leaderEpoch"]), "its quorum-state file"


def _forgotten_voters(evidence: Evidence) -> Iterator[Anomaly]:
    """Find voters that a node went back to although newer ones were committed; the first each."""
    for node, trace in evidence.traces.items():
        incarnation, mark, offsets = -1, -1, [-1]
        for event in trace:
            if event.incarnation != incarnation:
                incarnation, mark, offsets = event.incarnation, -1, [-1]
            if event.event == "hw":
                mark = max(mark, int(event.fields["offset"]))
            if event.event != "voters":
                continue
            offset = int(event.fields["offset"])
            committed = max(known for known in offsets if known < max(mark, 0))
            if offset < committed:
                old = "configured voters" if offset < 0 else f"voters of offset {offset}"
                told = (
                    f"{node} went back to the {old} at {evidence.when(event)} "
                    f"though those of {committed} are committed: its high watermark is {mark}"
                )
                yield {"kind": "forgotten-voters", "explanation": told, **evidence.place(event)}
                break
            # What it goes back behind was cut off: others will be committed at those offsets.
            offsets = [known for known in offsets if known < offset] + [offset]


def _rule(event: TraceEvent) -> tuple[str, str] | None:
    """Judge one event by itself; returns the kind of what it breaks, and what the node did."""
    rule = {"fetch": _fetch, "hw": _high_watermark, "ack": _ack, "read": _read}.get(event.event)
    return rule(event.fields) if rule is not None else None


def _fetch(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    offset, durable = int(fields["offset"]), int(fields["durable_end_offset"])
    if offset <= durable:
        return None
    what = f"fetched at offset {offset} with only {durable} durable: it acknowledged before fsync"
    return "fetched-before-fsync", what


def _high_watermark(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    if fields["role"] != "leader":
        return None
    offset = int(fields["offset"])
    replicas = {str(voter): int(end) for voter, end in fields["replicas"].items()}
    ends = sorted(replicas.values(), reverse=True)
    majority = ends[len(ends) // 2] if ends else 0
    if offset <= majority:
        return None
    at = ", ".join(f"replica {voter} at {end}" for voter, end in sorted(replicas.items()))
    what = (
        f"set the high watermark of epoch {fields['epoch']} to {offset}, though a majority of "
        f"voters had only {majority} ({at})"
    )
    return "high-watermark-without-majority", what


def _ack(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    offset, mark = int(fields["offset"]), int(fields["high_watermark"])
    if offset < mark:
        return None
    what = f"acknowledged the write at offset {offset} with the high watermark at {mark}"
    return "acknowledged-before-commit", what


def _read(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    if fields["confirmed"] is True:
        return None
    what = f"answered a linearizable read at offset {fields['offset']} without confirmed leadership"
    return "unconfirmed-read", what

"""Check quorum: no leader goes on without a majority that follows (KIP-595, KAFKA-15489).

A leader that no majority has fetched from for a check-quorum time-out (1.5 fetch time-outs) must
resign. It is judged by the other voters' own traces, not by what the leader believes: a Fetch that
a voter sent to it in its epoch is the last that it can have heard of that voter. Accused is a
leader that appended in its epoch again and again

- each time more than a time-out and `SLACK_MS` after the last Fetch of a majority was *sent*, and
- over more than a time-out and `SLACK_MS` from the first to the last of these appends.

The second condition is for messages that came late: one that arrived before the first of these
appends, whenever it was sent, lets a correct leader go on for one time-out and no more. So does a
leader that was paused with Fetches waiting in its sockets. Links that are slow by order of the
nemesis add what they are slow by.

Traces carry monotonic times, which are comparable where their `start` names the same clock: one
kernel's. A voter without a whole trace, or with another clock, counts as heard of; where it takes
voters with traces that had ended by then to find a leader alone, that is a doubt. A simulated
world sees Fetches arrive, and judges by that (`checkers.invariants.leading`). Complexity:
O(events log events).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from checkers.evidence import Evidence, TraceEvent
from checkers.history import Event
from checkers.history.recorded import statements
from checkers.verdict import Anomaly, anomaly

SLACK_MS = 1_000.0
"""For scheduling and the way of a message on a busy machine."""
THROTTLED_MS = 5_000.0
"""How late a message may be behind a full queue."""
_APPENDS_MIN = 3

Contacts = Mapping[tuple[str, int, int], Sequence[int]]
"""(voter, id of the asked node, epoch) -> when it sent a Fetch, ascending."""


@dataclass(slots=True)
class Term:
    """One node's time as leader of an epoch; in any unit of time."""

    epoch: int
    since: float
    """When it began, or its voters changed: with others a period that began before goes on."""
    first: float | None = None
    """Its first append that no majority can have followed, and how many there were since."""
    appends: int = 0

    def is_alone(self, now: float, heard: float, limit: float) -> bool:
        """Whether it has led alone for too long by an append; `heard`: when of a majority."""
        if now - heard <= limit:
            self.first, self.appends = None, 0
            return False
        self.first = now if self.first is None else self.first
        self.appends += 1
        return now - self.first > limit and self.appends >= _APPENDS_MIN

    def heard_of_majority(
        self, now: float, own: str, voters: Collection[str], others: Sequence[float]
    ) -> float:
        """When a majority, the leader included if it votes, was last heard of; `others`: of each.

        Without others that it needs: now.
        """
        needed = len(voters) // 2 + 1 - (own in voters)
        if not 0 < needed <= len(others):
            return now
        return max(self.since, sorted(others, reverse=True)[needed - 1])


@dataclass(frozen=True, slots=True)
class _Clock:
    """What the rule needs of a `start`."""

    name: str
    timeout_ms: float


NAME = "led-alone"
UNJUDGED = "it needs the times of nodes that read one clock"


def is_judged(evidence: Evidence) -> bool:
    """Whether all nodes name one clock, and how long a leader may go on alone by it."""
    named = {name for trace in evidence.traces.values() for name in _clocks(trace)}
    return len(named) == 1 and "" not in named


def leaders_without_quorum(
    evidence: Evidence, incomplete: Collection[str], events: Sequence[Event]
) -> tuple[list[Anomaly], list[Anomaly]]:
    """Find, once an epoch, a leader that led alone for too long: (surely, in doubt).

    In doubt where voters with ended traces may have fetched on. `incomplete`: nodes with traces
    that lack lines; `events`: the run's, for what the nemesis did.
    """
    contacts, unclear = _contacts(evidence)
    clocks = {
        node: _clocks(trace)
        for node, trace in evidence.traces.items()
        if node not in unclear and node not in incomplete
    }
    slack_ms = SLACK_MS + _late_ms(events)
    ends_ns = {node: trace[-1].time_ns for node, trace in evidence.traces.items() if trace}
    sure: list[Anomaly] = []
    doubts: list[Anomaly] = []
    for trace in evidence.traces.values():
        alone = _of_node(evidence, trace, contacts, clocks, slack_ms, {})
        surely = _of_node(evidence, trace, contacts, clocks, slack_ms, ends_ns)
        epochs = {found["epoch"] for found in surely}
        sure += surely
        doubts += [
            {**found, "unseen": sorted(n for n, end in ends_ns.items() if end < found["t_ns"])}
            for found in alone
            if found["epoch"] not in epochs
        ]
    return sure, doubts


def _of_node(
    evidence: Evidence,
    trace: Sequence[TraceEvent],
    contacts: Contacts,
    clocks: Mapping[str, frozenset[str]],
    slack_ms: float,
    ends_ns: Mapping[str, int],
) -> list[Anomaly]:
    """`ends_ns`: when traces end of nodes that are taken to have fetched on."""
    found: list[Anomaly] = []
    clock: _Clock | None = None
    own_id = -1
    voters: tuple[str, ...] = ()
    term: Term | None = None
    reported: set[int] = set()
    for event in trace:
        fields = event.fields
        if event.event == "start":
            clock, own_id, term = _clock(event), int(fields["node_id"]), None
        elif event.event == "voters":
            voters = tuple(f"n{voter_id}" for voter_id in fields["voters"])
            if term is not None:
                term.since = event.time_ns
        elif event.event == "state":
            leads = fields["leader_id"] == own_id and fields.get("state") == "Leader"
            term = Term(int(fields["epoch"]), event.time_ns) if leads else None
        elif event.event == "append" and fields.get("role") == "leader":
            if clock is None or term is None or term.epoch in reported:
                continue
            same = frozenset({clock.name})
            unknown = {voter for voter in voters if clocks.get(voter) != same}
            unknown |= {voter for voter in voters if ends_ns.get(voter, math.inf) < event.time_ns}
            heard_ns = _heard_ns(event, own_id, voters, term, contacts, unknown)
            limit_ns = (clock.timeout_ms + slack_ms) * 1e6
            if term.is_alone(event.time_ns, heard_ns, limit_ns):
                reported.add(term.epoch)
                found.append(_alone(evidence, event, term.epoch, heard_ns))
    return found


def _heard_ns(
    event: TraceEvent,
    own_id: int,
    voters: Sequence[str],
    term: Term,
    contacts: Contacts,
    unknown: set[str],
) -> float:
    """When a majority was last heard of by this event."""
    own = f"n{own_id}"
    last: list[float] = []
    for voter in voters:
        if voter in unknown:
            last.append(event.time_ns)
        elif voter != own:
            sent = contacts.get((voter, own_id, term.epoch), ())
            before = bisect_right(sent, event.time_ns)
            last.append(sent[before - 1] if before else term.since)
    return term.heard_of_majority(event.time_ns, own, voters, last)


def _contacts(evidence: Evidence) -> tuple[Contacts, set[str]]:
    """Return them, and the nodes with traces that lack some of theirs."""
    found: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
    unclear: set[str] = set()
    for node, trace in evidence.traces.items():
        for event in trace:
            if event.event in {"fetch", "fetch-snapshot"}:
                asked, epoch = event.fields.get("asked_id"), event.fields.get("epoch")
                if isinstance(asked, int) and isinstance(epoch, int):
                    found[node, asked, epoch].append(event.time_ns)
                else:
                    unclear.add(node)
    return found, unclear


def _clocks(trace: Sequence[TraceEvent]) -> frozenset[str]:
    """Name every clock that a node's incarnations had; an unnamed one is empty."""
    starts = [_clock(event) for event in trace if event.event == "start"]
    return frozenset("" if clock is None else clock.name for clock in starts)


def _clock(start: TraceEvent) -> _Clock | None:
    name = start.fields.get("clock")
    timeout_ms = start.fields.get("check_quorum_timeout_ms")
    if not isinstance(name, str) or not name or not isinstance(timeout_ms, int | float):
        return None
    return _Clock(name, float(timeout_ms))


def _late_ms(events: Sequence[Event]) -> float:
    """By how much the nemesis may have slowed a message down, at most."""
    late_ms = 0.0
    for event in statements(events):
        if event.f == "delay":
            parameters = event.value.get("parameters") or {}
            asked_ms = parameters.get("delay_ms", 200), parameters.get("jitter_ms", 0)
            late_ms = max(late_ms, float(sum(asked_ms)))
        elif event.f in {"bandwidth", "reorder", "loss"}:
            late_ms = max(late_ms, THROTTLED_MS)
    return late_ms


def _alone(evidence: Evidence, event: TraceEvent, epoch: int, heard_ns: float) -> Anomaly:
    age_s = (event.time_ns - heard_ns) / 1e9
    explanation = (
        f"{event.node} still led epoch {epoch} at {evidence.when(event)}, and appended, "
        f"{age_s:.1f} s after a majority of the voters had last fetched from it"
    )
    return anomaly(NAME, explanation, epoch=epoch, **evidence.place(event))

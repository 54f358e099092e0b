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

Of nodes that trace neither appends nor Fetches (Kafka's) their answers are judged. Once a majority
of the voters is in later epochs, they send the leader of an earlier one no Fetch of it any more.
It may have some in its queue; but one thread takes what has arrived, in order, looks whether a
majority was heard of, and says who leads (DescribeQuorum). So accused is who answers, again and
again with little time between, that it leads the earlier epoch,

- a first and a second time after the majority had left it: what came before is taken by then,
- and for more than a time-out and `ANSWERS_SLACK_MS` from the second time on; for two time-outs
  of five voters and more, where one that has not left may end a period, late, that another began.

A pause or a stall is a gap between answers, after which they are counted anew; so is the time after
the heal of a partition, in which Fetches arrive that were sent before it. Left out are nodes that
trace appends, as ours say what they are while a later epoch waits for a slow disk; runs in which
voters changed, as then majorities need not have a voter in common; and nodes whose clock the
nemesis had touched: Kafka's time-outs are by the wall clock (docs/findings/clock-set-back.md).
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
from checkers.runs.faults import LEADS, targets_of
from checkers.verdict import Anomaly, anomaly

SLACK_MS = 1_000.0
"""For scheduling and the way of a message on a busy machine."""
CLOCKS = frozenset({"clock-jump", "clock-skew", "clock-drift", "clock-strobe", "timer-rate"})
THROTTLED_MS = 5_000.0
"""How late a message may be behind a full queue, or after a partition."""
_APPENDS_MIN = 3
ANSWERS_SLACK_MS = 500.0
"""For the way of a message to a node that answers all the time."""
_MANY = 5
"""Voters of which a majority may be gone and one may fetch on."""
_GAP_MS = 1_200.0
"""Answers that are further apart leave room for a pause."""

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


def leaders_by_their_word(evidence: Evidence, events: Sequence[Event]) -> list[Anomaly]:
    """Find, once an epoch, who said for too long that it leads, while another led a later one."""
    traced = [event for trace in evidence.traces.values() for event in trace]
    electorates = {frozenset(e.fields["voters"]) for e in traced if e.event == "voters"}
    if len(electorates) != 1:
        return []
    voters = {f"n{voter_id}" for voter_id in next(iter(electorates))}
    answers: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for note in statements(events, LEADS):
        answers[str(note.value["node"]), int(note.value["epoch"])].append(note)
    found: list[Anomaly] = []
    for (node, epoch), notes in answers.items():
        trace = evidence.traces.get(node, ())
        timeouts_ms = [start.timeout_ms for start in _starts(trace) if start is not None]
        left_ns = _majority_left_ns(evidence, voters, epoch)
        if left_ns is None or not timeouts_ms or any(event.event == "append" for event in trace):
            continue
        said = [note for note in notes if note.time_ns - _took_ns(note) > left_ns]
        periods = 1 if len(voters) < _MANY else 2
        late = _first_late(said, periods * max(timeouts_ms) + ANSWERS_SLACK_MS, events)
        if late is not None and not _has_touched_clock(events, node, late.time_ns):
            explanation = (
                f"{node} still said that it leads epoch {epoch} "
                f"{(late.time_ns - left_ns) / 1e9:.1f} s after a majority of the voters had begun "
                "later epochs, and had said so all the time"
            )
            found.append(anomaly(NAME, explanation, node=node, epoch=epoch, index=late.index))
    return found


def _majority_left_ns(evidence: Evidence, voters: Collection[str], epoch: int) -> int | None:
    """Return when a majority of the voters was in later epochs, in the run; None: never."""
    left_ns: list[int] = []
    for voter in voters:
        trace = evidence.traces.get(voter, ())
        states = (event for event in trace if event.event == "state")
        first = next((state for state in states if state.fields["epoch"] > epoch), None)
        at_ns = None if first is None else evidence.run_ns(first)
        left_ns += [] if at_ns is None else [at_ns]
    majority = len(voters) // 2 + 1
    return sorted(left_ns)[majority - 1] if len(left_ns) >= majority else None


def _first_late(said: Sequence[Event], limit_ms: float, events: Sequence[Event]) -> Event | None:
    """Return the first answer that comes too late after the second of those without a gap."""
    heals_ns = [
        n.time_ns for n in statements(events, "partition") if n.value.get("phase") == "heal"
    ]
    row: list[Event] = []
    for note in said:
        if row and note.time_ns - row[-1].time_ns > _GAP_MS * 1e6:
            row = []
        if any(0 <= note.time_ns - at_ns < THROTTLED_MS * 1e6 for at_ns in heals_ns):
            row = []
            continue
        row.append(note)
        if len(row) < _APPENDS_MIN:
            continue
        late_ms = _late_ms([event for event in events if event.time_ns <= note.time_ns])
        if note.time_ns - _took_ns(note) - row[1].time_ns > (limit_ms + late_ms) * 1e6:
            return note
    return None


def _took_ns(note: Event) -> float:
    return float(note.value["took_ms"]) * 1e6


def _has_touched_clock(events: Sequence[Event], node: str, until_ns: int) -> bool:
    """Whether the nemesis had touched the clock of a node by then."""
    return any(
        event.f in CLOCKS and event.time_ns <= until_ns and node in targets_of(event)
        for event in statements(events)
    )


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
    return frozenset("" if clock is None else clock.name for clock in _starts(trace))


def _starts(trace: Sequence[TraceEvent]) -> list[_Clock | None]:
    return [_clock(event) for event in trace if event.event == "start"]


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

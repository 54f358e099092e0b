"""Merges the nodes' stored traces into one order in which the invariants may be judged.

Every node's own order is that of its trace. Between nodes:

*By the clock.* Where all traces read one clock (one kernel's monotonic clock, or a simulated
world's), events are taken by time. A line carries the time before it was written, and it is written
before any node or client can observe what it describes, so a cause has no later time than its
effect. Events of one time are taken in an order by causes, as below.

*By causes.* Separate hosts have no clock in common. Then an event waits until what it depends on
was taken: becoming leader waits for the votes of a majority; a leader's high watermark, for fsyncs
of a majority; following a leader, for that leader's own event; a follower's high watermark, for a
leader's that is as high. Every other event is taken at once.

Why it reports no false violation: the facts that events wait for only grow, so taking an event
never keeps another from being taken. If there is any order in which all events are right (that in
which they happened, if the nodes are right) then at each step its first event that was not taken
yet waits for nothing, and can be taken. Where the first remaining event of every trace waits, there
is no such order, *if the traces are whole*. So

- an event that waits for a node whose trace has ended is taken, as that node may have done more;
- an event that waits for votes, fsyncs or commits is judged as it stands. What it lacks is a
  finding where the traces of all nodes that could supply it go on, else a doubt (`Broken.unseen`).
  The lowest epoch comes first, as a violation there may be why events of later epochs wait.

Why it misses violations: without a clock every fact counts that *may* have been there in time. A
leader that commits too early is found only if the followers that it should have waited for learned
of the commit, or of the leader, before they fsynced or voted.

`unseen` holds the nodes that may have done more by then: by the clock, those whose traces reach no
further than the event; by causes, those whose traces are used up. Complexity: O(events log events)
by the clock; by causes O(events x nodes) as long as few events wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby, pairwise

from checkers.evidence import TraceEvent
from checkers.invariants.fold import Broken
from checkers.invariants.sight import NO_NODE, node_name
from checkers.invariants.watcher import Watcher

Traces = Mapping[str, Sequence[TraceEvent]]
Heads = dict[str, deque[TraceEvent]]
Take = Callable[[TraceEvent], None]

_RANKS = {"state": 0, "hw": 1}
"""Of two waiting events of one epoch the possible cause comes first: election before commit."""


def one_clock(traces: Traces) -> bool:
    """Whether all events carry times of one clock, which never decrease within a trace."""
    events = [event for trace in traces.values() for event in trace]
    clocks = {str(e.fields.get("clock") or "") for e in events if e.event == "start"}
    in_world = {event.world_ns is not None for event in events}
    started = all(trace[0].event == "start" for trace in traces.values() if trace)
    comparable = in_world == {True} or (
        in_world == {False} and started and len(clocks) == 1 and "" not in clocks
    )
    return comparable and all(
        _time(before) <= _time(after)
        for trace in traces.values()
        for before, after in pairwise(trace)
    )


def by_clock(
    traces: Traces, nodes: Collection[str], watcher: Watcher, take: Take, holes: Collection[str]
) -> None:
    """Take all events by time. `nodes`: all there are; `holes`: whose traces lack lines."""
    events = sorted((e for trace in traces.values() for e in trace), key=_time)
    ends = {node: _time(trace[-1]) for node, trace in traces.items() if trace}
    ended = sorted((time_ns, node) for node, time_ns in ends.items())
    unseen = {node for node in nodes if node not in ends} | set(holes)
    watcher.quorum.unseen = unseen
    for time_ns, same in groupby(events, key=_time):
        while ended and ended[0][0] <= time_ns:
            unseen.add(ended.pop(0)[1])
        heads: Heads = {}
        for event in same:
            heads.setdefault(event.node, deque()).append(event)
        if len(heads) == 1:
            for event in heads.popitem()[1]:
                take(event)
        else:
            _Waiting(heads, watcher, take).take_all()


def by_causes(
    traces: Traces, nodes: Collection[str], watcher: Watcher, take: Take, holes: Collection[str]
) -> None:
    """Take all events by their causes. `nodes`: all there are; `holes`: whose traces lack lines."""
    heads = {node: deque(trace) for node, trace in traces.items() if trace}
    unseen = {node for node in nodes if node not in heads} | set(holes)
    watcher.quorum.unseen = unseen
    _WaitingForNews(heads, watcher, take, unseen).take_all()


def _time(event: TraceEvent) -> int:
    return event.time_ns if event.world_ns is None else event.world_ns


class _Waiting:
    """Takes events of which any order between nodes may be the real one."""

    def __init__(self, heads: Heads, watcher: Watcher, take: Take) -> None:
        self._heads = heads
        self._watcher = watcher
        self._take = take

    def take_all(self) -> None:
        """Take every event; where all wait, the first by `_precedence`, judged as it stands."""
        while self._heads:
            taken = False
            for node in tuple(self._heads):
                while node in self._heads and not self._waits(self._heads[node][0]):
                    self._pop(node)
                    taken = True
            if self._heads and not taken:
                self._pop(self._stuck_node())

    def _pop(self, node: str) -> None:
        events = self._heads[node]
        self._take(events.popleft())
        if not events:
            del self._heads[node]
            self._used_up(node)

    def _used_up(self, node: str) -> None:
        """Note that a node's last event was taken."""

    def _waits(self, event: TraceEvent) -> bool:
        return self._lacks(event) is not None

    def _lacks(self, event: TraceEvent) -> Broken | None:
        return self._watcher.lacks(event.node, event.event, event.fields)

    def _stuck_node(self) -> str:
        """Return the node whose head is taken though it waits."""
        return min(self._heads, key=lambda node: self._precedence(self._heads[node][0]))

    def _precedence(self, event: TraceEvent) -> tuple[bool, bool, bool, int, int]:
        """Order events that all wait: for unseen nodes first, then those that lack facts, by epoch.

        A snapshot comes before any election or commit: its node had traced before it the commits
        that it relies on, so it can only wait because it is wrong, and an event behind it may be
        what a commit waits for.
        """
        lacks = self._lacks(event)
        excused = lacks is not None and bool(lacks.unseen)
        rank, epoch = _RANKS.get(event.event, len(_RANKS)), event.fields.get("epoch", 0)
        return not excused, lacks is None, event.event in _RANKS, epoch, rank


class _WaitingForNews(_Waiting):
    """Also lets an event wait for the event of another node that its node must have learned of."""

    def __init__(self, heads: Heads, watcher: Watcher, take: Take, unseen: set[str]) -> None:
        super().__init__(heads, watcher, take)
        self._unseen = unseen
        self._leads: set[tuple[str, int]] = set()
        """(node, epoch) of every leader whose own event was taken."""
        self._announced = 0
        """The highest high watermark of a leader that was taken."""

    def _pop(self, node: str) -> None:
        event = self._heads[node][0]
        if event.event == "state" and event.fields.get("state") == "Leader":
            self._leads.add((node, event.fields["epoch"]))
        elif event.event == "hw" and event.fields["role"] == "leader":
            self._announced = max(self._announced, event.fields["offset"])
        super()._pop(node)

    def _used_up(self, node: str) -> None:
        self._unseen.add(node)

    def _waits(self, event: TraceEvent) -> bool:
        source = self._news_from(event)
        return (source is not None and source not in self._unseen) or super()._waits(event)

    def _news_from(self, event: TraceEvent) -> str | None:
        """Return the leader whose event must come first; None: it was taken, or is not known."""
        fields = event.fields
        if event.event == "state" and fields["leader_id"] != NO_NODE:
            leader = node_name(fields["leader_id"])
            heard = leader == event.node or (leader, fields["epoch"]) in self._leads
            return None if heard else leader
        if event.event == "hw" and fields["role"] != "leader":
            heard = fields["offset"] <= self._announced
            return None if heard else self._watcher.quorum.leader_of.get(fields["epoch"])
        return None

"""Invariants of how long a node leads, over messages that a simulated world sees arrive.

They read events that no node traces: `fetch-arrival`, a Fetch, FetchSnapshot or UpdateRaftVoter of
a voter or observer is handed to a node, `epoch-arrival`, a BeginQuorumEpoch or the answer to one
is, `leader-answer`, an answer of a leader to a Fetch or FetchSnapshot is, `epoch-end`, its
EndQuorumEpoch is, and `epoch-end-sent`, a node sends one. What arrives depends on links and faults,
so a world is asked and not the node, which may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from checkers.invariants.fold import Broken, Invariant, rules_of
from checkers.invariants.sight import Fields
from checkers.nodes import leader_age
from checkers.nodes.leader_age import Term

_SILENCE = 0.25
"""Share of a time-out: who shows nothing for longer may have been stopped meanwhile."""


class LedAlone(Invariant):
    """No leader goes on without a majority that fetches, by its own clock.

    A leader must resign once no majority, itself included, has fetched within the check-quorum
    time-out, and looks before it appends. Where it takes two others, one may have fetched at the
    beginning of a period that the other's Fetch ended just in time: so a correct leader appends for
    up to two time-outs after it last heard of both, and no longer. A change of voters may ask for
    one more of them, and does not end the period. A node that was stopped takes up what waited for
    it before it looks at its clock: so a Fetch after a silence counts for a majority, and so does
    the end of a long sync where the node waits for its disk. A stored run is judged by
    `checkers.nodes.leader_age`, where a Fetch counts from when it was sent.
    """

    name = leader_age.NAME
    source = "KIP-595, check quorum; KAFKA-15489"
    reads = frozenset(
        {"start", "start.check_quorum_timeout_ms", "voters", "state", "append", "flush"}
    )

    _terms: dict[str, Term] = field(default_factory=dict)
    """By the nodes that lead."""
    _heard_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    """(leader, sender) -> when it last arrived in the leader's present term, by its clock."""
    _seen_ms: dict[str, float] = field(default_factory=dict)
    """When a node that leads was last seen at work, by its clock."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._terms.pop(node, None)

    def on_state(self, node: str, fields: Fields) -> None:
        self._terms.pop(node, None)
        if fields["state"] == "Leader":
            self._terms[node] = Term(fields["epoch"], self.sight.monotonic_ms(node))

    def on_voters(self, node: str, fields: Fields) -> None:
        if node in self._terms:
            self._terms[node].since = self.sight.monotonic_ms(node)

    def on_fetch_arrival(self, node: str, fields: Fields) -> None:
        term = self._terms.get(node)
        if term is None or fields["epoch"] != term.epoch:
            return
        self._heard_ms[node, fields["sender"]] = self._end_silence(node, term)

    def on_flush(self, node: str, fields: Fields) -> None:
        if node in self._terms and self.sight.waits_for_disk(node):
            self._end_silence(node, self._terms[node])

    def _end_silence(self, node: str, term: Term) -> float:
        now_ms = self.sight.monotonic_ms(node)
        if now_ms - self._seen_ms.get(node, now_ms) > _SILENCE * self.quorum.timeouts_ms[node]:
            term.since = now_ms
        self._seen_ms[node] = now_ms
        return now_ms

    def on_append(self, node: str, fields: Fields) -> Broken | None:
        term = self._terms.get(node)
        if term is None or fields["role"] != "leader":
            return None
        now_ms, timeout_ms = self.sight.monotonic_ms(node), self.quorum.timeouts_ms[node]
        voters = self.quorum.electorate.members(node).directories
        others = [self._heard_ms.get((node, other), 0.0) for other in voters if other != node]
        heard_ms = term.heard_of_majority(now_ms, node, voters, others)
        self._seen_ms[node] = now_ms
        if now_ms - heard_ms <= (2 + _SILENCE) * timeout_ms:
            return None
        return Broken(
            f"{node} appends in epoch {term.epoch}, {now_ms - heard_ms:.0f} ms after a majority of "
            f"its voters had last fetched from it, where it must resign after {timeout_ms:g} ms"
        )


class LeavesLeader(Invariant):
    """A voter that its leader does not answer looks for another.

    Before it asks anybody for records it looks whether its fetch time-out is over: two thirds of
    the check-quorum time-out that it traces. Judged after one and a half of that, since it last
    had an answer with records or none, or changed its state or its voters; not in an epoch that its
    leader ended, as it then stands for election after the back-off of its place among the
    successors. One that was stopped takes up what waited for it before it looks at its clock.
    """

    name = "leaves-leader"
    source = "KIP-595, controller.quorum.fetch.timeout.ms"
    reads = frozenset({"start", "start.check_quorum_timeout_ms", "voters", "state", "fetch"})

    _heard_ms: dict[str, float] = field(default_factory=dict)
    """By the nodes that follow: since when their leader has been silent, by their clocks."""
    _seen_ms: dict[str, float] = field(default_factory=dict)
    """When a node was last seen to ask."""
    _ended: dict[str, int] = field(default_factory=dict)
    """Newest epoch that a node heard the end of."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._heard_ms.pop(node, None)

    def on_state(self, node: str, fields: Fields) -> None:
        self._heard_ms.pop(node, None)
        if fields["state"] == "Follower":
            self._heard_ms[node] = self._seen_ms[node] = self.sight.monotonic_ms(node)

    def on_leader_answer(self, node: str, fields: Fields) -> None:
        if node in self._heard_ms:
            self._heard_ms[node] = self.sight.monotonic_ms(node)

    on_voters = on_leader_answer

    def on_epoch_end(self, node: str, fields: Fields) -> None:
        self._ended[node] = max(fields["epoch"], self._ended.get(node, 0))  # an old one comes late

    def on_fetch(self, node: str, fields: Fields) -> Broken | None:
        heard_ms = self._heard_ms.get(node)
        if heard_ms is None:
            return None
        now_ms, timeout_ms = self.sight.monotonic_ms(node), self.quorum.timeouts_ms[node]
        was_stopped = now_ms - self._seen_ms[node] > _SILENCE * timeout_ms
        self._seen_ms[node] = now_ms
        if was_stopped:
            self._heard_ms[node] = now_ms
        votes, silent_ms = self.quorum.electorate.is_voter(node), now_ms - heard_ms
        if was_stopped or not votes or silent_ms <= 1.5 * timeout_ms:
            return None
        if fields["epoch"] == self._ended.get(node):
            return None
        return Broken(
            f"{node} follows n{fields['leader_id']} in epoch {fields['epoch']} still, which has "
            f"not answered it for {silent_ms:.0f} ms, and asks n{fields['asked_id']}"
        )


class Succession(Invariant):
    """A leader that hears of a later epoch stops leading, as soon as it can.

    The new epoch must be on its disk before it acts in it, so it may go on while its disk has work
    to do. A node whose disk has none, and which still leads its old epoch, did not take it up.
    After a change of voters in its term answers show nothing: what the node had asked until then,
    of voters that may be none any more, it does not wait for.
    """

    name = "succession"
    source = "Raft 5.1, terms; KIP-595, BeginQuorumEpoch"
    reads = frozenset({"state"})

    _later: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The later epoch that a leading node has heard of, and from which node."""
    _changed: set[str] = field(default_factory=set)
    """Leading nodes with a change of voters in their term."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._later.pop(node, None)
        self._changed.discard(node)

    on_state = on_start

    def on_voters(self, node: str, fields: Fields) -> None:
        if node in self.quorum.leads:
            self._changed.add(node)

    def on_epoch_arrival(self, node: str, fields: Fields) -> Broken | None:
        """Judge what it did since the last one, and take up this one if nodes are in that epoch.

        An answer to what the node asked before this term (`asked_epoch`) is none any more.
        """
        own, epoch = self.quorum.leads.get(node), fields["epoch"]
        if own is None:
            return None
        broken = self._judge(node)
        asked_epoch = fields["asked_epoch"]
        counts = asked_epoch is None or (asked_epoch == own and node not in self._changed)
        if epoch > own and counts and epoch in self.quorum.entered:
            self._later[node] = epoch, fields["sender"]
        return broken

    def on_fetch_arrival(self, node: str, fields: Fields) -> Broken | None:
        return self._judge(node)

    on_append = on_fetch_arrival
    on_flush = on_fetch_arrival
    on_read = on_fetch_arrival

    def _judge(self, node: str) -> Broken | None:
        if node not in self._later or not self.sight.is_written(node):
            return None
        epoch, sender = self._later[node]
        return Broken(
            f"{node} leads epoch {self.quorum.leads[node]} still, though it has heard of epoch "
            f"{epoch} from {sender}, and its disk has nothing left to do",
            (node, sender),
        )


class ResignedEarly(Invariant):
    """A leader that a majority fetches from does not resign for want of one.

    A period of its check ends when so many others as make a majority with it have fetched since it
    began. It resigns when one has lasted for the time-out: so the last of so many that it heard of
    had fetched before that. A single voter needs nobody. What else makes it resign is left out: a
    stop, its removal, and whoever asks it to.
    """

    name = "resigned-early"
    source = "KIP-595, check quorum; KAFKA-16144"
    reads = frozenset({"term", "start", "start.check_quorum_timeout_ms", "voters", "state"})

    _fetched_ms: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By node that leads, and voter: when it had last fetched as something last arrived."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._fetched_ms.pop(node, None)

    def on_voters(self, node: str, fields: Fields) -> None:
        """Leave out a leader of other voters than it began with."""
        self._fetched_ms.pop(node, None)

    def on_fetch_arrival(self, node: str, fields: Fields) -> None:
        term = self.sight.term(node) if node in self._fetched_ms else None
        if term is not None:
            self._fetched_ms[node] = term.fetched_ms

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        fetched_ms, sight = self._fetched_ms.pop(node, None), self.sight
        term = sight.term(node) if fields["state"] == "Leader" else None
        if term is not None:
            self._fetched_ms[node] = term.fetched_ms
        if fields["state"] != "Resigned" or fetched_ms is None:
            return None
        voters, now_ms = self.quorum.electorate.members(node), sight.monotonic_ms(node)
        heard_ms = sorted(fetched_ms.values(), reverse=True)
        needed = voters.majority - 1
        if sight.may_resign(node) or node not in voters.directories or needed > len(heard_ms):
            return None
        ago_ms = now_ms - heard_ms[needed - 1] if needed else 0.0
        if ago_ms >= (1 - _SILENCE) * self.quorum.timeouts_ms[node]:
            return None
        return Broken(
            f"{node} resigns in epoch {fields['epoch']} though a majority of its voters {voters} "
            f"had fetched {ago_ms:.0f} ms before, where it may lead for "
            f"{self.quorum.timeouts_ms[node]:g} ms without"
        )


class EndTold(Invariant):
    """A leader that is to resign does, and tells each of the other voters how far each of them is.

    It is to when it shuts down, is asked to, or has removed itself. The others elect another then,
    without waiting for a fetch time-out, and the one with the longest log stands first. Judged as
    it answers others, when it has had a quarter of the time-out for it and its disk has nothing
    left to do: it may have heard of a later epoch first. One that was stopped takes up what waited
    for it before its timer.
    """

    name = "end-told"
    source = "KIP-595, EndQuorumEpoch"
    reads = frozenset({"term", "start", "start.check_quorum_timeout_ms", "voters", "state"})

    _untold: dict[str, int] = field(default_factory=dict)
    """By nodes that resigned as leaders: to how many others they have sent nothing since."""
    _since_ms: dict[str, float] = field(default_factory=dict)
    """By these: since when they have been at work."""
    _seen_ms: dict[str, float] = field(default_factory=dict)

    def on_start(self, node: str, fields: Fields) -> None:
        self._untold.pop(node, None)

    def on_state(self, node: str, fields: Fields) -> None:
        self._untold.pop(node, None)
        if fields["state"] == "Resigned" and node in self.quorum.leads:
            voters = self.quorum.electorate.members(node).directories
            self._untold[node] = len(voters.keys() - {node})
            self._since_ms[node] = self._seen_ms[node] = self.sight.monotonic_ms(node)

    def on_epoch_end_sent(self, node: str, fields: Fields) -> Broken | None:
        if node in self._untold:
            self._untold[node] -= 1
        successors = fields["successors"]
        ends = list(successors.values())
        if ends == sorted(ends, reverse=True):
            return None
        named = ", ".join(f"{name} at {end}" for name, end in successors.items())
        return Broken(f"{node} resigns and prefers as its successors, in this order: {named}")

    def on_fetch_arrival(self, node: str, fields: Fields) -> Broken | None:
        untold, leads_on = self._untold.get(node, 0), node in self.quorum.leads
        if untold <= 0 and not (leads_on and self.sight.must_resign(node)):
            self._seen_ms.pop(node, None)
            return None
        now_ms, long_ms = self.sight.monotonic_ms(node), _SILENCE * self.quorum.timeouts_ms[node]
        silent_ms = now_ms - self._seen_ms.get(node, -math.inf)
        if silent_ms > long_ms or not self.sight.is_written(node):
            self._since_ms[node] = now_ms
        self._seen_ms[node] = now_ms
        late_ms = now_ms - self._since_ms[node]
        if late_ms <= long_ms:
            return None
        if leads_on:
            return Broken(f"{node} leads on for {late_ms:.0f} ms though it is to resign")
        return Broken(
            f"{node} resigned {late_ms:.0f} ms ago and has sent {untold} of the other voters no "
            "EndQuorumEpoch"
        )


class ReadByMajority(Invariant):
    """A linearizable read is answered once a majority has confirmed the leadership after it came.

    Reads are answered in the order of their numbers. So a majority, the leader included if it
    votes, has confirmed for each that waits no more, or for a later one. Who leads no longer
    answers as many as waited no more when it lost the leadership: the rest was never confirmed.
    """

    name = "read-by-majority"
    source = "Raft 8, read-only operations"
    reads = frozenset({"state", "voters", "read"})

    _leads: set[str] = field(default_factory=set)
    """Those that lead, with the voters that they began with."""
    _left: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By node that led others: its epoch, and how many confirmed reads it has yet to answer;
    less than none while it leads, by those that were confirmed before or since."""

    def on_state(self, node: str, fields: Fields) -> None:
        sight = self.sight
        if fields["state"] == "Leader":
            self._leads.add(node)
            others = self.quorum.electorate.members(node).directories.keys() - {node}
            self._left.pop(node, None)
            if others:
                self._left[node] = fields["epoch"], -sight.latest_ready_read(node)
        elif node in self._leads:
            self._leads.remove(node)
            if node in self._left:
                epoch, left = self._left[node]
                self._left[node] = epoch, left + sight.latest_ready_read(node)

    def on_voters(self, node: str, fields: Fields) -> None:
        """Leave out a leader of other voters, of which a majority has yet to be asked."""
        self._leads.discard(node)
        self._left.pop(node, None)

    def on_read(self, node: str, fields: Fields) -> Broken | None:
        if fields["confirmed"] is not True:
            return None
        epoch, left = self._left.get(node, (fields["epoch"], 0))
        if node in self._left and epoch == fields["epoch"]:
            self._left[node] = epoch, left - 1
            if node not in self._leads and left <= 0:
                return Broken(
                    f"{node} answers a read of epoch {epoch}, which waited for a majority to "
                    f"confirm its leadership when it lost that"
                )
        term = self.sight.term(node) if node in self._leads else None
        if term is None:
            return None
        voters = self.quorum.electorate.members(node)
        confirming = [v for v in voters.directories if term.confirmed.get(v, 0) >= term.released]
        own = 1 if node in voters.directories and node not in confirming else 0
        if len(confirming) + own >= voters.majority:
            return None
        return Broken(
            f"{node} answers read {term.released} in epoch {fields['epoch']}, which "
            f"{', '.join(confirming) or 'nobody'} alone confirmed of its voters {voters}"
        )


LEADING = rules_of(__name__)

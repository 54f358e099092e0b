"""Invariants of when a replica stands for election, what it asks of others, and its votes.

They read events that no node traces (`harness/sim/sights/standing.py`): `role`, the state that it
enters, and its time-outs; `peer-asked`, it sends another replica a request, and `peer-answered`,
the last one is answered or fails; `vote-asked`, another asks for its vote, and `vote-answered`, it
answers that; `timer-seen`, its timer, and when it has something to do (`quorum_polls.py`);
and `epoch-end` (`leading.py`). When a node wrote an epoch or a vote first, its timers
run from before that: so they count from when its disk had nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.invariants.electorate import ANY
from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.sight import NO_NODE, Fields, node_name

_GRAIN_MS = 0.01
"""Clocks are compared in fractions of a millisecond."""
_LOOKS = 2
"""One that was stopped takes up what waited for it before its timer."""
_KINDS = {"Prospective": "Vote", "Candidate": "Vote", "Leader": "BeginQuorumEpoch"}
"""By state: what a replica sends to all other voters as it enters it."""

_UNWRITTEN = ("Prospective", "Resigned")
"""States that a replica enters without a write, unless it starts or votes with it."""


@dataclass(slots=True)
class _Wait:
    """What a replica has asked of another."""

    until_ms: float
    """When it times out, or when the pause after its failure ends."""
    failed: bool = False


@dataclass(slots=True)
class _Entry:
    """A state that a replica has entered, and the voters that it has yet to ask."""

    left: set[str]
    seen_ms: float
    """When it was last seen at work since, but for what came at the same time."""
    looks: int = 0


class AsksInTurn(Invariant):
    """A replica asks another again once that one answered, and some time later after an error.

    Else two that know no leader would ask each other as fast as the network carries it. And a Fetch
    waits for the answer to the last one, whoever was asked: the log could grow from both. A new
    state or other voters end all that: of what was asked before no answer counts. So who enters a
    state in which all voters are to be asked asks each of them at once, if its log is durable.
    """

    name = "asks-in-turn"
    source = "RequestManager.java; KafkaNetworkChannel, max.in.flight; KIP-595, Vote"

    _waits: dict[str, dict[str, _Wait]] = field(default_factory=dict)
    """By node and whom it asked, since it entered its state."""
    _role: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By node: its state and epoch."""
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def on_start(self, node: str, fields: Fields) -> None:
        self._role.pop(node, None)
        self.on_voters(node, fields)

    def on_voters(self, node: str, fields: Fields) -> None:
        self._waits.pop(node, None)
        self._entries.pop(node, None)

    def on_role(self, node: str, fields: Fields) -> None:
        before, role = self._role.get(node), (fields["state"], fields["epoch"])
        self._role[node] = role
        self._waits.pop(node, None)
        if role == before:
            return  # it has voted for another: its own questions stand
        self._entries.pop(node, None)
        if role[0] in _KINDS:
            others = self.quorum.electorate.members(node).directories.keys() - {node}
            self._entries[node] = _Entry(others, self.sight.monotonic_ms(node))

    def on_peer_asked(self, node: str, fields: Fields) -> Broken | None:
        now_ms, peer, kind = self.sight.monotonic_ms(node), fields["peer"], fields["kind"]
        waits = self._waits.setdefault(node, {})
        if node in self._entries and kind == _KINDS[self._role[node][0]]:
            self._entries[node].left.discard(peer)
        for other, wait in waits.items():
            concerns = other == peer or (kind.startswith("Fetch") and not wait.failed)
            if concerns and now_ms < wait.until_ms - _GRAIN_MS:
                left_ms = f"{wait.until_ms - now_ms:.1f} ms"
                why = (
                    f"{left_ms} too early after an error"
                    if wait.failed
                    else f"and waits for an answer of {other} still, for {left_ms} more"
                )
                return Broken(f"{node} sends {peer} a {kind} {why}", (node, peer))
        waits[peer] = _Wait(now_ms + fields["timeout_ms"])
        return None

    def on_peer_answered(self, node: str, fields: Fields) -> Broken | None:
        waits = self._waits.get(node, {})
        wait = waits.get(fields["peer"])
        if wait is not None and not wait.failed:
            now_ms = self.sight.monotonic_ms(node)
            if now_ms < wait.until_ms:
                del waits[fields["peer"]]
                if fields["is_error"]:
                    waits[fields["peer"]] = _Wait(now_ms + fields["backoff_ms"], failed=True)
        return self.on_vote_asked(node, fields)

    def on_vote_asked(self, node: str, fields: Fields) -> Broken | None:
        """Judge whom it has asked, once something came after its timer as well."""
        entry = self._entries.get(node)
        if entry is None:
            return None
        now_ms = self.sight.monotonic_ms(node)
        if now_ms <= entry.seen_ms or not self.sight.is_written(node):
            return None
        entry.seen_ms, entry.looks = now_ms, entry.looks + 1
        if not entry.left or entry.looks < _LOOKS:
            return None
        left, (state, epoch) = ", ".join(sorted(entry.left)), self._role[node]
        del self._entries[node]
        return Broken(
            f"{node} is {state} in epoch {epoch} and has sent {left} no {_KINDS[state]} at once"
        )


class StandsInTime(Invariant):
    """A voter stands for election when its time is over, and no sooner.

    A follower waits for a fetch time-out after the last answer of its leader. When that resigns, it
    waits for the back-off of its place among the successors instead: the first stands at once, the
    last, and one that is none, after `controller.quorum.election.backoff.max.ms`, and each before
    after half as long as the next. Who follows nobody waits for an election time-out at least
    since it last stood, voted, or followed: those that stand again at once elect nobody.
    """

    name = "stands-in-time"
    source = "KIP-595, EndQuorumEpoch; Raft 5.2, randomized election time-outs; KAFKA-18345"

    _calm_ms: dict[str, float] = field(default_factory=dict)
    """By node: when it last was seen with nothing to write."""
    _roles: dict[str, Fields] = field(default_factory=dict)
    _due_ms: dict[str, float] = field(default_factory=dict)
    """By node: when it may stand at the earliest."""
    _before_ms: dict[str, float] = field(default_factory=dict)
    """That before the last answer, which the node may yet refuse."""
    _ended_ms: dict[str, float] = field(default_factory=dict)
    """By follower of a leader that resigned: when it must stand at the latest."""
    _told: dict[str, dict[tuple[int, str], list[Sequence[str]]]] = field(default_factory=dict)
    """By node: who resigned in which epoch, as it may have yet to take up: the successors, each
    time that it is told. A leader that was restarted resigns again, and may name others."""
    _asked: dict[str, dict[str, float]] = field(default_factory=dict)
    """By node and peer: until when it waits for an answer in its state."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._roles.pop(node, None)
        self._due_ms.pop(node, None)
        self._told.pop(node, None)
        self.on_voters(node, fields)
        self._calm_ms[node] = self.sight.monotonic_ms(node)

    def on_voters(self, node: str, fields: Fields) -> None:
        self._asked.pop(node, None)
        self._ended_ms.pop(node, None)

    def on_role(self, node: str, fields: Fields) -> Broken | None:
        before, due_ms = self._roles.get(node), self._due_ms.get(node)
        self.on_voters(node, fields)
        self._roles[node] = fields
        self._due_ms[node] = self._next_due_ms(node, before, fields)
        if fields["state"] != "Prospective" or fields["is_alone"]:
            return None
        if before is None or due_ms is None or before["state"] == "Prospective":
            return None
        now_ms = self.sight.monotonic_ms(node)
        if now_ms >= due_ms - _GRAIN_MS:
            return None
        return Broken(
            f"{node} stands for election after epoch {fields['epoch']}, as a {before['state']}, "
            f"{due_ms - now_ms:.1f} ms before its time is over"
        )

    def _next_due_ms(self, node: str, before: Fields | None, fields: Fields) -> float:
        """When a node may stand that enters a state."""
        told, state = self._told.get(node, {}), fields["state"]
        since_ms = self._calm_ms[node]
        if state in _UNWRITTEN and before is not None and before["state"] != state:
            since_ms = self.sight.monotonic_ms(node)
        if state == "Follower":
            wait_ms: float = fields["fetch_ms"]
            for successors in told.get(_leadership(fields), ()):
                wait_ms = min(wait_ms, back_off_ms(node, successors, fields["backoff_ms"]))
            return since_ms + wait_ms
        fresh_ms: float = since_ms + fields["election_ms"]
        goes_on = before is not None and before["state"] not in ("Follower", "Leader")
        if state != "Unattached" or before is None or not goes_on:
            return fresh_ms
        has_voted = (before["epoch"], before["voted_id"]) == (fields["epoch"], NO_NODE)
        return fresh_ms if has_voted and fields["voted_id"] != NO_NODE else self._due_ms[node]

    def on_peer_asked(self, node: str, fields: Fields) -> None:
        until_ms = self.sight.monotonic_ms(node) + fields["timeout_ms"]
        self._asked.setdefault(node, {})[fields["peer"]] = until_ms

    def on_peer_answered(self, node: str, fields: Fields) -> None:
        """Take up an answer of the leader to a Fetch."""
        self._see(node)
        state, until_ms = self._roles.get(node), self._asked.get(node, {}).pop(fields["peer"], 0.0)
        if fields["is_error"]:
            return
        self._ended_ms.pop(node, None)
        if state is None or state["state"] != "Follower" or not fields["kind"].startswith("Fetch"):
            return
        now_ms = self.sight.monotonic_ms(node)
        if now_ms < until_ms and (fields["epoch"], fields["leader"]) == _leadership(state):
            self._before_ms[node] = self._due_ms[node]
            self._due_ms[node] = now_ms + state["fetch_ms"]

    def on_corrupt_fetch(self, node: str, fields: Fields) -> None:
        if node in self._due_ms:
            self._due_ms[node] = min(self._due_ms[node], self._before_ms.get(node, 0.0))

    on_contradiction = on_corrupt_fetch

    def on_epoch_end(self, node: str, fields: Fields) -> None:
        """Take up that a leader has resigned."""
        self._see(node)
        state, successors = self._roles.get(node), fields["candidates"]
        told = fields["epoch"], fields["leader"]
        if state is None or state["state"] != "Follower" or told != _leadership(state):
            self._told.setdefault(node, {}).setdefault(told, []).append(successors)
            return
        due_ms = self.sight.monotonic_ms(node) + back_off_ms(node, successors, state["backoff_ms"])
        self._due_ms[node] = self._before_ms[node] = self._ended_ms[node] = due_ms

    def _see(self, node: str) -> None:
        if self.sight.is_written(node):
            self._calm_ms[node] = self.sight.monotonic_ms(node)

    def on_vote_asked(self, node: str, fields: Fields) -> None:
        self._see(node)

    on_fetch_arrival = on_epoch_arrival = on_vote_asked

    def on_fetch(self, node: str, fields: Fields) -> Broken | None:
        due_ms = self._ended_ms.get(node)
        if due_ms is None:
            return None
        now_ms = self.sight.monotonic_ms(node)
        if not self.quorum.electorate.is_voter(node) or now_ms <= due_ms + _GRAIN_MS:
            return None
        return Broken(
            f"{node} follows {_leadership(self._roles[node])[1]} still, which has resigned, "
            f"{now_ms - due_ms:.1f} ms after it was to stand for election"
        )


def _leadership(state: Fields) -> tuple[int, str]:
    return state["epoch"], node_name(state["leader_id"])


def back_off_ms(node: str, successors: Sequence[str], most_ms: float) -> float:
    """How long a successor of a leader that resigned waits (endEpochElectionBackoff)."""
    if node not in successors or node == successors[-1] != successors[0]:
        return most_ms
    place, count = successors.index(node), len(successors)
    return 0.0 if place == 0 else min(most_ms, (int(most_ms) >> (count - 1)) << (place - 1))


@rule("timer-seen", "KafkaRaftClient.poll; RequestManager.java")
def wakes_in_time(node: str, fields: Fields) -> Broken | None:
    """A replica has a timer that is no later than what it has to do next.

    It stands for election, resigns, asks again and answers what waited long enough when nothing
    comes to it any more, too.

    Compare, both by the node's clock.
    """
    in_ms, timer_ms = fields["in_ms"], fields["timer_ms"]
    if timer_ms <= in_ms + _GRAIN_MS:
        return None
    wakes = "has no timer" if timer_ms == math.inf else f"wakes up in {timer_ms:.1f} ms"
    return Broken(
        f"{node} is {fields['state']} in epoch {fields['epoch']}, has to do something in "
        f"{in_ms:.1f} ms, and {wakes}"
    )


_LOGS = "own", "position"


class VoteGiven(Invariant):
    """A vote and a PreVote go to whose log is as up to date as the voter's, and not to others.

    A vote that was given is given again, whatever the log. Who comes second in an epoch, or when a
    leader is known, is refused; and its PreVote by a leader, and by one that has heard of it. And
    what a candidate shows of its log is durable: were it lost, its voters would repeat their
    votes to one that lacks what they have committed.
    """

    name = "vote-given"
    source = "Raft 5.2 and 5.4.1; KIP-996"

    _given: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """By voter, its directory and epoch: for whom it has voted."""

    def on_vote_answered(self, node: str, fields: Fields) -> Broken | None:
        """Judge by what the voter knew as it answered."""
        candidate, epoch, kind = fields["candidate"], fields["epoch"], fields["kind"]
        at = node, self.quorum.electorate.directories.get(node, ANY), epoch
        known = self._given.get(at), self.quorum.leader_of.get(epoch)
        is_repeat = kind == "Vote" and candidate in known
        if kind == "Vote" and fields["granted"]:
            self._given[at] = candidate
        is_ahead = fields["position"] >= fields["own"]
        if fields["granted"] and (is_ahead or is_repeat):
            return None
        if not fields["granted"] and not (is_ahead and fields["is_free"]):
            return None
        does = "grants" if fields["granted"] else "refuses"
        own, position = (f"{fields[log][1]} in epoch {fields[log][0]}" for log in _LOGS)
        return Broken(
            f"{node}, whose log ends at {own}, {does} {candidate} a {kind} in epoch {epoch}, whose "
            f"log ends at {position}",
            (node, candidate),
        )

    def on_peer_asked(self, node: str, fields: Fields) -> Broken | None:
        shown, durable = fields["position"], self.sight.durable_end(node)
        if shown is None or durable is None or shown[1] <= durable:
            return None
        return Broken(f"{node} stands with a log up to {shown[1]}, of which {durable} is durable")


STANDING = rules_of(__name__)

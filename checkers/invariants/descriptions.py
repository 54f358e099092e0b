"""Invariants of what replicas answer to DescribeQuorum, beside what they have acknowledged.

They read events that no node traces (`harness/sim/requests/quorum_polls.py`): `quorum-answer`, what
a node says of the quorum, which is asked of it all the time; `voter-asked`, a request comes to a
node that it change a voter, and `voters-acknowledged`, it answers that the voters have changed. A
client sees all of that: a node is judged by its word alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from checkers.invariants.electorate import ANY
from checkers.invariants.fold import Broken, Invariant, rules_of
from checkers.invariants.sight import NO_NODE, Fields, node_name

_SLACK: Final = 0.25
"""Share of a time-out."""
_APPENDS_MIN: Final = 3
"""What was appended in time may be on the disk late: one sync is under way, another follows."""


class OneLeaderNamed(Invariant):
    """Whichever replicas are asked, they name one leader of an epoch."""

    name = "one-leader-named"
    source = "Raft 5.2, election safety; KIP-595, DescribeQuorum"

    _leaders: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By epoch: who leads, and the first node that said so."""

    def on_quorum_answer(self, node: str, fields: Fields) -> Broken | None:
        leader, epoch = fields["leader_id"], fields["epoch"]
        known, teller = self._leaders.setdefault(epoch, (leader, node))
        if known == NO_NODE:
            self._leaders[epoch] = leader, node
        if NO_NODE in (known, leader) or known == leader:
            return None
        return Broken(
            f"{node} answers that {node_name(leader)} leads epoch {epoch}, of which {teller} has "
            f"answered that {node_name(known)} leads it",
            (teller, node),
        )


@dataclass(slots=True)
class _Reign:
    """What a leader has said of itself without a gap."""

    epoch: int
    voters: Mapping[str, str]
    at_ms: float
    """When it was asked last, by two clocks: the client's and its own."""
    wall_ms: int
    end: int
    """Of its log, or the furthest of its voters'."""
    age_ms: float = 0.0
    """How long it is, by the slower one of these clocks: either may be set ahead."""
    fetched: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By voter: when it last fetched, and the age at which that was new."""
    appends: int = 0
    """How often the end has moved since no majority has fetched in time."""

    def take(self, fields: Fields) -> None:
        """Take up an answer."""
        passed_ms = min(fields["at_ms"] - self.at_ms, fields["wall_ms"] - self.wall_ms)
        self.age_ms += max(0.0, passed_ms)
        self.at_ms, self.wall_ms = fields["at_ms"], fields["wall_ms"]
        for voter, fetched_ms in fields["fetched_ms"].items():
            if voter not in self.fetched or self.fetched[voter][0] != fetched_ms:
                self.fetched[voter] = fetched_ms, self.age_ms

    def silent_ms(self, own: str) -> float:
        """How long no majority has fetched, the leader included if it votes."""
        needed = len(self.voters) // 2 + 1 - (own in self.voters)
        others = sorted((age for voter, (_, age) in self.fetched.items() if voter != own))
        return self.age_ms - others[-needed] if 0 < needed <= len(others) else 0.0


class LedByMajority(Invariant):
    """A leader does not go on when, by its own word, no majority of the voters fetches any more.

    It leads for up to two time-outs since (`leading.LedAlone` argues why), and appends nothing
    then. A voter that downloads a snapshot counts without a Fetch: so leaders are judged whose logs
    are whole. One that did not answer for a time may have been stopped, and begins anew.
    """

    name = "led-by-majority"
    source = "KIP-595, check quorum; KAFKA-15489"

    _reigns: dict[str, _Reign] = field(default_factory=dict)
    """By the nodes that said that they lead when they were asked last."""

    def on_quorum_answer(self, node: str, fields: Fields) -> Broken | None:
        reign = self._reigns.pop(node, None)
        if not fields["leads"] or fields["log_start"] > 0:
            return None
        epoch, voters = fields["epoch"], fields["voters"]
        at_ms, every_ms, timeout_ms = (fields[k] for k in ("at_ms", "every_ms", "timeout_ms"))
        end = max(fields["ends"].values(), default=0)
        goes_on = reign is not None and at_ms - reign.at_ms <= 1.5 * every_ms
        if reign is None or not goes_on or (reign.epoch, reign.voters) != (epoch, voters):
            reign = _Reign(epoch, voters, at_ms, fields["wall_ms"], end)
        self._reigns[node] = reign
        reign.take(fields)
        has_grown, reign.end = end > reign.end, max(end, reign.end)
        silent_ms = reign.silent_ms(node)
        if silent_ms <= (2 + _SLACK) * timeout_ms + 2 * every_ms:
            reign.appends = 0
            return None
        reign.appends += has_grown
        if reign.appends < _APPENDS_MIN:
            return None
        return Broken(
            f"{node} answers that it leads epoch {epoch}, that its log grows, and that it is "
            f"{silent_ms:.0f} ms since a majority of its voters had last fetched, where it must "
            f"resign after {timeout_ms:g} ms"
        )


@dataclass(slots=True)
class _Change:
    """An acknowledged change of the voters."""

    teller: str
    """The node that acknowledged it."""
    voter: str | None
    """None: all of them have a directory since."""
    directory: str
    is_addition: bool
    epoch: int | None = None
    """An epoch that is no earlier than that of the acknowledgement."""
    mark: int | None = None
    """The high watermark of a leader that acknowledged its own removal, as of its next answer."""

    def contradiction(self, node: str, fields: Fields) -> str | None:
        """What the answer of a leader says against it."""
        voters, mark = fields["voters"], fields["high_watermark"]
        if self.voter is None:
            unknown = sorted(voter for voter, directory in voters.items() if directory == ANY)
            return f"{', '.join(unknown)} may have any directory" if unknown else None
        if (voters.get(self.voter) == self.directory) != self.is_addition:
            return f"{', '.join(voters)} are the voters"
        if self.is_addition or not self.voter == self.teller == node:
            return None
        if self.mark is not None and mark > self.mark and fields["epoch"] == self.epoch:
            return f"it has led on, and committed what lies from {self.mark} to {mark}"
        self.mark = mark if self.mark is None else self.mark
        return None

    def __str__(self) -> str:
        if self.voter is None:
            return "kraft.version 1, with which voters have directories"
        does = "voter" if self.is_addition else "removal"
        return f"{self.voter} with directory {self.directory} as a {does}"


class VotersAsAcknowledged(Invariant):
    """What was acknowledged of the voters, leaders of this and of later epochs answer from then on.

    Who was added votes, and who was removed does not, until another change of that voter is asked
    for. With kraft.version 1 each has a directory. And a leader that acknowledges its own removal
    has resigned.
    """

    name = "voters-as-acknowledged"
    source = "KIP-853, AddRaftVoter, RemoveRaftVoter; KAFKA-17608; Raft 5.4, leader completeness"

    _asked: dict[str, int] = field(default_factory=dict)
    """By voter: number of the request for a change of it that came last to any node."""
    _changes: dict[str | None, _Change] = field(default_factory=dict)
    """By voter: the last change, unless another is asked for."""

    def on_voter_asked(self, node: str, fields: Fields) -> None:
        self._asked[fields["voter"]] = fields["number"]
        self._changes.pop(fields["voter"], None)

    def on_voters_acknowledged(self, node: str, fields: Fields) -> None:
        voter = fields["voter"]
        if voter is None or self._asked.get(voter) == fields["number"]:
            change = _Change(node, voter, fields["directory"], fields["is_addition"])
            self._changes[voter] = change

    def on_quorum_answer(self, node: str, fields: Fields) -> Broken | None:
        for change in self._changes.values():
            if change.epoch is None:
                change.epoch = fields["epoch"] if node == change.teller else None
            elif fields["leads"] and fields["epoch"] >= change.epoch:
                what = change.contradiction(node, fields)
                if what is not None:
                    return Broken(
                        f"{node} answers that it leads epoch {fields['epoch']}, and that {what}; "
                        f"{change.teller} had acknowledged {change} by epoch {change.epoch}",
                        tuple(dict.fromkeys((change.teller, node))),
                    )
        return None


DESCRIPTIONS = rules_of(__name__)

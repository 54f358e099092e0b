"""Invariants of elections: one leader an epoch, one vote a voter, a majority behind a leader."""

from __future__ import annotations

from dataclasses import field

from checkers.invariants.electorate import ANY
from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.sight import NO_NODE, PERSISTED, Election, Fields, node_name


class ElectionSafety(Invariant):
    """At most one leader an epoch, by the events of all nodes, and one LeaderChange.

    Its leader was elected: the record names the voters, and a majority of them that granted votes.
    """

    name = "election-safety"
    source = "Raft 5.2, Election Safety; NeverTwoLeadersInSameEpoch"
    reads = frozenset({"state"})
    order = Order.NONE

    _named_by: dict[int, str] = field(default_factory=dict)
    """By epoch: the first node that named its leader."""

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        if fields["leader_id"] == NO_NODE:
            return None
        return self._note_leader(node, fields["epoch"], node_name(fields["leader_id"]))

    on_quorum_state = on_state

    def on_leader_change(self, node: str, fields: Fields) -> Broken | None:
        return self.on_state(node, fields) or self._starts(node, fields) or _minority(node, fields)

    def on_epoch_start(self, node: str, fields: Fields) -> Broken | None:
        return self._note_leader(node, fields["epoch"], node) or self._starts(node, fields)

    def on_claim(self, node: str, fields: Fields) -> Broken | None:
        return self._note_leader(node, fields["epoch"], node)

    def on_contradiction(self, node: str, fields: Fields) -> Broken | None:
        if fields["claimed_id"] < 0:
            return None
        return self._note_leader(node, fields["claimed_epoch"], node_name(fields["claimed_id"]))

    def _note_leader(self, node: str, epoch: int, leader: str) -> Broken | None:
        first = self._named_by.setdefault(epoch, node)
        known = self.quorum.leader_of.get(epoch, leader)
        if known == leader:
            return None
        explanation = (
            f"epoch {epoch} is led by {known}, as {first} says, and by {leader}, as {node} says"
        )
        return Broken(explanation, (known, leader))

    def _starts(self, node: str, fields: Fields) -> Broken | None:
        epoch, offset = fields["epoch"], fields["offset"]
        known = self.quorum.epoch_starts.get(epoch, offset)
        if known == offset:
            return None
        return Broken(f"epoch {epoch} starts at offset {known}, and at {offset} as {node} says")


def _minority(node: str, fields: Fields) -> Broken | None:
    voters, granting = (fields.get(name, ()) for name in ("voters", "granting_voters"))
    if not voters or 2 * len({*voters} & {*granting}) > len(voters):
        return None
    leader, by = node_name(fields["leader_id"]), ", ".join(map(node_name, granting)) or "no node"
    return Broken(
        f"by the log of {node} {leader} leads epoch {fields['epoch']} with the votes of {by} among "
        f"{', '.join(map(node_name, voters))}"
    )


class NoContradiction(Invariant):
    """No node is sent what contradicts its state.

    A node that refuses such a message goes on, as anybody who reaches its port may have sent it.
    But the nodes of a run have none but each other: one of two is wrong of the epoch, of its log or
    of what was committed.
    """

    name = "no-contradiction"
    source = "KRaft.tla, NoIllegalState; KafkaRaftClient, IllegalStateException"
    reads = frozenset({"contradiction"})
    own = True
    order = Order.NONE

    def on_contradiction(self, node: str, fields: Fields) -> Broken:
        epoch = fields["epoch"]
        return Broken(f"{node} in epoch {epoch} refused {fields['message']}: {fields['reason']}")


class ElectedByMajority(Invariant):
    """A leader has the votes of a majority of the voters that are in force in its log."""

    name = "elected-by-majority"
    source = "Raft 5.2"
    reads = frozenset({"start", "voters", "vote", "state"})
    order = Order.CAUSE

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        if fields["state"] != "Leader":
            return None
        epoch, electorate = fields["epoch"], self.quorum.electorate
        voters = electorate.members(node)
        granting = electorate.granting(node, epoch)
        lacking = voters.majority - len(granting)
        if lacking <= 0:
            return None
        explanation = (
            f"{node} leads epoch {epoch} with the votes of {', '.join(granting) or 'no node'} "
            f"among {voters}"
        )
        unseen = self.quorum.unseen_of(voters.directories, granting, lacking)
        return Broken(explanation, unseen=unseen)


class PreElected(Invariant):
    """A voter stands for election once a majority of its voters, itself included, granted PreVote.

    Else a server that others reach, and that does not reach its leader, deposes one leader after
    the other. What was granted in an epoch stays granted: a candidate that is restarted needs no
    new ones. Asked live alone: voters of before KIP-996 have no PreVote, and no trace says so.
    """

    name = "pre-elected"
    source = "KIP-996"
    reads = frozenset({"start", "voters", "vote", "state", "state.at-once"})

    _granted: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """(candidate, its epoch before it stands) -> who granted its PreVote."""

    def on_vote(self, node: str, fields: Fields) -> None:
        if fields["pre_vote"] and fields["granted"]:
            at = node_name(fields["candidate_id"]), fields["epoch"]
            self._granted.setdefault(at, set()).add(node)

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        if fields["state"] != "Candidate":
            return None
        voters, epoch = self.quorum.electorate.members(node), fields["epoch"]
        granted = {node, *self._granted.get((node, epoch - 1), ())}
        granting = [voter for voter in voters.directories if voter in granted]
        if len(granting) >= voters.majority or not voters.directories:
            return None
        return Broken(
            f"{node} stands for election in epoch {epoch} with the PreVotes of "
            f"{', '.join(granting) or 'no node'} among {voters}"
        )


class OneVote(Invariant):
    """A voter votes for one candidate an epoch, over its restarts and power losses.

    Two candidates that share one such voter can each have a majority: n1 with n1 and n2, n3 with
    n3 and n2, and one epoch has two leaders.
    """

    name = "one-vote"
    source = "Raft 5.2; KIP-595"
    reads = frozenset({"state"})

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        if fields["voted_id"] == NO_NODE:
            return None
        return self._note_vote(node, fields["epoch"], node_name(fields["voted_id"]))

    on_quorum_state = on_state

    def on_vote(self, node: str, fields: Fields) -> Broken | None:
        if not fields["granted"] or fields["pre_vote"]:
            return None
        return self._note_vote(node, fields["epoch"], node_name(fields["candidate_id"]))

    def _note_vote(self, node: str, epoch: int, candidate: str) -> Broken | None:
        known = self.quorum.electorate.vote_of(node, epoch)
        if known in (None, candidate):
            return None
        return Broken(f"{node} voted for {known} and for {candidate} in epoch {epoch}")


class StableLeadership(Invariant):
    """No voter that has records of its leader grants a PreVote, as long as it follows it.

    The leader that a voter has fetched from may be alive, and a server with a broken link must not
    depose it. A follower that loses its leader first leaves its state; an observer, which has none
    to go to, may grant. A disk that was wiped makes an observer of the id of a voter, and other
    voters are a reason to wait for the next records: the node may have lost its leader before.
    """

    name = "stable-leadership"
    source = "KIP-996; FollowerState.canGrantVote"
    reads = frozenset({"start", "voters", "state", "state.at-once", "append", "vote"})
    """Of a system whose states are seen later than its votes (`cluster.backends.sim.kafka.trace`)
    nothing can be said: it may have left its leader in between."""
    own = True

    _follows: dict[str, str] = field(default_factory=dict)
    """The leader that a node follows since its last change of state."""
    _heard: set[str] = field(default_factory=set)
    """Nodes that have records of it since then, and since they know their voters."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._follows.pop(node, None)
        self._heard.discard(node)

    def on_state(self, node: str, fields: Fields) -> None:
        self.on_start(node, fields)
        if fields["state"] == "Follower":
            self._follows[node] = node_name(fields["leader_id"])

    def on_voters(self, node: str, fields: Fields) -> None:
        self._heard.discard(node)

    def on_append(self, node: str, fields: Fields) -> None:
        if node in self._follows and fields["role"] == "follower":
            self._heard.add(node)

    def on_vote(self, node: str, fields: Fields) -> Broken | None:
        if not (fields["pre_vote"] and fields["granted"] and node in self._heard):
            return None
        electorate, leader = self.quorum.electorate, self._follows[node]
        if electorate.members(node).directories.get(node) not in (
            ANY,
            electorate.directories[node],
        ):
            return None
        candidate = node_name(fields["candidate_id"])
        return Broken(
            f"{node} follows {leader} and has records of it, and grants the PreVote of {candidate}",
            (node, leader, candidate),
        )


class MonotonicEpoch(Invariant):
    """No replica's epoch decreases, over its restarts and into its quorum-state file."""

    name = "monotonic-epoch"
    source = "RaftEventSimulationTest, MonotonicEpoch"
    reads = frozenset({"state"})

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        """Compare with the epoch before; another directory is another replica (KIP-853)."""
        known, epoch = self.quorum.epochs.get(node, 0), fields["epoch"]
        return Broken(f"{node} went from epoch {known} to {epoch}") if epoch < known else None

    def on_quorum_state(self, node: str, fields: Fields) -> Broken | None:
        """Compare with what its next start would read: without a file epoch 0, and no vote."""
        broken = self.on_state(node, fields)
        if broken is None or not fields.get("absent"):
            return broken
        known = self.quorum.epochs[node]
        return Broken(f"{node} was in epoch {known}, and left no quorum-state file that says so")


class DurableVote(Invariant):
    """A vote, an epoch and a leader are on the disk before another node learns of them.

    A voter that answers first and loses power before the write has no record of its vote: it comes
    back and grants the same epoch to another candidate.
    """

    name = "durable-vote"
    source = "KIP-595, quorum-state; Raft figure 2, persistent state"
    reads = frozenset({"state", "vote"})
    unstored = "it needs the bytes on a node's disk at the moment of a vote"

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        sight = self.quorum.sight
        if sight is None or fields["state"] not in PERSISTED:
            return None
        held = sight.quorum_state(node)
        if isinstance(held, str):
            return Broken(f"{node}: {held}")
        asked = Election.of(fields)
        if held == asked:
            return None
        return Broken(
            f"{node} is {fields['state']} in {asked}, while its disk holds "
            f"{held or 'no quorum-state'}"
        )

    def on_vote(self, node: str, fields: Fields) -> Broken | None:
        sight = self.quorum.sight
        if sight is None or not fields["granted"] or fields["pre_vote"]:
            return None
        held = sight.quorum_state(node)
        epoch, candidate_id = fields["epoch"], fields["candidate_id"]
        if (
            held is not None
            and not isinstance(held, str)
            and (held.epoch, held.voted_id) == (epoch, candidate_id)
        ):
            return None
        return Broken(
            f"{node} votes for {node_name(candidate_id)} in epoch {epoch} while its disk holds "
            f"{held or 'no quorum-state'}"
        )

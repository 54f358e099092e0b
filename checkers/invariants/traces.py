"""What traces, logs and files owe each other, once a run is over.

The invariants of the other modules say what a quorum may do. These say what evidence can be true:
a node is counted only for what it says that it fetched, a log holds only what was appended to it,
an answer is given in an epoch that was claimed. They hold of every true run, and are for stored
ones: there a trace that was cut, doubled or made up contradicts the other traces, the log, or
itself. What a missing part may explain names the nodes that may lack it (`Broken.unseen`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from checkers.invariants.commits import surplus_mark
from checkers.invariants.electorate import ANY, voters_of
from checkers.invariants.fold import Broken, Invariant, Order, rules_of
from checkers.invariants.logs import may_follow
from checkers.invariants.sight import NO_NODE, Election, Fields, node_name


class TracedFlush(Invariant):
    """What a node has durable it traced as flushed, and it flushes only what it appended.

    After a start all that was recovered is durable: recovery reads it from the disk, and syncs it.
    """

    name = "traced-flush"
    source = "docs/evidence.md: a line is written before what it says can be observed"
    reads = frozenset({"recovered", "append", "flush", "fetch", "truncate"})
    own = True

    _durable: dict[str, int] = field(default_factory=dict)

    def on_recovered(self, node: str, fields: Fields) -> None:
        self._durable[node] = fields["end_offset"]

    def on_truncate(self, node: str, fields: Fields) -> None:
        self._durable[node] = min(self._durable.get(node, 0), fields["end_offset"])

    def on_truncate_fully(self, node: str, fields: Fields) -> None:
        self._durable[node] = fields["start_offset"]

    def on_flush(self, node: str, fields: Fields) -> Broken | None:
        end_offset, end = fields["end_offset"], self.quorum.logs[node].end
        self._durable[node] = max(self._durable.get(node, 0), end_offset)
        if end_offset <= end:
            return None
        return Broken(f"{node} flushed offsets below {end_offset}, but its log ends at {end}")

    def on_fetch(self, node: str, fields: Fields) -> Broken | None:
        durable, flushed = fields["durable_end_offset"], self._durable.get(node)
        if flushed is None or durable <= flushed:
            return None
        return Broken(
            f"{node} fetches at {fields['offset']} with {durable} fsynced by its own word, but "
            f"traced a flush up to {flushed} only"
        )


class Appended(Invariant):
    """A log holds no more than was appended to it, or came with a snapshot.

    A node traces an append before it writes the bytes (`cluster.node.runtime.disk` keeps them until
    a sync is asked for), so a log never holds more than its node's trace says. What it does hold
    more was added by another hand, or its trace lacks a part: then nothing that the trace says of
    other times can be relied on. Bytes that recovery cut off, or that were left out as torn, were
    being written by a process that died: there is a predecessor on this disk, and it had appended
    something that it had not flushed.
    """

    name = "appended"
    source = "docs/evidence.md; docs/node.md, recovery"
    reads = frozenset({"recovered", "append", "flush"})
    own = True

    def on_recovered(self, node: str, fields: Fields) -> Broken | None:
        torn = fields.get("truncated_bytes", 0)
        return (
            self._more(node, fields["end_offset"])
            or self._describe_tear(node, torn, "cut off")
            or self._other_epoch(node, fields)
        )

    def _other_epoch(self, node: str, fields: Fields) -> Broken | None:
        """Compare the epoch of the last record with that in which it was appended.

        Where the log ends as it did, and nothing was cut or replaced since the last fsync: else a
        power loss may have brought back what was there before.
        """
        log = self.quorum.logs[node]
        epoch, end_offset = fields["last_epoch"], fields["end_offset"]
        if log.unsynced or log.asked or log.last_epoch in (None, epoch) or end_offset != log.end:
            return None
        return Broken(
            f"{node} recovered a log that ends at {end_offset} in epoch {epoch}, though it had "
            f"appended its last record in epoch {log.last_epoch}"
        )

    def on_left(self, node: str, fields: Fields) -> Broken | None:
        return self._more(node, fields["end_offset"])

    def on_torn(self, node: str, fields: Fields) -> Broken | None:
        broken = self._describe_tear(node, fields["torn_bytes"], "left out")
        return None if broken is None else replace(broken, unseen=(node,))

    def _more(self, node: str, end_offset: int) -> Broken | None:
        written = self.quorum.logs[node].written
        if end_offset <= written:
            return None
        explanation = f"the log of {node} ends at {end_offset}, though it appended up to {written}"
        return Broken(explanation, unseen=(node,))

    def _describe_tear(self, node: str, torn_bytes: int, how: str) -> Broken | None:
        log = self.quorum.logs[node]
        if not torn_bytes or log.unsynced or log.asked:
            return None
        return Broken(
            f"{torn_bytes} bytes at the end of the log of {node} were {how} as torn, though all "
            "that it had appended was flushed"
        )


class CountedFetched(Invariant):
    """A leader counts of each voter what that voter fetched, and counts all its voters."""

    name = "counted-fetched"
    source = "KIP-595: the fetch offset is the acknowledgement"
    reads = frozenset({"voters", "flush", "fetch", "hw", "hw.replicas"})
    order = Order.CAUSE

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        quorum, epoch = self.quorum, fields["epoch"]
        voters = quorum.electorate.members(node).directories
        counted = {node_name(int(name)): end for name, end in fields["replicas"].items()}
        if voters and counted.keys() != voters.keys():
            return Broken(
                f"{node} counts {', '.join(sorted(counted))} in epoch {epoch}, though its voters "
                f"are {', '.join(sorted(voters))}"
            )
        for voter, end in sorted(counted.items()):
            if voters and end > 0 and not quorum.held_durably(node, voter, end):
                explanation = (
                    f"{node} counts {voter} in epoch {epoch} with all below {end}, which it never "
                    "had fsynced"
                )
                return Broken(explanation, unseen=quorum.unseen_of((voter,), (), 1))
        return None


class HeardOf(Invariant):
    """A node learns leaders, votes and epochs from those that have them."""

    name = "heard-of"
    source = "KIP-595: a leader, or a candidate, knows first; docs/evidence.md"
    reads = frozenset({"state", "vote", "hw.replicas"})
    order = Order.CAUSE

    def on_state(self, node: str, fields: Fields) -> Broken | None:
        epoch = fields["epoch"]
        leader, voted = (_node_name(fields[name]) for name in ("leader_id", "voted_id"))
        if leader not in (None, node) and (leader, epoch) not in self.quorum.led:
            return self._unheard(
                leader, f"{node} follows {leader} in epoch {epoch}, which never led"
            )
        if voted not in (None, node) and (voted, epoch) not in self.quorum.stood:
            text = f"{node} votes for {voted} in epoch {epoch}, for which that never stood"
            return self._unheard(voted, text)
        return None

    on_quorum_state = on_state

    def _unheard(self, node: str | None, explanation: str) -> Broken:
        unseen = () if node is None else self.quorum.unseen_of((node,), (), 1)
        return Broken(explanation, unseen=unseen)


def _node_name(node_id: int) -> str | None:
    return None if node_id == NO_NODE else node_name(node_id)


class MarkHeard(Invariant):
    """No node takes more for committed than leaders have announced."""

    name = "mark-heard"
    source = "KIP-595: a follower learns the high watermark from its leader"
    reads = frozenset({"hw"})
    order = Order.CAUSE

    def on_hw(self, node: str, fields: Fields) -> Broken | None:
        return surplus_mark(self.quorum, node, fields)


class _OfReplicas(Invariant):
    """Remembers something of each replica: a node with another disk is another one."""

    _known: dict[str, Any] = field(default_factory=dict)

    def on_start(self, node: str, fields: Fields) -> None:
        if self.quorum.electorate.is_replaced(node, str(fields.get("directory_id") or ANY)):
            self._known.pop(node, None)


class CommittedKept(_OfReplicas):
    """What a voter announced as committed is there when it starts again, and in the end.

    Of a node that says where its log ends as it loads it; of others see `recovery`.

    A high watermark is at most where the node's own log ends, and a voter fsyncs that before it
    says so to its leader (KIP-595): one loss of power shows an fsync that was left out. A snapshot
    that replaces the log has all below its end: then that is durable, and an empty log need not be.
    """

    name = "committed-kept"
    source = "KafkaRaftClient, appendAsFollower and flushLeaderLog; the contract of fsync"
    reads = frozenset({"hw", "log-end"})
    own = True

    _begins: dict[str, int] = field(default_factory=dict)
    """By node: where its log began anew."""
    _loaded: set[str] = field(default_factory=set)

    def on_truncate_fully(self, node: str, fields: Fields) -> None:
        self._known.pop(node, None)
        self._begins[node] = fields["start_offset"]

    def on_hw(self, node: str, fields: Fields) -> None:
        is_voter = node in self.quorum.electorate.members(node).directories
        if is_voter and fields["offset"] > self._begins.get(node, 0):
            self._known[node] = max(self._known.get(node, 0), fields["offset"])

    def on_log_end(self, node: str, fields: Fields) -> Broken | None:
        self._loaded.add(node)
        mark, end_offset = self._known.get(node, 0), fields["end_offset"]
        if end_offset >= mark:
            return None
        return Broken(
            f"{node}, a voter, had announced {mark} as committed, and its log ends at {end_offset}"
        )

    def on_left(self, node: str, fields: Fields) -> Broken | None:
        return self.on_log_end(node, fields) if node in self._loaded else None


class UpToDateVote(Invariant):
    """A voter grants votes, and PreVotes, only to who has all that it announced as committed.

    Judged where a vote names what the candidate has, once the logs show of which epoch the last
    record below the voter's high watermark is: a log that ends in a later epoch is newer, however
    short. After a start it has what it had announced before, as far as its log goes.
    """

    name = "up-to-date-vote"
    source = "Raft 5.4.1; KafkaRaftClient, handleVoteRequest"
    reads = frozenset({"hw"})

    _granted: list[tuple[str, int, Fields]] = field(default_factory=list)
    _before: dict[str, int] = field(default_factory=dict)
    """By node that starts: the high watermark of its processes before."""
    _kept: dict[str, int] = field(default_factory=dict)
    """By node that has started: what its log has of that."""

    def on_start(self, node: str, fields: Fields) -> None:
        before = max(self.quorum.mark(node), self._kept.pop(node, 0), self._before.get(node, 0))
        is_other = self.quorum.electorate.is_replaced(node, str(fields.get("directory_id") or ANY))
        self._before[node] = 0 if is_other else before

    def on_log_end(self, node: str, fields: Fields) -> None:
        self._before[node] = min(self._before.get(node, 0), fields["end_offset"])
        self._kept[node] = self._before[node]

    def on_vote(self, node: str, fields: Fields) -> None:
        mark = max(self.quorum.mark(node), self._kept.get(node, 0))
        if fields["granted"] and 0 <= fields.get("last_offset", mark) < mark:
            self._granted.append((node, mark, fields))

    def on_logs(self, node: str, fields: Fields) -> Broken | None:
        for voter, mark, vote in self._granted:
            epoch = fields["epochs"].get(mark - 1)
            if voter != node or epoch is None or vote["last_epoch"] > epoch:
                continue
            return Broken(
                f"{node} had announced {mark} as committed, its last record of epoch {epoch}, and "
                f"granted {'a PreVote' if vote['pre_vote'] else 'its vote'} in epoch "
                f"{vote['epoch']} to {node_name(vote['candidate_id'])}, whose log ended at "
                f"{vote['last_offset']} in epoch {vote['last_epoch']}"
            )
        return None


class TruncationEnds(Invariant):
    """Who truncates again in an epoch, with nothing appended since, truncates further.

    It asks at the end that it truncated to, and a leader that has not that end names one below: so
    the two logs meet. What a follower then appends is its leader's, which does not diverge again.
    """

    name = "truncation-ends"
    source = "KIP-595, log reconciliation; KafkaRaftLog, truncateToEndOffset"
    reads = frozenset({"state", "truncate"})
    own = True

    _ends: dict[str, int] = field(default_factory=dict)
    """By node that has truncated: to which offset."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._ends.pop(node, None)

    on_state = on_start
    on_append = on_start
    on_truncate_fully = on_start

    def on_truncate(self, node: str, fields: Fields) -> Broken | None:
        end_offset = fields["end_offset"]
        before = self._ends.get(node)
        self._ends[node] = end_offset
        if before is None or end_offset < before:
            return None
        return Broken(
            f"{node} truncates to {end_offset} in epoch {fields['epoch']}, after it had truncated "
            f"to {before}: it has not"
        )


class KeptState(_OfReplicas):
    """A quorum-state file holds what its node traced last, or what it was about to trace.

    Somebody had begun its epoch.
    """

    name = "kept-state"
    source = "KIP-595: a vote is kept; docs/evidence.md: a state is traced once it is persisted"
    reads = frozenset({"state"})
    own = True

    _static: dict[str, Collection[str]] = field(default_factory=dict)

    def on_voters(self, node: str, fields: Fields) -> None:
        static = fields["offset"] < 0 and fields.get("kraft_version") == 0
        self._static[node] = voters_of(fields).keys() if static else ()

    def on_state(self, node: str, fields: Fields) -> None:
        self._known[node] = Election.of(fields)

    def on_quorum_state(self, node: str, fields: Fields) -> Broken | None:
        voters = {node_name(voter) for voter in fields.get("current_voters", ())}
        configured = set(self._static.get(node, ()))
        if voters and configured and voters != configured:
            return Broken(
                f"the quorum-state of {node} names the voters {', '.join(sorted(voters))}, which "
                f"are {', '.join(sorted(configured))}"
            )
        known, held = self._known.get(node), Election.of(fields)
        if held.epoch > 0 and held.epoch not in self.quorum.entered:
            text = f"the quorum-state of {node} is of epoch {held.epoch}, in which no node was"
            return Broken(text, unseen=tuple(sorted(self.quorum.unseen)))
        if known is None or may_follow(held, known):
            return None
        return Broken(f"the quorum-state of {node} is of {held}, though it had traced {known}")


class VotersAgree(Invariant):
    """All nodes have the voters of one offset from one record, and the configured ones alike.

    A snapshot's voters are given its last offset, wherever their record was: what a node has first
    when it opens or replaces its log is compared with nothing, nor is what it goes back to when it
    gives up what came behind a snapshot that it has.
    """

    name = "voters-agree"
    source = "KIP-595, KIP-853: voters are configured alike, or replicated in the log"
    reads = frozenset({"voters", "voter-change"})

    _snapshots: set[tuple[str, int]] = field(default_factory=set)
    """Nodes, and the last offsets of snapshots that they have or had."""
    _configured: dict[str, str] = field(default_factory=dict)
    _proposed: dict[int, list[Mapping[str, str]]] = field(default_factory=dict)
    _loading: set[str] = field(default_factory=set)
    _loaded: dict[str, int] = field(default_factory=dict)
    """By node: the offset of the voters that it has of a snapshot, if it has one."""

    def on_recovered(self, node: str, fields: Fields) -> None:
        self._loading.add(node)

    def on_truncate_fully(self, node: str, fields: Fields) -> None:
        self._loading.add(node)

    def on_snapshot(self, node: str, fields: Fields) -> None:
        self._snapshots.add((node, fields["offset"] - 1))

    on_load_snapshot = on_snapshot

    def on_voter_change(self, node: str, fields: Fields) -> None:
        self._proposed.setdefault(fields["offset"], []).append(voters_of(fields))

    def on_voters(self, node: str, fields: Fields) -> Broken | None:
        voters, offset = voters_of(fields), fields["offset"]
        if node in self._loading:
            self._loading.remove(node)
            self._loaded[node] = offset
        if offset >= 0 and (offset == self._loaded.get(node) or (node, offset) in self._snapshots):
            return None
        known = self._proposed.get(offset, []) if offset >= 0 else [self._configured]
        if offset < 0 and not self._configured:
            self._configured = voters
        if not voters or not any(known) or any(_alike(voters, other) for other in known):
            return None
        place = "that are configured" if offset < 0 else f"of offset {offset}"
        return Broken(
            f"{node} has the voters {', '.join(sorted(voters))} {place}, where others have "
            f"{', '.join(sorted(known[0]))}"
        )


def _alike(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return one.keys() == other.keys() and all(
        one[name] == other[name] or ANY in (one[name], other[name]) for name in one
    )


class AnsweredInClaim(Invariant):
    """Answers are given in the epoch that a controller claims, and of what the logs still hold."""

    name = "answered-in-claim"
    source = "KIP-631; docs/node.md"
    reads = frozenset({"claim", "renounce", "hw", "ack", "read"})
    own = True

    _claims: dict[str, int] = field(default_factory=dict)
    _answered: dict[str, int] = field(default_factory=dict)
    """The highest offset from which each process answered."""
    _acks: defaultdict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """By node: offset -> the epoch in which it acknowledged it first."""

    def on_start(self, node: str, fields: Fields) -> None:
        self._claims.pop(node, None)
        self._answered.pop(node, None)

    def on_claim(self, node: str, fields: Fields) -> None:
        self._claims[node] = fields["epoch"]

    def on_renounce(self, node: str, fields: Fields) -> None:
        self._claims.pop(node, None)

    def on_ack(self, node: str, fields: Fields) -> Broken | None:
        self._acks[node].setdefault(fields["offset"], fields["epoch"])
        # It was replayed before it is answered, so a later read shows it.
        self._answered[node] = max(self._answered.get(node, -1), fields["offset"])
        return self._outside(node, fields, "acknowledges")

    def on_read(self, node: str, fields: Fields) -> Broken | None:
        if fields["offset"] >= self.quorum.mark(node):
            return Broken(
                f"{node} answers a read at offset {fields['offset']}, though nothing from "
                f"{self.quorum.mark(node)} on is committed"
            )
        before = self._answered.get(node, -1)
        self._answered[node] = max(before, fields["offset"])
        if fields["offset"] < before:
            return Broken(
                f"{node} answers a read at offset {fields['offset']}, after an answer at {before}"
            )
        return self._outside(node, fields, "answers a read")

    def _outside(self, node: str, fields: Fields, does: str) -> Broken | None:
        claimed = self._claims.get(node)
        if fields["epoch"] == claimed:
            return None
        claims = "no epoch" if claimed is None else f"epoch {claimed}"
        return Broken(f"{node} {does} in epoch {fields['epoch']}, though it claims {claims}")

    def on_logs(self, node: str, fields: Fields) -> Broken | None:
        """Find an acknowledged offset that no log holds, or holds from a later epoch."""
        epochs, end_offset = fields["epochs"], fields["end_offset"]
        for offset, epoch in sorted(self._acks[node].items()):
            if offset >= end_offset:
                return Broken(f"{node} acknowledged offset {offset}; all logs end at {end_offset}")
            if epochs.get(offset, epoch) > epoch:
                return Broken(
                    f"{node} acknowledged offset {offset} in epoch {epoch}, where the logs hold a "
                    f"record of epoch {epochs[offset]}"
                )
        return None


class LeaderHolds(Invariant):
    """Who leads in the end holds every record of its epoch: nobody else appends there.

    Judged of systems that do not trace what they append (see `appended`).
    """

    name = "leader-holds"
    source = "Raft 5.2, 5.3, Leader Append-Only"
    reads = frozenset({"state", "epoch-start"})

    _leads: dict[str, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)

    def on_start(self, node: str, fields: Fields) -> None:
        self._leads.pop(node, None)

    def on_state(self, node: str, fields: Fields) -> None:
        if fields["state"] not in ("Leader", "Resigned"):
            self._leads.pop(node, None)

    def on_epoch_start(self, node: str, fields: Fields) -> None:
        self._leads[node] = fields["epoch"]

    def on_left(self, node: str, fields: Fields) -> None:
        self._ends[node] = fields["end_offset"]

    def on_logs(self, node: str, fields: Fields) -> Broken | None:
        end_offset, own = fields["end_offset"], self._ends.get(node)
        epoch = fields["epochs"].get(end_offset - 1)
        if self.quorum.follows_logs or own is None or epoch is None:
            return None
        if self._leads.get(node) != epoch or own >= end_offset:
            return None
        return Broken(
            f"a log ends at {end_offset} in epoch {epoch}, in which {node} leads, whose own ends "
            f"at {own}"
        )


class GrantedVotes(Invariant):
    """Who granted the votes that a LeaderChange names has traced them.

    A voter traces a vote before it answers, and a leader names those that had answered when it was
    elected. A vote that a kill or a lost message kept from the candidate is traced, and not named.
    Votes count whatever directory their node has by now: they were granted by the one before.
    """

    name = "granted-votes"
    source = "KIP-595, LeaderChangeMessage; docs/evidence.md"
    reads = frozenset({"vote", "state"})
    order = Order.NONE

    _granted: set[tuple[str, int, str]] = field(default_factory=set)

    def on_vote(self, node: str, fields: Fields) -> None:
        if fields["granted"] and not fields["pre_vote"]:
            self._granted.add((node, fields["epoch"], node_name(fields["candidate_id"])))

    def on_state(self, node: str, fields: Fields) -> None:
        """Note the vote that a state carries, or a candidate's for itself."""
        if fields["voted_id"] != NO_NODE:
            self._granted.add((node, fields["epoch"], node_name(fields["voted_id"])))
        if fields["state"] in ("Candidate", "Leader"):
            self._granted.add((node, fields["epoch"], node))

    def on_leader_change(self, node: str, fields: Fields) -> Broken | None:
        leader, epoch = node_name(fields["leader_id"]), fields["epoch"]
        for voter_id in fields.get("granting_voters", ()):
            voter = node_name(voter_id)
            if (voter, epoch, leader) not in self._granted:
                explanation = (
                    f"by the log of {node} {voter} voted for {leader} in epoch {epoch}, but it "
                    "traced no such vote"
                )
                return Broken(explanation, unseen=(voter,))
        return None


class CommitBelowMark(Invariant):
    """A leader reports batches as committed that lie below its high watermark."""

    name = "commit-below-mark"
    source = "docs/evidence.md: `commit` follows the `hw` that covers it"
    reads = frozenset({"hw", "commit"})
    own = True

    def on_commit(self, node: str, fields: Fields) -> Broken | None:
        mark, last_offset = self.quorum.mark(node), fields["last_offset"]
        if last_offset < mark:
            return None
        return Broken(
            f"{node} reports all up to {last_offset} as committed, though nothing from {mark} on is"
        )


class SnapshotsKept(_OfReplicas):
    """The newest snapshot that a node announced is on its disk: only older ones are deleted.

    One is there of all below the beginning of its log: else what was there is nowhere.
    """

    name = "snapshots-kept"
    source = "KIP-630; RaftEventSimulationTest, SnapshotAtLogStart"
    own = True

    def on_snapshot(self, node: str, fields: Fields) -> None:
        newest = self._known.get(node, (0, 0))
        self._known[node] = max(newest, (fields["offset"], fields["epoch"]))

    def on_snapshots(self, node: str, fields: Fields) -> Broken | None:
        newest, end = self._known.get(node), max((end for end, _ in fields["ids"]), default=0)
        if newest is not None and newest not in fields["ids"]:
            text = f"{node} announced snapshot {newest[0]}-{newest[1]}, which is not on its disk"
        elif end < fields["log_begin"]:
            begin = fields["log_begin"]
            text = f"the log of {node} begins at {begin}, and its last snapshot ends at {end}"
        else:
            return None
        return Broken(text)


TRACES = rules_of(__name__)
"""Those that judge stored runs alone."""

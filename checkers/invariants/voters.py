"""Invariants of reconfiguration (KIP-853)."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import field

from checkers.invariants.electorate import ANY, difference, voters_of
from checkers.invariants.fold import Broken, Invariant, rule
from checkers.invariants.sight import Fields


class OneVoterChange(Invariant):
    """Voter sets that follow each other differ by one voter, so that their majorities overlap.

    From n1, n2, n3 to n1, ..., n5 in one step, n1 and n2 elect a leader by the old set while n3,
    n4 and n5 elect another by the new one.
    """

    name = "one-voter-change"
    source = "Ongaro's thesis, 4.1"
    own = True

    _logged: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The voters of the last VotersRecord that was read from each node's log."""

    def on_voters_record(self, node: str, fields: Fields) -> Broken | None:
        after = voters_of(fields)
        before = self._logged.get(node, after)
        self._logged[node] = after
        if difference(before, after) <= 1:
            return None
        return Broken(
            f"the log of {node} goes from {', '.join(before)} to {', '.join(after)} at offset "
            f"{fields['offset']}"
        )

    def on_voter_change(self, node: str, fields: Fields) -> Broken | None:
        before = self.quorum.electorate.members(node)
        after = voters_of(fields)
        if difference(before.directories, after) <= 1 or not before.directories:
            return None
        return Broken(f"{node} goes from {before} to {', '.join(after)}")


class ChangeAfterCommit(Invariant):
    """Voters change once the leader knows its epoch's start and the last change to be committed.

    Without the first, leaders of two epochs can each change the same set and commit by majorities
    that do not overlap. Where no change is traced, a leader's next voters show it, if they are
    others: with its epoch it may append those of a checkpoint again.
    """

    name = "change-after-commit"
    source = "Ongaro 2015, bug in single-server membership changes; KIP-853"
    reads = frozenset({"voters.led", "epoch-start", "hw"})
    own = True

    def on_voters(self, node: str, fields: Fields) -> Broken | None:
        quorum, before = self.quorum, self.quorum.electorate.members(node).directories
        if quorum.follows_logs or node not in quorum.leads or not before:
            return None
        changed = difference(before, voters_of(fields)) > 0
        return self.on_voter_change(node, {"epoch": quorum.leads[node]}) if changed else None

    def on_voter_change(self, node: str, fields: Fields) -> Broken | None:
        epoch, quorum = fields["epoch"], self.quorum
        needed = max(quorum.electorate.members(node).offset, quorum.epoch_starts.get(epoch, 0))
        if needed < quorum.mark(node):
            return None
        return Broken(
            f"{node} changes the voters in epoch {epoch} while offset {needed} is not committed"
        )


class CommittedVoters(Invariant):
    """No node reverts to voters older than a set that it knows to be committed, while it runs.

    And voters of the log are in force with kraft.version 1 alone, whose record comes before theirs.
    Each has a directory there: else one with a new disk would vote as the one that had the log.
    """

    name = "committed-voters"
    source = "KIP-853: the newest of the log count, and committed records are not truncated"
    reads = frozenset({"voters", "hw"})
    own = True

    def on_voters(self, node: str, fields: Fields) -> Broken | None:
        quorum, offset = self.quorum, fields["offset"]
        if offset >= 0 and not fields.get("kraft_version", 1):
            return Broken(f"{node} goes by the voters of offset {offset} at kraft.version 0")
        unknown = sorted(voter for voter, at in voters_of(fields).items() if at == ANY)
        if offset >= 0 and unknown:
            of_any = f"{', '.join(unknown)} with any directory"
            return Broken(f"{node} goes by the voters of offset {offset}, {of_any}")
        forgotten = quorum.electorate.forgotten_offset(node, offset, quorum.mark(node))
        if forgotten is None:
            return None
        old = "configured voters" if offset < 0 else f"voters of offset {offset}"
        return Broken(f"{node} goes by the {old} again, not by those of offset {forgotten}")


class VotersKnown(Invariant):
    """A node that knows what is committed goes by voters as new as are committed below.

    Its log has their record, or the snapshot that it began with has them: a snapshot without voters
    would leave it with those that are configured. With the end of its log the voters go whose
    record was there, and the kraft.version. Asked live alone: other systems trace voters after
    what is committed.
    """

    name = "voters-known"
    source = "KIP-853, snapshots; Ongaro's thesis, 4.1"
    reads = frozenset({"voters", "voter-change", "hw", "truncate-fully", "state.at-once"})

    _committed: list[int] = field(default_factory=list)
    """Offsets of committed changes, ascending."""
    _changes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By leader: epoch and offset of its last change."""
    _begins: dict[str, int] = field(default_factory=dict)
    """Nodes whose log has just given way to a snapshot that ends there."""

    def on_truncate_fully(self, node: str, fields: Fields) -> None:
        """Take up a log that begins anew: its voters are taken up just after its high watermark."""
        self._begins[node] = fields["start_offset"]

    def on_voter_change(self, node: str, fields: Fields) -> None:
        self._changes[node] = fields["epoch"], fields["offset"]

    def on_hw(self, node: str, fields: Fields) -> Broken | None:
        """Compare the voters of a node with those that leaders have committed.

        A snapshot stands for a change at its own end, which is no earlier than the change.
        """
        end_offset, own = fields["offset"], self.quorum.electorate.members(node).offset
        epoch, changed = self._changes.get(node, (-1, -1))
        if epoch == fields["epoch"] and changed < end_offset:
            insort(self._committed, changed)
            del self._changes[node]
        below = bisect_left(self._committed, end_offset)
        newest = self._committed[below - 1] if below else own
        if self._begins.pop(node, None) == end_offset or newest <= own:
            return None
        return Broken(
            f"{node} knows all below {end_offset} to be committed and goes by the voters of offset "
            f"{own}, not by those of {newest}"
        )

    def on_log_cut(self, node: str, fields: Fields) -> Broken | None:
        """Judge what is in force after a truncation, which only simulated worlds show."""
        end_offset = fields["end_offset"]
        for what, offset in fields["in_force"].items():
            if offset >= end_offset:
                return Broken(
                    f"{node} has cut its log at {end_offset} and goes by the {what} of offset "
                    f"{offset}"
                )
        return None


class NewVoterHoldsLog(Invariant):
    """A replica becomes a voter once it has held all of the leader's log, in the leader's epoch.

    It has had the start of that epoch at least, whatever a power loss took from it since. Asked
    live alone: the traces of two nodes do not say which of them came first.
    """

    name = "new-voter-holds-log"
    source = "KIP-853, AddRaftVoter"
    reads = frozenset({"voters", "epoch-start", "append", "voter-change"})

    def on_voter_change(self, node: str, fields: Fields) -> Broken | None:
        before, epoch = self.quorum.electorate.members(node).directories, fields["epoch"]
        start = self.quorum.epoch_starts.get(epoch)
        if not before or start is None:
            return None
        for name in sorted(voters_of(fields).keys() - before.keys()):
            held = self.quorum.logs[name].written
            if held <= start:
                return Broken(
                    f"{node} lets {name} vote, whose log has never ended beyond {held}, and leads "
                    f"in epoch {epoch}, which begins at offset {start}",
                    (node, name),
                )
        return None


class LeadsAsVoter(Invariant):
    """A leader that removed itself leads until the others have committed that, and no longer.

    It resigns as its high watermark passes the VotersRecord, before it appends anything more, and
    before it commits anything more. Where nothing says which voters a truncation brings back, a
    VotersRecord counts that lies in the leader's own epoch: a leader truncates nothing.
    """

    name = "leads-as-voter"
    source = "KIP-853; KAFKA-17608"
    reads = frozenset({"start", "state", "voters.led", "hw"})
    own = True

    def on_append(self, node: str, fields: Fields) -> Broken | None:
        quorum, voters = self.quorum, self.quorum.electorate.members(node)
        start = quorum.epoch_starts.get(fields["epoch"], math.inf)
        known = 0 if quorum.follows_logs else start
        is_removed = voters.offset >= known and node not in voters.directories
        if node not in quorum.leads or not is_removed or quorum.mark(node) <= voters.offset:
            return None
        return Broken(
            f"{node} leads on in epoch {fields['epoch']}, though it knows that it is no voter: the "
            f"set {voters} of offset {voters.offset} is committed"
        )

    on_leader_hw = on_append


class Described(Invariant):
    """A leader describes the quorum as it is: whoever follows it, and ends within its own log.

    The end of another that has not fetched in its epoch is -1: it does not know any. Of one that
    has it knows the directory, and describes it from then on, as a voter or not.
    """

    name = "described"
    source = "KIP-595, DescribeQuorum; KIP-836"

    _known: dict[str, tuple[int, set[str]]] = field(default_factory=dict)
    """By node that leads: its epoch, and who has fetched from it."""

    def on_description(self, node: str, fields: Fields) -> Broken | None:
        log_end = fields["log_end"]
        says = f"{node} leads, its log ends at {log_end}, and it answers DescribeQuorum"
        for name, end in fields["ends"].items():
            if not (0 if name == node else -1) <= end <= log_end:
                return Broken(f"{says} that the log of {name} ends at {end}")
        if not -1 <= fields["high_watermark"] <= log_end:
            return Broken(f"{says} that all below {fields['high_watermark']} is committed")
        for name in fields["following"]:
            if name not in fields["ends"]:
                return Broken(f"{says} without {name}, which has records of its epoch")
        return None

    def on_quorum_answer(self, node: str, fields: Fields) -> Broken | None:
        before, epoch = self._known.pop(node, None), fields["epoch"]
        if not fields["leads"]:
            return None
        known = {*fields["known"]} - {node}
        self._known[node] = epoch, known
        if before is not None and before[0] == epoch and before[1] - known:
            gone = ", ".join(sorted(before[1] - known))
            return Broken(f"{node} leads epoch {epoch}, and describes {gone} no more")
        for name, directory in fields["voters"].items():
            if name != node and directory == ANY and fields["fetched_ms"][name] >= 0:
                return Broken(f"{node} answers that {name} has fetched from it, of no directory")
        return None


@rule("voter-answer", "KIP-853, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter; KIP-1022")
def changes_taken(node: str, fields: Fields) -> Broken | None:
    """A leader takes each change of its voters that may begin.

    It may when the leader has committed a record of its epoch and the last change, and no other is
    under way; so it cannot be kept from repairing its quorum. It may ask a new voter for its
    versions first, and refuse it then, unless it answers and has held all of the leader's log.

    Judge the answer to a right request, which only simulated worlds show.
    """
    error = fields["error"]
    if error in ("none", "not_controller") or not fields["may_begin"]:
        return None
    return Broken(
        f"{node} leads, may begin a change of its voters, and answers {fields['request']} "
        f"with {error}"
    )

"""What all invariants of the quorum share: a small copy of every node's log, votes and commits.

Each event is taken up after the invariants have judged it, so that the cost of an event is that of
what it changed. With a `Sight` logs are known batch by batch. From stored traces they are not (a
follower's `append` does not name the batches, and their bytes are not stored): then a log is known
by its end, by the offsets that were durable, and by the high watermarks that its node announced.

A log that begins above 0 counts as if it held the committed batches below: its snapshot replaces
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from checkers.invariants.electorate import ANY, Electorate, VotersInForce, voters_of
from checkers.invariants.sight import NO_NODE, PERSISTED, Batch, Election, Fields, Sight, node_name


@dataclass(slots=True, eq=False)
class Log:
    """One replica's log. Survives its processes, as a disk does."""

    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    """Offset of the next record."""
    durable: int = 0
    """Everything below survives a power loss, as of the end of the last process."""
    reached: int = 0
    """The highest offset below which all was ever reported as durable; never decreases."""
    flushed: int = 0
    """Offset below which all must be there again after a restart, as the node itself traced."""
    kept: int = 0
    """The highest announced high watermark below which the log has not changed since."""
    last_epoch: int | None = None
    """The epoch in which it ends."""
    written: int = 0
    """The highest end that it ever had, or may have got from a snapshot."""
    unsynced: bool = False
    """Whether something was appended or cut since the last traced fsync, which a crash may tear."""
    asked: bool = False
    """Its node asked for a snapshot, which may have replaced the log since the last append."""

    def position(self, offset: int) -> int:
        """Index of the batch in which the records below an offset end; -1: of none."""
        return bisect_left(self.batches, (offset,)) - 1

    def tail_from(self, end_offset: int) -> Iterator[tuple[int, Batch]]:
        """Yield what a truncation drops, with positions, last first."""
        for position in range(len(self.batches) - 1, -1, -1):
            if self.batches[position][0] < end_offset:
                return
            yield position, self.batches[position]

    def holds(self, position: int, batch: Batch) -> bool:
        """Whether this batch is at a position."""
        return position < len(self.batches) and self.batches[position] == batch


class Quorum:
    """See the module."""

    def __init__(self, sight: Sight | None = None) -> None:
        """Without a sight only events are known."""
        self.sight = sight
        self.follows_logs = True
        """Whether events show where each log ends; else logs are known when the run is over."""
        self.unseen: Collection[str] = ()
        """Nodes that may have done more by now than their events so far show."""
        self.electorate = Electorate()
        self.logs: defaultdict[str, Log] = defaultdict(Log)
        """By node: the log of its present replica."""
        self.stale: set[str] = set()
        """Nodes that have started and whose log was not read through the sight since."""
        self.leader_of: dict[int, str] = {}
        """The leader of each epoch, by the first event that named it."""
        self.epoch_starts: dict[int, int] = {}
        """Offset of the LeaderChange of each epoch."""
        self.epochs: dict[str, int] = {}
        """The epoch that each node's replica is in."""
        self.elections: dict[str, Election] = {}
        """What each node's replica had in its quorum-state file when it last entered a state."""
        self.committed: list[Batch] = []
        """What was below any high watermark, ever."""
        self.committed_in: list[int] = []
        """The epoch whose leader committed each batch first; never decreases."""
        self.committed_end = 0
        """The highest high watermark that any node announced."""
        self.announced_end = 0
        """The highest high watermark that a leader announced."""
        self.leads: dict[str, int] = {}
        """The nodes that lead now, with their epochs."""
        self.timeouts_ms: dict[str, float] = {}
        """The check-quorum time-out of each node's process, where it traces that."""
        self.led: set[tuple[str, int]] = set()
        """(node, epoch): the leaders by their own events."""
        self.stood: set[tuple[str, int]] = set()
        """(node, epoch): the candidates by their own events."""
        self.entered: set[int] = set()
        """Epochs that nodes traced to be in."""
        self.marks: dict[str, int] = {}
        """The highest high watermark that each node announced since it started."""
        self.contents: dict[tuple[int, int], Batch] = {}
        """The batch that (base offset, epoch) stands for."""
        self._checked: dict[str, int] = {}
        """How many batches of each log were compared with what is committed since it started."""
        self._replaced: dict[tuple[str, str], Log] = {}
        """By node and directory: the logs of replaced disks."""
        self.takes: dict[str, Callable[[str, Fields], None]] = {
            "start": self._start,
            "recovered": self._recover,
            "opened": self._open,
            "ended": self._end,
            "state": self._state,
            "vote": self._vote,
            "quorum-state": self._state,
            "leader-change": self._leader_change,
            "voters": self._voters,
            "epoch-start": self._epoch_start,
            "append": self._append,
            "truncate": self._truncate,
            "truncate-fully": self._truncate_fully,
            "fetch-snapshot": self._fetch_snapshot,
            "hw": self._high_watermark,
        }
        if sight is None:  # else the sight reads what is durable
            self.takes |= {"fetch": self._fetch, "flush": self._flush}

    def mark(self, node: str) -> int:
        """Return the highest high watermark that a node announced since it started."""
        return self.marks.get(node, 0)

    def unseen_of(
        self, voters: Collection[str], holders: Collection[str], lacking: int
    ) -> tuple[str, ...]:
        """Return the voters that may be the `lacking` further holders; none where too few may."""
        unseen = tuple(v for v in voters if v in self.unseen and v not in holders)
        return unseen if len(unseen) >= lacking else ()

    def durable_end(self, node: str) -> int:
        """Offset below which all is on the node's disk, by the completed fsyncs.

        Those of earlier processes count, also while a node that starts has not read its disk yet.
        """
        durable = self.logs[node].durable
        now = None if self.sight is None or node in self.stale else self.sight.durable_end(node)
        return durable if now is None or now < durable else now

    def committed_below(self, offset: int) -> list[Batch] | None:
        """Return the batches that a snapshot replaces; None: no committed batch ends there."""
        below = self.committed[: bisect_left(self.committed, (offset,))]
        return below if (below[-1][1] if below else 0) == offset else None

    def announce(self, node: str, offset: int) -> tuple[int, list[Batch]]:
        """Return the batches that a high watermark covers for the first time, and where they are.

        The first of these is at the position that comes before them.
        """
        batches, first = self.logs[node].batches, self._checked.get(node, 0)
        return first, batches[first : bisect_left(batches, (offset,), first)]

    def held_durably(self, leader: str, voter: str, offset: int) -> bool:
        """Whether a voter of the leader's voter set has all below durable, or had before a wipe.

        The leader may have counted what the voter had fsynced before it was wiped.
        """
        directory = self.electorate.members(leader).directories[voter]
        is_current = directory in (ANY, self.electorate.directories.get(voter))
        if self.sight is None:
            replicas = [self.logs[voter]] if is_current else []
            replicas += self._former(voter, directory)
            return any(replica.reached >= offset for replica in replicas)
        own = self.logs[leader]
        position = own.position(offset)
        if position < 0:
            return False
        batch = own.batches[position]
        if is_current:
            log, durable = self.logs[voter], self.durable_end(voter)
            return durable >= batch[1] and log.holds(position, batch)
        former = self._former(voter, directory)
        return any(log.durable >= batch[1] and log.holds(position, batch) for log in former)

    def _former(self, node: str, directory: str) -> list[Log]:
        if directory != ANY:
            return [log for log in [self._replaced.get((node, directory))] if log is not None]
        return [log for (name, _), log in self._replaced.items() if name == node]

    # -- events, after they were judged ----------------------------------------------------------

    def _start(self, node: str, fields: Fields) -> None:
        known = self.electorate.directories.get(node, ANY)
        directory = str(fields.get("directory_id") or known)
        if self.electorate.is_replaced(node, directory):
            # Its disk was wiped: it is another replica, which has granted no vote and holds no
            # record yet. Or a former disk is back, with what was on it.
            self._replaced[node, known] = self.logs[node]
            self.logs[node] = self._replaced.pop((node, directory), Log())
            self.epochs.pop(node, None)
            self.elections.pop(node, None)
        self.electorate.start(node, directory)
        self.marks[node] = 0
        self.leads.pop(node, None)
        if "check_quorum_timeout_ms" in fields:
            self.timeouts_ms[node] = fields["check_quorum_timeout_ms"]

    def _recover(self, node: str, fields: Fields) -> None:
        self.stale.add(node)
        log, end_offset = self.logs[node], fields["end_offset"]
        last_epoch = fields.get("last_epoch")
        # A power loss takes truncations that were not fsynced, too: an old tail may be there
        # again in the place of what was announced. Where the log ends in the epoch in which it
        # ended before, no truncation was lost.
        log.kept = min(log.kept, end_offset if last_epoch == log.last_epoch else log.flushed)
        log.end, log.last_epoch = end_offset, last_epoch
        log.unsynced = False

    def _open(self, node: str, fields: Fields) -> None:
        """Take the log of a new process as it is."""
        log = self.logs[node]
        log.batches = self.committed_below(fields["start_offset"]) or []
        self._checked[node] = 0
        self._take(log, fields)
        # What an earlier process fsynced is durable still, as far as the log goes.
        log.durable = max(fields["durable_end_offset"], min(log.durable, log.end))

    def _end(self, node: str, fields: Fields) -> None:
        log, durable = self.logs[node], fields["durable_end_offset"]
        log.durable = max(log.durable, durable)
        if not log.asked:
            log.flushed = max(log.flushed, durable)

    def _state(self, node: str, fields: Fields) -> None:
        epoch = fields["epoch"]
        self.epochs[node] = epoch
        if fields["leader_id"] != NO_NODE:
            self.leader_of.setdefault(epoch, node_name(fields["leader_id"]))
        if fields["voted_id"] != NO_NODE:
            self.electorate.vote(node, epoch, node_name(fields["voted_id"]))
        if "state" in fields:
            self.entered.add(epoch)
            self.leads.pop(node, None)
        if fields.get("state") in PERSISTED:
            self.elections[node] = Election.of(fields)
        if fields.get("state") == "Leader":
            self.leads[node] = epoch
            self.led.add((node, epoch))
        elif fields.get("state") == "Candidate":
            self.stood.add((node, epoch))
        elif fields.get("state") == "Resigned" and (node, epoch) in self.stood:
            # Its file named it as leader; a kill came before it traced that.
            if node_name(fields["leader_id"]) == node:
                self.led.add((node, epoch))

    def _leader_change(self, node: str, fields: Fields) -> None:
        del node
        self.leader_of.setdefault(fields["epoch"], node_name(fields["leader_id"]))
        self.epoch_starts.setdefault(fields["epoch"], fields["offset"])

    def _vote(self, node: str, fields: Fields) -> None:
        if fields["granted"] and not fields["pre_vote"]:
            self.electorate.vote(node, fields["epoch"], node_name(fields["candidate_id"]))

    def _voters(self, node: str, fields: Fields) -> None:
        self.electorate.take_up(node, VotersInForce(voters_of(fields), fields["offset"]))

    def _epoch_start(self, node: str, fields: Fields) -> None:
        self.leader_of.setdefault(fields["epoch"], node)
        self.epoch_starts[fields["epoch"]] = fields["offset"]

    def _append(self, node: str, fields: Fields) -> None:
        log = self.logs[node]
        log.end, log.last_epoch = fields["last_offset"] + 1, fields["epoch"]
        log.asked, log.unsynced = False, True
        log.written = max(log.written, log.end)
        if "batches" in fields:
            self._take(log, fields)

    def _take(self, log: Log, fields: Fields) -> None:
        contents, batches = self.contents, log.batches
        for batch in fields["batches"]:
            known = contents.setdefault((batch[0], batch[2]), batch)
            batches.append(known if known == batch else batch)
        log.end = batches[-1][1] if batches else 0

    def _flush(self, node: str, fields: Fields) -> None:
        log, end_offset = self.logs[node], fields["end_offset"]
        log.reached = max(log.reached, end_offset)
        log.flushed = max(log.flushed, end_offset)
        log.unsynced = end_offset < log.end

    def _fetch_snapshot(self, node: str, fields: Fields) -> None:
        """Expect no more than the snapshot: the node may load it and die before it traces that."""
        log = self.logs[node]
        log.flushed = min(log.flushed, fields["snapshot_offset"])
        log.written = max(log.written, fields["snapshot_offset"])
        log.asked = True

    def _fetch(self, node: str, fields: Fields) -> None:
        log = self.logs[node]
        log.reached = max(log.reached, fields["durable_end_offset"])

    def _truncate(self, node: str, fields: Fields) -> None:
        log, end_offset = self.logs[node], fields["end_offset"]
        while log.batches and log.batches[-1][0] >= end_offset:
            log.batches.pop()
        log.end = log.batches[-1][1] if log.batches else end_offset
        log.durable = min(log.durable, end_offset)
        log.flushed = min(log.flushed, end_offset)
        log.last_epoch, log.unsynced = fields["epoch"], True
        self._checked[node] = min(self._checked.get(node, 0), len(log.batches))
        if not self.follows_logs:
            self.electorate.lose(node)

    def _truncate_fully(self, node: str, fields: Fields) -> None:
        log, start_offset = self.logs[node], fields["start_offset"]
        log.batches = self.committed_below(start_offset) or []
        log.end = log.durable = log.flushed = start_offset
        log.last_epoch = fields["epoch"]
        log.reached = max(log.reached, start_offset)
        log.written = max(log.written, start_offset)
        self._checked[node] = 0
        self.electorate.begin_anew(node, self.mark(node))
        if not self.follows_logs:
            self.electorate.lose(node)

    def _high_watermark(self, node: str, fields: Fields) -> None:
        offset = fields["offset"]
        first, batches = self.announce(node, offset)
        if batches:
            new = batches[max(0, len(self.committed) - first) :]
            self.committed += new
            self.committed_in += [fields["epoch"]] * len(new)
            self._checked[node] = first + len(batches)
        self.committed_end = max(self.committed_end, offset)
        if fields["role"] == "leader":
            self.announced_end = max(self.announced_end, offset)
        self.marks[node] = max(self.mark(node), offset)
        log = self.logs[node]
        log.kept = max(log.kept, offset)

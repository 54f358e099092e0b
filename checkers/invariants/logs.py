"""Invariants of logs: what they hold, and what may be truncated."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field

from checkers.invariants.fold import Broken, Invariant
from checkers.invariants.sight import NO_NODE, Batch, Election, Fields


class LogMatching(Invariant):
    """(offset, epoch) stands for one batch on all nodes at all times, and logs have no gaps."""

    name = "log-matching"
    source = "Raft 5.3, Log Matching"

    def on_append(self, node: str, fields: Fields) -> Broken | None:
        """Judge where batches are appended, and their headers where these are known."""
        end, base_offset = self.quorum.logs[node].end, fields["base_offset"]
        if base_offset != end:
            return Broken(f"{node} appends at {base_offset}, but its log ends at {end}")
        return self._compare(node, fields) if "batches" in fields else None

    def on_opened(self, node: str, fields: Fields) -> Broken | None:
        """Look for gaps in the log of a new process, and compare its batches with other logs."""
        end = fields["start_offset"]
        for base_offset, next_offset, *_ in fields["batches"]:
            if base_offset != end:
                return Broken(f"{node} has a batch at {base_offset}, where its log ends at {end}")
            end = next_offset
        return self._compare(node, fields)

    def _compare(self, node: str, fields: Fields) -> Broken | None:
        contents = self.quorum.contents
        for batch in fields["batches"]:
            if contents.get((batch[0], batch[2]), batch) != batch:
                return self.on_unlike(node, {"offset": batch[0], "epoch": batch[2]})
        return None

    def on_unlike(self, node: str, fields: Fields) -> Broken:
        """Report what a comparison of logs found when the run was over."""
        offset, epoch = fields["offset"], fields["epoch"]
        return Broken(f"{node} holds another batch than others at {offset}, epoch {epoch}")


class CommittedPrefix(Invariant):
    """What lies below any high watermark never changes."""

    name = "committed-prefix"
    source = "Raft 5.4.3, State Machine Safety; NoLogDivergence; ConsistentCommittedData"
    reads = frozenset({"hw"})

    def on_hw(self, node: str, fields: Fields) -> Broken | None:
        offset, quorum = fields["offset"], self.quorum
        log, committed = quorum.logs[node], quorum.committed
        first, batches = quorum.announce(node, offset)
        known = committed[first : first + len(batches)]
        if batches[: len(known)] != known:  # at once: a node that starts announces its whole log
            pairs = zip(batches, known, strict=False)
            return next(self._describe_change(node, *pair) for pair in pairs if pair[0] != pair[1])
        if offset < quorum.mark(node):
            return Broken(
                f"{node} takes back commits: high watermark {offset} after {quorum.mark(node)}"
            )
        if offset == 0:
            return None  # says that nothing is committed
        if quorum.sight is None:
            ends_there = not quorum.follows_logs or offset <= log.end
        else:
            position = log.position(offset)
            ends_there = position >= 0 and log.batches[position][1] == offset
        if ends_there:
            return None
        return Broken(f"{node}: high watermark {offset} is no end of a batch of its log")

    def on_changed(self, node: str, fields: Fields) -> Broken:
        """Report what a comparison of logs found when the run was over."""
        return self._describe_change(node, fields["batch"], fields["known"])

    def _describe_change(self, node: str, batch: Batch, known: Batch) -> Broken:
        return Broken(
            f"{node} takes {_render_batch(batch)} for committed, where {_render_batch(known)} was"
        )


class CommittedTruncated(Invariant):
    """No replica truncates a committed record that it held, as far as its epoch goes.

    A replica that has not heard of the epoch in which a record was committed was not counted for it
    (who is counted fetches in that epoch, and remembers it). It may still follow the deposed leader
    before, which lacks the record, and cut its own copy as that one says: the majority that
    committed it has it. From that epoch on each leader holds the record (Leader Completeness), so
    none can say so.

    Where batches are not known, a node must keep everything below the high watermarks that it
    announced, except what a power loss may have taken, or put an old tail in its place; one that
    does not say what it recovered, below those that it announced since it started.
    """

    name = "committed-truncated"
    source = "Raft 5.4.3; KIP-595: a follower never truncates below its high watermark"
    reads = frozenset({"truncate", "hw"})
    own = True

    _recovering: set[str] = field(default_factory=set)
    """Nodes that say what they recovered."""

    def on_recovered(self, node: str, fields: Fields) -> None:
        self._recovering.add(node)

    def on_truncate(self, node: str, fields: Fields) -> Broken | None:
        return self._dropped_from(node, fields["end_offset"])

    def on_truncate_fully(self, node: str, fields: Fields) -> Broken | None:
        """Judge what a snapshot lacks that replaces the log."""
        return self._dropped_from(node, fields["start_offset"])

    def _dropped_from(self, node: str, end_offset: int) -> Broken | None:
        quorum = self.quorum
        log, epoch = quorum.logs[node], quorum.epochs.get(node, 0)
        known = bisect_right(quorum.committed_in, epoch)  # batches committed up to its epoch
        kept = log.kept if node in self._recovering else quorum.mark(node)
        lost = end_offset < kept or any(
            position < known and quorum.committed[position] == batch
            for position, batch in log.tail_from(end_offset)
        )
        if not lost:
            return None
        return Broken(f"{node} cut its log to {end_offset}, below committed records")


class Recovery(Invariant):
    """What was fsynced is there again after a restart.

    A log may get shorter by what the node itself traced: a truncation, or its replacement by a
    snapshot. The replacement is allowed from the node's request for the snapshot on
    (`fetch-snapshot`), as it may die after it and before it traces `truncate-fully`.

    The quorum-state file holds what the last state before was entered with, or what was written
    behind that and not traced any more: a higher epoch, or in the same epoch a vote where there was
    none, or a leader. No node forgets a vote in an epoch, nor a leader that it knows.
    """

    name = "recovery"
    source = "the contract of fsync; RaftFsync of the TLA+ specifications"
    reads = frozenset({"flush", "recovered"})
    own = True

    def on_recovered(self, node: str, fields: Fields) -> Broken | None:
        end_offset, expected = fields["end_offset"], self.quorum.logs[node].flushed
        if end_offset >= expected:
            return None
        return Broken(f"{node} held offsets below {expected} and recovered {end_offset}")

    def on_opened(self, node: str, fields: Fields) -> Broken | None:
        known, sight = self.quorum.elections.get(node), self.quorum.sight
        held = None if sight is None else sight.quorum_state(node)
        if sight is None or known is None or isinstance(held, str) or may_follow(held, known):
            return None
        return Broken(f"{node} had stored {known} and recovered {held or 'no quorum-state'}")

    def on_left(self, node: str, fields: Fields) -> Broken | None:
        end_offset, expected = fields["end_offset"], self.quorum.logs[node].flushed
        if end_offset >= expected:
            return None
        return Broken(f"{node} had fsynced all below {expected}, and its log ends at {end_offset}")


def may_follow(held: Election | None, known: Election) -> bool:
    """Whether a quorum-state file may hold this after a node had stored what is known."""
    if held is None or held.epoch != known.epoch:
        return held is not None and held.epoch > known.epoch
    if known.leader_id == NO_NODE != held.leader_id:
        return True  # whoever is elected, the vote of this epoch has served
    return known.leader_id == held.leader_id and known.voted_id in (NO_NODE, held.voted_id)


def _render_batch(batch: Batch) -> str:
    return f"the batch at offset {batch[0]} of epoch {batch[2]} (crc {batch[3]:08x})"

"""Invariants of snapshots (KIP-630)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from checkers.invariants.fold import Broken, Invariant, Order, rule
from checkers.invariants.sight import Fields


class SnapshotCommitted(Invariant):
    """A snapshot ends where a committed batch of its epoch does, and so does what a log drops.

    Stored traces do not name the batches. Then it is enough that a node announced as much as
    committed.
    """

    name = "snapshot-committed"
    source = "KIP-630; RaftEventSimulationTest, SnapshotAtLogStart"
    reads = frozenset({"snapshot"})
    order = Order.CAUSE

    def on_snapshot(self, node: str, fields: Fields) -> Broken | None:
        offset, epoch = fields["offset"], fields["epoch"]
        broken = self._ends(node, offset)
        below = self.quorum.committed_below(offset)
        if broken is not None or not below or below[-1][2] == epoch:
            return broken
        return Broken(
            f"{node} calls a snapshot {offset}-{epoch}, but what is below offset {offset} ends in "
            f"epoch {below[-1][2]}"
        )

    def on_truncate_fully(self, node: str, fields: Fields) -> Broken | None:
        return self._ends(node, fields["start_offset"])

    def on_opened(self, node: str, fields: Fields) -> Broken | None:
        return self._ends(node, fields["start_offset"])

    def on_recovered(self, node: str, fields: Fields) -> Broken | None:
        return None if self.quorum.sight is not None else self._ends(node, fields["start_offset"])

    def _ends(self, node: str, offset: int) -> Broken | None:
        quorum = self.quorum
        if quorum.sight is None:
            fits = offset <= quorum.committed_end
        else:
            fits = quorum.committed_below(offset) is not None
        if fits:
            return None
        explanation = f"{node} has a snapshot of all below {offset}, where no committed batch ends"
        return Broken(explanation, unseen=tuple(sorted(quorum.unseen)))


class SnapshotDurable(Invariant):
    """A snapshot that is announced is on the disk, whole."""

    name = "snapshot-durable"
    source = "KIP-630; KAFKA-15312"
    reads = frozenset({"snapshot"})
    unstored = "it needs the bytes on a node's disk at the moment of a snapshot"

    def on_snapshot(self, node: str, fields: Fields) -> Broken | None:
        held = fields.get("held")
        return Broken(f"{node}: {held}") if isinstance(held, str) else None


class SnapshotAgreement(Invariant):
    """Snapshots with equal ids have equal bytes: each is the replay of the log up to its id."""

    name = "snapshot-agreement"
    source = "KIP-630: a snapshot is the replay of a prefix of the log"
    reads = frozenset({"snapshot"})
    unstored = "it needs the bytes of snapshots that the nodes have deleted since"

    _first: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    """By id: the node that had the snapshot first, and its checksum."""

    def on_snapshot(self, node: str, fields: Fields) -> Broken | None:
        offset, epoch, held = fields["offset"], fields["epoch"], fields.get("held")
        if not isinstance(held, int):
            return None
        other, known = self._first.setdefault((offset, epoch), (node, held))
        if known == held:
            return None
        explanation = f"{node} and {other} hold different snapshots of one id, {offset}-{epoch}"
        return Broken(explanation, (node, other))


COMMITS_MAX: Final = 30
"""Commits for which a snapshot may be due: it begins when there is nothing else to do."""


@rule("snapshot-due", "KIP-630")
def snapshot_made(node: str, fields: Fields) -> Broken | None:
    """A node snapshots its metadata once max.record.bytes.between.snapshots are new.

    Asked of simulated worlds, which show what is new (`snapshot-due`), by the node's own count or
    as twice as much in whole segments of its log: no trace holds it.

    Judge for how many commits a snapshot has been due, and none was begun.
    """
    if fields["commits"] <= COMMITS_MAX:
        return None
    return Broken(f"{node} has made no snapshot for {fields['commits']} commits since one is due")

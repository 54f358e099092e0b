"""Invariants of commits: of high watermarks, and of the answers that rely on them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field

from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.quorum import Quorum
from checkers.invariants.sight import Fields


def surplus_mark(quorum: Quorum, node: str, fields: Fields) -> Broken | None:
    """Say that a node takes more for committed than leaders have announced.

    The leader of its epoch names no mark before it has announced one of that epoch.
    """
    offset, leader = fields["offset"], quorum.leader_of.get(fields["epoch"])
    if fields["role"] == "leader" or offset <= quorum.announced_end:
        return None
    unseen = quorum.unseen if leader is None else quorum.unseen_of((leader,), (), 1)
    return Broken(
        f"{node} takes all below {offset} for committed, where no leader announced more than "
        f"{quorum.announced_end}",
        unseen=tuple(sorted(unseen)),
    )


class MajorityDurable(Invariant):
    """What a leader commits is durable on a majority of its voters.

    Stored traces do not name the batches. Then a voter counts if it ever had everything below the
    offset durable, whichever batches these were.

    A follower learns a high watermark from a response of a leader, which announced it before it
    sent that, or from a snapshot, which ends below one. So none takes more for committed than
    leaders announced. Stored traces may lack the end of what a leader did.
    """

    name = "majority-durable"
    source = "RaftEventSimulationTest, MajorityReachedHighWatermark; RaftFsync"
    reads = frozenset({"voters", "flush", "fetch", "hw"})
    order = Order.CAUSE

    def on_hw(self, node: str, fields: Fields) -> Broken | None:
        return None if self.quorum.sight is None else surplus_mark(self.quorum, node, fields)

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        quorum, offset = self.quorum, fields["offset"]
        if offset == 0:
            return None
        voters = quorum.electorate.members(node)
        holders = [
            voter for voter in voters.directories if quorum.held_durably(node, voter, offset)
        ]
        lacking = voters.majority - len(holders)
        if lacking <= 0 or not voters.directories:
            return None
        explanation = (
            f"{node} commits up to {offset} in epoch {fields['epoch']}, which is durable on "
            f"{', '.join(holders) or 'none'} only of its voters {voters}"
        )
        return Broken(explanation, unseen=quorum.unseen_of(voters.directories, holders, lacking))


class MajorityCounted(Invariant):
    """A leader's high watermark is at most what a majority of its voters had by its own count."""

    name = "majority-counted"
    source = "Raft 5.3; KIP-595, high watermark"
    reads = frozenset({"hw", "hw.replicas"})
    own = True
    order = Order.NONE

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        ends = sorted(fields["replicas"].values(), reverse=True)
        majority = ends[len(ends) // 2] if ends else 0
        if fields["offset"] <= majority:
            return None
        at = ", ".join(f"{voter} at {end}" for voter, end in sorted(fields["replicas"].items()))
        return Broken(
            f"{node} set the high watermark of epoch {fields['epoch']} to {fields['offset']}, "
            f"though a majority of voters had only {majority} (replica {at})"
        )


class MonotonicHighWatermark(Invariant):
    """The high watermarks of leaders never decrease, from epoch to epoch.

    A leader announces none before a record of its own epoch is committed, and that lies above
    everything that was committed before (Leader Completeness). So one of a later epoch lies above
    every one of an earlier epoch, whichever was announced first: an old leader may announce one
    late. No order between nodes is needed.
    """

    name = "monotonic-high-watermark"
    source = "RaftEventSimulationTest, MonotonicHighWatermark; Raft 5.4"
    reads = frozenset({"hw"})

    _epochs: list[int] = field(default_factory=list)
    """Epochs whose leaders announced a high watermark, ascending."""
    _least: dict[int, tuple[int, str]] = field(default_factory=dict)
    _most: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By epoch: offset and node."""

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        offset, epoch = fields["offset"], fields["epoch"]
        if epoch not in self._most:
            self._epochs.insert(bisect_left(self._epochs, epoch), epoch)
        self._most[epoch] = max(self._most.get(epoch, (offset, node)), (offset, node))
        self._least[epoch] = min(self._least.get(epoch, (offset, node)), (offset, node))
        if self._most[epoch][0] > offset:
            before = f"after {self._most[epoch][0]} in epoch {epoch}"
            return Broken(f"{node} announces the high watermark {offset} {before}")
        place = bisect_left(self._epochs, epoch)
        # The epochs before this event ascend, so only its neighbours can contradict it.
        for low, high in ((place - 1, place), (place, place + 1)):
            if low >= 0 and high < len(self._epochs):
                broken = self._decreases(self._epochs[low], self._epochs[high])
                if broken is not None:
                    return broken
        return None

    def _decreases(self, earlier: int, later: int) -> Broken | None:
        before, before_node = self._most[earlier]
        after, after_node = self._least[later]
        if before <= after:
            return None
        explanation = (
            f"{after_node}, leader of epoch {later}, announces the high watermark {after}, though "
            f"{before_node}, leader of epoch {earlier}, announced {before}"
        )
        return Broken(explanation, (after_node, before_node))


class LeaderCompleteness(Invariant):
    """A new leader holds all that was committed before its epoch.

    What a leader of an earlier epoch announces later was on a majority before that majority voted
    in the new epoch: it is below the new epoch's start as well. So where batches are not known, the
    offsets of earlier epochs are compared with the start, in whichever order they are read.
    """

    name = "leader-completeness"
    source = "Raft 5.4, Leader Completeness; LeaderHasAllAckedValues"
    reads = frozenset({"epoch-start", "hw"})
    order = Order.NONE

    _announced: dict[int, tuple[int, str]] = field(default_factory=dict)
    """The highest high watermark that a leader of each epoch announced, and its node."""
    _started: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Where each epoch starts, and its leader."""

    def on_epoch_start(self, node: str, fields: Fields) -> Broken | None:
        epoch, offset, quorum = fields["epoch"], fields["offset"], self.quorum
        self._started[epoch] = (offset, node)
        needed = bisect_left(quorum.committed_in, epoch)
        if quorum.sight is None:
            lacks = any(
                end > offset for before, (end, _) in self._announced.items() if before < epoch
            )
        else:
            lacks = quorum.logs[node].batches[:needed] != quorum.committed[:needed]
        if not lacks:
            return None
        return Broken(f"{node} leads epoch {epoch} without all that was committed before it")

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        """Compare what an old leader commits with where later epochs started."""
        epoch, offset = fields["epoch"], fields["offset"]
        self._announced[epoch] = max(self._announced.get(epoch, (0, node)), (offset, node))
        if epoch == max(self._started, default=epoch):
            return None
        for later, (start, leader) in self._started.items():
            if later > epoch and start < offset:
                explanation = (
                    f"{leader} leads epoch {later} from offset {start}, without all that {node} "
                    f"commits in epoch {epoch}, which is up to {offset}"
                )
                return Broken(explanation, (leader, node))
        return None


class DurableFetch(Invariant):
    """A voter fetches no further than it has fsynced: the fetch offset is its acknowledgement.

    The leader counts it towards a majority. Were the records below it lost with the voter's power,
    a leader without them could be elected, and committed records would be gone.
    """

    name = "durable-fetch"
    source = "KIP-595; RaftFsync, FollowerFsyncBeforeReply"
    reads = frozenset({"fetch"})
    own = True
    order = Order.NONE

    def on_fetch(self, node: str, fields: Fields) -> Broken | None:
        offset, durable = fields["offset"], fields["durable_end_offset"]
        sight = self.quorum.sight
        if offset <= durable and (sight is None or offset <= (sight.durable_end(node) or 0)):
            return None
        if sight is not None:
            durable = min(durable, self.quorum.durable_end(node))
            if offset <= durable:
                return None
        return Broken(f"{node} fetches at {offset} with {durable} fsynced")


class AckCommitted(Invariant):
    """A write is acknowledged once the node knows that it is committed."""

    name = "ack-committed"
    source = "KIP-595; KIP-631"
    reads = frozenset({"hw", "ack"})
    own = True

    def on_ack(self, node: str, fields: Fields) -> Broken | None:
        mark = min(self.quorum.mark(node), fields["high_watermark"])
        if fields["offset"] < mark:
            return None
        return Broken(
            f"{node} acknowledges offset {fields['offset']} while nothing from {mark} on is "
            "committed"
        )


class ReadConfirmed(Invariant):
    """A linearizable read is answered once leadership was confirmed since it arrived.

    A leader that is cut off from a majority does not know that a later epoch has begun, and would
    answer without the writes that were acknowledged in it.
    """

    name = "read-confirmed"
    source = "Raft 8, read-only operations"
    reads = frozenset({"read"})
    own = True
    order = Order.NONE

    def on_read(self, node: str, fields: Fields) -> Broken | None:
        if fields["confirmed"] is True:
            return None
        return Broken(
            f"{node} answers a linearizable read at offset {fields['offset']} without confirmed "
            "leadership"
        )


class OwnCommit(Invariant):
    """What a leader notes as committed it appended itself, as the leader of its present epoch.

    It commits by counting batches of its own epoch only; those of earlier epochs are committed with
    them (figure 8): so its high watermark lies above its epoch's start. What waited for a commit as
    it lost its leadership is lost with it: when the node leads again, other batches may lie at
    these offsets. A follower counts nothing, its mark is its leader's: nothing is asked of it, nor,
    of batches, of a node whose `state` is not stored.
    """

    name = "own-commit"
    source = "Raft 5.4.2; LeaderState, maybeUpdateHighWatermark; KafkaRaftClient, appendPurgatory"
    reads = frozenset({"epoch-start", "hw"})
    own = True

    _appended: dict[str, set[int]] = field(default_factory=dict)
    """By the nodes that lead: last offsets of what they appended and not yet committed."""

    def on_state(self, node: str, fields: Fields) -> None:
        """Take up a leader, which waits for nothing yet."""
        if fields["state"] == "Leader" and self.quorum.leads.get(node) != fields["epoch"]:
            self._appended[node] = set()

    def on_append(self, node: str, fields: Fields) -> None:
        if node in self.quorum.leads:
            self._appended[node].add(fields["last_offset"])

    def on_leader_hw(self, node: str, fields: Fields) -> Broken | None:
        epoch, offset = fields["epoch"], fields["offset"]
        start = self.quorum.epoch_starts.get(epoch, -1)
        if offset > start:
            return None
        return Broken(
            f"{node} announces {offset} as committed as the leader of epoch {epoch}, which starts "
            f"at {start}: nothing of it is"
        )

    def on_commit(self, node: str, fields: Fields) -> Broken | None:
        epoch, last_offset = self.quorum.leads.get(node), fields["last_offset"]
        if epoch is None:
            return None
        if last_offset in self._appended[node]:
            self._appended[node].remove(last_offset)
            return None
        return Broken(
            f"{node} notes the batch that ends at {last_offset} as committed, which it did not "
            f"append as the leader of epoch {epoch}"
        )


class ClaimAfterReplay(Invariant):
    """A controller claims leadership only once it has replayed its log past its epoch's start.

    Everything committed in earlier epochs lies below that offset. Before, its image may lack
    some of it, and it would generate records against a stale state.
    """

    name = "claim-after-replay"
    source = "KAFKA-17333; KIP-595"
    reads = frozenset({"state", "epoch-start", "claim"})
    own = True

    def on_claim(self, node: str, fields: Fields) -> Broken | None:
        epoch, offset, quorum = fields["epoch"], fields["offset"], self.quorum
        start, leader = quorum.epoch_starts.get(epoch), quorum.leader_of.get(epoch)
        if leader == node and start is not None and offset >= start:
            return None
        return Broken(
            f"{node} claims epoch {epoch} with replayed offset {offset}; the epoch is led by "
            f"{leader or 'no node'} and starts at {start}"
        )

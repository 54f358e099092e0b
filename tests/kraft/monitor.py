"""What must hold in a simulated world after every event, whatever happened to it.

Sources: RaftEventSimulationTest's invariants, the public TLA+ specifications of KRaft, KIP-595.
"""

from __future__ import annotations

from bisect import bisect_left

from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.quorum_state_store import decode
from cluster.node.kraft.states import Prospective, Resigned
from cluster.node.log.records import decode_records, iter_batches
from tests.kraft.world import World

EVENTS_AT_ONE_TIME_MAX = 2_000
"""More callbacks without time passing are a busy loop."""


class SafetyMonitor:
    """Watches the nodes' traces and judges after each event what they changed."""

    def __init__(self, world: World):
        self.world = world
        self.committed: list[tuple[int, bytes | None]] = []
        """Epoch and value of each offset below any high watermark; None for control records."""
        self.committed_in: list[int] = []
        """The epoch in which each of them was first committed; it never decreases."""
        self.leader_high_watermark = 0
        self.leader_of: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.epochs: dict[int, int] = {}
        self.durable: dict[int, int] = {}
        self._checked: dict[tuple[int, int], int] = {}
        self._changed: list = []
        self._at = (-1.0, 0)
        world.observe = self._observe

    def run_for(self, duration_ms):
        end_ms = self.world.scheduler.now_ms + duration_ms
        self.run_until(lambda: self.world.scheduler.now_ms >= end_ms, duration_ms)

    def run_until(self, condition, timeout_ms):
        """Run event by event; returns whether the condition came to hold."""
        scheduler = self.world.scheduler
        done = []
        scheduler.call_later(timeout_ms, lambda: done.append(True))
        while not condition():
            if done:
                return False
            assert scheduler.step(), "nothing ever happens again"
            self._count_events(scheduler.now_ms)
            if self._changed:
                self._check()
        return True

    def crashed(self, node):
        """Note what a node held durably, to be found again."""
        self.durable[node.node_id] = self._durable_end(node)

    def started(self, node):
        """Check that a restarted node found again what it had held durably."""
        before = self.durable.get(node.node_id, 0)
        assert node.log.end_offset >= before, f"node {node.node_id} lost durable records"
        self._check()

    def _count_events(self, now_ms):
        at, count = self._at
        self._at = (now_ms, count + 1 if at == now_ms else 1)
        assert self._at[1] < EVENTS_AT_ONE_TIME_MAX, "a busy loop: no time passes"

    def _observe(self, node, event, fields):
        self._changed.append((node, node.incarnation, event, fields))
        if event == "fetch" and node.node_id in self.world.ids:
            assert fields["offset"] <= node.log.durable_end_offset, "fetched above the fsynced"

    def _check(self):
        changed, self._changed = self._changed, []
        for node, incarnation, event, fields in changed:
            if node.client is None or node.incarnation != incarnation:
                continue
            if event == "state":
                self._check_state(node, fields)
            elif event == "hw":
                self._check_high_watermark(node, fields)
            elif event == "truncate":
                assert fields["end_offset"] >= node.log.high_watermark
                before = self.durable.get(node.node_id, 0)
                self.durable[node.node_id] = min(before, fields["end_offset"])
            elif event == "epoch-start":
                self._check_leader_completeness(node)
        for node in {node.node_id: node for node, *_ in changed}.values():
            if node.client is not None and not node.is_busy:
                self._check_file(node)

    def _check_state(self, node, fields):
        epoch, leader_id = fields["epoch"], fields["leader_id"]
        assert epoch >= self.epochs.get(node.node_id, 0), "an epoch went back"
        self.epochs[node.node_id] = epoch
        if leader_id != NO_NODE:
            known = self.leader_of.setdefault(epoch, leader_id)
            assert known == leader_id, f"epoch {epoch} has leaders {known} and {leader_id}"

    def _check_file(self, node):
        """The durable file is never behind the memory, and holds one vote an epoch."""
        state = node.state
        content = node.durable_file()
        assert content is not None, "a state without a durable file"
        durable = decode(content)
        assert durable.epoch == state.epoch
        voted = NO_NODE if durable.voted_key is None else durable.voted_key.id
        if not isinstance(state, Prospective | Resigned):
            assert durable.leader_id == state.leader_id
            assert voted == (NO_NODE if state.voted_key is None else state.voted_key.id)
        if voted != NO_NODE:
            known = self.votes.setdefault((node.node_id, durable.epoch), voted)
            assert known == voted, f"node {node.node_id} voted twice in epoch {durable.epoch}"

    def _check_high_watermark(self, node, fields):
        offset = node.log.high_watermark
        if fields["role"] == "leader":
            latest = max(self.leader_of)
            if fields["epoch"] == latest:
                assert fields["offset"] >= self.leader_high_watermark, "high watermark went back"
                self.leader_high_watermark = fields["offset"]
            holders = sum(
                self._durable_end(other) >= fields["offset"] for other in self.world.voter_nodes
            )
            assert holders > len(self.world.ids) // 2, "committed without a durable majority"
        self._check_committed(node, offset)
        missing = len(self.committed) - len(self.committed_in)
        self.committed_in += [fields["epoch"]] * missing

    def _durable_end(self, node):
        """Where a node's durable log ends, also where a restarted node does not know it yet."""
        before = self.durable.get(node.node_id, 0)
        if node.client is None:
            return before
        return max(node.log.durable_end_offset, min(before, node.log.end_offset))

    def _check_committed(self, node, high_watermark):
        """Every node agrees with every other, at any time, on what is committed."""
        key = (node.node_id, node.incarnation)
        position = self._checked.get(key, 0)
        while position < high_watermark:
            data = node.log.read_committed(position, 1 << 20)
            for header, batch in iter_batches(data):
                values = [None if header.is_control else r.value for r in decode_records(batch)]
                for delta, value in enumerate(values):
                    self._agree(
                        node, header.base_offset + delta, (header.partition_leader_epoch, value)
                    )
                position = header.next_offset
        self._checked[key] = position

    def _agree(self, node, offset, record):
        if offset == len(self.committed):
            self.committed.append(record)
        else:
            assert self.committed[offset] == record, (
                f"node {node.node_id} has {record} at committed offset {offset}, "
                f"others {self.committed[offset]}"
            )

    def _check_leader_completeness(self, node):
        """A new leader holds everything that was committed in an earlier epoch."""
        end = bisect_left(self.committed_in, node.state.epoch)
        assert node.log.end_offset >= end, "a leader without all committed records"
        position = 0
        while position < end:
            for header, _ in iter_batches(node.log.read(position, 1 << 20)):
                for offset in range(header.base_offset, min(header.next_offset, end)):
                    assert self.committed[offset][0] == header.partition_leader_epoch, (
                        f"the leader of epoch {node.state.epoch} has another record at {offset}"
                    )
                position = header.next_offset

"""The invariants of `checkers.invariants`, live in a world of raft clients, event by event."""

from __future__ import annotations

from checkers.invariants.elections import StableLeadership
from checkers.invariants.sight import Election, node_name
from checkers.invariants.watcher import INVARIANTS, Watcher
from cluster.backends.sim.process import read_from
from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.quorum.quorum_state_store import decode
from cluster.node.log.batch.records import decode_records, iter_batches
from tests.cluster.node.kraft.world import World

EVENTS_AT_ONE_TIME_MAX = 2_000
"""More callbacks without time passing are a busy loop."""


class WorldSight:
    """See `checkers.invariants.sight.Sight`."""

    def __init__(self, world: World):
        self._nodes = {node_name(node.node_id): node for node in world.nodes.values()}

    def is_open(self, node):
        return self._nodes[node].client is not None

    def start_offset(self, node):
        return self._nodes[node].log.start_offset

    def batches(self, node, offset):
        return read_from(self._nodes[node].log, offset)

    def durable_end(self, node):
        held = self._nodes[node]
        return None if held.client is None else held.log.durable_end_offset

    def quorum_state(self, node):
        content = self._nodes[node].durable_file()
        if content is None:
            return None
        state = decode(content)
        voted_id = NO_NODE if state.voted_key is None else state.voted_key.id
        return Election(state.epoch, state.leader_id, voted_id)

    def snapshot(self, node, offset, epoch):
        raise AssertionError(f"{node} snapshots, in a world without snapshots")


class SafetyMonitor:
    """Feeds the nodes' traces to the invariants, and runs the world until one is broken."""

    def __init__(self, world: World):
        self.world = world
        # `World.keep_still` lets followers forget that they have heard of their leader.
        among = [invariant for invariant in INVARIANTS if invariant is not StableLeadership]
        self.watcher = Watcher(WorldSight(world), among=among)
        self._incarnations: dict[int, int] = {}
        self._at = (-1.0, 0)
        world.observe = self._observe
        for node in world.running:
            for _, _, event, fields in node.trace:
                self._observe(node, event, fields)

    @property
    def leader_of(self):
        return self.watcher.quorum.leader_of

    @property
    def leader_high_watermark(self):
        return self.watcher.quorum.committed_end

    @property
    def committed(self):
        """Epoch and value of each committed offset; None for control records."""
        log = max((n.log for n in self.world.running), key=lambda log: log.high_watermark)
        found = []
        while len(found) < log.high_watermark:
            for header, batch in iter_batches(log.read_committed(len(found), 1 << 20)):
                found += [
                    (header.partition_leader_epoch, None if header.is_control else record.value)
                    for record in decode_records(batch)
                ]
        return found

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
            self._check()
        return True

    def crashed(self, node):
        """Note what a node held durably, to be found again."""
        self.watcher.note_end(node_name(node.node_id), node.log.durable_end_offset)

    def started(self, node):
        """Check that a restarted node found again what it had held durably."""
        assert self._incarnations[node.node_id] == node.incarnation
        self._check()

    def _check(self):
        violations = self.watcher.violations
        assert violations == [], violations[0].explanation

    def _count_events(self, now_ms):
        at, count = self._at
        self._at = (now_ms, count + 1 if at == now_ms else 1)
        assert self._at[1] < EVENTS_AT_ONE_TIME_MAX, "a busy loop: no time passes"

    def _observe(self, node, event, fields):
        name, take = node_name(node.node_id), self.watcher.take
        if self._incarnations.get(node.node_id) != node.incarnation:
            self._incarnations[node.node_id] = node.incarnation
            take(name, "start", {"directory_id": node.directory_id})
            log = node.log
            ends = {"end_offset": log.end_offset, "last_epoch": log.last_fetched_epoch}
            take(name, "recovered", {"start_offset": log.start_offset, **ends})
        if event != "fetch" or node.node_id in self.world.ids:
            take(name, event, fields)

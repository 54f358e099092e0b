"""The schedules that expose seeded protocol bugs.

Those of M01, M17 and M21 to M23 are stored plans of whole nodes (tests/harness/sim/regressions).
Each runs twice: the core must come through it with every invariant of the monitor intact, and the
core with the bug in it must not, which proves that the schedule would find it.
"""

import pytest

from cluster.node.kraft import outbound, role_polls
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.quorum import leader_state, quorum_state, states
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower, Resigned
from tests.cluster.node.kraft.monitor import SafetyMonitor
from tests.cluster.node.kraft.world import World


class Stage:
    """A world of three with its monitor, a leader, and something committed."""

    def __init__(self):
        self.world = World().start()
        self.monitor = SafetyMonitor(self.world)
        self.world.elect()
        self.leader = self.world.leader()
        self.first, self.second = (n for n in self.world.nodes.values() if n is not self.leader)
        self.commit(self.leader, "base")
        self.run(2_000)

    def run(self, duration_ms):
        self.monitor.run_for(duration_ms)

    def until(self, condition, timeout_ms=20_000):
        assert self.monitor.run_until(condition, timeout_ms), "it never came to that"

    def commit(self, node, *values):
        offset = self.world.append(node, *values)
        self.until(lambda: node.listener.next_offset > offset)

    def isolate(self, node):
        self.world.network.isolate(node.node_id, self.world.ids)

    def cut(self, node, other):
        a, b = node.node_id, other.node_id
        self.world.network.cut |= {(a, b), (b, a)}

    def crash(self, node, keep="nothing"):
        self.monitor.crashed(node)
        node.crash(keep)

    def start(self, node):
        node.start()
        self.monitor.started(node)
        self.until(lambda: not node.is_busy)

    def let_win(self, node):
        """Have this node win the next election, if anything lets it."""
        others = [other for other in self.world.running if other is not node]
        self.world.keep_still(*others)
        self.world.stand(node)
        return self.monitor.run_until(lambda: isinstance(node.state, Leader), 1_000)

    def all_agree(self):
        """Heal; every node must then hold all that was committed, and a new write."""
        self.world.network.heal()
        for node in self.world.nodes.values():
            node.disk.resume()
            if node.client is None:
                self.start(node)
        self.run(8_000)
        self.world.elect()
        self.commit(self.world.leader(), "last")
        self.run(2_000)
        expected = [v for _, v in self.monitor.committed if v is not None]
        for node in self.world.nodes.values():
            assert [v for _, v in node.listener.values] == expected


def leader_loses_its_tail(stage):
    """M06 a: a leader loses power with an unsynced tail, comes back, and writes again."""
    leader, follower = stage.leader, stage.first
    epoch = leader.state.epoch
    stage.crash(stage.second)
    leader.disk.stall()
    stage.world.append(leader, "lost at its leader")
    stage.run(200)
    assert follower.log.end_offset > leader.log.durable_end_offset
    stage.crash(leader)
    leader.disk.resume()
    stage.cut(leader, follower)
    stage.start(leader)
    if isinstance(leader.state, Leader):
        stage.world.append(leader, "in its place")
        stage.run(100)
        stage.world.network.heal()
        stage.world.stand(follower)
        stage.run(2_500)
    else:
        stage.world.network.heal()
        assert isinstance(leader.state, Resigned)
        assert leader.state.epoch == epoch
        stage.run(10_000)
        assert stage.world.leader().state.epoch > epoch
    stage.all_agree()


def restart_as_leader(monkeypatch):
    initialize = quorum_state.QuorumState.initialize

    def faulty(self, log_end, then):
        def initialized():
            if isinstance(self.state, Resigned):
                accumulator = BatchAccumulator(self.epoch, log_end.offset, 0)
                config = self._config
                self._be(Leader(
                    self.epoch, config.replica_key, config.voters.endpoint(config.node_id),
                    config.voters, (), log_end.offset - 1, accumulator, 3_000, self._clock.monotonic_ms(),
                ))  # fmt: skip
            then()

        initialize(self, log_end, initialized)

    monkeypatch.setattr(quorum_state.QuorumState, "initialize", faulty)


def deposed_leader(stage):
    """M07: a leader is cut off, another is elected, the cut heals."""
    old = stage.leader
    stage.isolate(old)
    assert stage.let_win(stage.first)
    assert isinstance(old.state, Leader)
    stage.world.network.heal()
    stage.run(1_500)
    assert isinstance(old.state, Follower), "two leaders that hear of each other"
    stage.all_agree()


def ignore_higher_epochs(monkeypatch):
    transition, unattached = RaftCore.maybe_transition, RaftCore.become_unattached

    def faulty(self, leader_id, epoch, endpoint, then):
        if self.leader is None:
            transition(self, leader_id, epoch, endpoint, then)

    monkeypatch.setattr(RaftCore, "maybe_transition", faulty)
    monkeypatch.setattr(
        RaftCore,
        "become_unattached",
        lambda self, *args: None if self.leader else unattached(self, *args),
    )


def deaf_follower(stage):
    """M10: a follower hears nothing of its leader, but is heard by all."""
    epoch = stage.leader.state.epoch
    stage.world.network.cut.add((stage.leader.node_id, stage.second.node_id))
    stage.run(20_000)
    assert (stage.world.leader(), stage.leader.state.epoch) == (stage.leader, epoch)
    stage.all_agree()


def grant_pre_votes_beside_a_live_leader(monkeypatch):
    monkeypatch.setattr(
        states.Follower, "can_grant_vote", lambda *_, log_ok, pre_vote: log_ok and pre_vote
    )


def leader_acknowledges_before_its_fsync(stage):
    """M13: the leader's disk stalls; one follower has the write; the leader loses power."""
    leader = stage.leader
    stage.cut(leader, stage.second)
    leader.disk.stall()
    offset = stage.world.append(leader, "in one durable log only")
    stage.run(1_000)
    assert stage.first.log.durable_end_offset > offset
    assert leader.listener.next_offset <= offset, "acknowledged"
    stage.crash(leader)
    stage.crash(stage.first)
    leader.disk.resume()
    stage.world.network.heal()
    stage.start(leader)
    stage.run(10_000)
    stage.commit(stage.world.leader(), "instead")
    stage.all_agree()


def count_unsynced_at_the_leader(monkeypatch):
    append = role_polls.RolePolls._maybe_append_batches

    def faulty(self, state, now_ms):
        due_ms = append(self, state, now_ms)
        state.update_local(self._core.log.end_offset)
        return due_ms

    monkeypatch.setattr(role_polls.RolePolls, "_maybe_append_batches", faulty)


def leader_alone(stage):
    """M15: both followers are cut off; the leader writes and dies."""
    stage.isolate(stage.leader)
    offset = stage.world.append(stage.leader, "alone")
    stage.run(500)
    assert stage.leader.listener.next_offset <= offset
    stage.crash(stage.leader)
    stage.all_agree()


def count_the_leader_twice(monkeypatch):
    def faulty(self):
        offsets = [-1 if r.end_offset is None else r.end_offset for r in self.replicas.values()]
        offsets = sorted([*offsets, self.replicas[self.local.id].end_offset or 0])
        return offsets[len(offsets) // 2]

    monkeypatch.setattr(leader_state.Leader, "committed_candidate", faulty)


def follower_acknowledges_before_its_fsync(stage):
    """M19: the follower that acknowledged loses power, then the leader is gone."""
    stage.cut(stage.leader, stage.second)
    stage.first.disk.stall()
    offset = stage.world.append(stage.leader, "in one durable log only")
    stage.run(1_000)
    assert stage.leader.listener.next_offset <= offset
    stage.crash(stage.first)
    stage.crash(stage.leader)
    stage.first.disk.resume()
    stage.world.network.heal()
    stage.start(stage.first)
    stage.run(10_000)
    stage.commit(stage.world.leader(), "instead")
    stage.all_agree()


def fetch_before_the_fsync(monkeypatch):
    monkeypatch.setattr(outbound.OutboundRequests, "may_fetch", lambda _: True)


def rejoining_leader(stage):
    """M21, M25: an old leader with a tail of its own comes back to a quorum that went on."""
    old = stage.leader
    stage.isolate(old)
    tail = stage.world.append(old, "x", "y")
    stage.until(lambda: old.log.durable_end_offset > tail)
    assert stage.let_win(stage.first)
    stage.commit(stage.first, "u")
    stage.commit(stage.first, "v")
    stage.commit(stage.first, "w")
    stage.world.network.heal()
    stage.until(lambda: old.log.high_watermark == stage.first.log.high_watermark)
    assert [v for _, v in old.listener.values] == [b"base", b"u", b"v", b"w"]
    stage.all_agree()


def high_watermark_before_truncation(monkeypatch):
    fetched = outbound.OutboundRequests._take_fetch

    def faulty(self, request, response):
        if isinstance(self._core.quorum.state, Follower) and response.high_watermark >= 0:
            end = self._core.log.end_offset
            self._core.follower_high_watermark_moved(min(end, response.high_watermark))
        fetched(self, request, response)

    monkeypatch.setattr(outbound.OutboundRequests, "_take_fetch", faulty)


CASES = [
    ("M06a", leader_loses_its_tail, restart_as_leader),
    ("M07", deposed_leader, ignore_higher_epochs),
    ("M10", deaf_follower, grant_pre_votes_beside_a_live_leader),
    ("M13", leader_acknowledges_before_its_fsync, count_unsynced_at_the_leader),
    ("M15", leader_alone, count_the_leader_twice),
    ("M19", follower_acknowledges_before_its_fsync, fetch_before_the_fsync),
    ("M25", rejoining_leader, high_watermark_before_truncation),
]
by_id = pytest.mark.parametrize(
    ("schedule", "fault"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)


@by_id
def test_the_core_comes_through(schedule, fault):
    stage = Stage()
    schedule(stage)
    stage.all_agree()


@by_id
def test_the_faulty_core_is_exposed(schedule, fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        schedule(Stage())

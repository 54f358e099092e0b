"""Random schedules of crashes, cuts, delays, losses and slow disks: always safe, live once healed."""

import os

import pytest

from cluster.node.kraft import outbound, raft_client
from cluster.node.kraft.quorum.leader_state import Leader
from tests.cluster.node.kraft.chaos import Chaos

pytestmark = pytest.mark.slow


def test_three_voters_are_safe_and_live():
    """Their schedules do something, too."""
    runs = [Chaos(seed) for seed in range(40)]
    for run in runs:
        run.run()
    leaders = [len(run.monitor.leader_of) for run in runs]
    assert sum(leaders) / len(runs) > 3, "leaders are hardly ever replaced"
    assert sum(len(run.monitor.committed) for run in runs) / len(runs) > 20
    assert sum(run.reads_confirmed for run in runs) > 40


def test_five_voters_are_safe_and_live():
    for seed in range(10):
        Chaos(seed, count=5).run()


@pytest.mark.nightly
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("block", range(0, 1000, 50))
def test_fresh_schedules_are_safe_and_live(block, count):
    first = 1000 * int(os.environ.get("NIGHTLY_SEED", "1")) + block
    for seed in range(first, first + 50):
        Chaos(seed, count=count).run()


def test_a_run_is_repeated_exactly_by_its_seed():
    def trace(seed):
        chaos = Chaos(seed)
        chaos.run()
        return [node.trace for node in chaos.world.nodes.values()]

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


def count_the_leader_twice(self):
    offsets = [-1 if r.end_offset is None else r.end_offset for r in self.replicas.values()]
    offsets = sorted([*offsets, self.replicas[self.local.id].end_offset or 0])
    return offsets[len(offsets) // 2]


def count_what_is_not_durable(self):
    return True


def answer_reads_at_once(self, done):
    self._clock.call_later(0, lambda: done(self._core.leader is not None))


@pytest.mark.parametrize(
    ("owner", "name", "faulty"),
    [
        (Leader, "committed_candidate", count_the_leader_twice),
        (outbound.OutboundRequests, "may_fetch", count_what_is_not_durable),
        (raft_client.RaftClient, "_add_reader", answer_reads_at_once),
    ],
)
def test_the_alarm_works(owner, name, faulty, monkeypatch):
    monkeypatch.setattr(owner, name, faulty)
    assert any(is_exposed(seed) for seed in range(60))


def is_exposed(seed):
    try:
        Chaos(seed).run()
    except AssertionError:
        return True
    return False

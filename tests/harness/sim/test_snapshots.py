"""Nodes that snapshot often, under the monitor."""

import pytest

from cluster.node.log.metadata.snapshot import parse_snapshot_name
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from tests.harness.sim.quorums import Quorum
from tests.harness.sim.scan import scan

OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "metadata.max.retention.bytes": 3_000,
    "metadata.log.segment.bytes": 1_024,
    "controller.quorum.fetch.snapshot.max.bytes": 100,
}
CLEANED_MS = 125_000


def others(quorum, name):
    return [other for other in quorum.world.names if other != name]


def snapshots(quorum, name):
    names = quorum.world.nodes[name].disk.list_directory(METADATA_DIRECTORY)
    return [n for n in names if (p := parse_snapshot_name(n)) and p[1] == ".checkpoint"]


def busy(**settings):
    """A quorum that has made snapshots and whose logs begin above 0."""
    quorum = Quorum(run_node_settings=OFTEN, **settings)
    leader = quorum.elect()
    for _ in range(10):
        quorum.append(leader, 10)
        quorum.run(CLEANED_MS / 10)
    return quorum, quorum.elect()


def wipe(quorum, name):
    quorum.world.kill(name)
    disk = quorum.world.nodes[name].disk
    for path in list(disk.files()):
        if METADATA_DIRECTORY in path:
            disk.remove(path)
    disk.sync_directory(METADATA_DIRECTORY, lambda _: None)
    quorum.run(100)
    known = quorum.monitor.quorum  # which must not expect what the disk held
    known.logs[name].durable = known.logs[name].flushed = 0
    known.elections.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_snapshots_come_and_go_and_every_replica_agrees(seed):
    quorum, leader = busy(seed=seed)
    for name in quorum.world.names:
        log = quorum.node(name).raft.log
        assert log.start_offset > 0
        assert log.snapshots.earliest.offset == log.start_offset
        assert len(log.snapshots.ids) >= 1
    follower, third = others(quorum, leader)
    wipe(quorum, follower)
    quorum.world.start(follower)
    quorum.run(10_000)
    quorum.world.kill(third)
    quorum.run(1_000)
    quorum.world.start(third)
    quorum.run(10_000)
    leader = quorum.elect()
    quorum.append(leader, 3)
    quorum.run(2_000)
    ends = {quorum.node(name).controller.image.offset for name in quorum.world.names}
    assert len(ends) == 1
    assert quorum.monitor.violations == []
    assert scan(quorum.world, quorum.monitor) == []


@pytest.mark.slow
def test_equal_seeds_make_equal_snapshots():
    one, other = busy(seed=5)[0], busy(seed=5)[0]
    for name in one.world.names:
        assert one.world.nodes[name].disk.files() == other.world.nodes[name].disk.files()


@pytest.mark.slow
def test_a_node_whose_power_fails_after_a_snapshot_starts_again():
    quorum, leader = busy(seed=2, power_loss="nothing")
    follower = others(quorum, leader)[0]
    made = len(snapshots(quorum, follower))
    assert made
    for _ in range(5):
        quorum.append(quorum.elect(), 20)
        quorum.run(50)
        quorum.world.kill(follower)
        quorum.run(200)
        quorum.world.start(follower)
        quorum.run(3_000)
    assert quorum.node(follower) is not None
    assert quorum.monitor.violations == []

"""The monitor agrees with a scan of everything; what it finds, `test_scripts` has."""

import random
from uuid import UUID

import pytest

from checkers.invariants.electorate import Electorate, VotersInForce
from cluster.backends.base import NodeState
from cluster.backends.sim.disk import MemoryDisk
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    UpdateVoterRequest,
)
from cluster.node.log.metadata.log import Log
from cluster.node.ports import Endpoint
from harness.sim.sights.world import Arrivals
from tests.harness.sim.quorums import Quorum, campaign
from tests.harness.sim.scan import scan


def chaos(seed, steps=40):
    """Random faults by hand, a scan after each; the quorum and what the scans said."""
    draw = random.Random(seed)
    quorum = Quorum(
        3,
        seed,
        loss=0.02,
        duplication=0.05,
        slow_probability=0.02,
        run_node_settings={"metadata.log.segment.bytes": 4096},
    )
    world, said = quorum.world, []
    for _ in range(steps):
        name, other = draw.sample(world.names, 2)
        action = draw.choice(
            ["kill", "start", "cut", "restore", "pause", "resume", "write", "write"]
        )
        if action == "kill":
            world.kill(name)
        elif action == "start" and world.nodes[name].state is NodeState.DEAD:
            world.start(name)
        elif action == "cut":
            world.mesh.cut(name, other)
        elif action == "restore":
            for link in world.mesh.cuts():
                world.mesh.restore(*link)
        elif action == "pause":
            world.pause(name)
        elif action == "resume":
            for node in world.names:
                world.resume(node)
        elif (leader := quorum.leader()) is not None:
            quorum.append(leader, draw.randrange(1, 30))
        quorum.run(draw.choice([1, 5, 50, 500, 3000]))
        said += scan(world, quorum.monitor)
    return quorum, said


def test_an_answer_counts_only_if_the_voter_was_not_asked_again():
    told = []
    arrivals = Arrivals(lambda node, event, fields: told.append((node, event, fields)))
    first, second = (
        BeginQuorumEpochRequest("cluster", 1, UUID(int=0), 2, 59, Endpoint(2, "n2", 9093))
        for _ in range(2)
    )
    answer = BeginQuorumEpochResponse(ErrorCode.fenced_leader_epoch, 3, 60, None)
    arrivals.on_ask("n2", first)
    arrivals.on_ask("n2", second)
    arrivals.on_answer("n2", first, answer)
    assert told == []
    arrivals.on_answer("n2", second, answer)
    heard = {"sender": "n1", "epoch": 60, "asked_epoch": 59}
    assert told == [("n2", "epoch-arrival", heard)]


def test_a_voter_that_says_where_it_listens_is_alive():
    """A leader counts it for its majority, as it counts a Fetch."""
    told = []
    arrivals = Arrivals(lambda node, event, fields: told.append((node, event, fields)))
    arrivals.on_serve("n4", UpdateVoterRequest("cluster", 253, 1, UUID(int=1), (), 0, 1))
    assert told == [("n4", "fetch-arrival", {"sender": "n1", "epoch": 253})]


@pytest.mark.parametrize(("trusts", "found"), [(False, []), (True, ["recovery"])])
def test_who_takes_what_a_kill_left_in_the_kernel_for_durable_is_found(monkeypatch, trusts, found):
    open_log = Log.open.__func__

    def open_and_trust(cls, *given):
        log = open_log(cls, *given)
        log.durable_end_offset = log.end_offset if trusts else log.durable_end_offset
        return log

    monkeypatch.setattr(Log, "open", classmethod(open_and_trust))
    quorum = Quorum()
    world, leader = quorum.world, quorum.elect()
    follower = next(name for name in world.names if name != leader)
    host = world.nodes[follower]
    host.disk.stall()
    quorum.append(leader, 3)
    quorum.run(50)
    world.kill(follower, "everything")
    host.disk.resume()
    world.start(follower)
    quorum.scheduler.run_until(lambda: host.process.replica is not None, 1_000)
    world.kill(follower, "nothing")
    world.start(follower)
    quorum.run(2_000)
    assert [violation.property for violation in quorum.monitor.violations] == found


@pytest.mark.parametrize(("rewrites", "deaths"), [(True, 1), (False, 2)])
def test_who_only_syncs_again_what_an_fsync_failed_to_keep_is_found(monkeypatch, rewrites, deaths):
    """Later records are durable behind a hole, with which no correct node can start."""
    if not rewrites:
        monkeypatch.setattr(MemoryDisk, "rewrite", lambda disk, path, offset: None)
    quorum = Quorum()
    world, leader = quorum.world, quorum.elect()
    follower = next(name for name in world.names if name != leader)
    world.nodes[follower].disk.fail(OSError(5, "Input/output error"))
    quorum.append(leader, 3)
    quorum.run(50)
    world.start(follower)
    quorum.run(2_000)
    world.kill(follower, "nothing")
    world.start(follower)
    quorum.run(2_000)
    assert [death.node for death in world.deaths] == [follower] * deaths
    assert quorum.monitor.violations == []


@pytest.mark.parametrize("seed", range(6))
def test_the_monitor_agrees_with_a_full_scan_under_faults(seed):
    quorum, said = chaos(seed)
    assert said == []
    assert quorum.monitor.violations == []
    assert quorum.world.deaths == []
    assert quorum.monitor.quorum.committed_end > 10, "the world did something"


@pytest.mark.slow
def test_a_campaign_with_every_standard_fault_violates_nothing():
    backend, monitor, events, reads = campaign(seed=3, faults=["kill", "pause", "partition"])
    assert monitor.violations == []
    assert backend.unexpected_deaths() == ()
    assert sorted(reads.reads) == ["n1", "n2", "n3"]
    verified = [
        e.value["verified"] for e in events if isinstance(e.value, dict) and "verified" in e.value
    ]
    assert verified
    assert all(verified), "faults bite and heal on simulated nodes"


def test_a_scan_finds_a_wrong_copy_of_the_monitor():
    quorum = Quorum()
    quorum.elect()
    quorum.run(3_000)
    assert scan(quorum.world, quorum.monitor) == []
    quorum.monitor.quorum.logs["n1"].batches.pop()
    assert scan(quorum.world, quorum.monitor) == [
        "n1: the monitor's copy of the log is not the log"
    ]


def taken_up(electorate, offset, committed_end):
    """The offset of the voters that n1 forgets when it takes over those at `offset`."""
    forgotten = electorate.forgotten_offset("n1", offset, committed_end)
    electorate.take_up("n1", VotersInForce({}, offset))
    return forgotten


def test_a_node_that_goes_back_behind_committed_voters_is_seen():
    def forgotten_at(*steps):
        """Voters by their offsets, each with the end of what the node knows to be committed."""
        electorate = Electorate()
        electorate.start("n1", "a")
        return [taken_up(electorate, at, end) for at, end in steps]

    assert forgotten_at((3, 0), (5, 4), (3, 5)) == [None, None, None]  # 5 was not committed
    assert forgotten_at((3, 0), (5, 4), (3, 6)) == [None, None, 5]
    assert forgotten_at((716, 700), (729, 729), (-1, 729)) == [None, None, 716]
    assert forgotten_at((-1, 0), (8, 7), (-1, 7)) == [None, None, None]
    # 8 was cut off; what is committed there later is another record.
    assert forgotten_at((3, 0), (8, 4), (3, 8), (10, 9), (3, 9)) == [None] * 5
    assert forgotten_at((3, 0), (8, 4), (3, 8), (8, 8), (3, 9)) == [None, None, None, None, 8]


def test_what_a_node_knew_before_it_restarted_is_no_longer_asked_for():
    electorate = Electorate()
    electorate.start("n1", "a")
    assert taken_up(electorate, 5, 6) is None
    electorate.start("n1", "a")
    assert taken_up(electorate, -1, 0) is None

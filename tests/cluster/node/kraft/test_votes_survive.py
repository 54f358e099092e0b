"""One vote an epoch, whatever a crash or a resignation does to the voter.

Nodes that break it (M03, M04, M06, M09) fail stored plans: tests/harness/sim/regressions.
"""

import uuid

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import VoteRequest
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateError
from cluster.node.kraft.quorum.states import Resigned, Unattached
from tests.cluster.node.kraft.world import DIRECTORY, World


def lone_voter():
    """Node 3 of three; its peers are the test; it never stands by itself."""
    world = World(election_timeout_ms=1_000_000)
    node = world.nodes[3]
    node.start()
    world.settle(50)
    return world, node


def ask(world, node, candidate, epoch, **fields):
    answers = []
    request = {
        "cluster_id": "cluster",
        "replica_epoch": epoch,
        "replica_id": candidate,
        "replica_directory_id": uuid.UUID(int=1000 + candidate),
        "voter_id": node.node_id,
        "voter_directory_id": uuid.UUID(int=0),
        "last_offset_epoch": epoch - 1,
        "last_offset": 1000,
        "pre_vote": False,
        **fields,
    }
    node.client.handle(VoteRequest(**request), answers.append)
    assert world.scheduler.run_until(lambda: answers, 100)
    return answers[0]


def vote_crash_vote(world, node):
    assert ask(world, node, candidate=1, epoch=7).vote_granted
    node.crash("nothing")
    node.start()
    world.settle(50)
    return ask(world, node, candidate=2, epoch=7).vote_granted


def test_a_vote_survives_a_power_loss():
    world, node = lone_voter()
    assert not vote_crash_vote(world, node)
    assert ask(world, node, candidate=1, epoch=7).vote_granted, "the same vote may be given again"


def damage_the_file(node):
    node.crash("everything")
    node.disk.truncate(f"{DIRECTORY}/quorum-state", 10)


def test_a_damaged_vote_stops_the_voter():
    world, node = lone_voter()
    ask(world, node, candidate=1, epoch=7)
    damage_the_file(node)
    with pytest.raises(QuorumStateError):
        node.start()


def former_leader():
    """A leader that lost power before the first record of its epoch was durable, and came back."""
    world = World().start()
    assert world.scheduler.run_until(world.leaders, 30_000)
    [leader] = world.leaders()
    epoch = leader.state.epoch
    for node in list(world.running):
        node.crash("nothing")
    leader.start()
    world.settle(50)
    assert leader.log.end_offset == 0
    return world, leader, epoch


def ask_former_leader(world, leader, epoch):
    return ask(world, leader, candidate=leader.node_id % 3 + 1, epoch=epoch)


def test_a_restarted_leader_votes_for_no_candidate_in_its_epoch():
    world, leader, epoch = former_leader()
    assert isinstance(leader.state, Resigned)
    answer = ask_former_leader(world, leader, epoch)
    assert (answer.error, answer.vote_granted) == (ErrorCode.none, False)


def leave_the_epoch(world, leader, epoch):
    assert world.scheduler.run_until(lambda: isinstance(leader.state, Unattached), 5_000)
    return world, leader, epoch


def test_a_resigned_leader_leaves_for_the_next_epoch():
    world, leader, epoch = leave_the_epoch(*former_leader())
    assert leader.state.epoch == epoch + 1
    answer = ask_former_leader(world, leader, epoch)
    assert (answer.error, answer.vote_granted) == (ErrorCode.fenced_leader_epoch, False)


@pytest.mark.slow
def test_a_candidate_does_not_depose_a_leader_in_its_epoch():
    world = World().start()
    leader = world.elect()
    epoch = leader.state.epoch
    assert not ask_former_leader(world, leader, epoch).vote_granted
    assert isinstance(leader.state, Leader)

"""Confirming leadership: what a linearizable read rests on."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.quorum.leader_state import Leader
from tests.cluster.node.kraft.dynamic import dynamic_world, remove, remove_request, send
from tests.cluster.node.kraft.world import World

BACKOFF_MS = 20
"""RaftConfig.retry_backoff_ms of these worlds."""


def led(count=3):
    world = World(count).start()
    leader = world.elect()
    world.settle(1_000)
    return world, leader


def ask(node):
    answers = []
    node.client.confirm_leadership(answers.append)
    return answers


def hold_answers_to(world, leader):
    """Requests of the leader arrive; what comes back is held."""
    for other in world.ids:
        if other != leader.node_id:
            world.network.held_links.add((other, leader.node_id))


def begins(world):
    return [m for m in world.network.held if type(m.message).__name__ == "BeginQuorumEpochResponse"]


def answerers(world):
    return [m.source for m in begins(world)]


def fetched_last(leader):
    return max(leader.state.remote_voters(), key=lambda voter: voter.last_fetch_ms).key.id


@pytest.mark.parametrize(("count", "needed"), [(3, 1), pytest.param(5, 2, marks=pytest.mark.slow)])
def test_no_answer_comes_before_a_majority_has_answered(count, needed):
    world, leader = led(count)
    hold_answers_to(world, leader)
    answers = ask(leader)
    world.settle(50)
    assert len(begins(world)) == count - 1
    for _ in range(needed):
        assert answers == []
        first = begins(world)[0]
        world.network.release(lambda held, first=first: held is first)
        world.settle(10)
    assert answers == [True], "so many others and the leader are a majority"


@pytest.mark.parametrize(("count", "needed"), [(3, 1), (4, 2), (5, 2)])
def test_as_many_as_are_needed_are_asked_first_and_the_others_after_the_back_off(count, needed):
    world, leader = led(count)
    hold_answers_to(world, leader)
    ask(leader)
    world.settle(10)
    assert len(begins(world)) == needed
    world.settle(BACKOFF_MS)
    assert len(begins(world)) == count - 1


def test_the_voter_that_fetched_last_is_asked_first():
    world, leader = led()
    for _ in range(8):
        expected = fetched_last(leader)
        hold_answers_to(world, leader)
        ask(leader)
        world.settle(5)
        assert answerers(world) == [expected]
        world.network.held_links.clear()
        world.network.release()
        world.settle(333)


def test_a_voter_that_cannot_be_reached_is_not_waited_for():
    world, leader = led()
    first = fetched_last(leader)
    world.nodes[first].crash()
    answers = ask(leader)
    world.settle(10)
    assert answers == [True], "its refusal, not the back-off, has the other one asked"


def test_a_voter_that_does_not_answer_in_time_is_counted_on_no_longer():
    world, leader = led()
    world.network.isolate(fetched_last(leader), world.ids)
    answers = ask(leader)
    world.settle(10)
    assert answers == []
    world.settle(BACKOFF_MS)
    assert answers == [True]


def test_a_later_read_asks_another_while_the_first_voter_has_not_answered():
    world, leader = led()
    hold_answers_to(world, leader)
    ask(leader)
    world.settle(5)
    ask(leader)
    world.settle(5)
    assert sorted(answerers(world)) == sorted(set(world.ids) - {leader.node_id})


@pytest.mark.slow
def test_an_answer_to_an_earlier_read_does_not_confirm_a_later_one():
    world, leader = led()
    hold_answers_to(world, leader)
    earlier = ask(leader)
    world.settle(50)
    later = ask(leader)
    world.settle(50)
    world.network.held_links.clear()
    world.network.isolate(leader.node_id, world.ids)
    assert world.network.release() > 0
    world.settle(50)
    assert (earlier, later) == ([True], [])
    world.settle(5_000)
    assert (earlier, later) == ([True], [False])


@pytest.mark.slow
def test_a_request_that_was_held_confirms_only_the_reads_before_it():
    world, leader = led()
    for other in world.ids:
        world.network.held_links.add((leader.node_id, other))
    earlier = ask(leader)
    world.settle(50)
    later = ask(leader)
    world.network.held_links.clear()
    world.network.release()
    world.network.isolate(leader.node_id, world.ids)  # for what is sent from now on
    world.settle(5_000)
    assert later == [False]
    assert len(earlier) == 1


def test_a_leader_that_is_cut_off_is_never_confirmed():
    world, leader = led()
    world.network.isolate(leader.node_id, world.ids)
    answers = []
    for _ in range(40):
        answers.append(ask(leader))
        world.settle(100)
    world.settle(2_000)
    assert all(answer == [False] for answer in answers)


def test_a_deposed_leader_that_does_not_know_it_is_not_confirmed():
    world, leader = led()
    others = [node for node in world.nodes.values() if node is not leader]
    world.network.isolate(leader.node_id, world.ids)
    world.keep_still(*others)
    world.stand(others[0])
    assert world.scheduler.run_until(lambda: isinstance(others[0].state, Leader), 1_000)
    assert isinstance(leader.state, Leader)
    answers = ask(leader)
    world.network.heal()
    world.settle(2_500)
    assert answers == [False]


def test_a_replica_that_does_not_lead_answers_false_at_once():
    world, leader = led()
    other = next(node for node in world.nodes.values() if node is not leader)
    answers = ask(other)
    world.settle(1)
    assert answers == [False]


def test_a_single_voter_confirms_its_leadership_alone():
    world, leader = led(1)
    answers = ask(leader)
    assert answers == [], "never from within the call"
    world.settle(1)
    assert answers == [True]


def test_resigning_fails_the_reads_that_wait():
    world, leader = led()
    hold_answers_to(world, leader)
    answers = ask(leader)
    leader.client.resign(leader.state.epoch)
    world.settle(10)
    assert answers == [False]


def test_many_reads_share_their_round_trips():
    world, leader = led()
    events = world.scheduler.events
    answers = [ask(leader) for _ in range(500)]
    world.settle(20)
    assert all(answer == [True] for answer in answers)
    assert world.scheduler.events - events < 100


def test_a_read_needs_no_more_answers_when_its_leader_is_left_alone():
    world, leader = dynamic_world(2)
    world.settle()
    other = next(node for node in world.nodes.values() if node is not leader)
    world.network.isolate(other.node_id, world.ids)
    answers = ask(leader)
    assert remove(world, other) is ErrorCode.none
    world.settle(100)
    assert answers == [True]


def test_answers_that_came_are_enough_when_fewer_voters_are_left():
    world, leader = dynamic_world(4)
    world.settle()
    silent = [node for node in world.nodes.values() if node is not leader][1:]
    for other in silent:
        world.network.held_links.add((leader.node_id, other.node_id))
    answers = ask(leader)
    world.settle(10)
    assert answers == []
    send(leader, remove_request(silent[0]))
    world.settle(200)
    assert answers == [True]

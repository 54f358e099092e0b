"""Voters that come and go, one at a time (KIP-853)."""

import json
from uuid import UUID

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.states import Follower
from cluster.node.log.batch.control import ControlRecordType, VoterListener, control_type
from cluster.node.log.batch.records import decode_records, iter_batches
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType
from tests.cluster.node.kraft.dynamic import (
    add,
    add_request,
    ask,
    dynamic_world,
    key,
    remove,
    remove_request,
    send,
    update_request,
    voter_ids,
)
from tests.cluster.node.kraft.world import CONTROLLER_APIS, World, versions_of

A_CROWD = tuple(VoterListener(f"L{i}" if i else "CONTROLLER", "n", 9004) for i in range(65))


@pytest.mark.slow
def test_static_voters_move_into_the_log_and_the_quorum_state_file_follows():
    world, leader = dynamic_world()
    assert (leader.client.kraft_version, voter_ids(leader)) == (1, (1, 2, 3))
    assert [key(n) for n in world.nodes.values()] == [v.key for v in leader.client.voters]
    leader.crash()
    world.elect()
    state = json.loads(world.leader().durable_file())
    assert state["data_version"] == 1
    assert "currentVoters" not in state


def test_an_epoch_begins_with_version_0_of_leader_change_at_every_kraft_version():
    world, leader = dynamic_world()
    leader.crash()
    again = world.elect()
    assert again.client.kraft_version == 1
    data = again.log.read(0, 1 << 20)
    changes = [
        record
        for header, batch in iter_batches(data)
        if header.is_control
        for record in decode_records(batch)
        if control_type(record) == ControlRecordType.LEADER_CHANGE
    ]
    assert len(changes) >= 2
    assert {record.value[:2] for record in changes} == {b"\0\0"}


def test_an_observer_that_holds_the_log_becomes_a_voter_and_helps_to_commit():
    world, leader = dynamic_world(observers=1)
    assert ErrorCode.none == add(world, world.nodes[4])
    world.settle()
    assert {(1, 2, 3, 4)} == {voter_ids(node) for node in world.nodes.values()}
    others = [n for n in world.nodes.values() if n.node_id not in (leader.node_id, 4)]
    others[0].crash()
    world.commit(world.elect(), "three of four")
    others[1].crash()
    world.settle()
    assert all(n.state.name != "Leader" for n in world.running), "two of four are no majority"


def test_a_new_voter_that_has_not_heard_of_it_helps_to_elect_a_leader():
    world, leader = dynamic_world(observers=1)
    world.network.held_links = {(leader.node_id, 4)}
    send(leader, add_request(world.nodes[4]))
    assert world.scheduler.run_until(
        lambda: 4 in voter_ids(leader) or world.network.release() < 0, 10_000
    )
    world.network.isolate(4, world.ids)
    world.network.held.clear()  # what tells the new voter
    world.settle(500)
    assert [4 in voter_ids(n) for n in world.nodes.values()] == [True, True, True, False]
    leader.crash()
    world.network.heal()
    assert world.elect() is not leader, "the two others and the new one are three of four"


def test_a_removed_follower_is_asked_no_more_and_follows_on_as_an_observer():
    world, leader = dynamic_world()
    gone = next(n for n in world.nodes.values() if n is not leader)
    assert ErrorCode.none == remove(world, gone)
    offset = world.commit(leader, "after")
    world.settle()
    assert gone.listener.next_offset > offset
    assert isinstance(gone.state, Follower)
    epoch = leader.state.epoch
    leader.client.resign(epoch)
    world.settle()
    assert world.elect() is not gone


def test_a_removed_leader_commits_its_removal_without_itself_and_resigns():
    world, leader = dynamic_world()
    assert ErrorCode.none == ask(world, leader, remove_request(leader))
    world.settle()
    successor = world.elect()
    assert successor is not leader
    assert tuple(i for i in (1, 2, 3) if i != leader.node_id) == voter_ids(successor)
    offset = world.commit(successor, "after")
    world.settle()
    assert leader.listener.next_offset > offset


@pytest.mark.slow
def test_the_last_voters_can_be_replaced_one_by_one():
    world, _ = dynamic_world(observers=3)
    for joins, leaves in ((4, 1), (5, 2), (6, 3)):
        assert ErrorCode.none == add(world, world.nodes[joins])
        assert ErrorCode.none == remove(world, world.nodes[leaves])
        world.settle()
    for i in (1, 2, 3):
        world.nodes[i].crash()
    world.commit(world.elect(), "by others alone")
    assert voter_ids(world.leader()) == (4, 5, 6)


@pytest.mark.slow
def test_voters_are_known_again_after_a_restart_of_all():
    world, _ = dynamic_world(observers=1)
    add(world, world.nodes[4])
    world.settle()
    for node in world.nodes.values():
        node.crash()
    for node in world.nodes.values():
        node.start()
    leader = world.elect()
    assert voter_ids(leader) == (1, 2, 3, 4)
    assert leader.client.kraft_version == 1


def test_a_voter_set_that_is_truncated_is_not_in_force_any_more():
    world, leader = dynamic_world(observers=1)
    for other in world.nodes.values():
        if other is not leader and other.node_id != 4:
            world.network.isolate(leader.node_id, (other.node_id,))
    answer = send(leader, add_request(world.nodes[4]))
    world.scheduler.run_for(100)
    assert voter_ids(leader) == (1, 2, 3, 4), "in force at the append"
    world.settle(20_000)
    world.network.heal()
    world.settle(10_000)
    assert {(1, 2, 3)} == {voter_ids(node) for node in world.nodes.values()}
    assert answer[0].error in (ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower)


def test_a_static_quorum_refuses_to_be_changed():
    world = World(3, observers=1)
    world.dynamic = True
    world.start()
    leader = world.elect()
    world.settle()
    unsupported = ErrorCode.unsupported_version
    assert unsupported == ask(world, leader, add_request(world.nodes[4]))
    assert unsupported == ask(world, leader, remove_request(world.nodes[1]))
    assert json.loads(leader.durable_file())["data_version"] == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"voter_id": 1}, ErrorCode.duplicate_voter),
        ({"listeners": (VoterListener("OTHER", "n", 9004),)}, ErrorCode.invalid_request),
        ({"listeners": (VoterListener("CONTROLLER", "n" * 256, 1),)}, ErrorCode.invalid_request),
        ({"listeners": A_CROWD}, ErrorCode.invalid_request),
        ({"voter_directory_id": UUID(int=7)}, ErrorCode.request_timed_out),
    ],
    ids=["duplicate", "name", "host", "many", "not-caught-up"],
)
def test_an_addition_is_refused(changes, error):
    world, leader = dynamic_world(observers=1)
    assert error == ask(world, leader, add_request(world.nodes[4], **changes))
    assert voter_ids(leader) == (1, 2, 3)


def test_a_voter_that_does_not_support_the_level_is_refused():
    world, leader = dynamic_world(observers=1)
    world.nodes[4].versions = versions_of(0, 0)
    assert ErrorCode.invalid_request == ask(world, leader, add_request(world.nodes[4]))


@pytest.mark.parametrize("missing", ["VOTE", "BEGIN_QUORUM_EPOCH", "FETCH"])
def test_a_node_that_could_not_vote_or_lead_is_refused(missing):
    world, leader = dynamic_world(observers=1)
    served = tuple(key for key in CONTROLLER_APIS if key != ApiKey[missing])
    world.nodes[4].versions = versions_of(0, 1, served)
    assert ErrorCode.invalid_request == ask(world, leader, add_request(world.nodes[4]))
    assert voter_ids(leader) == (1, 2, 3)


def test_a_broker_is_refused_with_what_to_do():
    world, leader = dynamic_world(observers=1)
    served = (*LISTENER_APIS[ListenerType.BROKER], ApiKey.FETCH)
    world.nodes[4].versions = versions_of(0, 1, served)
    answer = send(leader, add_request(world.nodes[4]))
    assert world.scheduler.run_until(lambda: bool(answer), 1_000)
    assert answer[0].message == (
        "What answers at n:9004 is no controller, as it does not serve Vote, BeginQuorumEpoch, "
        "EndQuorumEpoch, FetchSnapshot: name a controller's listener."
    )


def test_a_voter_that_does_not_answer_is_refused_for_now():
    world, leader = dynamic_world(observers=1)
    world.nodes[4].crash()
    assert ErrorCode.request_timed_out == ask(world, leader, add_request(world.nodes[4]))
    world.nodes[4].start()
    world.settle()
    assert ErrorCode.none == add(world, world.nodes[4])


def test_a_description_between_two_steps_of_an_addition_does_not_decide_it():
    """It is answered at once, beside the queue: so it must change nothing that an event reads.

    The new voter held the log within the hour that counts, but has not fetched for ten minutes: a
    description leaves it out, and once also forgot it, so that the addition was refused.
    """
    world, leader = dynamic_world(observers=1)
    answer, described = send(leader, add_request(world.nodes[4])), []
    assert not answer, "the new voter is asked for its versions first"
    leader.state.observers.get(key(world.nodes[4])).last_fetch_ms -= 600_000
    leader.client.handle(DescribeQuorumRequest(), described.append)
    assert described[0].observers == ()
    assert world.scheduler.run_until(lambda: bool(answer), 1_000)
    assert ErrorCode.none == answer[0].error


@pytest.mark.slow
def test_one_change_at_a_time():
    world, leader = dynamic_world(observers=1)
    first = send(leader, add_request(world.nodes[4]))
    follower = next(n for n in world.voter_nodes if n is not leader)
    assert ErrorCode.request_timed_out == ask(world, leader, remove_request(follower))
    world.settle()
    assert ErrorCode.none == first[0].error


def test_no_change_while_the_last_one_is_not_committed_though_it_was_answered():
    world, leader = dynamic_world(observers=1)
    follower = next(n for n in world.voter_nodes if n is not leader)
    answer = send(leader, add_request(world.nodes[4], ack_when_committed=False))
    assert world.scheduler.run_until(lambda: bool(answer), 1_000)
    assert ErrorCode.none == answer[0].error
    assert ErrorCode.request_timed_out == ask(world, leader, remove_request(follower))


def test_no_change_before_the_leader_has_committed_in_its_epoch():
    world, _ = dynamic_world(observers=1)
    world.elect().crash()
    assert world.scheduler.run_until(lambda: bool(world.leaders()), 30_000)
    leader = world.leader()
    assert leader.state.high_watermark is None
    assert ErrorCode.request_timed_out == ask(world, leader, add_request(world.nodes[4]))


def test_one_voter_becomes_two_and_one_again():
    world, leader = dynamic_world(1, observers=1)
    assert ErrorCode.none == add(world, world.nodes[2])
    world.commit(leader, "by two")
    assert ErrorCode.none == ask(world, leader, remove_request(leader))
    world.settle()
    assert world.nodes[2] is world.elect()
    world.commit(world.nodes[2], "alone")


def test_a_voter_that_moved_notifies_its_leader_and_the_set_follows():
    world, leader = dynamic_world()
    follower = next(n for n in world.voter_nodes if n is not leader)
    moved = (VoterListener("CONTROLLER", "n", 9000 + follower.node_id), VoterListener("B", "n", 1))
    follower.crash(keep="everything")
    follower.start(local_listeners=moved)
    world.settle(15_000)
    assert moved == world.elect().client.voters.get(follower.node_id).listeners


def test_a_voter_that_moved_is_looked_for_where_it_is_configured_too():
    world, only = dynamic_world(1, observers=1)
    observer = world.nodes[2]
    for node in (only, observer):
        node.crash(keep="everything")
    only.start()
    epoch = world.elect().state.epoch
    world.voters = VoterSet.of([Endpoint(1, "moved", 9001)])
    world.network.cut.add((2, 1))
    world.network.handlers[-2] = world.network.handlers[1]
    observer.start()
    world.settle(10_000)
    assert epoch == observer.state.epoch


def test_a_leader_that_moved_says_so_as_its_epoch_begins():
    world, only = dynamic_world(1, observers=1)
    moved = (VoterListener("CONTROLLER", "n", 9001), VoterListener("B", "n", 1))
    only.crash(keep="everything")
    only.start(local_listeners=moved)
    world.commit(world.elect(), "moved")
    world.settle()
    for node in world.nodes.values():
        assert moved == node.client.voters.get(1).listeners


def test_an_update_to_levels_that_are_not_in_force_is_refused():
    world, leader = dynamic_world()
    follower = next(n for n in world.voter_nodes if n is not leader)
    request = update_request(follower, leader.state.epoch, min_kraft_version=2, max_kraft_version=3)
    assert ErrorCode.invalid_request == ask(world, leader, request)


def test_a_wiped_voter_is_another_replica_until_it_is_replaced():
    world, leader = dynamic_world()
    wiped = next(n for n in world.voter_nodes if n is not leader)
    lost = remove_request(wiped)
    wiped.wipe()
    wiped.start()
    world.settle()
    assert wiped.state.name == "Follower"
    assert not wiped.client._quorum.is_voter
    assert ErrorCode.duplicate_voter == ask(world, leader, add_request(wiped))
    assert ErrorCode.none == ask(world, leader, lost)
    assert ErrorCode.none == add(world, wiped)
    world.settle()
    assert wiped.client._quorum.is_voter


@pytest.mark.slow
def test_a_leader_that_lost_its_disk_is_removed_and_added_again():
    world, leader = dynamic_world()
    lost = remove_request(leader)
    world.voters = VoterSet(())
    others = {
        "bootstrap_servers": tuple(
            Endpoint(n.node_id, "n", 9000 + n.node_id)
            for n in world.nodes.values()
            if n is not leader
        )
    }
    world.commit(leader, "before")
    leader.wipe()
    leader.start(**others)
    world.settle()
    assert leader.fatal is None
    assert ErrorCode.none == ask(world, world.elect(), lost)
    assert ErrorCode.none == add(world, leader)


def test_an_observer_joins_by_itself_and_replaces_its_lost_disk():
    world, _ = dynamic_world(observers=1)
    world.nodes[4].crash()
    world.nodes[4].start(auto_join=True)
    world.settle(20_000)
    assert voter_ids(world.elect()) == (1, 2, 3, 4)
    world.nodes[4].wipe()
    world.nodes[4].start(auto_join=True)
    world.settle(40_000)
    assert key(world.nodes[4]) == world.elect().client.voters.key(4)


def test_a_kraft_version_that_is_in_the_log_alone_is_not_acknowledged():
    world = World(3)
    world.dynamic = True
    leader = world.start().elect()
    world.settle(10_000)
    world.network.isolate(leader.node_id, world.ids)
    answers = []
    for _ in range(2):
        leader.client.upgrade_kraft_version(
            1, lambda error, _: answers.append(error), validate_only=False
        )
        world.settle(100)
    assert leader.client.kraft_version == 1, "it is in the leader's log"
    assert answers == [ErrorCode.request_timed_out], "the second one has to wait for the first"

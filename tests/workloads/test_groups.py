"""Workload `groups` against brokers that are scripted."""

from itertools import islice
from random import Random

import pytest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.offset_commit.v9 import response as committed

from checkers.history import EventType
from cluster.node.errors import ErrorCode
from cluster.node.protocol import group_messages as g
from cluster.node.protocol import messages as m
from harness.errors import PlanError
from harness.plan.document import from_document
from tests.workloads import test_log
from tests.workloads.group_brokers import GroupBrokers
from tests.workloads.scripted_brokers import LOST
from workloads.base import Op, Role
from workloads.registry import workload_named

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
X, Y = "g0-0", "g0-1"
CONSUME, COMMIT, ABANDON = Op("consume"), Op("commit"), Op("abandon")
LEAVE, ZOMBIE, LAST = Op("leave"), Op("zombie-commit"), Op("join-all")


def perform(brokers, *ops, **options):
    """Let one client perform operations; returns the completions."""
    return test_log.perform(brokers, *ops, workload="groups", partitions=2, **options)


def send(value, key=X):
    return Op("send", key, value)


def ends(done):
    return [(each.type, each.error) for each in done]


def test_a_member_joins_and_then_polls_its_partitions_in_turn():
    done = perform(GroupBrokers(), send("a"), send("b", Y), CONSUME, CONSUME, CONSUME)
    joined, *polls = (each.value for each in done[2:])
    assert joined["committed"] == {X: -1, Y: -1}
    assert [poll["records"] for poll in polls] == [{Y: [[0, "b"]]}, {X: [[0, "a"]]}]


def test_a_member_commits_how_far_it_has_processed_and_the_next_one_begins_there():
    ops = send("a"), send("b"), CONSUME, CONSUME, CONSUME, COMMIT, LEAVE, CONSUME
    done = perform(GroupBrokers(), *ops)
    assert done[5].value["offsets"] == {X: 2, Y: 0}
    assert done[7].value["committed"] == {X: 2, Y: 0}
    assert done[7].value["member"] != done[5].value["member"]


def test_a_rebalance_makes_a_member_join_again_and_what_it_shows_is_its_own_share():
    brokers = GroupBrokers()
    first, again = perform(brokers, CONSUME, brokers.join_other, CONSUME)
    assert again.value["member"] == first.value["member"]
    assert again.value["generation"] == first.value["generation"] + 1
    assert len(first.value["partitions"]) == 2


def test_a_member_whose_time_ran_out_joins_as_a_new_one_and_its_zombie_is_refused():
    brokers = GroupBrokers()
    done = perform(brokers, CONSUME, brokers.expel, CONSUME, CONSUME, ZOMBIE)
    assert ends(done[1:]) == [(FAIL, "unknown_member_id"), (OK, None), (FAIL, "unknown_member_id")]
    assert done[2].value["member"] != done[0].value["member"]
    assert done[3].value["member"] == done[0].value["member"]


def test_a_commit_in_a_former_generation_is_refused():
    brokers = GroupBrokers()
    done = perform(brokers, CONSUME, brokers.join_other, CONSUME, ZOMBIE)
    assert ends(done)[2] == (FAIL, "illegal_generation")


def test_a_static_members_successor_fences_it():
    done = perform(GroupBrokers(), CONSUME, ABANDON, CONSUME, ZOMBIE, worker=2)
    assert [each.value["instance"] for each in done] == ["w2"] * 4
    assert ends(done)[3] == (FAIL, "fenced_instance_id")


def test_a_static_member_joins_again_only_where_a_heartbeat_was_just_refused():
    """A deposed coordinator answers every other join of it by a generation that was stable once."""
    brokers = GroupBrokers()
    move = lambda: setattr(brokers, "coordinator", 3)  # noqa: E731
    lose = lambda: brokers.rules.append([g.HeartbeatRequest, LOST, False])  # noqa: E731
    ops = CONSUME, brokers.join_other, CONSUME, lose, move, CONSUME, ABANDON, CONSUME
    perform(brokers, *ops, worker=2)
    joins = [
        (message.member_id == "", brokers.asked[at - 1] == (node, "HeartbeatRequest"))
        for at, ((node, _), message) in enumerate(zip(brokers.asked, brokers.requests, strict=True))
        if isinstance(message, g.JoinGroupRequest)
    ]
    assert joins == [(True, False), (False, True), (True, False)]


@pytest.mark.parametrize("served", [False, True])
def test_a_commit_without_an_answer_may_be_done(served):
    brokers = GroupBrokers()
    brokers.rules.append([g.OffsetCommitRequest, LOST, served])
    (_, commit) = perform(brokers, CONSUME, COMMIT)
    assert (commit.type, commit.value["offsets"]) == (INFO, {X: 0, Y: 0})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.rebalance_in_progress, FAIL),
        (ErrorCode.coordinator_load_in_progress, FAIL),
        (ErrorCode.not_coordinator, INFO),
        (ErrorCode.coordinator_not_available, INFO),
    ],
)
def test_an_error_is_certain_where_the_coordinator_gives_it_before_it_appends(error, kind):
    brokers = GroupBrokers()
    result = (
        committed.OffsetCommitResponsePartition(partition_index=i, error_code=error) for i in (0, 1)
    )
    topic = committed.OffsetCommitResponseTopic(name="g0", partitions=tuple(result))
    answer = committed.OffsetCommitResponse(throttle_time=m.NO_THROTTLE, topics=(topic,))
    brokers.rules.append([g.OffsetCommitRequest, answer, False])
    assert perform(brokers, CONSUME, COMMIT)[1].type is kind


def test_a_join_that_is_not_known_to_be_done_ends_the_member():
    brokers = GroupBrokers()
    lose = lambda: brokers.rules.append([g.JoinGroupRequest, LOST, True])  # noqa: E731
    done = perform(brokers, CONSUME, brokers.join_other, lose, CONSUME, CONSUME)
    assert done[1].type is FAIL
    assert done[2].value["member"] != done[0].value["member"]


def test_another_coordinator_is_looked_for():
    brokers = GroupBrokers()

    def move():
        brokers.coordinator = 3
        beat = HeartbeatResponse(throttle_time=m.NO_THROTTLE, error_code=ErrorCode.not_coordinator)
        brokers.rules.append([g.HeartbeatRequest, beat, False])

    done = perform(brokers, CONSUME, move, CONSUME, CONSUME, COMMIT)
    assert ends(done) == [(OK, None), (FAIL, "not_coordinator"), (OK, None), (OK, None)]
    assert [done[0].node, done[3].node] == ["n2", "n3"]


def test_the_last_join_waits_until_nobody_else_is_in_the_group():
    brokers = GroupBrokers()
    brokers.join_other()
    done = perform(brokers, LAST, brokers.expel, LAST)
    assert ends(done) == [(FAIL, "others-in-the-group"), (OK, None)]
    assert done[1].value["partitions"] == [X, Y]


def test_without_a_member_there_is_nothing_to_commit_or_leave():
    done = perform(GroupBrokers(), COMMIT, LEAVE, ABANDON, ZOMBIE)
    assert ends(done) == [(FAIL, "no-member")] * 4


def test_operations_are_those_of_the_seed_and_the_role():
    workload = workload_named("groups", {})

    def functions(role):
        return {op.f for op in islice(workload.operations(0, Random(1), role), 400)}

    member = {"consume", "commit", "leave", "abandon", "zombie-commit"}
    assert functions(Role.WRITER) == {"send"}
    assert functions(Role.READER) == member
    assert functions(Role.MIXED) == {"send", *member}


def test_our_own_node_has_no_groups():
    with pytest.raises(PlanError, match="our node has no groups or transactions"):
        from_document({"workload": "groups", "duration_s": 10.0})

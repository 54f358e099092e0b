"""When a controller becomes active, when it ceases to be, and what happens to what it appended."""

import pytest

from cluster.node.controller.metadata.result import OUTCOME_NOT_KNOWN
from cluster.node.controller.metadata.state import ReplayError
from cluster.node.errors import ErrorCode
from cluster.node.kraft.types import (
    BatchTooLargeError,
    BufferFullError,
    CommittedBatch,
    IllegalStateError,
    LeaderAndEpoch,
    NotLeaderError,
)
from tests.cluster.node.controller.fakes import (
    BOOTSTRAP_END,
    CLIENT,
    Node,
    active,
    alter,
    codes,
    create,
    describe,
    metadata,
)


def error_of(reply):
    return codes(reply)[0]


def test_a_node_that_never_led_answers_writes_with_not_controller():
    node = Node()
    (reply,) = node.send(create("a"))
    assert error_of(reply) == ErrorCode.not_controller
    assert node.raft.log == []


def test_a_claim_before_the_epochs_start_was_replayed_is_a_broken_invariant():
    node = Node()
    node.raft.epoch, node.raft.leader_id = 1, 1
    with pytest.raises(IllegalStateError):
        node.controller.handle_leader_change(LeaderAndEpoch(1, 1))
    assert not node.controller.is_active


def test_a_claim_in_a_later_epoch_needs_that_epochs_start():
    node = active()
    node.raft.lose()
    node.raft.commit()
    node.raft.epoch, node.raft.leader_id = 3, 1
    with pytest.raises(IllegalStateError):
        node.controller.handle_leader_change(LeaderAndEpoch(1, 3))


def feature_level(name, level):
    size = bytes([len(name) + 1])
    return bytes.fromhex("010c00") + size + name.encode() + level.to_bytes(2, "big") + b"\0"


def test_the_first_claim_on_an_empty_log_writes_features_and_what_they_need():
    node = active()
    features = node.controller.image.state.features
    assert {name: features.get(name) for name in list(features.keys())} == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert node.raft.log[1].records == (
        bytes.fromhex("01170001001212") + b"Bootstrap records",  # tag 0, a compact string
        bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00"),
        feature_level("eligible.leader.replicas.version", 1),
        feature_level("group.version", 1),
        feature_level("share.version", 1),
        feature_level("streams.version", 1),
        feature_level("transaction.version", 2),
        bytes.fromhex("010400040114") + b"min.insync.replicas" + bytes.fromhex("023100"),
        bytes.fromhex("01180000"),
    )


def test_a_later_claim_writes_nothing_of_its_own():
    node = active()
    node.raft.lose()
    node.raft.commit()
    before = len(node.raft.log)
    node.raft.elect()
    assert len(node.raft.log) == before + 1  # the LeaderChange


def test_claims_and_renounces_are_traced_with_epoch_and_committed_offset():
    node = active()
    node.raft.lose()
    assert node.traced("claim") == [{"epoch": 1, "offset": 0}]
    assert node.traced("renounce") == [{"epoch": 1, "offset": BOOTSTRAP_END}]


def test_a_second_notice_of_the_same_leadership_changes_nothing():
    node = active()
    replies = node.send(create("a"))
    node.controller.handle_leader_change(LeaderAndEpoch(1, 1))
    assert node.controller.is_active
    node.raft.commit()
    assert error_of(replies[0]) == ErrorCode.none


def test_a_new_epoch_of_ones_own_drops_what_the_old_one_did_not_commit():
    node = active()
    replies = node.send(create("a"))
    del node.raft.log[node.raft.committed :]
    node.raft.epoch += 1
    node.raft._add((), node.raft.epoch)
    node.raft.commit()
    node.controller.handle_leader_change(node.raft.leader_and_epoch)
    assert error_of(replies[0]) == ErrorCode.unknown_server_error
    assert node.controller.cur_claim_epoch == 2
    assert error_of(node.call(create("a"))) == ErrorCode.none


def test_a_write_is_answered_only_when_its_last_record_is_committed():
    node = active()
    first, second = node.send(create("a")), node.send(create("b"))
    assert (first, second) == ([], [])
    node.raft.commit(1)
    assert len(first) == 1
    assert second == []
    node.raft.commit(1)
    assert len(second) == 1


def test_an_ack_is_traced_with_its_offset_below_the_high_watermark():
    node = active()
    node.call(create("a"))
    (ack,) = node.traced("ack")
    end = BOOTSTRAP_END + 2
    assert ack == {"epoch": 1, "offset": end, "high_watermark": end + 1}


def test_losing_leadership_leaves_appended_writes_indeterminate():
    node = active()
    replies = node.send(create("a"))
    node.raft.lose()
    result = replies[0].topics[0]
    assert result.error_code == ErrorCode.unknown_server_error
    assert result.error_message == OUTCOME_NOT_KNOWN
    node.raft.commit()
    assert len(replies) == 1
    assert node.traced("ack") == []


def test_losing_leadership_reverts_what_was_not_committed():
    node = active()
    node.send(create("a"))
    node.send(alter("k", "1"))
    node.raft.lose()
    assert node.controller.speculative.is_empty
    node.raft.commit()
    node.raft.elect()
    assert error_of(node.call(create("a"))) == ErrorCode.none
    assert node.call(describe()).results[0].configs == ()


def test_a_write_that_the_next_leader_commits_exists_though_its_answer_did_not_say_so():
    node = active()
    node.send(create("a"))
    node.raft.lose(keep_uncommitted=True)
    node.raft.commit()
    reply = node.call(metadata("a"), CLIENT)
    assert reply.topics[0].error_code == ErrorCode.none


def test_another_leaders_commit_never_acknowledges_a_deferred_write():
    node = active()
    replies = node.send(alter("k", "1"))
    offset = node.raft.end_offset - 1
    del node.raft.log[node.raft.committed :]
    node.controller.handle_commit([CommittedBatch(offset, offset, 2, 0, 61, ())])
    assert error_of(replies[0]) == ErrorCode.unknown_server_error
    assert not node.controller.is_active
    assert node.traced("ack") == []


def test_a_refused_append_is_a_definite_not_controller_and_ends_the_claim():
    node = active()
    earlier = node.send(create("a"))
    node.raft.failure = NotLeaderError("epoch 1")
    (reply,) = node.send(create("b"))
    assert error_of(reply) == ErrorCode.not_controller
    assert error_of(earlier[0]) == ErrorCode.unknown_server_error
    assert node.raft.resigned == [1]
    assert not node.controller.is_active


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (BufferFullError("full"), ErrorCode.throttling_quota_exceeded),
        (BatchTooLargeError("large"), ErrorCode.policy_violation),
    ],
)
def test_an_append_that_does_not_fit_is_refused_and_leadership_kept(failure, error):
    node = active()
    node.raft.failure = failure
    (reply,) = node.send(create("a"))
    assert error_of(reply) == error
    assert node.controller.is_active
    assert node.controller.speculative.is_empty


def test_an_unexpected_exception_ends_the_claim():
    node = active()
    node.raft.failure = RuntimeError("what?")
    (reply,) = node.send(create("a"))
    assert reply.topics[0].error_code == ErrorCode.unknown_server_error
    assert reply.topics[0].error_message == "RuntimeError: what?"
    assert node.raft.resigned == [1]


def test_a_write_that_is_not_committed_in_time_is_answered_so_once():
    node = active()
    replies = node.send(create("a", timeout_ms=100))
    node.clock.advance(99)
    assert replies == []
    node.clock.advance(1)
    assert [error_of(reply) for reply in replies] == [ErrorCode.request_timed_out]
    node.raft.commit()
    assert len(replies) == 1
    assert node.traced("ack") == []


def test_an_idle_active_controller_writes_a_no_op_every_interval():
    node = Node(max_idle_interval_ms=500)
    node.raft.elect()
    node.raft.commit()
    before = len(node.raft.log)
    for _ in range(3):
        node.clock.advance(500)
        node.raft.commit()
    assert [batch.records for batch in node.raft.log[before:]] == [(b"\x01\x14\x00\x00",)] * 3


def test_an_interval_that_the_clock_rounds_short_still_ends():
    node = Node(max_idle_interval_ms=500)
    node.clock.now_ms = 1e6 + 0.1
    node.raft.elect()
    node.clock.advance(500.3)
    assert node.raft.log[-1].records == (b"\x01\x14\x00\x00",)
    for timer in node.clock.timers:
        assert timer.cancelled or timer.due_ms >= node.clock.now_ms


def test_a_busy_controller_writes_no_no_op():
    node = Node(max_idle_interval_ms=500)
    node.raft.elect()
    for index in range(10):
        node.clock.advance(300)
        node.call(alter("k", str(index)))
    assert not any(batch.records == (b"\x01\x14\x00\x00",) for batch in node.raft.log)


def test_a_controller_that_renounced_writes_no_no_op():
    node = Node(max_idle_interval_ms=500)
    node.raft.elect()
    node.raft.lose()
    before = len(node.raft.log)
    node.clock.advance(5_000)
    assert len(node.raft.log) == before


@pytest.mark.parametrize(
    "batch",
    [
        CommittedBatch(5, 5, 1, 0, 61, ()),
        CommittedBatch(2, 2, 0, 0, 61, ()),
        CommittedBatch(2, 2, 1, 0, 61, (b"\x01\x63\x00\x00",)),
        CommittedBatch(2, 2, 1, 0, 61, (b"",)),
        CommittedBatch(2, 2, 1, 0, 61, (b"\x01\x09\x00" + bytes(17),)),
        CommittedBatch(2, 2, 1, 0, 61, (b"\x01\x18\x00\x00",)),
    ],
    ids=[
        "gap",
        "old epoch",
        "unknown record",
        "empty record",
        "unknown topic",
        "end of no transaction",
    ],
)
def test_a_committed_batch_that_does_not_fit_is_fatal(batch):
    node = active()
    with pytest.raises(ReplayError):
        node.controller.handle_commit([batch])
    with pytest.raises(RuntimeError, match="has failed"):
        node.send(create("a"))


def test_a_request_sent_from_within_a_reply_waits_for_its_turn():
    node = active()
    order = []

    def first_reply(_reply):
        order.append("first")
        node.apis.handle("CONTROLLER", alter("x", "2"), lambda _: order.append("third"))
        order.append("still first")

    node.apis.handle("CONTROLLER", alter("x", "1"), first_reply)
    node.apis.handle("CONTROLLER", alter("y", "1"), lambda _: order.append("second"))
    node.raft.commit()
    assert order == ["first", "still first", "second"]
    node.raft.commit()
    assert order[-1] == "third"


def test_a_drain_ends_once_the_writes_before_it_are_answered_and_takes_no_more():
    node, drained = active(), []
    before = node.send(create("a"))
    node.controller.drain(500, lambda: drained.append(node.clock.now_ms))
    (after,) = node.send(create("b"))
    assert error_of(after) == ErrorCode.not_controller
    assert (before, drained) == ([], [])
    node.raft.commit()
    assert error_of(before[0]) == ErrorCode.none
    assert drained == [node.clock.now_ms]
    node.clock.advance(1000)
    assert len(drained) == 1


def test_a_drain_waits_for_nothing_where_nothing_is_owed_and_never_for_ever():
    idle, drained = active(), []
    idle.controller.drain(500, lambda: drained.append("idle"))
    stuck = active()
    stuck.send(create("a"))
    stuck.controller.drain(500, lambda: drained.append("stuck"))
    assert drained == ["idle"]
    stuck.clock.advance(500)
    assert drained == ["idle", "stuck"]


def test_a_drain_ends_with_the_leadership():
    node, drained = active(), []
    replies = node.send(create("a"))
    node.controller.drain(500, lambda: drained.append("renounced"))
    node.raft.lose()
    assert error_of(replies[0]) == ErrorCode.unknown_server_error
    assert drained == ["renounced"]

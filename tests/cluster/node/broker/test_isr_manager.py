"""Asking the controller to change ISRs: one request at a time, until it is answered."""

import uuid

import pytest

from cluster.node.broker.replication.isr_manager import RETRY_BACKOFF_MS, IsrManager
from cluster.node.broker.replication.partition import IsrAnswer, IsrProposal
from cluster.node.errors import ErrorCode
from cluster.node.ports import Failure
from cluster.node.protocol import messages
from tests.cluster.node.controller.fakes import FakeClock

TIMEOUT_MS = 2_000.0
A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def answer_of(index, error=ErrorCode.none):
    return messages.AlterPartitionResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=1,
        leader_epoch=5,
        isr=(1, 2),
        leader_recovery_state=0,
        partition_epoch=8,
    )


def response(*rows, error=ErrorCode.none):
    topics = tuple(
        messages.AlterPartitionResponseTopic(topic_id=topic, partitions=(row,))
        for topic, row in rows
    )
    return messages.AlterPartitionResponse(
        throttle_time=messages.NO_THROTTLE, error_code=error, topics=topics
    )


def proposal(*isr, partition_epoch=7):
    return IsrProposal(tuple((member, member + 10) for member in isr), 5, partition_epoch)


class Asked:
    def __init__(self):
        self.clock = FakeClock()
        self.broker_epoch = 11
        self.requests, self.answers = [], []
        self.manager = IsrManager(
            1, self.clock, self.channel, lambda: self.broker_epoch, TIMEOUT_MS
        )

    def channel(self, request, timeout_ms, on_reply):
        assert timeout_ms == TIMEOUT_MS
        self.requests.append((request, on_reply))

    def propose(self, topic, index, change):
        key = (topic, index)
        self.manager.propose(key, change, lambda answer: self.answers.append((key, answer)))
        self.clock.advance(0)

    def reply(self, reply):
        self.requests[-1][1](reply)

    def sent(self):
        request = self.requests[-1][0]
        return [
            (topic.topic_id, row.partition_index, [m.broker_id for m in row.new_isr_with_epochs])
            for topic in request.topics
            for row in topic.partitions
        ]


@pytest.fixture
def asked():
    return Asked()


def test_the_answer_reaches_its_partition(asked):
    asked.propose(A, 0, proposal(1, 2))
    request = asked.requests[0][0]
    assert (request.broker_id, request.broker_epoch) == (1, 11)
    row = request.topics[0].partitions[0]
    assert (row.leader_epoch, row.partition_epoch, row.leader_recovery_state) == (5, 7, 0)
    assert [(m.broker_id, m.broker_epoch) for m in row.new_isr_with_epochs] == [(1, 11), (2, 12)]
    asked.reply(response((A, answer_of(0))))
    assert asked.answers == [((A, 0), IsrAnswer(5, 8, (1, 2)))]


def test_proposals_gather_while_a_request_is_under_way(asked):
    asked.propose(A, 0, proposal(1, 2))
    asked.propose(A, 1, proposal(1))
    asked.propose(B, 0, proposal(1, 3))
    assert len(asked.requests) == 1
    asked.reply(response((A, answer_of(0, ErrorCode.ineligible_replica))))
    assert asked.answers == [((A, 0), ErrorCode.ineligible_replica)]
    asked.clock.advance(RETRY_BACKOFF_MS)
    assert asked.sent() == [(A, 1, [1]), (B, 0, [1, 3])]


@pytest.mark.parametrize(
    "reply", [Failure.DISCONNECTED, response(error=ErrorCode.stale_broker_epoch)]
)
def test_a_request_that_failed_is_sent_again(asked, reply):
    asked.propose(A, 0, proposal(1, 2))
    asked.propose(A, 1, proposal(1, 2))
    asked.broker_epoch = 12
    asked.reply(reply)
    asked.clock.advance(RETRY_BACKOFF_MS)
    assert asked.sent() == [(A, 0, [1, 2]), (A, 1, [1, 2])]
    assert asked.requests[-1][0].broker_epoch == 12
    assert asked.answers == []


def test_a_request_that_nobody_answers_is_sent_again_and_a_late_answer_dropped(asked):
    asked.propose(A, 0, proposal(1, 2))
    late = asked.requests[0][1]
    asked.clock.advance(TIMEOUT_MS + RETRY_BACKOFF_MS)
    assert len(asked.requests) == 2
    late(response((A, answer_of(0))))
    assert asked.answers == []
    asked.reply(response((A, answer_of(0))))
    assert len(asked.answers) == 1


def test_the_newest_proposal_of_a_partition_is_sent(asked):
    asked.propose(A, 0, proposal(1, 2))
    asked.propose(A, 0, proposal(1, partition_epoch=8))
    asked.reply(Failure.TIMED_OUT)
    asked.clock.advance(RETRY_BACKOFF_MS)
    assert asked.sent() == [(A, 0, [1])]


def test_what_the_controller_leaves_out_is_an_error(asked):
    asked.propose(A, 0, proposal(1, 2))
    asked.reply(response())
    assert asked.answers == [((A, 0), ErrorCode.unknown_server_error)]


def test_what_is_refused_is_not_asked_again_at_once(asked):
    change = proposal(1, 2)
    asked.manager.propose((A, 0), change, lambda _: asked.manager.propose((A, 0), change, print))
    asked.clock.advance(0)
    asked.reply(response((A, answer_of(0, ErrorCode.unknown_server_error))))
    asked.clock.advance(RETRY_BACKOFF_MS - 1)
    assert len(asked.requests) == 1
    asked.clock.advance(1)
    assert len(asked.requests) == 2


def test_it_waits_for_the_registration_and_ends_when_it_is_stopped(asked):
    asked.broker_epoch = -1
    asked.propose(A, 0, proposal(1, 2))
    asked.clock.advance(RETRY_BACKOFF_MS)
    assert asked.requests == []
    asked.broker_epoch = 11
    asked.clock.advance(RETRY_BACKOFF_MS)
    assert len(asked.requests) == 1
    asked.manager.stop()
    asked.reply(response((A, answer_of(0))))
    asked.propose(A, 0, proposal(1))
    asked.clock.advance(40_000.0)
    assert (len(asked.requests), asked.answers) == (1, [])

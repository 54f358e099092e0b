"""Requests on their way to the active controller: what is held, what is tried again, what is not."""

import uuid

import pytest

from cluster.node.controller.apis.write_apis import error_response
from cluster.node.envelope import answer_to, refusal, unseal
from cluster.node.errors import ErrorCode
from cluster.node.forwarding import (
    DEFAULT_TIMEOUT_MS,
    HOLD_MAX_MS,
    MAX_HELD_BYTES,
    MAX_HELD_REQUESTS,
    ForwardingManager,
    is_for_controller,
)
from cluster.node.kraft.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import Origin
from tests.cluster.node.controller.fakes import FakeClock, alter, creatable, create, metadata

LEADER = Endpoint(2, "127.0.0.1", 9093)
NEXT = Endpoint(3, "127.0.0.1", 9094)
ALICE = Origin("User", "alice", "192.0.2.7", "admin-1")
LEADER_DIRECTORY = uuid.UUID(int=7, version=4)
CREATE, ALTER = create("t", timeout_ms=700), alter("k", "v", resource=(2, "t"))
CREATED = m.CreateTopicsResponse(throttle_time=m.NO_THROTTLE, topics=())
REFUSED = error_response(CREATE, ErrorCode.not_controller, None)


class Attempt:
    """One request at the network, with its envelope opened."""

    def __init__(self, destination, envelope, timeout_ms, on_reply):
        self.destination, self.timeout_ms = destination, timeout_ms
        self.request, self.origin = unseal(envelope)
        self.on_reply = on_reply

    def answer(self, reply):
        if isinstance(reply, Failure | m.EnvelopeResponse):
            self.on_reply(reply)
        else:
            answer_to(self.request, self.on_reply)(reply)


class Broker:
    """A manager with everything around it under the test's control."""

    def __init__(self, leader=LEADER, holds=True):
        self.clock, self.leader, self.leads = FakeClock(), leader, False
        self.attempts, self.here, self.answers = [], [], []
        self.manager = ForwardingManager(
            self.clock,
            self,
            lambda: self.leader,
            lambda: self.leads,
            lambda listener, message, reply, _: self.here.append((listener, message, reply)),
            holds=holds,
        )

    def request(self, *arguments):
        self.attempts.append(Attempt(*arguments))

    def forward(self, message=CREATE):
        self.manager.forward("CLIENT", message, self.answers.append, ALICE)
        return self

    def answer(self, reply):
        """Answer the last attempt."""
        self.attempts[-1].answer(reply)
        return self

    def becomes_leader(self, leader):
        self.leader = leader
        self.manager.leader_changed()
        self.clock.advance(1)

    @property
    def timers(self):
        return [timer for timer in self.clock.timers if not timer.cancelled]


def error_of(broker):
    (answer,) = broker.answers
    if isinstance(answer, DescribeQuorumResponse):
        return answer.top_level_error
    items = answer.responses if hasattr(answer, "responses") else answer.topics
    return items[0].error_code


def test_the_leaders_answer_is_the_answer():
    broker = Broker().forward().answer(CREATED)
    assert broker.answers == [CREATED]
    (attempt,) = broker.attempts
    assert (attempt.destination, attempt.timeout_ms) == (LEADER, 700)
    origin = ALICE
    assert (attempt.request.message, attempt.origin) == (CREATE, origin)
    assert broker.timers == []


@pytest.mark.parametrize("refusal_", [REFUSED, refusal(ErrorCode.not_controller), Failure.NOT_SENT])
def test_what_was_not_appended_goes_to_the_next_controller_once_it_is_known(refusal_):
    broker = Broker().forward()
    broker.leader = None
    broker.answer(refusal_)
    broker.clock.advance(100)
    assert (len(broker.attempts), broker.answers, broker.manager._held) == (1, [], 1)
    broker.becomes_leader(NEXT)
    assert [attempt.destination for attempt in broker.attempts] == [LEADER, NEXT]
    broker.answer(CREATED)
    assert (broker.answers, broker.manager._held, broker.timers) == ([CREATED], 0, [])


def test_the_same_controller_is_asked_again_later_and_later():
    broker, times = Broker().forward(ALTER), []
    for _ in range(8):
        times.append(broker.clock.now_ms)
        broker.answer(REFUSED if len(times) % 2 else Failure.NOT_SENT)
        broker.clock.advance(1_000)
    gaps = [round(attempt.timeout_ms) for attempt in broker.attempts]
    assert gaps == sorted(gaps, reverse=True)
    assert len(broker.attempts) > 8
    assert broker.answers == []


def test_a_request_waits_for_the_first_leader_too_and_for_this_node_to_be_it():
    broker = Broker(leader=None).forward()
    assert (broker.attempts, broker.here) == ([], [])
    broker.leads = True
    broker.manager.leader_changed()
    broker.clock.advance(1)
    ((listener, message, reply),) = broker.here
    assert (listener, message.topics) == ("CLIENT", CREATE.topics)
    reply(REFUSED)  # it renounced meanwhile
    assert broker.answers == []
    broker.leads = False
    broker.becomes_leader(NEXT)
    broker.answer(CREATED)
    assert broker.answers == [CREATED]


def test_what_is_left_of_the_time_is_what_the_next_controller_gets():
    broker = Broker(leader=None).forward()
    broker.clock.advance(300)
    broker.becomes_leader(LEADER)
    (attempt,) = broker.attempts
    assert attempt.timeout_ms == pytest.approx(700 - broker.clock.now_ms, abs=1)
    assert attempt.request.message.timeout.total_seconds() * 1000 == int(attempt.timeout_ms)


@pytest.mark.parametrize("message", [CREATE, ALTER])
def test_what_was_never_appended_ends_in_a_definite_error_before_the_client_gives_up(message):
    broker = Broker(leader=None).forward(message)
    timeout_ms = 700 if message is CREATE else DEFAULT_TIMEOUT_MS
    broker.clock.advance(0.89 * timeout_ms)
    assert broker.answers == []
    broker.clock.advance(0.02 * timeout_ms)
    assert error_of(broker) is ErrorCode.not_controller
    assert (broker.timers, broker.manager._held) == ([], 0)


def test_nothing_is_held_for_ever():
    broker = Broker(leader=None).forward(create("t", timeout_ms=2**31 - 1))
    broker.clock.advance(HOLD_MAX_MS)
    assert error_of(broker) is ErrorCode.not_controller


@pytest.mark.parametrize("lost", [Failure.DISCONNECTED, Failure.TIMED_OUT, Failure.WRONG_ANSWER])
@pytest.mark.parametrize("message", [CREATE, ALTER])
def test_what_was_sent_and_not_answered_is_not_sent_again(lost, message):
    broker = Broker().forward(message).answer(lost)
    assert error_of(broker) is ErrorCode.request_timed_out
    broker.becomes_leader(NEXT)
    broker.clock.advance(DEFAULT_TIMEOUT_MS)
    assert len(broker.attempts) == 1


def test_a_held_request_that_was_then_sent_and_not_answered_is_indefinite():
    broker = Broker().forward().answer(REFUSED)
    broker.becomes_leader(NEXT)
    broker.answer(Failure.DISCONNECTED)
    assert error_of(broker) is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    "lost",
    [
        Failure.DISCONNECTED,
        Failure.TIMED_OUT,
        DescribeQuorumResponse(
            ErrorCode.none, -1, -1, -1, top_level_error=ErrorCode.not_leader_or_follower
        ),
    ],
)
def test_a_read_may_be_asked_twice(lost):
    answer = DescribeQuorumResponse(ErrorCode.none, 3, 1, 1)
    broker = Broker().forward(DescribeQuorumRequest()).answer(lost)
    broker.becomes_leader(NEXT)
    assert broker.answer(answer).answers == [answer]


def test_a_change_of_voters_may_have_been_appended_by_one_that_no_longer_leads():
    answer = RemoveVoterResponse(ErrorCode.not_leader_or_follower, "The leadership was lost.")
    request = RemoveVoterRequest("c", 1, LEADER_DIRECTORY)
    assert Broker().forward(request).answer(answer).answers == [answer]


def test_requests_keep_their_order():
    broker = Broker(leader=None)
    for number in range(5):
        broker.forward(create(timeout_ms=500 + number))
    broker.becomes_leader(LEADER)
    times = [attempt.timeout_ms for attempt in broker.attempts]
    assert (len(times), times) == (5, sorted(times))


def test_more_than_a_bounded_number_of_requests_is_not_held():
    broker = Broker(leader=None)
    for _ in range(MAX_HELD_REQUESTS):
        broker.forward()
    assert broker.answers == []
    assert error_of(broker.forward()) is ErrorCode.not_controller
    broker.becomes_leader(LEADER)
    assert len(broker.attempts) == MAX_HELD_REQUESTS
    for attempt in broker.attempts[:2]:
        attempt.answer(CREATED)
    assert broker.manager._held == MAX_HELD_REQUESTS - 2


def test_more_than_a_bounded_number_of_bytes_is_not_held():
    configs = {"c": "v" * (MAX_HELD_BYTES // 3)}
    large = create(creatable("t", configs=configs), timeout_ms=700)
    broker = Broker(leader=None).forward(large).forward(large)
    assert broker.answers == []
    assert error_of(broker.forward(large)) is ErrorCode.not_controller
    broker.forward(CREATE)
    assert (len(broker.answers), broker.manager._held) == (1, 3)


@pytest.mark.parametrize("end", ["close", "release"])
def test_a_broker_that_goes_answers_what_it_holds(end):
    broker = Broker(leader=None).forward()
    getattr(broker.manager, end)()
    assert error_of(broker) is ErrorCode.not_controller
    assert (broker.timers, broker.manager._held) == ([], 0)
    broker.forward()
    assert len(broker.answers) + len(broker.here) == (2 if end == "close" else 1)


def test_what_is_under_way_when_a_broker_closes_still_gets_its_answer():
    broker = Broker().forward()
    broker.manager.close()
    assert broker.answer(CREATED).answers == [CREATED]


@pytest.mark.parametrize(
    "error", [ErrorCode.cluster_authorization_failed, ErrorCode.principal_deserialization_failure]
)
def test_what_is_wrong_with_the_envelope_is_not_the_clients_fault(error):
    broker = Broker().forward().answer(refusal(error))
    assert error_of(broker) is ErrorCode.unknown_server_error
    assert error.name in broker.answers[0].topics[0].error_message


def test_an_answer_that_cannot_be_read_leaves_the_outcome_open():
    broker = Broker().forward()
    broker.answer(m.EnvelopeResponse(response_data=b"?", error_code=ErrorCode.none))
    assert error_of(broker) is ErrorCode.unknown_server_error


def test_a_controller_without_envelopes_is_not_asked_again():
    broker = Broker().forward().answer(Failure.UNSUPPORTED_VERSION)
    assert error_of(broker) is ErrorCode.not_controller


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure.NOT_SENT, ErrorCode.not_controller),
        (Failure.UNSUPPORTED_VERSION, ErrorCode.not_controller),
        (Failure.DISCONNECTED, ErrorCode.request_timed_out),
        (Failure.TIMED_OUT, ErrorCode.request_timed_out),
    ],
)
@pytest.mark.parametrize("message", [CREATE, ALTER, DescribeQuorumRequest()])
def test_without_holding_a_lost_request_is_refused_only_when_it_was_not_sent(
    message, failure, error
):
    broker = Broker(holds=False).forward(message).answer(failure)
    assert error_of(broker) is error
    assert broker.timers == []


def test_without_holding_the_answer_comes_as_it_is():
    broker = Broker(holds=False).forward().answer(REFUSED)
    assert error_of(broker) is ErrorCode.not_controller
    alone = Broker(leader=None, holds=False).forward()
    ((_, message, reply),) = alone.here
    reply(REFUSED)
    assert (message, alone.answers) == (CREATE, [REFUSED])


def test_a_second_answer_is_not_passed_on():
    answer = DescribeQuorumResponse(ErrorCode.none, 2, 1, 1)
    broker = Broker().forward(DescribeQuorumRequest()).answer(answer).answer(Failure.TIMED_OUT)
    assert broker.answers == [answer]


def test_reads_that_any_node_can_answer_are_not_for_the_controller_alone():
    assert is_for_controller(CREATE)
    assert not is_for_controller(m.DescribeConfigsRequest(resources=()))
    assert not is_for_controller(metadata(everything=True))

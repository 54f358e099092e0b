import pytest

from cluster.node.controller.error_responses import create_topics_error
from cluster.node.envelope import answer_to, refusal, unseal
from cluster.node.errors import ErrorCode
from cluster.node.forwarding import DEFAULT_TIMEOUT_MS, forward, is_for_controller
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import messages as m
from cluster.node.protocol.origin import Origin

LEADER = Endpoint(2, "127.0.0.1", 9093)
ALICE = Origin("User", "alice", "192.0.2.7", "admin-1")
CREATE = m.CreateTopicsRequest(
    topics=(
        m.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
        ),
    ),
    timeout=m.milliseconds(700),
)
ALTER = m.IncrementalAlterConfigsRequest(
    resources=(m.AlterConfigsResource(resource_type=2, resource_name="t", configs=()),),
    validate_only=False,
)


class Held:
    """A network that opens the envelope and keeps the callback."""

    def request(self, destination, message, timeout_ms, on_reply):
        self.destination, self.timeout_ms = destination, timeout_ms
        self.request_, self.origin = unseal(message)
        self.on_reply = on_reply

    def answer(self, message):
        """Let the controller answer what was in the envelope."""
        answer_to(self.request_, self.on_reply)(message)


def forwarded(message, *replies):
    network, answers = Held(), []
    forward(network, LEADER, message, answers.append, ALICE)
    for reply in replies:
        network.on_reply(reply) if isinstance(reply, Failure) else network.answer(reply)
    return network, answers


def test_the_leaders_answer_is_the_answer():
    answer = m.CreateTopicsResponse(throttle_time=m.NO_THROTTLE, topics=())
    network, answers = forwarded(CREATE, answer)
    assert answers == [answer]
    assert (network.destination, network.timeout_ms) == (LEADER, 700)
    assert (network.request_.message, network.origin) == (CREATE, ALICE)


def test_a_controller_that_leads_no_more_is_the_envelopes_error_and_the_clients():
    answer = create_topics_error(CREATE, ErrorCode.not_controller, None)
    (topic,) = forwarded(CREATE, answer)[1]
    assert [topic.error_code for topic in topic.topics] == [ErrorCode.not_controller]


@pytest.mark.parametrize(
    "error", [ErrorCode.cluster_authorization_failed, ErrorCode.principal_deserialization_failure]
)
def test_what_is_wrong_with_the_envelope_is_not_the_clients_fault(error):
    network, answers = forwarded(CREATE)
    network.on_reply(refusal(error))
    ((topic,),) = [answer.topics for answer in answers]
    assert topic.error_code is ErrorCode.unknown_server_error
    assert error.name in topic.error_message


def test_an_answer_that_cannot_be_read_leaves_the_outcome_open():
    network, answers = forwarded(CREATE)
    network.on_reply(m.EnvelopeResponse(response_data=b"?", error_code=ErrorCode.none))
    assert answers[0].topics[0].error_code is ErrorCode.unknown_server_error


def test_a_request_without_a_timeout_gets_kafkas_default():
    assert forwarded(ALTER)[0].timeout_ms == DEFAULT_TIMEOUT_MS


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure.NOT_SENT, ErrorCode.not_controller),
        (Failure.UNSUPPORTED_VERSION, ErrorCode.not_controller),
        (Failure.DISCONNECTED, ErrorCode.request_timed_out),
        (Failure.TIMED_OUT, ErrorCode.request_timed_out),
    ],
)
def test_a_lost_request_is_refused_only_when_it_was_not_sent(failure, error):
    (answer,) = forwarded(CREATE, failure)[1]
    assert [(t.name, t.error_code) for t in answer.topics] == [("t", error)]
    (answer,) = forwarded(ALTER, failure)[1]
    assert [r.error_code for r in answer.responses] == [error]
    (answer,) = forwarded(DescribeQuorumRequest(), failure)[1]
    assert answer.top_level_error is error


def test_a_second_answer_is_not_passed_on():
    answer = DescribeQuorumResponse(ErrorCode.none, 2, 1, 1)
    assert forwarded(DescribeQuorumRequest(), answer, Failure.TIMED_OUT)[1] == [answer]


def test_reads_that_any_node_can_answer_are_not_for_the_controller_alone():
    assert is_for_controller(CREATE)
    assert not is_for_controller(m.DescribeConfigsRequest(resources=()))
    assert not is_for_controller(
        m.MetadataRequest(topics=None, include_topic_authorized_operations=False)
    )

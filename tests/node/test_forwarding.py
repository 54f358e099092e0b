import pytest

from cluster.errors import ErrorCode
from cluster.forwarding import DEFAULT_TIMEOUT_MS, forward, is_for_controller
from cluster.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.ports import Endpoint, Failure
from cluster.protocol import messages as m

LEADER = Endpoint(2, "127.0.0.1", 9093)
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
    """A network that keeps the callback."""

    def request(self, destination, message, timeout_ms, on_reply):
        self.destination, self.message, self.timeout_ms = destination, message, timeout_ms
        self.on_reply = on_reply


def forwarded(message, *replies):
    network, answers = Held(), []
    forward(network, LEADER, message, answers.append)
    for reply in replies:
        network.on_reply(reply)
    return network, answers


def test_the_leaders_answer_is_the_answer():
    answer = m.CreateTopicsResponse(throttle_time=m.NO_THROTTLE, topics=())
    network, answers = forwarded(CREATE, answer)
    assert answers == [answer]
    assert (network.destination, network.message, network.timeout_ms) == (LEADER, CREATE, 700)


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

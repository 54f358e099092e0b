"""How certain the client is about what became of a request."""

import asyncio
import re
import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.broker_client import BrokerClient, FakeBroker
from cluster.client.caller import CallFailed, Outcome, Peer, RequestRefused
from cluster.client.failures import DEFINITE_ERRORS
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumResponse
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import messages as m
from tests.kio_bytes import filled
from tests.play import play

NODE = Peer(Endpoint(1, "127.0.0.1", 9092), 500.0)
ERRORS = [e for e in ErrorCode if e is not ErrorCode.none]


class CannedNetwork:
    """Answers every request with one reply; None is a network that never calls back."""

    def __init__(self, *replies, times=1):
        self.replies = list(replies)
        self.times = times
        self.requests = []

    def request(self, destination, message, timeout_ms, on_reply):
        self.requests.append((destination, message, timeout_ms))
        reply = self.replies.pop(0)
        if reply is not None:
            for _ in range(self.times):
                asyncio.get_running_loop().call_soon(on_reply, reply)


class ImpatientClock:
    """Lets a second pass at once."""

    def monotonic_ms(self):
        return 0.0

    def wall_ms(self):
        return 0

    def call_later(self, delay_ms, callback):
        return asyncio.get_running_loop().call_later(delay_ms / 100_000, callback)


def ask(reply, operation):
    """Return the outcome of a client's one operation, and the message that it sent."""

    async def body():
        network = CannedNetwork(reply)
        outcome = await operation(Client(network, ImpatientClock()))
        return outcome, network.requests[0][1]

    return asyncio.run(body())


def outcome(reply, operation, times=1):
    async def body():
        client = Client(CannedNetwork(reply, times=times), ImpatientClock())
        return await operation(client)

    return asyncio.run(body())


def created(error, topic_id=None):
    result = filled(m.CreatableTopicResult, name="t", topic_id=topic_id, error_code=error)
    return filled(m.CreateTopicsResponse, topics=(result,))


def deleted(error):
    result = filled(m.DeletableTopicResult, name="t", error_code=error)
    return filled(m.DeleteTopicsResponse, responses=(result,))


def altered(error):
    resource = {"resource_type": 4, "resource_name": ""}
    result = filled(m.AlterConfigsResourceResponse, error_code=error, **resource)
    return filled(m.IncrementalAlterConfigsResponse, responses=(result,))


def described(error, **values):
    shown = {"read_only": False, "config_source": 3, "is_sensitive": False, "synonyms": ()}
    configs = tuple(
        filled(m.DescribeConfigsResourceResult, name=k, value=v, **shown) for k, v in values.items()
    )
    resource = {"resource_type": 4, "resource_name": "", "configs": configs}
    result = filled(m.DescribeConfigsResult, error_code=error, **resource)
    return filled(m.DescribeConfigsResponse, results=(result,))


def metadata(controller_id, error=ErrorCode.none, topic_error=ErrorCode.none):
    topic = filled(m.MetadataResponseTopic, error_code=topic_error, name="t", partitions=())
    answer = {"brokers": (), "controller_id": controller_id, "topics": (topic,)}
    return filled(m.MetadataResponse, error_code=error, **answer)


OPERATIONS = {
    "create_topic": (lambda c: c.create_topic(NODE, "t"), created),
    "delete_topic": (lambda c: c.delete_topic(NODE, "t"), deleted),
    "alter_config": (lambda c: c.alter_config(NODE, CLUSTER_RESOURCE, "k", "set", "v"), altered),
    "read_config": (lambda c: c.read_config(NODE, CLUSTER_RESOURCE, "k"), described),
    "describe_topic": (lambda c: c.describe_topic(NODE, "t"), lambda e: metadata(1, e)),
}


@pytest.mark.parametrize(
    ("error", "definite"),
    [
        (ErrorCode.not_controller, True),
        (ErrorCode.topic_already_exists, True),
        (ErrorCode.unknown_topic_or_partition, True),
        (ErrorCode.invalid_config, True),
        (ErrorCode.invalid_request, True),
        (ErrorCode.unsupported_version, True),
        (ErrorCode.request_timed_out, False),
        (ErrorCode.unknown_server_error, False),
        (ErrorCode.network_exception, False),
        (ErrorCode.not_leader_or_follower, False),
        (ErrorCode.kafka_storage_error, False),
    ],
)
def test_an_error_is_definite_only_when_nothing_can_have_happened(error, definite):
    assert (error in DEFINITE_ERRORS) is definite


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_response_is_fail_when_definite_and_info_otherwise(operation):
    call, response = OPERATIONS[operation]
    for error in ERRORS:
        expected = "fail" if error in DEFINITE_ERRORS else "info"
        assert outcome(response(error), call) == Outcome(expected, error=error.name)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure.NOT_SENT, Outcome("fail", error="not-sent")),
        (Failure.UNSUPPORTED_VERSION, Outcome("fail", error="unsupported-version")),
        (Failure.TIMED_OUT, Outcome("info", error="timed-out")),
        (Failure.DISCONNECTED, Outcome("info", error="disconnected")),
        (
            Failure.WRONG_ANSWER,
            Outcome("info", error="wrong-answer: answer to {}: its bytes cannot be read"),
        ),
        (None, Outcome("info", error="timed-out")),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_response_is_fail_only_when_nothing_was_sent(operation, failure, expected):
    found = outcome(failure, OPERATIONS[operation][0])
    asked = re.search(r"\w+Request", found.error or "")
    if asked is not None:
        expected = replace(expected, error=expected.error.format(asked[0]))
    assert found == expected


def test_every_failure_is_expected_somewhere_above():
    assert {f.value for f in Failure} == {
        "not-sent", "unsupported-version", "timed-out", "disconnected", "wrong-answer",
    }  # fmt: skip


BROKER = FakeBroker(7)
EVERYTHING = {
    **{name: call for name, (call, _) in OPERATIONS.items()},
    "create_partition": lambda c: c.create_partition(NODE, "t", 1, (1,)),
    "register": lambda c: BrokerClient(c).register(NODE, BROKER),
    "heartbeat": lambda c: BrokerClient(c).heartbeat(NODE, BROKER, 1, 0),
    "allocate_producer_ids": lambda c: BrokerClient(c).allocate_producer_ids(NODE, BROKER, 1),
    "is_alive": lambda c: BrokerClient(c).is_alive(NODE, 7),
    "describe_quorum": lambda c: c.describe_quorum(NODE),
    "final_read": lambda c: c.final_read(NODE),
}
"""Everything that clients and harness ask."""


class Nonsense:
    """Whatever it is asked for raises."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        raise self._error


def wrong_answer(reply, call):
    """The error of a wrong answer, by both calls that report it, which must agree."""
    noticed = []

    async def body():
        client = Client(
            CannedNetwork(reply, reply),
            ImpatientClock(),
            on_wrong_answer=lambda endpoint, what: noticed.append((endpoint, what)),
        )
        try:
            return await call(client)
        except CallFailed as failed:
            return failed.outcome

    ended = asyncio.run(body())
    ((endpoint, what),) = noticed
    assert endpoint == NODE.endpoint
    assert ended.error == f"wrong-answer: {what}"
    return ended.type, what


@pytest.mark.parametrize("operation", EVERYTHING)
@pytest.mark.parametrize(
    "reply",
    [
        Failure.WRONG_ANSWER,
        object(),
        None,
        SimpleNamespace(error_code=ErrorCode.none),
        *map(
            Nonsense,
            [
                KeyError(3),
                IndexError("4"),
                ValueError("5"),
                UnicodeDecodeError("utf-8", b"x", 0, 1, "6"),
                struct.error("7"),
                AssertionError("8"),
                RecursionError("9"),
                MemoryError(),
                OSError(10, "ten"),
            ],
        ),
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_an_answer_without_sense_is_never_an_exception(operation, reply):
    if reply is None:
        reply = Nonsense(TypeError("None"))
    type_, what = wrong_answer(reply, EVERYTHING[operation])
    # What a broker registers for is asked first, and nothing was asked for yet.
    assert type_ == ("fail" if operation == "register" else "info")
    assert what.startswith("answer to ")


@pytest.mark.parametrize(
    ("operation", "reply", "what"),
    [
        ("create_topic", replace(created(ErrorCode.none), topics=()), "0 results for one question"),
        (
            "read_config",
            replace(described(ErrorCode.none), results=2 * described(ErrorCode.none).results),
            "2 results for one question",
        ),
        (
            "create_topic",
            replace(
                created(ErrorCode.none),
                topics=(replace(created(ErrorCode.none).topics[0], name="u"),),
            ),
            "name is 'u', asked was 't'",
        ),
        (
            "read_config",
            replace(
                described(ErrorCode.none),
                results=(replace(described(ErrorCode.none).results[0], resource_type=2),),
            ),
            "resource_type is 2, asked was 4",
        ),
        ("describe_topic", replace(metadata(1), topics=()), "0 results for one question"),
    ],
)
def test_an_answer_about_something_else_is_a_wrong_one(operation, reply, what):
    type_, message = wrong_answer(reply, EVERYTHING[operation])
    assert type_ == "info"
    assert message.endswith(what)


@play(asyncio.run)
async def test_a_final_read_of_an_unknown_resource_is_a_wrong_answer():
    strange = replace(described(ErrorCode.none, k="v").results[0], resource_type=99)
    replies = (metadata(1), replace(described(ErrorCode.none), results=(strange,)))
    with pytest.raises(CallFailed, match=r"wrong-answer: .* DescribeConfigsRequest: Key"):
        await Client(CannedNetwork(*replies), ImpatientClock()).final_read(NODE)


def test_a_cluster_without_an_id_is_a_wrong_answer():
    reply = SimpleNamespace(error_code=ErrorCode.none, cluster_id=None)
    _, what = wrong_answer(reply, EVERYTHING["register"])
    assert what == "answer to DescribeClusterRequest: the cluster has no id"


@pytest.mark.parametrize("named", [-1, 2])
def test_a_topic_described_by_another_node_than_the_controller_is_no_information(named):
    got = outcome(metadata(named), lambda c: c.describe_topic(NODE, "t"))
    assert got == Outcome("fail", error="not_controller")


def test_an_absent_topic_is_an_answer_and_not_an_error():
    absent = metadata(1, topic_error=ErrorCode.unknown_topic_or_partition)
    assert outcome(absent, lambda c: c.describe_topic(NODE, "t")) == Outcome("ok", None)


def test_a_config_that_is_not_set_reads_as_none():
    read = OPERATIONS["read_config"][0]
    assert outcome(described(ErrorCode.none, other="1"), read) == Outcome("ok", None)
    assert outcome(described(ErrorCode.none, k="1"), read) == Outcome("ok", "1")


def test_a_network_that_answers_twice_is_survived():
    call, response = OPERATIONS["alter_config"]
    assert outcome(response(ErrorCode.none), call, times=3) == Outcome("ok", "v")


@play(asyncio.run)
async def test_a_call_without_an_answer_says_how_certain_that_is():
    client = Client(CannedNetwork(Failure.NOT_SENT, Failure.TIMED_OUT), ImpatientClock())
    for definite in (True, False):
        with pytest.raises(CallFailed) as failed:
            await client.describe_quorum(NODE)
        assert failed.value.definite is definite


@play(asyncio.run)
async def test_one_operation_is_one_request():
    network = CannedNetwork(Failure.DISCONNECTED)
    peer = Peer(NODE.endpoint, 1234)
    await Client(network, ImpatientClock()).create_topic(peer, "t", 5)
    ((destination, request, timeout_ms),) = network.requests
    assert (destination, timeout_ms) == (peer.endpoint, 1234)
    assert request.timeout.total_seconds() == 1.234
    assert [(t.name, t.num_partitions) for t in request.topics] == [("t", 5)]


@play(asyncio.run)
async def test_a_final_read_that_is_refused_is_no_final_read():
    network = CannedNetwork(metadata(-1), described(ErrorCode.not_controller))
    with pytest.raises(RequestRefused, match="not_controller"):
        await Client(network, ImpatientClock()).final_read(NODE)


@play(asyncio.run)
async def test_describe_quorum_returns_the_leaders_answer():
    answer = DescribeQuorumResponse(ErrorCode.none, 2, 5, 9)
    client = Client(CannedNetwork(answer), ImpatientClock())
    assert await client.describe_quorum(NODE) == answer


def test_what_a_system_also_gives_to_appended_requests_is_indefinite_for_brokers_too():
    refused = m.BrokerHeartbeatResponse(
        throttle_time=m.NO_THROTTLE,
        error_code=ErrorCode.not_controller,
        is_caught_up=False,
        is_fenced=True,
        should_shut_down=False,
    )
    for indefinite, expected in (((), "fail"), ({ErrorCode.not_controller}, "info")):
        client = Client(CannedNetwork(refused), ImpatientClock(), indefinite=indefinite)
        beat = BrokerClient(client).heartbeat(NODE, FakeBroker(7), 3, 0)
        assert asyncio.run(beat) == Outcome(expected, error="not_controller")


def test_a_broker_is_looked_up_at_any_node_only_where_reads_may_lag():
    def look(*, lags):
        client = Client(CannedNetwork(metadata(2)), ImpatientClock())
        return asyncio.run(BrokerClient(client).is_alive(NODE, 7, lags=lags))

    assert look(lags=False) == Outcome("fail", error="not_controller")
    assert look(lags=True) == Outcome("ok", False)

import asyncio
import select
import struct
import time
from contextlib import asynccontextmanager

import pytest

from cluster.node.controller.core.feature_control import SUPPORTED
from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.ports import Endpoint
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import (
    LISTENER_APIS,
    ApiKey,
    Features,
    FinalizedFeature,
    ListenerType,
    Origin,
    listed_apis,
)
from cluster.node.protocol.codec import read_response, write_request
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.server import Binding, ServerLimits, TcpServer
from tests.play import play

ANSWER = raft.DescribeQuorumResponse(ErrorCode.none, 1, 3, 17)
QUESTION = raft.DescribeQuorumRequest()
VOTE = raft.VoteRequest("c", 1, 2, raft.NO_DIRECTORY, 1, raft.NO_DIRECTORY, 0, 0, pre_vote=False)
VOTED = raft.VoteResponse(ErrorCode.none, 1, 3, vote_granted=False)
VERSIONS = m.ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Handler:
    """Keeps every request until the test answers it."""

    def __init__(self):
        self.asked = []
        self.arrived = asyncio.Event()

    def handle(self, listener, message, reply, origin=None):
        self.asked.append((listener, message, reply))
        self.origin = origin
        self.arrived.set()

    async def next(self):
        while not self.asked:
            self.arrived.clear()
            await self.arrived.wait()
        return self.asked.pop(0)


class Echo:
    def handle(self, listener, message, reply, origin=None):
        is_vote = isinstance(message, raft.VoteRequest)
        reply(raft.VoteResponse(ErrorCode.none, 1, 3, vote_granted=False) if is_vote else ANSWER)


@asynccontextmanager
async def a_server(handler, type_=ListenerType.CONTROLLER, **limits):
    server = TcpServer(ServerLimits(**limits))
    service = ListenerService("LISTENER", type_, handler)
    (port,) = await server.bind([Binding(service, "127.0.0.1", 0)])
    await server.serve()
    try:
        yield server, port
    finally:
        server.close()
        await asyncio.sleep(0)


class Caller:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send(self, correlation_id=1, message=None, version=2):
        message = raft.DescribeQuorumRequest() if message is None else message
        self.writer.write(write_request(message, version, correlation_id, "caller"))

    async def receive(self):
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def correlation_id(self):
        return struct.unpack_from(">i", await self.receive())[0]

    async def is_hung_up(self):
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def a_caller(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the server has no event for what the test waits for
        await asyncio.sleep(0.01)


def run(test):
    async def body():
        async with asyncio.timeout(300):
            await test()

    asyncio.run(body())


@play(run)
async def test_a_request_is_handled_with_its_listeners_name():
    handler = Handler()
    async with a_server(handler) as (_, port), a_caller(port) as caller:
        caller.send(9)
        listener, message, reply = await handler.next()
        assert (listener, message) == ("LISTENER", raft.DescribeQuorumRequest())
        assert handler.origin == Origin("User", "ANONYMOUS", "127.0.0.1", "caller")
        reply(ANSWER)
        frame = await caller.receive()
        assert read_response(frame, ApiKey.DESCRIBE_QUORUM, 2) == ANSWER


@play(run)
async def test_pipelined_requests_are_served_one_at_a_time_and_in_order():
    handler = Handler()
    async with a_server(handler) as (_, port), a_caller(port) as caller:
        for i in range(5):
            caller.send(i)
        for i in range(5):
            _, _, reply = await handler.next()
            await asyncio.sleep(0.01)
            assert handler.asked == []
            reply(ANSWER)
            assert await caller.correlation_id() == i


@pytest.mark.slow
@play(run)
async def test_many_immediate_answers_do_not_nest():
    async with a_server(Echo()) as (_, port), a_caller(port) as caller:
        for i in range(5000):
            caller.send(i)
        for i in range(5000):
            assert await caller.correlation_id() == i


@play(run)
async def test_a_request_that_is_never_answered_stalls_no_other_connection():
    handler = Handler()
    async with a_server(handler) as (_, port), a_caller(port) as first, a_caller(port) as other:
        first.send(1)
        await handler.next()
        other.send(2)
        _, _, reply = await handler.next()
        reply(ANSWER)
        assert await other.correlation_id() == 2


@play(run)
async def test_an_answer_after_the_peer_left_is_dropped():
    handler = Handler()
    async with a_server(handler) as (server, port):
        async with a_caller(port) as caller:
            caller.send()
            _, _, reply = await handler.next()
        await until(lambda: not server.connections)
        reply(ANSWER)
        async with a_caller(port) as other:
            other.send(correlation_id=2)
            _, _, reply = await handler.next()
            reply(ANSWER)
            assert await other.correlation_id() == 2, "the server goes on"


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this system has no POLLRDHUP")
@play(run)
async def test_a_question_whose_asker_has_left_is_not_worked_off_but_a_change_is():
    handler = Handler()
    async with a_server(handler) as (server, port):
        for message, version in ((QUESTION, 2), (VOTE, 2)):
            async with a_caller(port) as caller:
                caller.send(1, VOTE)
                _, _, reply = await handler.next()
                caller.send(2, message, version)
                caller.writer.close()
                await caller.writer.wait_closed()
            reply(VOTED)
            await until(lambda: not server.connections)
        assert [message for _, message, _ in handler.asked] == [VOTE]


@play(run)
async def test_a_long_pipeline_of_one_peer_gives_way_to_others():
    served = []

    class Slow(Echo):
        def handle(self, listener, message, reply, origin=None):
            served.append(origin.client_id)
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                pass
            super().handle(listener, message, reply, origin)

    async with a_server(Slow()) as (_, port), a_caller(port) as greedy, a_caller(port) as other:
        greedy.writer.write(b"".join(write_request(QUESTION, 2, i, "greedy") for i in range(50)))
        await until(lambda: served)
        other.writer.write(write_request(QUESTION, 2, 1, "other"))
        await other.receive()
        assert served.index("other") < 40
        assert served.count("greedy") < 50


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x80\0\0\0",
        struct.pack(">i", 2**20 + 1),
        b"\0\0\0\0",
        b"\0\0\0\x03abc",
        b"\0\0\0\x0a" + struct.pack(">hhih", 9999, 0, 1, -1),
        b"\0\0\0\x0a" + struct.pack(">hhih", 55, 77, 1, -1),
        b"\0\0\0\x0a" + struct.pack(">hhih", 55, -1, 1, -1),
        b"\0\0\0\x0a" + struct.pack(">hhih", 55, 0, 1, -1),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
@play(run)
async def test_what_cannot_be_read_is_hung_up_on_and_others_are_served(*, data):
    async with (
        a_server(Echo(), max_frame_bytes=2**20) as (_, port),
        a_caller(port) as bad,
        a_caller(port) as good,
    ):
        bad.writer.write(data)
        assert await bad.is_hung_up()
        good.send(3)
        assert await good.correlation_id() == 3


@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT])
@play(run)
async def test_a_broker_listener_hides_the_requests_of_controllers(*, key):
    async with a_server(Echo(), ListenerType.BROKER) as (_, port), a_caller(port) as caller:
        caller.writer.write(b"\0\0\0\x0a" + struct.pack(">hhih", key, 1, 1, -1))
        assert await caller.is_hung_up()


def test_a_broker_listener_serves_metadata_and_a_controller_listener_does_not():
    assert ApiKey.METADATA in LISTENER_APIS[ListenerType.BROKER]
    assert ApiKey.METADATA not in LISTENER_APIS[ListenerType.CONTROLLER]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@play(run)
async def test_api_versions_names_what_the_listener_serves(*, version):
    async with a_server(Echo(), ListenerType.BROKER) as (_, port), a_caller(port) as caller:
        caller.send(1, VERSIONS, version)
        answer = read_response(await caller.receive(), ApiKey.API_VERSIONS, version)
        assert answer.error_code is ErrorCode.none
        served = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
        listed = listed_apis(ListenerType.BROKER)
        assert served == {k: (v.lowest, v.highest) for k, v in listed.items()}


@pytest.mark.parametrize(
    ("version", "supported", "finalized"),
    [
        (0, [], []),
        (2, [], []),
        (3, [("metadata.version", 25, 30)], [("metadata.version", 30, 30)]),
        (
            4,
            [
                ("metadata.version", 25, 30),
                ("eligible.leader.replicas.version", 0, 1),
                ("group.version", 0, 1),
                ("share.version", 0, 1),
                ("streams.version", 0, 1),
                ("transaction.version", 0, 2),
                ("kraft.version", 0, 1),
            ],
            [("metadata.version", 30, 30)],
        ),
    ],
)
def test_api_versions_names_features_but_before_version_4_none_that_begins_at_0(
    version, supported, finalized
):
    features = Features(SUPPORTED, (FinalizedFeature("metadata.version", 30),), 17)
    service = ListenerService("L", ListenerType.BROKER, Echo(), lambda: features)
    frames = []
    service.serve(write_request(VERSIONS, version, 1, "t")[4:], frames.append)
    answer = read_response(frames[0][4:], ApiKey.API_VERSIONS, version)
    assert [(f.name, f.min_version, f.max_version) for f in answer.supported_features] == supported
    assert [
        (f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features
    ] == finalized
    assert answer.finalized_features_epoch == (17 if version >= 3 else -1)


@play(run)
async def test_bytes_after_a_request_are_ignored_because_librdkafka_sends_some():
    async with a_server(Echo()) as (_, port), a_caller(port) as caller:
        head = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 6, -1)
        caller.writer.write(struct.pack(">i", len(head) + 3) + head + b"\1\0\0")
        answer = read_response(await caller.receive(), ApiKey.API_VERSIONS, 0)
        assert answer.error_code is ErrorCode.none


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
@play(run)
async def test_an_unknown_api_versions_version_is_answered_in_version_0_with_the_list(*, version):
    async with a_server(Echo()) as (_, port), a_caller(port) as caller:
        head = struct.pack(">hhih", 18, version, 6, -1)
        caller.writer.write(struct.pack(">i", len(head) + 3) + head + b"abc")
        frame = await caller.receive()
        answer = read_response(frame, ApiKey.API_VERSIONS, 0)
        assert struct.unpack_from(">i", frame) == (6,)
        assert answer.error_code is ErrorCode.unsupported_version
        assert len(answer.api_keys) == len(LISTENER_APIS[ListenerType.CONTROLLER])


@play(run)
async def test_an_impossible_software_name_is_an_invalid_request():
    async with a_server(Echo()) as (_, port), a_caller(port) as caller:
        strange = m.ApiVersionsRequest(client_software_name="<script>", client_software_version="1")
        caller.send(1, strange, 3)
        answer = read_response(await caller.receive(), ApiKey.API_VERSIONS, 3)
        assert answer.error_code is ErrorCode.invalid_request


@play(run)
async def test_an_answer_without_a_form_in_the_old_version_ends_the_connection_only():
    long = m.DescribeConfigsResourceResult(
        name="k", value="v" * 40_000, read_only=False, is_sensitive=False, synonyms=(),
        documentation=None,
    )  # fmt: skip
    answer = m.DescribeConfigsResponse(
        throttle_time=m.NO_THROTTLE,
        results=(
            m.DescribeConfigsResult(
                error_code=ErrorCode.none, error_message=None, resource_type=4, resource_name="",
                configs=(long,),
            ),
        ),
    )  # fmt: skip
    handler = Handler()
    async with a_server(handler) as (_, port):
        for version, survives in ((4, True), (1, False)):
            async with a_caller(port) as caller:
                caller.send(1, m.DescribeConfigsRequest(resources=()), version)
                _, _, reply = await handler.next()
                reply(answer)
                if survives:
                    got = read_response(await caller.receive(), ApiKey.DESCRIBE_CONFIGS, 4)
                    assert got == answer
                else:
                    assert await caller.is_hung_up()


@play(run)
async def test_a_peer_that_announces_much_and_sends_little_costs_what_it_sent():
    async with a_server(Echo()) as (server, port), a_caller(port) as caller:
        caller.writer.write(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
        await until(lambda: server.buffered_bytes > 0)
        assert server.buffered_bytes == 1004


@pytest.mark.parametrize("greedy_comes_first", [True, False])
@play(run)
async def test_the_connection_that_holds_most_is_closed_when_all_together_hold_too_much(
    *, greedy_comes_first
):
    limits = {"max_frame_bytes": 10_000, "max_buffered_bytes": 15_000}
    async with (
        a_server(Echo(), **limits) as (server, port),
        a_caller(port) as greedy,
        a_caller(port) as modest,
        a_caller(port) as good,
    ):
        sent = [(greedy, 9000), (modest, 7000)]
        for caller, size in sent if greedy_comes_first else reversed(sent):
            caller.writer.write(struct.pack(">i", 9500) + b"x" * size)
            await until(lambda: len(server.connections) == 3 and server.buffered_bytes >= 7000)
        assert await greedy.is_hung_up()
        good.send(1)
        assert await good.correlation_id() == 1
        assert len(server.connections) == 2
        assert server.buffered_bytes == 7004


@play(run)
async def test_buffered_bytes_return_to_nothing():
    handler = Handler()
    async with a_server(handler) as (server, port):
        async with a_caller(port) as caller:
            for i in range(50):
                caller.send(i)
            for i in range(50):
                _, _, reply = await handler.next()
                reply(ANSWER)
                assert await caller.correlation_id() == i
            assert server.buffered_bytes == 0
            caller.writer.write(b"\0\0\1\0rest")
            await until(lambda: server.buffered_bytes > 0)
        await until(lambda: not server.connections)
        assert server.buffered_bytes == 0


@pytest.mark.slow
@play(run)
async def test_a_peer_that_does_not_read_its_answers_is_not_served_without_bound():
    answer = raft.DescribeQuorumResponse(
        ErrorCode.none, 1, 3, 17, nodes=tuple(Endpoint(i, "h" * 200, i) for i in range(1000))
    )
    served = 0

    class Big:
        def handle(self, listener, message, reply, origin=None):
            nonlocal served
            served += 1
            reply(answer)

    async with a_server(Big()) as (_, port), a_caller(port) as greedy, a_caller(port) as good:
        greedy.writer.transport.pause_reading()
        request = write_request(raft.DescribeQuorumRequest(), 2, 1, "caller")
        greedy.writer.write(request * 2000)
        before = -1
        while served != before:
            before = served
            await asyncio.sleep(0.3)
        assert served < 2000
        good.send(5)
        assert await good.correlation_id() == 5


@play(run)
async def test_the_idlest_connection_makes_room_for_a_new_one():
    async with (
        a_server(Echo(), max_connections=2) as (server, port),
        a_caller(port) as one,
        a_caller(port) as two,
    ):
        for caller in (one, two, one):
            caller.send(1)
            assert await caller.correlation_id() == 1
            await asyncio.sleep(0.01)
        async with a_caller(port) as three:
            three.send(3)
            assert await three.correlation_id() == 3
            assert await two.is_hung_up()
            one.send(4)
            assert await one.correlation_id() == 4
            assert (len(server.connections), server.quotas[0].evicted) == (2, 1)


@play(run)
async def test_a_connection_with_a_request_under_way_does_not_make_room():
    handler = Handler()
    async with a_server(handler, max_connections=1) as (server, port), a_caller(port) as one:
        one.send(1)
        _, _, reply = await handler.next()
        async with a_caller(port) as two:
            assert await two.is_hung_up()
        reply(ANSWER)
        assert await one.correlation_id() == 1
        assert (len(server.connections), server.quotas[0].refused) == (1, 1)


@play(run)
async def test_another_nodes_connection_is_the_last_to_make_room():
    async with (
        a_server(Echo(), max_connections=2) as (server, port),
        a_caller(port) as node,
        a_caller(port) as client,
    ):
        node.send(
            1, raft.VoteRequest("c", 1, 2, raft.NO_DIRECTORY, 1, raft.NO_DIRECTORY, 0, 0, False), 2
        )
        assert await node.correlation_id() == 1
        client.send(1)
        assert await client.correlation_id() == 1
        async with a_caller(port):
            assert await client.is_hung_up()
            assert [c.is_of_peer for c in server.connections].count(True) == 1


@play(run)
async def test_a_silent_peer_is_disconnected_and_a_busy_peer_is_not():
    async with (
        a_server(Echo(), max_idle_ms=3_000) as (_, port),
        a_caller(port) as silent,
        a_caller(port) as busy,
    ):
        hung_up = asyncio.create_task(silent.is_hung_up())
        while not hung_up.done():
            busy.send(1)
            assert await busy.correlation_id() == 1
            await asyncio.sleep(0.02)
        assert hung_up.result()
        busy.send(2)
        assert await busy.correlation_id() == 2


@play(run)
async def test_a_port_that_is_taken_is_an_error_and_nothing_listens():
    async with a_server(Echo()) as (_, port):
        second = TcpServer()
        service = ListenerService("L", ListenerType.CONTROLLER, Echo())
        bindings = [Binding(service, "127.0.0.1", 0), Binding(service, "127.0.0.1", port)]
        with pytest.raises(OSError, match="address already in use"):
            await second.bind(bindings)


@play(run)
async def test_no_client_can_connect_before_the_node_serves():
    server = TcpServer()
    service = ListenerService("L", ListenerType.CONTROLLER, Echo())
    (port,) = await server.bind([Binding(service, "127.0.0.1", 0)])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await server.serve()
    async with a_caller(port) as caller:
        caller.send(1)
        assert await caller.correlation_id() == 1
    server.close()


@pytest.mark.parametrize("error", [OSError("disk"), AssertionError("invariant")])
@play(run)
async def test_an_exception_of_the_node_reaches_the_loops_handler(*, error):
    class Broken:
        def handle(self, listener, message, reply, origin=None):
            raise error

    caught = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: caught.set_result(context["exception"])
    )
    async with a_server(Broken()) as (_, port), a_caller(port) as caller:
        caller.send()
        assert await caught is error

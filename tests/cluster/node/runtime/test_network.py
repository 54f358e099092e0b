import asyncio
import contextlib
import dataclasses
import gc
import socket
from contextlib import asynccontextmanager

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_DIRECTORY, DescribeQuorumResponse, VoteRequest
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import ApiKey, ListenerType
from cluster.node.protocol.codec import write_response
from cluster.node.runtime import network as network_module
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.node.runtime.peers import QUESTION, Peer, peer, silence
from tests.play import play

pytestmark = pytest.mark.usefixtures("patient_network")
ANSWER = DescribeQuorumResponse(ErrorCode.none, 1, 3, 17)


@asynccontextmanager
async def a_network():
    network = TcpNetwork()
    try:
        yield network
    finally:
        network.close()
        await asyncio.sleep(0)


async def ask(network, endpoint, timeout_ms=60_000, message=QUESTION):
    future = asyncio.get_running_loop().create_future()
    network.request(endpoint, message, timeout_ms, future.set_result)
    assert not future.done(), "on_reply was called within request()"
    return await future


async def answers(p: Peer):
    await p.name_versions()
    while True:
        p.writer.write(write_response(await p.request(), ANSWER))


@pytest.mark.slow
@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 65536), ("127.0.0.1", -1), ("\0", 9)])
@play(asyncio.run)
async def test_an_address_that_nobody_can_have_is_not_sent_and_breaks_nothing(*, host, port):
    broken = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    async with a_network() as network:
        assert await ask(network, Endpoint(1, host, port)) is Failure.NOT_SENT
    gc.collect()  # what asyncio reports of a task that nobody waited for
    assert broken == []


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@play(asyncio.run)
async def test_requests_to_one_destination_share_a_connection_and_keep_their_order():
    async def count(p: Peer):
        await p.name_versions()
        for position in range(20):
            request = await p.request()
            p.writer.write(
                write_response(request, dataclasses.replace(ANSWER, high_watermark=position))
            )

    async with peer(count) as (endpoint, connections), a_network() as network:
        replies = await asyncio.gather(*(ask(network, endpoint) for _ in range(20)))
        assert [r.high_watermark for r in replies] == list(range(20))
        assert len(connections) == 1


@play(asyncio.run)
async def test_a_refused_connection_is_not_sent():
    async with a_network() as network:
        refused = Endpoint(1, "127.0.0.1", closed_port())
        assert await ask(network, refused) is Failure.NOT_SENT
        assert await ask(network, refused) is Failure.NOT_SENT  # after the back-off


@play(asyncio.run)
async def test_an_unknown_host_is_not_sent():
    async with a_network() as network:
        for host in ("no-such-host.invalid", "a..b", "x" * 300):
            assert await ask(network, Endpoint(1, host, 9)) is Failure.NOT_SENT


@play(asyncio.run)
async def test_a_peer_that_hangs_up_before_it_names_its_versions_was_sent_nothing():
    async def hang_up(p: Peer):
        await p.frame()

    async with peer(hang_up) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) is Failure.NOT_SENT


@play(asyncio.run)
async def test_a_peer_that_never_names_its_versions_was_sent_nothing():
    async with peer(silence) as (endpoint, connections), a_network() as network:
        assert await ask(network, endpoint, 500) is Failure.NOT_SENT
        (connection,) = connections
        await connection.frame()  # the question for versions
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.frame(), 0.1)


@play(asyncio.run)
async def test_silence_is_timed_out_and_ends_the_connection_for_all():
    async def mute(p: Peer):
        await p.name_versions()
        p.writer.write(write_response(await p.request(), ANSWER))
        await silence(p)

    async with peer(mute) as (endpoint, connections), a_network() as network:
        assert await ask(network, endpoint) == ANSWER  # what follows is sent at once
        first = asyncio.create_task(ask(network, endpoint, 150))
        second = asyncio.create_task(ask(network, endpoint))
        assert await first is Failure.TIMED_OUT
        assert await second is Failure.DISCONNECTED
        assert len(connections) == 1


@play(asyncio.run)
async def test_a_late_answer_is_not_taken_for_another_requests():
    over = asyncio.Event()

    async def late(p: Peer):
        await p.name_versions()
        request = await p.request()
        await over.wait()
        p.writer.write(write_response(request, dataclasses.replace(ANSWER, high_watermark=-7)))
        while True:
            request = await p.request()
            p.writer.write(write_response(request, ANSWER))

    first = True

    async def behaviour(p: Peer):
        nonlocal first
        was_first, first = first, False
        await (late if was_first else answers)(p)

    async with peer(behaviour) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint, 1000) is Failure.TIMED_OUT
        over.set()
        assert await ask(network, endpoint) == ANSWER


@play(asyncio.run)
async def test_an_answer_with_a_foreign_correlation_id_is_a_wrong_answer():
    async def confuse(p: Peer):
        await p.name_versions()
        request = dataclasses.replace(await p.request(), correlation_id=4711)
        p.writer.write(write_response(request, ANSWER))
        await silence(p)

    async with peer(confuse) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) is Failure.WRONG_ANSWER


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x06\0\0\0\x01\0\0", b"\0\0\0\0"]
)
@play(asyncio.run)
async def test_garbage_for_an_answer_is_a_wrong_answer(*, garbage):
    async def babble(p: Peer):
        await p.name_versions()
        await p.frame()
        p.writer.write(garbage)
        await silence(p)

    async with peer(babble) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) is Failure.WRONG_ANSWER


@play(asyncio.run)
async def test_only_the_oldest_of_several_requests_got_the_garbage():
    async def babble(p: Peer):
        await p.name_versions()
        await p.frame()
        await p.frame()
        p.writer.write(b"\xff\xff\xff\xff")
        await silence(p)

    async with peer(babble) as (endpoint, _), a_network() as network:
        asked = await asyncio.gather(ask(network, endpoint), ask(network, endpoint))
        assert asked == [Failure.WRONG_ANSWER, Failure.DISCONNECTED]


@play(asyncio.run)
async def test_an_api_that_the_peer_does_not_serve_is_an_unsupported_version():
    async def broker(p: Peer):
        await p.name_versions(ListenerType.BROKER)
        await silence(p)

    vote = VoteRequest("c", 1, 1, NO_DIRECTORY, 2, NO_DIRECTORY, 0, 0, pre_vote=False)
    async with peer(broker) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint, message=vote) is Failure.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("pre_vote", "sent"), [(False, True), (True, False)])
@play(asyncio.run)
async def test_a_pre_vote_is_not_sent_to_a_peer_that_would_take_it_for_a_vote(*, pre_vote, sent):
    vote = VoteRequest("c", 1, 1, NO_DIRECTORY, 2, NO_DIRECTORY, 0, 0, pre_vote=pre_vote)

    async def old(p: Peer):
        request = await p.request()
        versions = m.ApiVersionsResponse(
            error_code=ErrorCode.none,
            api_keys=(m.ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=1),),
            throttle_time=m.NO_THROTTLE,
        )
        p.writer.write(write_response(request, versions))
        await p.frame()

    async with peer(old) as (endpoint, _), a_network() as network:
        expected = Failure.DISCONNECTED if sent else Failure.UNSUPPORTED_VERSION
        assert await ask(network, endpoint, message=vote) is expected


@play(asyncio.run)
async def test_a_peer_that_knows_only_old_api_versions_is_asked_again_in_version_0():
    async def ancient(p: Peer):
        request = dataclasses.replace(await p.request(), version=0)
        refusal = m.ApiVersionsResponse(
            error_code=ErrorCode.unsupported_version, api_keys=(), throttle_time=m.NO_THROTTLE
        )
        p.writer.write(write_response(request, refusal))
        await answers(p)

    async with peer(ancient) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) == ANSWER


@play(asyncio.run)
async def test_after_a_disconnect_the_next_request_reconnects():
    async def once(p: Peer):
        await p.name_versions()
        request = await p.request()
        p.writer.write(write_response(request, ANSWER))
        await p.writer.drain()

    async with peer(once) as (endpoint, connections), a_network() as network:
        for _ in range(3):
            reply = await ask(network, endpoint)
            while reply is Failure.DISCONNECTED:  # it was sent before the end was noticed
                reply = await ask(network, endpoint)
            assert reply == ANSWER
        assert len(connections) >= 3


@play(asyncio.run)
async def test_what_waits_behind_a_full_socket_was_not_sent():
    async def deaf(p: Peer):
        await p.name_versions()
        p.writer.write(write_response(await p.request(), ANSWER))
        p.writer.transport.pause_reading()
        await silence(p)

    long_name = m.ApiVersionsRequest(
        client_software_name="x" * 8_000_000, client_software_version="1"
    )
    async with peer(deaf) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) == ANSWER  # what follows is sent at once
        first = asyncio.create_task(ask(network, endpoint, 1_500, long_name))
        second = asyncio.create_task(ask(network, endpoint, 200, long_name))
        assert await second is Failure.NOT_SENT
        assert await first is Failure.TIMED_OUT


@play(asyncio.run)
async def test_the_queue_for_one_destination_is_bounded(*, monkeypatch):
    monkeypatch.setattr(network_module, "MAX_WAITING", 3)
    async with peer(silence) as (endpoint, _), a_network() as network:
        tasks = [asyncio.create_task(ask(network, endpoint, 60_000)) for _ in range(5)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert {t.result() for t in done} == {Failure.NOT_SENT}
        network.close()
        assert await asyncio.gather(*tasks) == [Failure.NOT_SENT] * 5


@play(asyncio.run)
async def test_as_many_connections_are_kept_as_destinations_are_remembered(*, monkeypatch):
    monkeypatch.setattr(network_module, "DESTINATIONS_MAX", 3)
    ended: asyncio.Queue[Peer] = asyncio.Queue()

    async def remember(p: Peer):
        try:
            await answers(p)
        finally:
            ended.put_nowait(p)

    async with peer(remember) as (endpoint, connections), a_network() as network:
        for node_id in [1, 2, 1, 3, 4, 5]:
            at = Endpoint(node_id, endpoint.host, endpoint.port)
            assert await ask(network, at) == ANSWER
        assert [connections[1], connections[0]] == [await ended.get(), await ended.get()]


@play(asyncio.run)
async def test_a_destination_with_a_request_under_way_is_not_forgotten(*, monkeypatch):
    monkeypatch.setattr(network_module, "DESTINATIONS_MAX", 1)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(p: Peer):
        await p.name_versions()
        request = await p.request()
        asked.set()
        await go_on.wait()
        p.writer.write(write_response(request, ANSWER))
        await silence(p)

    async with peer(slow) as (endpoint, _), peer(answers) as (other, _), a_network() as network:
        first = asyncio.create_task(ask(network, endpoint))
        await asked.wait()
        assert await ask(network, Endpoint(2, other.host, other.port)) == ANSWER
        go_on.set()
        assert await first == ANSWER


@play(asyncio.run)
async def test_bytes_that_nobody_asked_for_end_the_connection():
    async def chatter(p: Peer):
        await p.name_versions()
        p.writer.write(write_response(await p.request(), ANSWER))
        await answered.wait()
        p.writer.write(b"\x05\0\0\0 and so on")
        with contextlib.suppress(ConnectionResetError):
            await p.reader.read()
        over.set()

    answered, over = asyncio.Event(), asyncio.Event()
    async with peer(chatter) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) == ANSWER
        answered.set()
        await asyncio.wait_for(over.wait(), 60)


@play(asyncio.run)
async def test_an_endless_list_of_versions_is_not_read():
    async def boast(p: Peer):
        request = await p.request()
        api = m.ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=1)
        versions = m.ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=(api,) * 10_001, throttle_time=m.NO_THROTTLE
        )
        p.writer.write(write_response(request, versions))
        await silence(p)

    async with peer(boast) as (endpoint, _), a_network() as network:
        assert await ask(network, endpoint) is Failure.NOT_SENT


@play(asyncio.run)
async def test_closing_answers_every_caller():
    asked = asyncio.Event()

    async def mute(p: Peer):
        await p.name_versions()
        await p.frame()
        asked.set()
        await silence(p)

    async with peer(mute) as (endpoint, _), peer(silence) as (other, _), a_network() as network:
        sent = asyncio.create_task(ask(network, endpoint))
        unsent = asyncio.create_task(ask(network, Endpoint(2, other.host, other.port)))
        await asked.wait()
        network.close()
        assert await sent is Failure.DISCONNECTED
        assert await unsent is Failure.NOT_SENT
        assert await ask(network, endpoint) is Failure.NOT_SENT


@play(asyncio.run)
async def test_an_exception_of_a_callback_reaches_the_loops_handler():
    caught = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: caught.set_result(context["exception"])
    )

    def broken(_):
        raise OSError("the disk of the node")

    async with peer(answers) as (endpoint, _), a_network() as network:
        network.request(endpoint, QUESTION, 60_000, broken)
        assert str(await caught) == "the disk of the node"

"""The data path over TCP: brokers fetch from each other, and some requests have no response."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import data_messages as data
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType, VersionRange
from cluster.node.protocol.messages import NO_THROTTLE
from cluster.node.runtime.network import TcpNetwork
from cluster.node.runtime.server import Binding, TcpServer
from tests.cluster.client.data_samples import NAME, TOPIC_ID, sample
from tests.cluster.node.protocol.data_service import data_listener
from tests.cluster.node.runtime.test_network import ask as ask_over
from tests.cluster.node.runtime.test_server import run
from tests.play import play

pytestmark = pytest.mark.usefixtures("patient_network")
FETCHED = data.FetchResponse(
    ErrorCode.none, (data.FetchResult(TOPIC_ID, 0, ErrorCode.none, 7, 7, 0, records=b"records"),), 4
)
FETCH = data.FetchRequest(
    2, 11, 500.0, 1, 1 << 20, (data.FetchPartition(TOPIC_ID, 0, 7, 1 << 20, 3),)
)


def produced(acks, topic=TOPIC_ID):
    return data.ProduceRequest(acks, 1_000.0, (data.ProducePartition(topic, 0, b"records"),))


def appended(error=ErrorCode.none, topic=TOPIC_ID):
    return data.ProduceResponse((data.ProduceResult(topic, 0, error, 5),))


@asynccontextmanager
async def a_broker(answer):
    """Its handler, its server, and what asks it."""
    service, handler = data_listener(answer)
    server, network = TcpServer(), TcpNetwork()
    (port,) = await server.bind([Binding(service, "127.0.0.1", 0)])
    await server.serve()

    async def ask(message):
        return await ask_over(network, Endpoint(1, "127.0.0.1", port), message=message)

    try:
        yield handler, server, ask
    finally:
        network.close()
        server.close()
        await asyncio.sleep(0)


@play(run)
async def test_a_broker_fetches_data_from_another():
    async with a_broker(FETCHED) as (handler, _, ask):
        assert await ask(FETCH) == FETCHED
        assert handler.asked == [FETCH]


@play(run)
async def test_a_broker_asks_another_where_an_epoch_ends():
    answer = data.OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=())
    async with a_broker(answer) as (handler, _, ask):
        asked = sample(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        assert await ask(asked) == answer
        assert handler.asked == [asked]


@play(run)
async def test_a_produce_with_acks_0_is_done_when_it_is_sent_and_the_connection_goes_on():
    async with a_broker(appended()) as (handler, server, ask):
        for _ in range(3):
            assert await ask(produced(0)) is data.UNANSWERED
        assert await ask(produced(1)) == appended()
        assert [request.acks for request in handler.asked] == [0, 0, 0, 1]
        assert len(server.connections) == 1


@play(run)
async def test_an_error_of_a_produce_with_acks_0_ends_the_connection():
    failed = appended(ErrorCode.not_leader_or_follower)
    async with a_broker(failed) as (handler, server, ask):
        lost = asyncio.ensure_future(ask(produced(0)))
        behind = asyncio.ensure_future(ask(produced(1)))
        assert await lost is data.UNANSWERED
        assert await behind is Failure.DISCONNECTED
        assert await ask(produced(1)) == failed
        assert [request.acks for request in handler.asked] == [0, 1]
        assert len(server.connections) == 1


@play(run)
async def test_a_topic_by_name_is_asked_for_in_a_version_that_has_names():
    async with a_broker(appended(topic=NAME)) as (handler, _, ask):
        assert await ask(produced(1, NAME)) == appended(topic=NAME)
        assert handler.asked == [produced(1, NAME)]


@play(run)
async def test_a_topic_by_id_is_not_asked_for_where_only_names_are_known(*, monkeypatch):
    async with a_broker(appended()) as (handler, _, ask):
        old = {**LISTENER_APIS[ListenerType.BROKER], int(ApiKey.PRODUCE): VersionRange(3, 12)}
        monkeypatch.setitem(LISTENER_APIS, ListenerType.BROKER, old)
        assert await ask(produced(-1)) is Failure.UNSUPPORTED_VERSION
        assert handler.asked == []


@play(run)
async def test_a_client_that_fetches_does_not_pass_for_a_peer():
    async with a_broker(FETCHED) as (_, server, ask):
        assert await ask(FETCH) == FETCHED
        assert [connection.is_of_peer for connection in server.connections] == [False]

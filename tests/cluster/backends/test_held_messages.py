"""Messages held by the proxies of backend local, between servers in the test's own event loop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from fake_system import FakeSystem
from proxied import A_TO_B, B_TO_A, World, run_between
from test_link_messages import FETCH, VERSIONS, VOTE, request, response
from waiting import eventually

from cluster.backends.base import BackendError
from cluster.backends.links import proxy
from cluster.backends.local.abilities import LocalMessages
from cluster.backends.local.local_backend import LocalBackend
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.frames import FrameError, FrameSplitter
from cluster.node.security.tls import ClientSecurity
from tests.play import play

pytestmark = pytest.mark.slow

SILENCE_S = 0.05


class Node:
    """Answers every request under its correlation id, if it is to, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.connections = 0
        self.answers = True

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._handle, proxy.HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _handle(self, reader, writer) -> None:
        self.connections += 1
        splitter = FrameSplitter()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                with contextlib.suppress(FrameError):
                    for frame in splitter.feed(data):
                        self.heard.append(len(frame).to_bytes(4) + frame)
                        if self.answers:
                            writer.write(response(int.from_bytes(frame[4:8])))
        writer.close()


def in_world(body: Callable[[World], Awaitable[None]]) -> None:
    async def with_messages(world: World) -> None:
        world.messages = LocalMessages(world.proxies)
        await body(world)

    run_between({node: Node() for node in ("n1", "n2", "n3")}, with_messages, SILENCE_S)


async def hold_one(world, message, held=A_TO_B, *, listener="CONTROLLER", closed=False):
    """Hold all messages of a link, and one that n1 sends n2; `closed`: its connection ends."""
    _, writer = await world.dial("n1", "n2", listener)
    name = await world.messages.hold([held], [])
    writer.write(message)
    await eventually(lambda: world.messages._holds[name].held)
    if closed:
        writer.close()
        await eventually(lambda: not world.proxies.sieves[held, listener].streams)
    return name, writer


@play(in_world)
async def test_messages_behind_a_held_one_pass_and_it_is_delivered_on_its_connection(world: World):
    reader, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([A_TO_B], ["VoteRequest"])
    writer.write(VERSIONS + VOTE + FETCH)
    passed = response(0) + response(2)
    assert await reader.readexactly(len(passed)) == passed
    assert await world.messages.count_held(name) == 1
    assert world.nodes["n2"].heard == [VERSIONS, FETCH]
    assert await world.messages.release(name) == 1
    assert await reader.readexactly(len(response(1))) == response(1)
    assert world.nodes["n2"].heard == [VERSIONS, FETCH, VOTE]
    assert world.nodes["n2"].connections == 1
    assert await world.messages.count_held(name) is None
    assert await world.messages.release(name) == 0


@play(in_world)
async def test_a_response_is_held_and_delivered_behind_later_ones(world: World):
    reader, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([B_TO_A], ["VoteResponse"])
    writer.write(VOTE + FETCH)
    assert await reader.readexactly(len(response(2))) == response(2)
    assert world.nodes["n2"].heard == [VOTE, FETCH]
    assert await world.messages.release(name) == 1
    assert await reader.readexactly(len(response(1))) == response(1)


@play(in_world)
async def test_a_hold_is_of_its_directed_links_only(world: World):
    await world.messages.hold([A_TO_B], ["VoteRequest"])
    for source, target in ((*B_TO_A,), ("n1", "n3")):
        reader, writer = await world.dial(source, target)
        writer.write(VOTE)
        assert await reader.readexactly(len(response(1))) == response(1)
        writer.close()


@play(in_world)
async def test_requests_whose_connection_is_gone_come_in_order_on_a_new_one(world: World):
    target = world.nodes["n2"]
    reader, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([A_TO_B], [])
    again = request(ApiKey.VOTE, 9)
    writer.write(VERSIONS + VOTE + FETCH + again)
    await reader.readexactly(len(response(0)))
    writer.close()
    await eventually(lambda: not world.proxies.sieves[A_TO_B, "CONTROLLER"].streams)
    assert target.heard == [VERSIONS]
    assert await world.messages.release(name) == 3
    await eventually(lambda: len(target.heard) == 4)
    assert target.heard == [VERSIONS, VOTE, FETCH, again]
    assert target.connections == 2
    await eventually(lambda: not world.proxies._proxies[A_TO_B, "CONTROLLER"].connections)


@play(in_world)
async def test_a_fetch_between_brokers_is_no_voters_fetch(world: World):
    reader, writer = await world.dial("n1", "n2", "CLIENT")
    name = await world.messages.hold([A_TO_B, B_TO_A], ["FetchRequest", "FetchResponse"])
    writer.write(FETCH)
    assert await reader.readexactly(len(response(2))) == response(2)
    assert await world.messages.count_held(name) == 0


@pytest.mark.parametrize("closed", [False, True])
@play(in_world)
async def test_a_hold_of_all_messages_keeps_those_between_brokers(world: World, *, closed):
    target = world.nodes["n2"]
    name, _ = await hold_one(world, FETCH, listener="CLIENT", closed=closed)
    assert target.heard == []
    assert await world.messages.release(name) == 1
    await eventually(lambda: target.heard == [FETCH])
    assert target.connections == 1 + closed


@play(in_world)
async def test_a_response_whose_connection_is_gone_is_lost(world: World):
    name, _ = await hold_one(world, VOTE, B_TO_A, closed=True)
    assert await world.messages.count_held(name) == 1
    assert await world.messages.release(name) == 0


@play(in_world)
async def test_held_messages_may_be_dropped(world: World):
    reader, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([A_TO_B], ["VoteRequest"])
    writer.write(VOTE + FETCH)
    await reader.readexactly(len(response(2)))
    assert await world.messages.release(name, deliver=False) == 1
    await asyncio.sleep(SILENCE_S)
    assert world.nodes["n2"].heard == [FETCH]


@play(in_world)
async def test_a_hold_may_end_on_some_links_first(world: World):
    name = await world.messages.hold([A_TO_B, ("n1", "n3")], [])
    writers = [(await world.dial("n1", target))[1] for target in ("n2", "n3")]
    for writer in writers:
        writer.write(VOTE)
    await eventually(lambda: len(world.messages._holds[name].held) == 2)
    assert await world.messages.release(name, [A_TO_B]) == 1
    await eventually(lambda: world.nodes["n2"].heard == [VOTE])
    writers[0].write(FETCH)
    await eventually(lambda: world.nodes["n2"].heard == [VOTE, FETCH])
    assert await world.messages.count_held(name) == 1
    assert world.nodes["n3"].heard == []
    assert await world.messages.release(name) == 1
    await eventually(lambda: world.nodes["n3"].heard == [VOTE])


@pytest.mark.parametrize("closed", [False, True])
@play(in_world)
async def test_what_is_released_over_a_cut_link_comes_when_that_is_restored(
    world: World, *, closed
):
    target = world.nodes["n2"]
    name, _ = await hold_one(world, VOTE, closed=closed)
    world.proxies.cut([A_TO_B])
    assert await world.messages.release(name) == 1
    await asyncio.sleep(SILENCE_S)
    assert target.heard == []
    world.proxies.restore([A_TO_B])
    await eventually(lambda: target.heard == [VOTE])


@pytest.mark.parametrize("cut", [False, True])
@play(in_world)
async def test_what_is_released_over_a_slow_link_takes_its_time(world: World, *, cut):
    target = world.nodes["n2"]
    _, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([A_TO_B], ["VoteRequest"])
    world.proxies.slow_down(A_TO_B, 200, 0)
    writer.write(VOTE + FETCH)
    await eventually(lambda: world.messages._holds[name].held)
    if cut:
        world.proxies.cut([A_TO_B])
    released_s = asyncio.get_running_loop().time()
    assert await world.messages.release(name) == 1
    if cut:
        await asyncio.sleep(SILENCE_S)
        assert target.heard == []
    world.proxies.restore([A_TO_B])
    await eventually(lambda: target.heard == [FETCH, VOTE])
    assert asyncio.get_running_loop().time() - released_s >= 0.2


@play(in_world)
async def test_what_is_not_kafkas_protocol_passes_and_is_reported(world: World):
    world.nodes["n2"].answers = False
    _, writer = await world.dial("n1", "n2")
    name = await world.messages.hold([A_TO_B, B_TO_A], [])
    writer.write(VOTE + b"GET / HTTP/1.1\r\n\r\n")
    await eventually(lambda: world.messages._holds[name].undecoded)
    reason = "messages on n1>n2 cannot be told apart: not Kafka's protocol"
    with pytest.raises(BackendError, match=f"^{reason}$"):
        await world.messages.count_held(name)
    with pytest.raises(BackendError, match=f"^{reason}$"):
        await world.messages.release(name)
    assert await world.messages.count_held(name) is None, "it is over all the same"


@play(in_world)
async def test_a_hold_is_refused_on_a_link_that_carries_another_protocol(world: World):
    _, writer = await world.dial("n1", "n2")
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await eventually(
        lambda: any(s.undecodable for s in world.proxies.sieves[A_TO_B, "CONTROLLER"].streams)
    )
    with pytest.raises(BackendError, match="messages on n1>n2"):
        await world.messages.hold([("n1", "n3"), A_TO_B], [])
    assert not any(sieve.holds for sieve in world.proxies.sieves.values())


@play(in_world)
async def test_released_messages_for_a_node_that_does_not_run_are_lost(world: World):
    name, _ = await hold_one(world, VOTE, closed=True)
    world.nodes["n2"].port = 1
    assert await world.messages.release(name) == 1
    await eventually(lambda: not world.proxies._saying)


@play(in_world)
async def test_all_holds_end_when_the_nodes_are_to_stop(world: World):
    for _ in range(2):
        name = await world.messages.hold([A_TO_B, B_TO_A], [])
    world.messages.forget()
    assert await world.messages.count_held(name) is None
    reader, writer = await world.dial("n1", "n2")
    writer.write(VOTE)
    assert await reader.readexactly(len(response(1))) == response(1)


def test_secured_listeners_leave_no_message_to_hold(tmp_path):
    system = FakeSystem()
    system.client_security = ClientSecurity(mechanism="PLAIN")
    abilities = LocalBackend(system, tmp_path, 3, "run-1").abilities()
    assert abilities.messages is None
    assert abilities.missing["messages"].startswith("the listeners are secured: ")

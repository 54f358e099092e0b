"""Link proxies between two echo servers that live in the test's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest
from proxied import A_TO_B, B_TO_A, World, run_between
from waiting import TIMEOUT_S, eventually

from cluster.backends.links.pipe import Gate
from cluster.backends.links.proxy import HOST, LinkProxies
from cluster.node.ports import Endpoint
from tests.play import play

pytestmark = pytest.mark.slow

SILENCE_S = 0.1
ANSWER_S = 1.0
"""How long an open listener may take at first where a shut one beside it takes all of that time."""


class Echo:
    """A node: echoes what it receives, and keeps it."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.connections = 0
        self.ended = 0

    async def serve(self) -> asyncio.Server:
        self.server = await asyncio.start_server(self._handle, HOST, 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self.server

    async def _handle(self, reader, writer) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                self.heard += data
                writer.write(data)
                await writer.drain()
        self.ended += 1
        writer.close()


def in_world(body: Callable[[World], Awaitable[None]]) -> None:
    run_between({node: Echo() for node in ("n1", "n2", "n3")}, body)


async def is_silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), SILENCE_S)
    except TimeoutError:
        return True
    return False


@play(in_world)
async def test_bytes_pass_both_ways_while_nothing_is_cut(world: World):
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    assert bytes(world.nodes["n2"].heard) == b"hello"


@play(in_world)
async def test_a_cut_link_holds_what_its_source_sends_on_connections_that_it_opened(world: World):
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"before")
    await reader.readexactly(6)
    world.proxies.cut([A_TO_B])
    writer.write(b"during")
    assert await is_silent(reader)
    assert bytes(world.nodes["n2"].heard) == b"before"
    world.proxies.restore([A_TO_B])
    assert await reader.readexactly(6) == b"during"


@play(in_world)
async def test_a_cut_link_holds_what_its_source_answers_on_connections_that_the_target_dialled(
    world: World,
):
    reader, writer = await world.dial("n2", "n1")
    writer.write(b"x")
    await reader.readexactly(1)
    world.proxies.cut([A_TO_B])
    writer.write(b"question")
    await eventually(lambda: bytes(world.nodes["n1"].heard) == b"xquestion")
    assert await is_silent(reader)
    world.proxies.restore([A_TO_B])
    assert await reader.readexactly(8) == b"question"


@play(in_world)
async def test_a_cut_link_holds_what_its_source_says_to_either_listener(world: World):
    for listener in ("CONTROLLER", "CLIENT"):
        world.proxies.restore([A_TO_B])
        dialled = [await world.dial(*link, listener) for link in (A_TO_B, B_TO_A)]
        for reader, writer in dialled:
            writer.write(b"x")
            await reader.readexactly(1)
        world.proxies.cut([A_TO_B])
        for reader, writer in dialled:
            writer.write(b"y")
            assert await is_silent(reader)
            writer.close()


@play(in_world)
async def test_a_link_that_is_cut_to_one_listener_only_is_neither_whole_nor_silent(world: World):
    proxies = world.proxies
    for listener in ("CONTROLLER", "CLIENT"):
        proxies._proxies[A_TO_B, listener]._forward = shut = Gate()
        shut.close()
        within_s = ANSWER_S
        while not (measure := await proxies.measure(A_TO_B, b"?", within_s)).by_source:
            within_s *= 2
        assert measure.partly
        assert not measure.works
        assert not measure.silent
        proxies._proxies[A_TO_B, listener]._forward = proxies._gates[A_TO_B]


@play(in_world)
async def test_a_link_is_measured_at_the_listeners_that_its_ends_have(world: World):
    proxies = LinkProxies(
        ("n1", "n2"),
        lambda node, listener: Endpoint(0, HOST, {"CLIENT": 1}.get(listener, world.port(node))),
        lambda _: ("CONTROLLER",),
    )
    proxies.open()
    assert (await proxies.measure(A_TO_B, b"?", TIMEOUT_S)).works
    proxies.close()


@play(in_world)
async def test_one_direction_works_while_the_other_is_cut(world: World):
    world.proxies.cut([B_TO_A])
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"heard")
    await eventually(lambda: bytes(world.nodes["n2"].heard) == b"heard")
    assert await is_silent(reader)
    assert (await world.proxies.measure(A_TO_B, b"?", TIMEOUT_S)).works
    assert (await world.proxies.measure(B_TO_A, b"?", SILENCE_S)).silent


@play(in_world)
async def test_other_links_are_untouched_by_a_cut(world: World):
    world.proxies.cut([A_TO_B, B_TO_A])
    for link in (("n1", "n3"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2")):
        assert (await world.proxies.measure(link, b"?", TIMEOUT_S)).works


@play(in_world)
async def test_a_connection_opened_during_the_cut_arrives_only_after_the_restore(world: World):
    world.proxies.cut([A_TO_B])
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"late")
    assert await is_silent(reader)
    assert world.nodes["n2"].connections == 0
    world.proxies.restore([A_TO_B])
    assert await reader.readexactly(4) == b"late"


@play(in_world)
async def test_a_connection_opened_and_closed_during_the_cut_never_arrives(world: World):
    world.proxies.cut([A_TO_B])
    proxy = world.proxies._proxies[A_TO_B, "CONTROLLER"]
    _, writer = await world.dial("n1", "n2")
    writer.write(b"never")
    await writer.drain()
    await eventually(lambda: proxy.connections)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: not proxy.connections)
    world.proxies.restore([A_TO_B])
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"now")
    assert await reader.readexactly(3) == b"now"
    assert bytes(world.nodes["n2"].heard) == b"now"


@play(in_world)
async def test_the_end_of_a_connection_travels_the_link_like_bytes_do(world: World):
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"x")
    await reader.readexactly(1)
    world.proxies.cut([A_TO_B])
    writer.write(b"last words")
    writer.close()
    await asyncio.sleep(SILENCE_S)
    assert world.nodes["n2"].ended == 0
    world.proxies.restore([A_TO_B])
    await eventually(lambda: world.nodes["n2"].ended == 1)
    assert bytes(world.nodes["n2"].heard) == b"xlast words"


@play(in_world)
async def test_a_client_sees_that_its_peer_closed_only_when_the_link_back_is_open(world: World):
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"x")
    await reader.readexactly(1)
    world.proxies.cut([B_TO_A])
    world.nodes["n2"].server.close()
    with socket.socket() as dead:  # nobody listens there
        dead.bind((HOST, 0))
        world.nodes["n2"].port = dead.getsockname()[1]
        refused_reader, _ = await world.dial("n1", "n2")
        assert await is_silent(refused_reader)
        world.proxies.restore([B_TO_A])
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(refused_reader.readexactly(1), TIMEOUT_S)


@play(in_world)
async def test_nothing_that_was_read_before_the_cut_slips_out_after_it(world: World):
    """A target that does not read fills every buffer; the cut must stop what is in the proxy."""
    listener = socket.create_server((HOST, 0))
    world.nodes["n2"].port = listener.getsockname()[1]
    listener.setblocking(False)
    _, writer = await world.dial("n1", "n2")
    loop = asyncio.get_running_loop()
    target, _ = await loop.sock_accept(listener)
    writer.write(b"y" * 32_000_000)
    await eventually(lambda: world.proxies._gates[A_TO_B].passed_bytes)
    await asyncio.sleep(0.1)
    world.proxies.cut([A_TO_B])
    passed = world.proxies._gates[A_TO_B].passed_bytes
    assert 0 < passed < 32_000_000, "the proxy stopped reading when the target did"
    received = 0
    while received < passed:
        received += len(await loop.sock_recv(target, 1 << 20))
    await asyncio.sleep(SILENCE_S)
    measure = await world.proxies.measure(A_TO_B, b"?", SILENCE_S)
    assert measure.bytes_since_cut == 0
    assert received == passed
    world.proxies.restore([A_TO_B])
    while received < 32_000_000:
        received += len(await loop.sock_recv(target, 1 << 20))
    writer.close()
    target.close()
    listener.close()


@play(in_world)
async def test_large_messages_arrive_whole_and_in_order(world: World):
    message = bytes(range(256)) * 20_000
    reader, writer = await world.dial("n1", "n2")
    writer.write(message)
    assert await reader.readexactly(len(message)) == message


@play(in_world)
async def test_a_bytes_count_shows_a_gate_that_leaks(world: World):
    world.proxies.cut([A_TO_B])
    world.proxies._gates[A_TO_B].passed_bytes += 1
    assert not (await world.proxies.measure(A_TO_B, b"?", SILENCE_S)).silent


@play(in_world)
async def test_measuring_a_cut_link_leaves_no_connection_behind(world: World):
    world.proxies.cut([A_TO_B])
    await world.proxies.measure(A_TO_B, b"?", SILENCE_S)
    world.proxies.restore([A_TO_B])
    await eventually(
        lambda: not any(proxy.connections for proxy in world.proxies._proxies.values())
    )


@play(in_world)
async def test_a_dead_target_resets_the_connection_of_its_client(world: World):
    with socket.socket() as dead:  # nobody listens there
        dead.bind((HOST, 0))
        world.nodes["n2"].port = dead.getsockname()[1]
        reader, _ = await world.dial("n1", "n2")
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(reader.readexactly(1), TIMEOUT_S)
        assert not (await world.proxies.measure(A_TO_B, b"?", TIMEOUT_S)).works


@play(in_world)
async def test_closing_is_idempotent_and_ends_held_connections(world: World):
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"x")
    await reader.readexactly(1)
    world.proxies.cut([A_TO_B, B_TO_A])
    world.proxies.close()
    world.proxies.close()
    assert await reader.read() == b""

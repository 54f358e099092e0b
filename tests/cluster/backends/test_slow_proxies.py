"""Links between plain processes that take their time, and what becomes of bytes on their way."""

import asyncio

import pytest
from proxied import A_TO_B, World
from test_link_proxies import in_world, is_silent
from waiting import TIMEOUT_S, eventually

from cluster.backends.links.pipe import DELAYED_BYTES
from tests.play import play

pytestmark = pytest.mark.slow

LONG_MS = 60_000.0


@play(in_world)
async def test_bytes_and_the_end_of_a_connection_take_the_delay_of_the_link(world: World):
    world.proxies.slow_down(A_TO_B, 150.0, 0.0)
    loop = asyncio.get_running_loop()
    reader, writer = await world.dial("n1", "n2")
    began_s = loop.time()
    writer.write(b"hello")
    assert await is_silent(reader)
    assert await reader.readexactly(5) == b"hello"
    assert loop.time() - began_s >= 0.15
    began_s = loop.time()
    writer.close()
    await eventually(lambda: world.nodes["n2"].ended)
    assert loop.time() - began_s >= 0.15


@play(in_world)
async def test_jitter_changes_no_order(world: World):
    world.proxies.slow_down(A_TO_B, 30.0, 30.0)
    reader, writer = await world.dial("n1", "n2")
    sent = [f"{number:04}".encode() for number in range(100)]
    for part in sent:
        writer.write(part)
        await asyncio.sleep(0.001)
    assert await reader.readexactly(400) == b"".join(sent)


@play(in_world)
async def test_what_is_on_its_way_arrives_at_once_and_in_order_when_the_delay_ends(world: World):
    reader, writer = await world.dial("n1", "n2")
    await asyncio.sleep(0.02)
    world.proxies.slow_down(A_TO_B, LONG_MS, 0.0)
    writer.write(b"one")
    await asyncio.sleep(0.02)
    writer.write(b"two")
    assert await is_silent(reader)
    world.proxies.slow_down(A_TO_B, 0.0, 0.0)
    writer.write(b"three")
    async with asyncio.timeout(TIMEOUT_S):
        assert await reader.readexactly(11) == b"onetwothree"


@play(in_world)
async def test_a_cut_holds_what_is_on_its_way(world: World):
    world.proxies.slow_down(A_TO_B, LONG_MS, 0.0)
    reader, writer = await world.dial("n1", "n2")
    writer.write(b"hello")
    await asyncio.sleep(0.02)
    world.proxies.cut([A_TO_B])
    world.proxies.slow_down(A_TO_B, 0.0, 0.0)
    assert await is_silent(reader)
    assert bytes(world.nodes["n2"].heard) == b""
    world.proxies.restore([A_TO_B])
    assert await reader.readexactly(5) == b"hello"


@play(in_world)
async def test_a_slow_link_holds_no_more_than_its_bound(world: World):
    world.proxies.slow_down(A_TO_B, LONG_MS, 0.0)
    reader, writer = await world.dial("n1", "n2")
    size = 16 * DELAYED_BYTES
    writer.write(bytes(size))
    await asyncio.sleep(0.3)
    left = writer.transport.get_write_buffer_size()
    assert left > size / 4, "the kernel's flow control reached the sender"
    world.proxies.slow_down(A_TO_B, 0.0, 0.0)
    async with asyncio.timeout(TIMEOUT_S):
        assert await reader.readexactly(size) == bytes(size)

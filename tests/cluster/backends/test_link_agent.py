"""The agent that sends probe packets: it takes over a port from one that is being ended."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from cluster.backends.links import agent
from tests.cluster.client.nodes import free_ports

pytestmark = pytest.mark.slow


def taken_port() -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    held.bind(("127.0.0.1", free_ports(1)[0]))  # no outgoing connection has it either
    return held


def test_an_agent_waits_for_the_port_of_one_that_is_being_killed():
    async def body() -> None:
        held = taken_port()
        port = held.getsockname()[1]
        answering = agent.Agent("127.0.0.1", port, "secret")
        serving = asyncio.ensure_future(answering.serve())
        await asyncio.sleep(0.1)
        assert not serving.done()
        held.close()
        async with asyncio.timeout(10):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)
        writer.write(b'{"token": "secret", "do": "seen", "probe": 0, "wait_ms": 0}\n')
        assert await reader.readline() == b'{"seen": []}\n'
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])
        answering._main.close()
        await writer.wait_closed()
        await asyncio.sleep(0.01)  # the transports close in the loop

    asyncio.run(body())


def test_a_port_that_stays_taken_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agent, "_TAKEN_S", 0.1)
    with taken_port() as held:
        answering = agent.Agent("127.0.0.1", held.getsockname()[1], "secret")
        with pytest.raises(OSError, match="in use") as refused:
            asyncio.run(answering.serve())
    assert refused.value.errno == errno.EADDRINUSE

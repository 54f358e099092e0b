"""What any backend does with fake nodes, and how tests run one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from fake_system import frame
from waiting import eventually

from cluster.backends.base import Ability
from cluster.backends.hosted import HostedBackend


def run_up(backend: Any, body: Callable[[Any], Awaitable[None]]) -> None:
    """Run a test's body on a backend that is up, and take it down after."""

    async def whole() -> None:
        try:
            await backend.up()
            await body(backend)
        finally:
            await backend.down()

    asyncio.run(whole())


async def ask(backend: HostedBackend, node: str, payload: bytes, listener="CONTROLLER") -> bytes:
    endpoint = backend.endpoint(node, listener)
    connection = await backend.provider.connect(endpoint.host, endpoint.port)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_sendall(connection, frame(payload))
        return (await loop.sock_recv(connection, 65536))[4:]


async def answers(backend: HostedBackend) -> bool:
    try:
        async with asyncio.timeout(0.3):
            return await ask(backend, "n1", b"hi") == b"hi"
    except (OSError, TimeoutError):
        return False


async def meets_all_that_a_command_started(backend: HostedBackend) -> None:
    """Pause, kill and the end of a node whose command is a shell meet what the shell started."""
    assert await answers(backend)
    await backend.pause("n1")
    assert not await answers(backend)
    await backend.resume("n1")
    assert await answers(backend)
    await backend.kill("n1")
    assert not await answers(backend)
    await backend.start("n1")
    shell = await backend.process("n1")
    assert shell is not None
    os.kill(shell.pid, signal.SIGKILL)
    await eventually(backend.unexpected_deaths)
    assert not await answers(backend)


async def has_every_ability(backend: HostedBackend) -> None:
    for ability in Ability:
        probe = await backend.probe(ability)
        assert probe.possible, probe.reason

"""What any backend does with fake nodes, and how tests run one."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from fake_system import frame
from waiting import TIMEOUT_S, eventually

from cluster.backends.base import Ability, BackendError, Death, NodeState
from cluster.backends.hosted import HostedBackend
from cluster.backends.processes.records import identify, read_recorded
from tests.running import running


def nodes_of(folder: Path) -> list[int]:
    """Return the processes that a run noted, but for its harness."""
    return [process.identity.pid for process in read_recorded(folder) if process.role != "harness"]


def all_gone(pids: Iterable[int]) -> bool:
    return all(identify(pid) is None for pid in pids)


def run_up(backend: Any, body: Callable[[Any], Awaitable[None]]) -> None:
    """Run a test's body on a backend that is up, and take it down after."""

    async def whole() -> None:
        async with running(backend):
            await body(backend)

    asyncio.run(whole())


async def ask(backend: HostedBackend, node: str, payload: bytes, listener="CONTROLLER") -> bytes:
    endpoint = backend.endpoint(node, listener)
    connection = await backend.provider.connect(endpoint.host, endpoint.port)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_sendall(connection, frame(payload))
        return (await loop.sock_recv(connection, 65536))[4:]


SILENCE_S = 0.3


async def meets_all_that_a_command_started(backend: Any, ask: Callable = ask) -> None:
    """Pause, kill and the end of a node whose command is a shell meet what the shell started."""

    async def answers(within_s: float = TIMEOUT_S) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await ask(backend, "n1", b"hi", "CLIENT") == b"hi"
        except (OSError, TimeoutError):
            return False

    assert await answers()
    await backend.pause("n1")
    assert not await answers(SILENCE_S)
    await backend.resume("n1")
    assert await answers()
    await backend.kill("n1")
    assert not await answers(SILENCE_S)
    await backend.start("n1")
    await backend.stop("n1")
    assert not await answers(SILENCE_S)
    await backend.start("n1")
    shell = await backend.process("n1")
    assert shell is not None
    os.kill(shell.pid, signal.SIGKILL)
    await eventually(backend.unexpected_deaths)
    assert not await answers(SILENCE_S)
    await backend.start("n1")  # its ports are free


async def live_die_pause_and_stop(backend: Any, ask: Callable = ask) -> None:
    """Nodes do on these hosts what they do anywhere."""
    for node in backend.nodes:
        for listener in ("CLIENT", "CONTROLLER"):
            assert await ask(backend, node, b"hi", listener) == b"hi"
        assert await backend.state(node) is NodeState.RUNNING
        assert backend.incarnation(node) == 0
    before = await backend.process("n1")
    assert before is not None
    for _ in range(2):
        await backend.kill("n1")
        assert await backend.state("n1") is NodeState.DEAD
    await backend.start("n1")
    assert await backend.process("n1") not in (None, before)
    assert backend.incarnation("n1") == 1
    assert await ask(backend, "n1", b"hi", "CONTROLLER") == b"hi"
    await backend.pause("n2")
    assert await backend.state("n2") is NodeState.PAUSED
    await backend.resume("n2")
    assert await backend.state("n2") is NodeState.RUNNING
    await backend.stop("n1")
    assert await backend.state("n1") is NodeState.DEAD
    assert backend.unexpected_deaths() == ()
    await ask(backend, "n2", b"exit7", "CONTROLLER")
    await eventually(backend.unexpected_deaths)
    await backend.kill("n2")
    await backend.start("n2")
    assert backend.unexpected_deaths() == (Death("n2", 0, 7, ("asked to exit",)),)
    await backend.pause("n2")
    await backend.kill("n2")
    assert await backend.state("n2") is NodeState.DEAD


def cancel_up(backend: Any, begun: Callable[[], Any]) -> None:
    """Cancel the start of a backend when something of it is there."""

    async def body() -> None:
        task = asyncio.create_task(backend.up())
        await eventually(begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())


def fail_up(backend: Any, message: str) -> None:
    """Start a backend that cannot start, for this reason."""

    async def body() -> None:
        with pytest.raises(BackendError, match=message):
            await backend.up()

    asyncio.run(body())


async def has_every_ability(backend: HostedBackend) -> None:
    for ability in Ability:
        probe = await backend.probe(ability)
        assert probe.possible, probe.reason

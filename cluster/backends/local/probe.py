"""Whether backend `local` can do its things here, tried with a process and a proxy of its own."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from cluster.backends.base import Ability, BackendError, Probe
from cluster.backends.cleanup import trial_folder
from cluster.backends.links.messages import KINDS, Hold
from cluster.backends.links.proxy import HOST, LinkProxies
from cluster.backends.processes.lifecycle import Incarnation
from cluster.backends.processes.probe import SILENCE_S, SLEEP, TIMEOUT_S, probe_process
from cluster.backends.processes.records import TRIAL, LocalProcess, labels
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey

_PING = b"ping"
_LINK = ("n1", "n2")
_HEAD = struct.Struct(">ihhi")
"""Size, API key, API version, correlation id."""


async def probe(ability: Ability) -> Probe:
    """Try one ability; leaves nothing behind."""
    try:
        if ability is Ability.LINKS:
            return await _probe_links()
        with trial_folder() as folder:
            return await _probe_process(folder, signals=ability is Ability.SIGNALS)
    except (OSError, BackendError) as error:
        return Probe(possible=False, reason=str(error))


async def _probe_process(folder: Path, *, signals: bool) -> Probe:
    sleep = (sys.executable, *SLEEP)
    process = Incarnation(
        await LocalProcess.start(sleep, folder, labels(TRIAL + folder.name), folder / "stdout.log")
    )
    return await probe_process(process, signals=signals)


async def _probe_links() -> Probe:
    async with _proxies_of_echoes() as proxies:
        before = await proxies.measure(_LINK, _PING, TIMEOUT_S)
        proxies.cut([_LINK])
        during = await proxies.measure(_LINK, _PING, SILENCE_S)
        proxies.restore([_LINK])
        after = await proxies.measure(_LINK, _PING, TIMEOUT_S)
    if before.works and during.silent and after.works:
        return Probe(possible=True)
    return Probe(possible=False, reason=f"a link proxy misbehaves: {before}, {during}, {after}")


async def probe_messages() -> Probe:
    """Hold one of two messages on a link, and see which comes back first."""
    vote, fetch = (_HEAD.pack(_HEAD.size - 4, key, 0, 1) for key in (ApiKey.VOTE, ApiKey.FETCH))
    hold = Hold({_LINK}, frozenset({KINDS["VoteRequest"]}))
    try:
        async with _proxies_of_echoes() as proxies, asyncio.timeout(TIMEOUT_S):
            proxies.sieves[_LINK, "CONTROLLER"].begin(hold)
            reader, writer = await asyncio.open_connection(HOST, proxies.port(*_LINK))
            try:
                writer.write(vote + fetch)
                passed = await reader.readexactly(len(fetch))
                for held in hold.held:
                    held.stream.insert(held.frame)
                released = await reader.readexactly(len(vote))
            finally:
                writer.close()
    except (OSError, EOFError) as error:
        return Probe(possible=False, reason=f"a link proxy misbehaves: {error!r}")
    if (passed, released) == (fetch, vote):
        return Probe(possible=True)
    return Probe(possible=False, reason="a link proxy holds another message than it should")


@contextlib.asynccontextmanager
async def _proxies_of_echoes() -> AsyncIterator[LinkProxies]:
    """Open the proxies between two nodes that send back what they are sent."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(64):
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    proxies = LinkProxies(_LINK, lambda node, _: Endpoint(int(node[1:]), HOST, port))
    proxies.open()
    try:
        yield proxies
    finally:
        proxies.close()
        server.close()
        await server.wait_closed()

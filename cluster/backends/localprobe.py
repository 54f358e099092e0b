"""Whether backend `local` can do its things here, tried with a process and a proxy of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from cluster.backends.base import Ability, BackendError, Probe
from cluster.backends.lifecycle import Incarnation
from cluster.backends.linkproxy import HOST, LinkProxies
from cluster.backends.processes import TRIAL, LocalProcess, labels
from cluster.backends.processprobe import SILENCE_S, SLEEP, TIMEOUT_S, probe_process
from cluster.backends.trials import trial_folder
from cluster.node.ports import Endpoint

_PING = b"ping"


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
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(64):
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    link = ("n1", "n2")
    proxies = LinkProxies(link, lambda node: Endpoint(int(node[1:]), HOST, port))
    proxies.open()
    try:
        before = await proxies.measure(link, _PING, TIMEOUT_S)
        proxies.cut([link])
        during = await proxies.measure(link, _PING, SILENCE_S)
        proxies.restore([link])
        after = await proxies.measure(link, _PING, TIMEOUT_S)
    finally:
        proxies.close()
        server.close()
        await server.wait_closed()
    if before.works and during.silent and after.works:
        return Probe(possible=True)
    return Probe(possible=False, reason=f"a link proxy misbehaves: {before}, {during}, {after}")

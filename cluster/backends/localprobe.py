"""Whether backend `local` can do its things here, tried with a process and a proxy of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from cluster.backends.base import Ability, BackendError, NodeState, Probe
from cluster.backends.lifecycle import Incarnation
from cluster.backends.linkproxy import HOST, LinkProxies
from cluster.backends.processes import TRIAL, LocalProcess, labels
from cluster.backends.trials import trial_folder
from cluster.ports import Endpoint

_SLEEP = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)")
_TIMEOUT_S = 20.0
"""A machine that does much else may need seconds; one where it does not work waits this long."""
_SILENCE_S = 0.2
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
    process = Incarnation(
        await LocalProcess.start(_SLEEP, folder, labels(TRIAL + folder.name), folder / "stdout.log")
    )
    try:
        if signals:
            for number, state in (
                (signal.SIGSTOP, NodeState.PAUSED),
                (signal.SIGCONT, NodeState.RUNNING),
            ):
                await process.send(number)
                if not await process.wait_state(state, _TIMEOUT_S):
                    seen = await process.state()
                    reason = f"a process is {seen} after {number.name}, not {state}"
                    return Probe(possible=False, reason=reason)
    finally:
        await process.send(signal.SIGKILL)
        died = await process.wait_ended(_TIMEOUT_S)
    if not died:
        return Probe(possible=False, reason="a process does not die of SIGKILL")
    return Probe(possible=True)


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
        before = await proxies.measure(link, _PING, _TIMEOUT_S)
        proxies.cut([link])
        during = await proxies.measure(link, _PING, _SILENCE_S)
        proxies.restore([link])
        after = await proxies.measure(link, _PING, _TIMEOUT_S)
    finally:
        proxies.close()
        server.close()
        await server.wait_closed()
    if before.works and during.silent and after.works:
        return Probe(possible=True)
    return Probe(possible=False, reason=f"a link proxy misbehaves: {before}, {during}, {after}")

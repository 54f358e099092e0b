"""Wall clocks that lie, by a preloaded library (`faked_clock.c`): the host's own is never touched.

The node is started with the library preloaded and a mapped file that holds how far its wall clock
is off, which may be set at any time, by one store. The monotonic clock stays true. What is set is
an offset; drift and strobe are many small steps (`clockwork`). A static program, and any of Go,
sees the true time, and `measure` says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from cluster.backends.abilities import ClockMeasure, ClockSetting, Host
from cluster.backends.base import BackendError, Probe
from cluster.backends.machine.inside import clocks, clockwork
from cluster.backends.machine.programs import run_program

CLOCK_FILE = "clock/offset"
"""Below the node's folder; the folder is there so that a container can mount it."""
LIBRARY = Path(__file__).with_name("faked_clock.so")
"""Compiled by `setup.py`."""


def library() -> Path | None:
    """Find the compiled library; None where there is none."""
    return LIBRARY if LIBRARY.exists() else None


def _clockwork() -> str:
    """Return the helper's source: the host need not have this package's files."""
    return Path(clockwork.__file__).read_text(encoding="utf-8")


def variables(library_path: PurePath, file: PurePath) -> dict[str, str]:
    """Environment of a program with a wall clock that a file governs."""
    return {"LD_PRELOAD": str(library_path), "KRAFTPROBE_CLOCK_OFFSET": str(file)}


class FakedClocks:
    """See `cluster.backends.abilities.Clocks` and `Surroundings`.

    `library_path`: where the library lies inside the hosts, None where there is none.
    """

    def __init__(self, hosts: Mapping[str, Host], library_path: PurePath | None) -> None:
        self._hosts = hosts
        self._library = library_path
        self._prepared: set[str] = set()
        self._moving: dict[str, tuple[ClockSetting, float]] = {}
        """What the helpers were given, or may have been, and when (time.monotonic)."""
        self._locks = {node: asyncio.Lock() for node in hosts}
        self._probed: Probe | None = None

    async def prepare(self, node: str) -> Mapping[str, str]:
        """See `Surroundings.prepare`. What a fault set before goes on over a restart."""
        if self._library is None:
            raise BackendError("the library of faked clocks was not compiled: see docs/setup.md")
        if node not in self._prepared:
            await self._show(node, 0.0)
            self._prepared.add(node)
        await self._revive(node)
        return variables(self._library, self._file(node))

    async def relax(self) -> None:
        """See `Surroundings.relax`. Nothing: no node needs a true clock to stop."""

    async def release(self) -> None:
        for node in self._hosts:
            try:
                await self._end_helper(node)
            except BackendError:
                continue  # gone with its host

    async def probe(self) -> Probe:
        """See `Clocks.probe`; tried once."""
        if self._probed is None:
            self._probed = await self._probe()
        return self._probed

    async def _probe(self) -> Probe:
        host = next(iter(self._hosts.values()))
        if self._library is None:
            return Probe(
                possible=False,
                reason="the library of faked clocks was not compiled for this platform",
                remedy="Linux, and: pip install . again",
            )
        if set(" :") & set(str(self._library)):
            return Probe(
                possible=False,
                reason=f"LD_PRELOAD cannot name {self._library}, which has a space or a colon",
                remedy="install in a folder without",
            )
        file = host.folder / "clock/probe"
        try:
            await self._write(host, file, 60.0)
            seen = await self._look(host, None, variables(self._library, file))
        except BackendError as error:
            return Probe(possible=False, reason=str(error))
        if abs(seen.wall_offset_ms - 60_000) > 100 or seen.monotonic_offset_ms > 100:
            return Probe(possible=False, reason=f"a clock set 60 s ahead shows {seen}")
        return Probe(possible=True)

    async def set(self, node: str, setting: ClockSetting) -> None:
        if node not in self._prepared:
            raise BackendError(f"{node} was not started with a clock that can be set")
        async with self._locks[node]:
            await self._end_helper(node)
            if setting.rate == 1.0 and setting.period_ms is None:
                await self._show(node, setting.offset_ms)
            else:
                await self._start_helper(node, setting)

    async def measure(self, node: str) -> ClockMeasure:
        """See `Clocks.measure`: read by a program with the environment of the live process."""
        host = self._hosts[node]
        pid = await host.pid()
        if self._library is None or node not in self._prepared:
            raise BackendError(f"{node} was not started with a clock that can be set")
        return await self._look(host, pid, variables(self._library, self._file(node)))

    async def _look(self, host: Host, pid: int | None, own: Mapping[str, str]) -> ClockMeasure:
        seen = await run_program(host, clocks.see, pid, dict(own))
        if not seen["faked"]:
            raise BackendError(f"{host.node} reads its clock past the library of faked clocks")
        return ClockMeasure(float(seen["wall_ms"]), float(seen["monotonic_ms"]))

    async def _show(self, node: str, offset_ms: float) -> None:
        await self._write(self._hosts[node], self._file(node), offset_ms / 1000)

    async def _write(self, host: Host, file: PurePath, offset_s: float) -> None:
        await run_program(host, clocks.store, str(file), round(offset_s * 1e9))

    async def _revive(self, node: str) -> None:
        """Let a clock go on that moved in a host which was lost with its helper."""
        if node not in self._moving:
            return
        setting, began_s = self._moving[node]
        if not await run_program(self._hosts[node], clocks.helpers, str(self._file(node))):
            gained_ms = (setting.rate - 1.0) * (time.monotonic() - began_s) * 1000
            moved = replace(setting, offset_ms=setting.offset_ms + gained_ms)
            await self._start_helper(node, setting if setting.period_ms else moved)

    async def _start_helper(self, node: str, setting: ClockSetting) -> None:
        host = self._hosts[node]
        period_ms = 0.0 if setting.period_ms is None else setting.period_ms
        words = (setting.offset_ms, setting.rate, period_ms)
        command = [host.interpreter, "-I", "-S", "-c", _clockwork(), str(self._file(node))]
        command += [repr(float(word)) for word in words]
        self._moving[node] = (setting, time.monotonic())
        await run_program(host, clocks.start, command)

    async def _end_helper(self, node: str) -> None:
        if node in self._moving:
            await run_program(self._hosts[node], clocks.end, str(self._file(node)))
            del self._moving[node]

    def _file(self, node: str) -> PurePath:
        return self._hosts[node].folder / CLOCK_FILE

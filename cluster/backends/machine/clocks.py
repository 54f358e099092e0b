"""Wall clocks that lie, by libfaketime: the host's own clock is never touched.

The node is started with the library preloaded and a file that says how far its wall clock is off;
the file is read at every look at the clock (5 us), so it may be rewritten at any time. The
monotonic clock stays true: with a faked one CPython's waits hang. Needs glibc on x86-64.

What is shown is `+OFFSET x1`; drift and strobe are many small steps (`clockwork`).
"""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import util
from pathlib import Path, PurePath

from cluster.backends.abilities import ClockMeasure, ClockSetting
from cluster.backends.base import BackendError, Probe
from cluster.backends.machine.inside import clocks, clockwork
from cluster.backends.machine.programs import Machine, run_program

CLOCK_FILE = "clock/offset"
"""Below the node's folder; the folder is there so that a container can mount it."""


def library() -> Path | None:
    """Find the library that the package libfaketime carries; None where there is none."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    found = util.find_spec("libfaketime")  # not imported: that would preload it here
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    return path if path.exists() else None


def _clockwork() -> str:
    """Return the helper's source: the host need not have this package's files."""
    return Path(clockwork.__file__).read_text(encoding="utf-8")


def variables(library_path: PurePath, file: PurePath) -> dict[str, str]:
    """Environment of a program with a wall clock that a file governs."""
    return {
        "LD_PRELOAD": str(library_path),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        # Else it shifts the deadlines of waits on the monotonic clock, which is not faked: they end
        # at once, and a thread of CPython that waits for the interpreter's lock spins for it.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


class FakedClocks:
    """See `cluster.backends.abilities.Clocks` and `Surroundings`.

    `library_path`: where the library lies inside the hosts, None where there is none.
    """

    def __init__(self, hosts: Mapping[str, Machine], library_path: PurePath | None) -> None:
        self._hosts = hosts
        self._library = library_path
        self._prepared: set[str] = set()
        self._helpers: dict[str, int] = {}
        self._moving: dict[str, tuple[ClockSetting, float]] = {}
        """What the helpers were given, and when (time.monotonic)."""
        self._locks = {node: asyncio.Lock() for node in hosts}
        self._probed: Probe | None = None

    async def prepare(self, node: str) -> Mapping[str, str]:
        """See `Surroundings.prepare`. What a fault set before goes on over a restart."""
        if self._library is None:
            raise BackendError("there is no libfaketime for this place: clocks cannot be faked")
        if node not in self._prepared:
            await self._show(node, 0.0)
            self._prepared.add(node)
        await self._revive(node)
        return variables(self._library, self._file(node))

    async def relax(self) -> None:
        """See `Surroundings.relax`. Nothing: no node needs a true clock to stop."""

    async def release(self) -> None:
        """See `Surroundings.release`."""
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
                reason="the package libfaketime has no library for this platform",
                remedy="glibc Linux on x86-64, and: pip install 'kraftprobe[clocks]'",
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
        """See `Clocks.set`."""
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

    async def _look(self, host: Machine, pid: int | None, own: Mapping[str, str]) -> ClockMeasure:
        seen = await run_program(host, clocks.see, pid, dict(own) if pid is None else {})
        if not seen["faked"]:
            raise BackendError(f"{host.node} runs without libfaketime")
        return ClockMeasure(float(seen["wall_ms"]), float(seen["monotonic_ms"]))

    async def _show(self, node: str, offset_ms: float) -> None:
        await self._write(self._hosts[node], self._file(node), offset_ms / 1000)

    async def _write(self, host: Machine, file: PurePath, offset_s: float) -> None:
        await run_program(host, clocks.write, str(file), f"{offset_s:+.6f} x1\n")

    async def _revive(self, node: str) -> None:
        """Let a clock go on that moved in a host which was lost with its helper."""
        if node not in self._moving:
            return
        setting, began_s = self._moving[node]
        host, helper = self._hosts[node], self._helpers[node]
        if not await run_program(host, clocks.runs, helper, str(self._file(node))):
            gained_ms = (setting.rate - 1.0) * (time.monotonic() - began_s) * 1000
            moved = replace(setting, offset_ms=setting.offset_ms + gained_ms)
            await self._start_helper(node, setting if setting.period_ms else moved)

    async def _start_helper(self, node: str, setting: ClockSetting) -> None:
        host = self._hosts[node]
        period_ms = 0.0 if setting.period_ms is None else setting.period_ms
        words = (setting.offset_ms, setting.rate, period_ms)
        command = [host.interpreter, "-I", "-S", "-c", _clockwork(), str(self._file(node))]
        command += [repr(float(word)) for word in words]
        self._helpers[node] = await run_program(host, clocks.start, command)
        self._moving[node] = (setting, time.monotonic())

    async def _end_helper(self, node: str) -> None:
        self._moving.pop(node, None)
        pid = self._helpers.pop(node, None)
        if pid is not None:
            await run_program(self._hosts[node], clocks.end, pid, str(self._file(node)))

    def _file(self, node: str) -> PurePath:
        return self._hosts[node].folder / CLOCK_FILE

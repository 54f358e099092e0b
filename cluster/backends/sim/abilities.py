"""What a simulated world can do to its nodes' clocks and disks: the abilities, in virtual time.

Limits of an operating system have no counterpart here.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from typing import Any

from cluster.backends.abilities import (
    Abilities,
    ClockMeasure,
    ClockSetting,
    Damage,
    DiskFault,
    DiskMeasure,
)
from cluster.backends.base import BackendError, NodeState, Probe
from cluster.backends.sim.world import SimWorld

_STROBE_MS = 10.0


class SimClocks:
    """See `cluster.backends.abilities.Clocks`. Beside the skew that a world gave its hosts."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._shown_ms = dict.fromkeys(world.names, 0.0)
        self._version = dict.fromkeys(world.names, 0)

    async def probe(self) -> Probe:
        """See `Clocks.probe`."""
        return Probe(possible=True)

    async def set(self, node: str, setting: ClockSetting) -> None:
        """See `Clocks.set`."""
        self._version[node] += 1
        self._show(node, setting.offset_ms)
        if setting.rate != 1.0 or setting.period_ms is not None:
            began_ms = self._world.scheduler.now_ms
            self._tick(node, setting, began_ms, self._version[node])

    async def measure(self, node: str) -> ClockMeasure:
        """See `Clocks.measure`."""
        return ClockMeasure(self._shown_ms[node], 0.0)

    def _show(self, node: str, offset_ms: float) -> None:
        self._world.nodes[node].clock.step_wall(offset_ms - self._shown_ms[node])
        self._shown_ms[node] = offset_ms

    def _tick(self, node: str, setting: ClockSetting, began_ms: float, version: int) -> None:
        """Step a clock that drifts or strobes, until it is set anew."""
        if self._version[node] != version:
            return
        passed_ms = self._world.scheduler.now_ms - began_ms
        shown_ms = setting.offset_ms + (setting.rate - 1.0) * passed_ms
        if setting.period_ms is not None and int(passed_ms / setting.period_ms) % 2:
            shown_ms = 0.0
        self._show(node, shown_ms)
        self._world.scheduler.call_later(
            _STROBE_MS, lambda: self._tick(node, setting, began_ms, version)
        )

    def end(self) -> None:
        """Let no clock tick on: the world is going down."""
        for node in self._version:
            self._version[node] += 1


class SimDisks:
    """See `cluster.backends.abilities.Disks`. `MemoryDisk` tells what a disk here promises."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._saved: dict[str, list[dict[str, bytes]]] = {node: [] for node in world.names}

    async def probe(self, fault: DiskFault | Damage | None) -> Probe:  # noqa: ARG002  (contract)
        """See `Disks.probe`."""
        return Probe(possible=True)

    async def set(self, node: str, fault: DiskFault, parameters: Mapping[str, float]) -> None:
        """See `Disks.set`."""
        disk = self._world.nodes[node].disk
        disk.faults[fault.value] = 0
        if fault is DiskFault.STALL:
            disk.stall()
        elif fault is DiskFault.SLOW:
            disk.sync_ms = float(parameters["delay_ms"])
        elif fault is DiskFault.FULL:
            disk.full = True
        else:
            disk.fail(OSError(errno.EIO, os.strerror(errno.EIO)))

    async def clear(self, node: str, fault: DiskFault) -> None:
        """See `Disks.clear`."""
        disk = self._world.nodes[node].disk
        disk.faults.pop(fault.value, None)
        if fault is DiskFault.STALL:
            disk.resume()
        elif fault is DiskFault.SLOW:
            disk.sync_ms = 0.0
        elif fault is DiskFault.FULL:
            disk.full = False
        else:
            disk.fail(None)

    async def hits(self, node: str) -> Mapping[DiskFault, int]:
        """See `Disks.hits`."""
        found = self._world.nodes[node].disk.faults
        return {DiskFault(name): count for name, count in sorted(found.items())}

    async def measure(self, node: str, timeout_s: float = 0.5) -> DiskMeasure:
        """See `Disks.measure`. What a sync that began now would meet; writes take no time here."""
        disk = self._world.nodes[node].disk
        if disk.full:
            return DiskMeasure(None, None, "ENOSPC")
        if disk.stalled or disk.sync_ms > timeout_s * 1000:
            return DiskMeasure(0.0, None, None)
        return DiskMeasure(0.0, disk.sync_ms, None)

    async def power_loss(
        self, node: str, *, held_ms: float = 0.0, torn: bool = False
    ) -> Mapping[str, Any]:
        """See `Disks.power_loss`."""
        host = self._world.nodes[node]
        was_stalled = host.disk.stalled
        host.disk.stall()
        await asyncio.sleep(max(held_ms, 1.0) / 1000)
        lost = host.disk.unsynced()
        self._world.kill(node, "torn" if torn else "nothing")
        if not was_stalled:
            host.disk.resume()
        return {**lost, "torn": host.disk.torn_path if torn else ""}

    async def files(self, node: str) -> Mapping[str, int]:
        """See `Disks.files`."""
        found = self._world.nodes[node].disk.files()
        return {path: len(content) for path, content in sorted(found.items())}

    async def read(self, node: str, path: str) -> bytes:
        """See `Disks.read`."""
        return self._world.nodes[node].disk.read(path)

    async def damage(self, node: str, kind: Damage, path: str = "", position: int = 0) -> None:
        """See `Disks.damage`."""
        self._refuse_alive(node)
        disk = self._world.nodes[node].disk
        self._saved[node].append(disk.files())
        if kind is Damage.WIPE:
            disk.replace({})
        elif kind is Damage.TRUNCATE:
            disk.replace({**disk.files(), path: disk.read(path)[:position]})
        else:
            content = bytearray(disk.read(path))
            content[position] ^= 1
            disk.replace({**disk.files(), path: bytes(content)})

    async def give_up(self, node: str) -> None:
        """See `Disks.give_up`."""
        self._refuse_alive(node)
        self._saved[node].clear()

    async def restore(self, node: str) -> int:
        """See `Disks.restore`."""
        self._refuse_alive(node)
        saved, self._saved[node] = self._saved[node], []
        if saved:
            self._world.nodes[node].disk.replace(saved[0])
        return len(saved)

    def _refuse_alive(self, node: str) -> None:
        if self._world.nodes[node].state is not NodeState.DEAD:
            raise BackendError(f"{node} is alive: only a dead node's files can be damaged")


def sim_abilities(world: SimWorld) -> Abilities:
    """Return what this world can do to its nodes."""
    return Abilities(
        clocks=SimClocks(world),
        disks=SimDisks(world),
        missing={"limits": "a simulated node has no process that could be limited"},
    )

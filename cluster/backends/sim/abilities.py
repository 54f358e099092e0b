"""What a simulated world can do to its nodes' clocks, disks and links, in virtual time.

Limits of an operating system have no counterpart here, nor has a rate of links, as messages have no
size. Loss and repetition hit raft messages between nodes only, as everything of the mesh does.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from cluster.backends.abilities import (
    Abilities,
    ClockMeasure,
    ClockSetting,
    Damage,
    DiskFault,
    DiskMeasure,
    Keep,
    LinkShape,
    ShapeMeasure,
)
from cluster.backends.base import BackendError, Link, NodeState, Probe
from cluster.backends.links.shapes import PERFECT, try_shape
from cluster.backends.sim import medium
from cluster.backends.sim.links import Hold, travel_ms
from cluster.backends.sim.mesh import Mesh
from cluster.backends.sim.world import SimWorld
from cluster.systems.base import Damageable

_STROBE_MS = 10.0
_FAULT, _POWER = "fault", "power"


class SimClocks:
    """See `cluster.backends.abilities.Clocks`. Added to the skew that the world drew."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._own_ms = {name: node.clock.skew_ms for name, node in world.nodes.items()}
        self._settings = dict.fromkeys(world.names, ClockSetting())

    async def probe(self) -> Probe:
        return Probe(possible=True)

    async def set(self, node: str, setting: ClockSetting) -> None:
        self._settings[node] = setting
        self._show(node, setting.offset_ms)
        if setting.rate != 1.0 or setting.period_ms is not None:
            self._tick(node, setting, self._world.scheduler.now_ms)

    async def measure(self, node: str) -> ClockMeasure:
        return ClockMeasure(self._shown_ms(node), 0.0, self._settings[node])

    def _shown_ms(self, node: str) -> float:
        return self._world.nodes[node].clock.skew_ms - self._own_ms[node]

    def _show(self, node: str, offset_ms: float) -> None:
        self._world.nodes[node].clock.step_wall(offset_ms - self._shown_ms(node))

    def _tick(self, node: str, setting: ClockSetting, began_ms: float) -> None:
        """Step a clock that drifts or strobes, until it is set anew."""
        if self._settings[node] is not setting:
            return
        passed_ms = self._world.scheduler.now_ms - began_ms
        shown_ms = setting.offset_ms + (setting.rate - 1.0) * passed_ms
        if setting.period_ms is not None and int(passed_ms / setting.period_ms) % 2:
            shown_ms = 0.0
        self._show(node, shown_ms)
        self._world.scheduler.call_later(_STROBE_MS, lambda: self._tick(node, setting, began_ms))


class SimTimers:
    """See `cluster.backends.abilities.Timers`. Multiplied by the rate that the world drew."""

    def __init__(self, world: SimWorld) -> None:
        self._clocks = {name: node.clock for name, node in world.nodes.items()}
        self._own = {name: clock.rate for name, clock in self._clocks.items()}

    async def set(self, node: str, rate: float) -> None:
        """See `Timers.set`. Timers that are set already stay due when they were."""
        self._clocks[node].set_rate(rate * self._own[node])

    async def measure(self, node: str) -> float:
        return self._clocks[node].rate / self._own[node]


class SimCrashes:
    """See `cluster.backends.abilities.Crashes`."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    @property
    def keeps(self) -> str:
        return self._world.settings.power_loss

    async def kill(self, node: str, keep: Keep) -> None:
        self._world.kill(node, keep)


class SimMessages:
    """See `cluster.backends.abilities.Messages`. A held message outlives its connection."""

    def __init__(self, world: SimWorld) -> None:
        self._mesh = world.mesh
        self._made = 0
        self._holds: dict[str, Hold] = {}

    async def hold(self, links: Sequence[Link], types: Sequence[str]) -> str:
        self._made += 1
        name = f"hold-{self._made}"
        self._holds[name] = hold = Hold(frozenset(links), frozenset(types))
        self._mesh.add_hold(hold)
        return name

    async def count_held(self, name: str) -> int | None:
        return len(self._holds[name].held) if name in self._holds else None

    async def release(self, name: str, links: Sequence[Link] = (), *, deliver: bool = True) -> int:
        if name not in self._holds:
            return 0
        hold = self._holds[name]
        left = hold.links.difference(links) if links else frozenset[Link]()
        out = [m for m in hold.held if (m.link.source, m.link.target) not in left]
        hold.held = [m for m in hold.held if (m.link.source, m.link.target) in left]
        hold.links = left
        if not left:
            del self._holds[name]
        if deliver:
            for message in out:
                message.deliver_late()
        return len(out)


class SimDisks:
    """See `cluster.backends.abilities.Disks`. `MemoryDisk` documents what a disk promises."""

    damageable: Callable[[Mapping[str, int]], Damageable | None] | None = None

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._saved: dict[str, list[dict[str, bytes]]] = {node: [] for node in world.names}
        self._stalls: dict[str, Counter[str]] = {node: Counter() for node in world.names}
        """Reasons why each disk stalls: a fault, or a power loss that is about to come."""

    async def probe(self, fault: DiskFault | Damage | None = None) -> Probe:  # noqa: ARG002  (contract)
        return Probe(possible=True)

    async def set(self, node: str, fault: DiskFault, parameters: Mapping[str, float]) -> None:
        disk = self._world.nodes[node].disk
        disk.faults[fault.value] = 0
        if fault is DiskFault.STALL:
            self._stalls[node][_FAULT] = 1
            disk.stall()
        elif fault is DiskFault.SLOW:
            disk.sync_ms = float(parameters["delay_ms"])
        elif fault is DiskFault.FULL:
            disk.full = True
        else:
            disk.fail(OSError(errno.EIO, os.strerror(errno.EIO)))

    async def clear(self, node: str, fault: DiskFault) -> None:
        disk = self._world.nodes[node].disk
        disk.faults.pop(fault.value, None)
        if fault is DiskFault.STALL:
            del self._stalls[node][_FAULT]
            self._resume(node)
        elif fault is DiskFault.SLOW:
            disk.sync_ms = 0.0
        elif fault is DiskFault.FULL:
            disk.full = False
        else:
            disk.fail(None)

    async def hits(self, node: str) -> Mapping[DiskFault, int]:
        found = self._world.nodes[node].disk.faults
        return {DiskFault(name): count for name, count in sorted(found.items())}

    async def measure(self, node: str, timeout_s: float = 0.5) -> DiskMeasure:
        """See `Disks.measure`. The result of a sync that began now; writes take no time here."""
        disk = self._world.nodes[node].disk
        if disk.full:
            return DiskMeasure(None, None, "ENOSPC")
        if disk.stalled or disk.sync_ms > timeout_s * 1000:
            return DiskMeasure(0.0, None, None)
        return DiskMeasure(0.0, disk.sync_ms, None)

    async def power_loss(
        self, node: str, *, held_ms: float = 0.0, torn: bool = False
    ) -> Mapping[str, Any]:
        host = self._world.nodes[node]
        if held_ms > 0:
            self._stalls[node][_POWER] += 1
            host.disk.stall()
            try:
                await asyncio.sleep(held_ms / 1000)
            finally:
                self._stalls[node][_POWER] -= 1
        lost = host.disk.count_unsynced()
        keep: medium.Keep = "torn" if torn else "nothing"
        if host.state is NodeState.DEAD:  # it has ended meanwhile, and its machine has not
            for disk in host.disks.values():
                disk.crash(host.losses, keep)
        self._world.kill(node, keep)
        self._resume(node)
        return {**lost, "torn": host.disk.torn_path if torn else ""}

    def _resume(self, node: str) -> None:
        if not self._stalls[node].total():
            self._world.nodes[node].disk.resume()

    async def files(self, node: str) -> Mapping[str, int]:
        found = self._world.nodes[node].disk.files()
        return {path: len(content) for path, content in sorted(found.items())}

    async def read(self, node: str, path: str, most: int | None = None) -> bytes:
        return self._world.nodes[node].disk.read(path, size=most)

    async def damage(
        self, node: str, kind: Damage, path: str = "", position: int = 0, bit: int = 0
    ) -> None:
        self._refuse_alive(node)
        disk = self._world.nodes[node].disk
        self._saved[node].append(disk.files())
        disk.is_damaged |= kind is not Damage.WIPE
        if kind is Damage.WIPE:
            disk.replace({})
        elif kind is Damage.TRUNCATE:
            disk.replace({**disk.files(), path: disk.read(path)[:position]})
        else:
            content = bytearray(disk.read(path))
            content[position] ^= 1 << bit
            disk.replace({**disk.files(), path: bytes(content)})

    async def give_up(self, node: str) -> None:
        self._refuse_alive(node)
        self._saved[node].clear()

    async def restore(self, node: str) -> int:
        self._refuse_alive(node)
        saved, self._saved[node] = self._saved[node], []
        if saved:
            self._world.nodes[node].disk.replace(saved[0])
        return len(saved)

    def _refuse_alive(self, node: str) -> None:
        if self._world.nodes[node].state is not NodeState.DEAD:
            raise BackendError(f"{node} is alive: only a dead node's files can be damaged")


class SimDetachable:
    """See `cluster.backends.abilities.Detachable`."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    async def detach(self, node: str) -> str:
        _, *others = self._world.nodes[node].disks.items()
        if not others:
            raise BackendError(f"{node} has one log directory")
        path, disk = others[-1]
        disk.detached = True
        return PurePath(path).name

    async def attach(self, node: str) -> None:
        for disk in self._world.nodes[node].disks.values():
            disk.detached = False


def sim_abilities(world: SimWorld) -> Abilities:
    """Return what this world can do to its nodes."""
    return Abilities(
        clocks=SimClocks(world),
        disks=SimDisks(world),
        detachable=SimDetachable(world),
        timers=SimTimers(world),
        crashes=SimCrashes(world),
        messages=SimMessages(world),
        missing={"limits": "a simulated node has no process that could be limited"},
    )


_MIDDLE = 0.9
"""Part of the round trips over which `ShapeMeasure.spread_ms` goes."""
_EXACT = 10**9
"""Stands for so many probes that the shares are exact."""
_NO_RATE = "messages of the simulated world have no size"


class SimShaping:
    """See `cluster.backends.abilities.Shaping`."""

    def __init__(self, mesh: Mesh, nodes: tuple[str, ...]) -> None:
        self._mesh = mesh
        self._nodes = nodes

    async def probe(self, shape: LinkShape) -> Probe:
        if shape.rate_kbit_s is not None:
            return Probe(possible=False, reason=_NO_RATE, remedy="--backend netns")
        return await try_shape(self, self._nodes, shape)

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        if any(shape.rate_kbit_s is not None for shape in links.values()):
            raise BackendError(f"{_NO_RATE}: try --backend netns")
        for (source, target), shape in links.items():
            self._mesh.link(source, target).shape = None if shape == PERFECT else shape

    def shapes(self) -> Mapping[Link, LinkShape]:
        links = ((a, b) for a in self._nodes for b in self._nodes if a != b)
        shapes = {link: self._mesh.link(*link).shape for link in links}
        return {link: shape for link, shape in shapes.items() if shape is not None}

    async def measure(self, link: Link) -> ShapeMeasure:
        """See `Shaping.measure`. Reads the shapes in force: no packet is sent and no time passes.

        Left out is what the links do by themselves (`SimSettings`), with a fault and without.
        """
        there, back = self._mesh.link(*link), self._mesh.link(*link[::-1])
        shape, answers = there.shape or PERFECT, back.shape or PERFECT
        lost = 1.0 if there.cut else shape.loss
        passes = lost < 1.0 and answers.loss < 1.0 and not back.cut
        return ShapeMeasure(
            round_trip_ms=travel_ms(shape) + travel_ms(answers) if passes else None,
            lost=lost,
            spread_ms=_MIDDLE * 2 * max(shape.jitter_ms, answers.jitter_ms) if passes else None,
            duplicated=shape.duplicate * (1.0 - lost),
            overtaking=shape.reorder * (1.0 - lost),
            probes=_EXACT,
        )

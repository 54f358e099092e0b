"""Disks that fail, over a `Host`: a FUSE filesystem over each node's data folder, and damage.

`prepare` mounts `cluster.backends.machine.faultfs` over the data folder before the node's first
start; it stays for all incarnations. `release` unmounts, and the files are where they always were.
Damage to files needs no mount: it is done to a dead node's folder, through the mount where there
is one, and what it replaced is kept beside.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from cluster.backends.abilities import Damage, DiskFault, DiskMeasure, Host
from cluster.backends.base import BackendError, NodeState, Probe
from cluster.backends.machine.inside import damage, disks
from cluster.backends.machine.mounts import mount_label, mounts, state_folder, unmount
from cluster.backends.machine.programs import run_program
from cluster.backends.packages import install
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.backends.processes.records import labels, own_identity

HOLD = "hold"
_FUSE_REMEDIES: tuple[tuple[str, Callable[[], str]], ...] = (
    (r"libfuse|exec fusermount", lambda: install("fuse3")),
    (r"mfusepy", lambda: "pip install mfusepy"),
    (r"/dev/fuse.*Permission denied", lambda: "sudo chmod 666 /dev/fuse"),
    (r"/dev/fuse|device not found", lambda: "sudo modprobe fuse"),
    (r"not permitted", lambda: "sudo, or in a container: --cap-add SYS_ADMIN --device /dev/fuse"),
)
"""What the mount said -> what would let it work; the first that fits."""
CATCH_S = 1.5
"""How long a power loss waits for something un-fsynced to be there, so that it loses something."""
CATCH_TORN_S = 10.0
"""For something that can be torn: short writes seldom span sectors."""
_MOUNT_TIMEOUT_S = 15.0
_PROBE_TIMEOUT_S = 10.0
"""Of a write that fails at once, on a machine that may be busy."""
_POLL_S = 0.01


class FuseDisks:
    """See `cluster.backends.abilities.Disks` and `Surroundings`.

    `hosts`: where the filesystems are mounted and looked at: a node's own host, or the machine
    around it where the node's place shows what is mounted outside.
    """

    def __init__(self, backend: ProcessBackend, hosts: Mapping[str, Host]) -> None:
        self._backend = backend
        self._hosts = hosts
        system = backend.system
        self._folders = {node: system.data_folder(host.folder) for node, host in hosts.items()}
        self.damageable = system.damageable
        self._mounted: set[str] = set()
        self._locks = {node: asyncio.Lock() for node in hosts}
        self._probed: Probe | None = None

    # -- Surroundings ----------------------------------------------------------------------------

    async def prepare(self, node: str) -> Mapping[str, str]:
        if node not in self._mounted:
            host, folder = self._hosts[node], self._folders[node]
            await self._mount(host, folder, node)
            self._mounted.add(node)
            await run_program(host, disks.plant_canary, str(folder))
        return {}

    async def relax(self) -> None:
        for node in sorted(self._mounted):
            with contextlib.suppress(BackendError):  # a filesystem that is gone stalls nobody
                await self._request(node, {"verb": "clear"})

    async def release(self) -> None:
        try:
            for node in sorted(self._mounted):
                with contextlib.suppress(BackendError):
                    await self._unmount(self._hosts[node], self._folders[node])
        finally:
            # What a host that is too busy to answer in time, or an interruption, has left.
            for mount in [mount for mount in mounts() if mount.run_id == self._backend.run_id]:
                unmount(mount)
        self._mounted.clear()

    async def _mount(self, host: Host, folder: PurePath, node: str) -> None:
        await self._run_checked(host, ["mkdir", "-p", str(folder)])
        run_id, system = self._backend.run_id, self._backend.system
        options = (mount_label(run_id, own_identity(), node), system.names, *system.mapped)
        variables = [f"{name}={value}" for name, value in labels(run_id, support=True).items()]
        await self._run_checked(
            host,
            [
                *("env", *variables, host.interpreter, "-m", "cluster.backends.machine.faultfs"),
                *(str(folder), str(state_folder(folder)), *options),
            ],
        )

    async def _unmount(self, host: Host, folder: PurePath) -> None:
        await self._ask(host, folder, {"verb": "end"})
        await host.run(["rm", "-f", str(folder / ".kraftprobe-canary")])
        done = await host.run(["umount", str(folder)])
        if done.exit_code != 0:
            done = await host.run(["fusermount3", "-u", str(folder)])
        if done.exit_code != 0:
            await self._run_checked(host, ["umount", "-l", str(folder)])

    async def _run_checked(self, host: Host, command: list[str]) -> None:
        done = await host.run(command, timeout_s=_MOUNT_TIMEOUT_S)
        if done.exit_code != 0:
            raise BackendError(f"{host.node}: {done.complaint(-1)}")

    # -- Disks -----------------------------------------------------------------------------------

    async def probe(self, fault: DiskFault | Damage | None = None) -> Probe:
        """See `Disks.probe`: mounts over a throw-away folder and fills that disk, once for all."""
        if isinstance(fault, Damage):
            return Probe(possible=True)
        if self._probed is None:
            self._probed = await self._probe()
        return self._probed

    async def _probe(self) -> Probe:
        host = next(iter(self._hosts.values()))
        folder = host.folder / "probe-disk"
        try:
            await self._mount(host, folder, "probe")
            try:
                request = {"verb": "set", "fault": DiskFault.FULL}
                await self._ask(host, folder, request)
                error = (await self._measure(host, folder, _PROBE_TIMEOUT_S)).error
            finally:
                await self._unmount(host, folder)
                await host.run(["rmdir", str(folder)])
        except BackendError as refusal:
            return Probe(possible=False, reason=str(refusal), remedy=fuse_remedy(str(refusal)))
        if error != "ENOSPC":
            return Probe(possible=False, reason=f"a full disk answered {error}")
        return Probe(possible=True)

    async def set(self, node: str, fault: DiskFault, parameters: Mapping[str, float]) -> None:
        assert fault is not DiskFault.TORN_WRITE, "that is a way to lose power"
        request = {"verb": "set", "fault": fault, "parameters": dict(parameters)}
        await self._request(node, request)

    async def clear(self, node: str, fault: DiskFault) -> None:
        await self._request(node, {"verb": "clear", "fault": fault})

    async def measure(self, node: str, timeout_s: float = 0.5) -> DiskMeasure:
        return await self._measure(self._hosts[node], self._folders[node], timeout_s)

    async def hits(self, node: str) -> Mapping[DiskFault, int]:
        status = await self._request(node, {"verb": "status"})
        return {DiskFault(name): n for name, n in status["hits"].items() if name != HOLD}

    async def power_loss(
        self, node: str, *, held_ms: float = 0.0, torn: bool = False
    ) -> Mapping[str, Any]:
        """See `Disks.power_loss`. Fsyncs are held until something un-fsynced is there.

        For a torn write, until something is there that can be torn.
        """
        host, folder = self._hosts[node], self._folders[node]
        await run_program(host, disks.soil_canary, str(folder))
        canary_bytes = len(b"lost")
        await self._request(node, {"verb": "set", "fault": HOLD, "parameters": {"torn": torn}})
        try:
            loop = asyncio.get_running_loop()
            catch_s = CATCH_TORN_S if torn else CATCH_S
            deadline_s = loop.time() + max(catch_s, held_ms / 1000)
            while loop.time() < deadline_s:
                status = await self._request(node, {"verb": "status", "torn": torn})
                if status["tearable"] if torn else status["dirty_bytes"] > canary_bytes:
                    break
                await asyncio.sleep(_POLL_S)
            await asyncio.sleep(held_ms / 1000)
            await self._backend.kill(node)
            lost = await self._request(node, {"verb": "power-loss", "torn": torn})
        finally:
            await self._request(node, {"verb": "clear", "fault": HOLD})
        found = await run_program(host, disks.read_canary, str(folder))
        if found != "kept":
            raise BackendError(f"{node}: the power loss left {found!r} of a canary")
        return {
            "bytes": max(0, lost["bytes"] - canary_bytes),
            "files": max(0, lost["files"] - 1),
            "torn": lost["torn"],
            "names": self._backend.system.names,
        }

    async def files(self, node: str) -> Mapping[str, int]:
        return await run_program(self._hosts[node], damage.files, str(self._folders[node]))

    async def read(self, node: str, path: str, most: int | None = None) -> bytes:
        folder = str(self._folders[node])
        return bytes.fromhex(await run_program(self._hosts[node], damage.read, folder, path, most))

    async def damage(
        self, node: str, kind: Damage, path: str = "", position: int = 0, bit: int = 0
    ) -> None:
        host, folder, saved = await self._dead(node)
        if kind is Damage.WIPE:
            await run_program(host, damage.wipe, folder, saved)
        elif kind is Damage.TRUNCATE:
            await run_program(host, damage.truncate, folder, saved, path, position)
        else:
            await run_program(host, damage.flip_bit, folder, saved, path, position, bit)

    async def give_up(self, node: str) -> None:
        host, _, saved = await self._dead(node)
        await run_program(host, damage.forget, saved)

    async def restore(self, node: str) -> int:
        host, folder, saved = await self._dead(node)
        return await run_program(host, damage.restore, folder, saved)

    # -- parts -----------------------------------------------------------------------------------

    async def _dead(self, node: str) -> tuple[Host, str, str]:
        """Return a dead node's host, its folder and where its damaged bytes are kept."""
        if await self._backend.state(node) is not NodeState.DEAD:
            raise BackendError(f"{node} is alive: only a dead node's files can be damaged")
        folder = self._folders[node]
        return self._hosts[node], str(folder), str(folder.parent / f".{folder.name}-saved")

    async def _request(self, node: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if node not in self._mounted:
            raise BackendError(f"{node} was not started on a disk that can fail")
        async with self._locks[node]:
            return await self._ask(self._hosts[node], self._folders[node], request)

    async def _ask(
        self, host: Host, folder: PurePath, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        state = str(state_folder(folder))
        answer: dict[str, Any] = await run_program(host, disks.ask, state, dict(request))
        if "error" in answer:
            raise BackendError(f"{host.node}: the filesystem: {answer['error']}")
        return answer

    async def _measure(self, host: Host, folder: PurePath, timeout_s: float) -> DiskMeasure:
        measured = await run_program(
            host, disks.measure, str(folder), timeout_s + 0.5, timeout_s=timeout_s + 10
        )
        limit_ms = timeout_s * 1000
        times = (measured["write_ms"], measured["fsync_ms"])
        write_ms, fsync_ms = (None if ms is None or ms > limit_ms else ms for ms in times)
        return DiskMeasure(write_ms, fsync_ms, measured["error"])


def fuse_remedy(reason: str) -> str:
    """Name the command that lets filesystems be mounted; empty when none is known."""
    found = (remedy() for pattern, remedy in _FUSE_REMEDIES if re.search(pattern, reason))
    return next(found, "")

"""The abilities of a backend of processes: clocks, disks, and here all that needs little of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final, Literal

from cluster.backends.abilities import Abilities, Host, LimitMeasure
from cluster.backends.base import BackendError, NodeState, Probe
from cluster.backends.localhost import LocalHost
from cluster.backends.machine.clocks import FakedClocks
from cluster.backends.machine.disks import FuseDisks
from cluster.backends.machine.inside import processes
from cluster.backends.machine.programs import run_program
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.backends.processes.records import labels
from cluster.backends.terms import Need
from cluster.systems.base import Listeners, TraceReader

_AWAY = ".away"
_DETACH = 'test -d "$1" && mv -T "$1" "$1$2" && touch "$1"'
_ATTACH = 'if test -e "$1$2"; then rm -f "$1" && mv -T "$1$2" "$1"; fi'


class HostDetachable:
    """See `cluster.backends.abilities.Detachable`: renamed, and a file in the place.

    So every call by a name in the directory fails (ENOTDIR), and a node that starts meanwhile
    cannot make it anew. What the node has open it still writes to, as after a lazy unmount.
    `folders`: of each node what may be in its `log.dirs`, that of the metadata first.
    """

    def __init__(
        self, machines: Mapping[str, Host], folders: Mapping[str, Sequence[PurePath]]
    ) -> None:
        self._machines = machines
        self._folders = folders

    async def detach(self, node: str) -> str:
        _, *others = self._folders[node]
        for folder in reversed(others):
            if await self._run(node, _DETACH, folder):
                return folder.name
        raise BackendError(f"{node} has one log directory")

    async def attach(self, node: str) -> None:
        _, *others = self._folders[node]
        for folder in others:
            if not await self._run(node, _ATTACH, folder):
                raise BackendError(f"{node}: {folder.name} cannot be given back")

    async def _run(self, node: str, script: str, folder: PurePath) -> bool:
        command = ("sh", "-c", script, "sh", str(folder), _AWAY)
        return (await self._machines[node].run(command)).exit_code == 0


LIMITS = {"descriptors": "RLIMIT_NOFILE", "file-size": "RLIMIT_FSIZE"}
"""Names that plans use -> the kernel's."""


class ProcessLimits:
    """See `cluster.backends.abilities.Limits`: by prlimit(2), of a live process."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts
        self._first: dict[tuple[str, int, str], int] = {}
        """(node, pid, limit) -> soft limit before the first change of this process."""

    async def probe(self, name: str) -> Probe:
        """Let a throw-away process run into the limit."""
        host = next(iter(self._hosts.values()))
        value, wanted = (24, "EMFILE") if name == "descriptors" else (0, "EFBIG")
        try:
            error = await run_program(host, processes.run_into, _kernel_name(name), value)
        except BackendError as refusal:
            return Probe(possible=False, reason=str(refusal))
        if error != wanted:
            return Probe(possible=False, reason=f"a process over its limit saw {error or 'none'}")
        return Probe(possible=True)

    async def set(self, node: str, name: str, value: int | None) -> None:
        """See `Limits.set`. Nothing happens where there is no process, or it has its own limit."""
        pid = await self._hosts[node].pid()
        if pid is None:
            if value is None:
                return
            raise BackendError(f"{node} is dead: it has no limits")
        key = (node, pid, name)
        if value is None:
            if key in self._first:
                await self._prlimit(node, pid, name, self._first[key])
                del self._first[key]
            return
        if key not in self._first:  # before it acts: it may act and fail
            _, self._first[key], _ = await self._prlimit(node, pid, name, None)
        await self._prlimit(node, pid, name, value)

    async def measure(self, node: str, name: str) -> LimitMeasure:
        pid = await self._hosts[node].pid()
        if pid is None:
            raise BackendError(f"{node} is dead: it has no limits")
        _, now, room = await self._prlimit(node, pid, name, None)
        return LimitMeasure(now, room)

    async def _prlimit(
        self, node: str, pid: int, name: str, value: int | None
    ) -> tuple[int, int, int | None]:
        """Set the limit, unless `value` is None: what it was, what it is, how much room it has."""
        host = self._hosts[node]
        return await run_program(host, processes.set_soft, pid, _kernel_name(name), value)


def _kernel_name(name: str) -> str:
    if name not in LIMITS:
        raise BackendError(f"there is no limit {name!r}: {', '.join(LIMITS)}")
    return LIMITS[name]


_SIGNALS: Final = {"resign": "SIGUSR1", "snapshot": "SIGUSR2"}


class NodeSignals:
    """See `cluster.backends.abilities.Requests`."""

    def __init__(self, machines: Mapping[str, Host], log_folders: Mapping[str, PurePath]) -> None:
        """`log_folders`: where each node's metadata log is, as seen inside its host."""
        self._machines = machines
        self._log_folders = log_folders

    async def send(self, node: str, what: Literal["resign", "snapshot"]) -> None:
        machine = self._machines[node]
        pid = await machine.pid()
        if pid is None:
            raise BackendError(f"{node} cannot be asked: it is dead")
        await run_program(machine, processes.send, pid, _SIGNALS[what])

    async def latest_snapshot(self, node: str) -> str:
        folder = str(self._log_folders[node])
        return await run_program(self._machines[node], processes.latest_snapshot, folder)


class NodeReleases:
    """See `cluster.backends.abilities.Releases`."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        self._outputs = {node: _Output() for node in backend.nodes}

    @property
    def names(self) -> tuple[str, ...]:
        return self._backend.system.releases

    def number(self, node: str) -> int:
        return self._backend.releases[node]

    async def choose(self, node: str, number: int) -> None:
        await self._backend.configure_release(node, number)

    async def measure(self, node: str) -> str | None:
        output = self._outputs[node]
        try:
            while data := await self._backend.read_trace(node, output.position):
                if output.reader is None:
                    folder = self._backend.node_folder(node)
                    output.reader = self._backend.system.trace_reader(folder)
                output.take(data)
        except BackendError:
            return None  # its host cannot be reached now
        return output.release


class _Output:
    """What a node wrote so far, and the release that its last process printed."""

    def __init__(self) -> None:
        self.position = 0
        self.reader: TraceReader | None = None
        self.release: str | None = None

    def take(self, data: bytes) -> None:
        """Read on."""
        self.position += len(data)
        for line in () if self.reader is None else self.reader.take(data).splitlines():
            event = json.loads(line)
            if event["e"] == "start":
                self.release = None
            elif event["e"] == "release":
                self.release = f"{event['version']}, commit {event['commit']}"


class NodeRoles:
    """See `cluster.backends.abilities.Roles`: listeners say what roles a node has."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend

    def listeners(self, node: str) -> Listeners:
        return self._backend.system.listeners(int(node[1:]))

    async def change(self, node: str, listeners: Listeners) -> None:
        if (state := await self._backend.state(node)) is not NodeState.DEAD:
            raise BackendError(f"{node} cannot have other roles: it is {state}")
        change = self._backend.system.change_listeners
        assert change is not None, "it has the ability"
        change(int(node[1:]), listeners)
        await self._backend.configure(node)


def local_machines(backend: ProcessBackend) -> Mapping[str, Host]:
    """Return this machine, once a node: where the folders of a backend's nodes are."""
    environment = labels(backend.run_id, support=True)
    return {
        node: LocalHost(node, backend.node_folder(node), environment, backend.process)
        for node in backend.nodes
    }


def equip(
    backend: ProcessBackend,
    machines: Mapping[str, Host],
    needs: Collection[Need],
    abilities: Abilities,
    clock_library: PurePath | None,
) -> Abilities:
    """Add to `abilities` what the operating system of these machines can do.

    `needs`: what the nodes are to be started with; without it an ability can be probed and not
    used. `clock_library`: see `FakedClocks`.
    """
    clocks = FakedClocks(machines, clock_library)
    disks = FuseDisks(backend, machines)
    if "clocks" in needs:
        backend.surround(clocks)
    if "disks" in needs:
        backend.surround(disks)
    return replace(
        abilities,
        clocks=clocks,
        disks=disks,
        detachable=HostDetachable(
            machines,
            {node: backend.system.log_dirs(machine.folder) for node, machine in machines.items()},
        ),
        limits=ProcessLimits(machines),
        releases=NodeReleases(backend) if backend.system.releases else None,
        roles=NodeRoles(backend) if backend.system.change_listeners is not None else None,
        requests=NodeSignals(
            machines,
            {node: backend.system.log_folder(machine.folder) for node, machine in machines.items()},
        ),
    )

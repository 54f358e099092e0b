"""Hosts behind ssh as homes of nodes (`cluster.backends.hosts.HostProvider`).

Each host gets, in its `workdir`: `bundles/<digest>/`, the node's code, kept for the next run; and
`runs/<run id>/`, which is the run's alone and removed at its end: the agent's socket, an
interpreter that knows the bundle, and the folders of the nodes.

    harness --- ssh --- relay --- agent (daemon) --- node, commands, files

The harness's own path to a host is never cut: no host may have the address from which the harness
comes, and every command that names this address to a packet filter is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import shlex
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import paramiko

from cluster.backends.abilities import Completed
from cluster.backends.agent import channel
from cluster.backends.agent.channel import Caller
from cluster.backends.base import BackendError, NodeState, ProcessIdentity
from cluster.backends.hosts import (
    NODE_OUTPUT,
    AgentHost,
    ByAgent,
    HostPorts,
    HostProvider,
    all_of,
    call_whole,
)
from cluster.backends.localhost import unpack
from cluster.backends.processes.records import last_lines
from cluster.backends.ssh import bundle
from cluster.backends.ssh.connection import connect, execute
from cluster.backends.ssh.inventory import HOSTS_FILE, HostEntry, Inventory
from cluster.backends.ssh.session import Session
from cluster.backends.ssh.setup import CLEANING, PREFLIGHT, check_host
from cluster.values import valueclass

INTERPRETER = "kraftprobe-python"

_FILTERS = frozenset({"nft", "iptables", "ip6tables", "tc", "ip"})
_NOW_S = 3.0
_LOOK_EVERY_S = 1.0
_TAIL_BYTES = 4096


@valueclass
class SshHost(ByAgent):
    """One host."""

    node: str
    address: str
    folder: PurePath
    session: Session
    controller: str
    """The harness's address, as this host sees it."""
    provider: SshProvider
    interpreter = INTERPRETER

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """Run it there, as root where the inventory says `sudo`."""
        words = " ".join(command).encode() + b" " + stdin
        if PurePath(command[0]).name in _FILTERS and _names(words, self.controller):
            raise BackendError(f"{self.node}: refused to filter the harness's own address")
        return await channel.run(self.session, command, stdin, timeout_s, wait=True)

    @property
    def agent(self) -> Caller:
        return self.session

    async def pid(self) -> int | None:
        """Name the node's process by the host's number."""
        process = self.provider.latest.get(self.node)
        if process is None or await process.state() is NodeState.DEAD:
            return None
        return process.pid


class SshProcess:
    """A child of a host's agent (`cluster.backends.hosts.StartedProcess`)."""

    def __init__(self, session: Session, pid: int, started: str | None, output: str) -> None:
        self.pid = pid
        self._session = session
        self._started = started
        self._output = output
        self._exit_code: int | None = None

    @property
    def identity(self) -> ProcessIdentity | None:
        """By the host's own pid and start time."""
        return None if self._started is None else ProcessIdentity(self.pid, self._started)

    async def state(self) -> NodeState:
        if self._exit_code is not None:
            return NodeState.DEAD
        return NodeState((await self._ask("state")).fields["state"])

    async def send(self, number: signal.Signals) -> None:
        if self._exit_code is None:
            await self._ask("signal", number=int(number))

    async def wait(self) -> int:
        """Wait for its end; where the host is lost, until the session ends, which kills it."""
        if self._exit_code is None:
            try:
                answer = await self._session.call("wait", pid=self.pid, timeout_s=None)
            except BackendError:
                await asyncio.wrap_future(self._session.ended)
                self._exit_code = -int(signal.SIGKILL)
            else:
                self._exit_code = int(answer.fields["exit_code"])
        return self._exit_code

    async def output_tail(self) -> tuple[str, ...]:
        try:
            answer = await self._session.call("read", path=self._output, offset=-_TAIL_BYTES)
        except BackendError:
            return ()
        return last_lines(answer.payload)

    def kill_now(self) -> bool:
        with contextlib.suppress(BackendError):
            number = int(signal.SIGKILL)
            self._session.call_now("signal", pid=self.pid, number=number, timeout_s=_NOW_S)
            self._session.call_now("wait", pid=self.pid, timeout_s=_NOW_S)
        return True

    async def _ask(self, do: str, **fields: Any) -> Any:
        return await self._session.call(do, pid=self.pid, **fields)


class SshProvider(HostProvider):
    """See the module and `cluster.backends.hosts.HostProvider`."""

    name = "ssh"
    clock_library = PurePosixPath("faked_clock.so")
    """Looked for where the agent says (LD_LIBRARY_PATH): hosts have it in different folders."""

    def __init__(self, inventory: Inventory, run_folder: Path, run_id: str) -> None:
        self.run_id = run_id
        self.latest: dict[str, SshProcess] = {}
        """The newest process of each node."""
        self._inventory = inventory
        self._run_folder = run_folder
        self._entries: dict[str, HostEntry] = {}
        self._sessions: dict[str, Session] = {}
        self._hosts: dict[str, SshHost] = {}
        self._torn = False
        self._machines: dict[tuple[str, ...], str] = {}
        self._looking = threading.Lock()

    async def create(self, nodes: Sequence[str]) -> Mapping[str, AgentHost]:
        """Connect to all hosts at once, check them, send what they lack, start their agents."""
        have = len(self._inventory.hosts)
        if have < len(nodes):
            raise BackendError(f"the inventory names {have} hosts, and {len(nodes)} are needed")
        self._entries = dict(zip(nodes, self._inventory.hosts, strict=False))
        self._run_folder.mkdir(parents=True, exist_ok=True)
        stored = self._run_folder / HOSTS_FILE
        used = replace(self._inventory, hosts=self._inventory.hosts[: len(nodes)])
        stored.write_text(json.dumps(used.to_json(), indent=1))
        try:
            await self._prepare_all()
            self._check_addresses()
        except BaseException:
            await self.tear_down()
            raise
        return dict(self._hosts)

    def ports(self, node: str) -> HostPorts:
        """See `HostProvider.ports`; as the inventory says."""
        entry = self._entries[node]
        return HostPorts(entry.client_port, entry.controller_port, entry.agent_port)

    async def put(self, node: str, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise BackendError(f"{node}: {path} is outside of the node's folder")
            await self._sessions[node].call("put", content, path=f"nodes/{node}/{path}")

    async def start(
        self, node: str, command: Sequence[str], environment: Mapping[str, str], output: str
    ) -> SshProcess:
        folder = f"nodes/{node}"
        session = self._sessions[node]
        answer = await session.call(
            "start",
            command=list(command),
            environment=dict(environment),
            folder=folder,
            output=output,
        )
        fields = answer.fields
        process = SshProcess(session, fields["pid"], fields["started"], f"{folder}/{output}")
        if output == NODE_OUTPUT:
            self.latest[node] = process
        return process

    async def read_from(self, node: str, path: PurePath, offset: int) -> bytes:
        answer = await self._sessions[node].call("read", path=f"nodes/{node}/{path}", offset=offset)
        return answer.payload

    async def fetch(self, node: str, destination: Path) -> None:
        session = self._sessions[node]
        packed = await session.call("pack", path=f"nodes/{node}", timeout_s=None)
        unpack(packed.payload, destination)

    async def wait_until_lost(self) -> str:
        """See `Backend.wait_until_lost`: until a connection is given up."""
        while True:
            for session in self._sessions.values():
                if session.failure is not None:
                    return str(session.failure)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def tear_down(self) -> None:
        """End all agents with what they started, and remove the run's folders."""
        if self._torn:
            return
        ends = (asyncio.to_thread(self._end, node) for node in self._entries)
        if all(await asyncio.gather(*ends)):
            (self._run_folder / HOSTS_FILE).unlink(missing_ok=True)
        self._torn = True

    def abandon(self) -> None:
        threads = [
            threading.Thread(target=self._end, args=(n,), daemon=True) for n in self._entries
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_NOW_S)

    async def _prepare_all(self) -> None:
        # To the end, also where one fails: a thread that still works would make something later.
        made = await all_of(call_whole(partial(self._prepare, node)) for node in self._entries)
        self._hosts = {host.node: host for host in made}

    # -- in threads ------------------------------------------------------------------------------

    def _prepare(self, node: str) -> SshHost:
        """Make one host ready; blocks. Raises BackendError."""
        entry = self._entries[node]
        client = connect(entry, self._inventory, node)
        try:
            return self._set_up(node, entry, client)
        except BaseException:
            client.close()
            raise

    def _set_up(self, node: str, entry: HostEntry, client: paramiko.SSHClient) -> SshHost:
        label = f"host {node} ({entry.where})"
        peer = _peer_address(entry, label)
        found = check_host(client, entry, label)
        self._refuse_shared(node, found["machine"])
        code = PurePosixPath(entry.workdir, "bundles", bundle.digest())
        if not found["bundle"]:
            unpacks = _python(entry, "-c", PREFLIGHT, "unpack", str(code))
            _run_checked(client, unpacks, label, bundle.archive())
        folder = self._folder(entry)
        path, python = shlex.quote(str(folder / "code")), str(folder / "bin" / INTERPRETER)
        wrapper = f'#!/bin/sh\nPYTHONPATH={path} exec {entry.python} "$@"\n'
        place = (entry.workdir, str(folder), str(code))
        grace = f"{self._inventory.grace_s:g}"
        make = _python(entry, "-c", PREFLIGHT, "make", *place, self.run_id, grace, python)
        _run_checked(client, make, label, wrapper.encode())
        agent = (python, "-P", "-S", "-m", "cluster.backends.agent", "relay", str(folder))
        session = Session(node, entry, self._inventory, (*_sudo(entry), *agent))
        self._sessions[node] = session
        session.open(client)
        inside = folder / "nodes" / node
        controller = found["controller"]
        return SshHost(node, peer, inside, session, controller, self)

    def _refuse_shared(self, node: str, machine: list[str]) -> None:
        """Refuse a host that is another one's machine: they would cut each other's links."""
        with self._looking:
            other = self._machines.setdefault(tuple(machine), node)
        if other != node:
            first, second = sorted((other, node))
            named = [f"{name} ({self._entries[name].where})" for name in (first, second)]
            raise BackendError(
                f"hosts {named[0]} and {named[1]} are one machine: every node needs one of its own"
            )

    def _end(self, node: str) -> bool:
        """Clean one host, over a connection of its own; blocks. False: `cleanup` has to."""
        session = self._sessions.pop(node, None)
        entry = self._entries[node]
        if session is not None:
            session.close()
        try:
            end_run(entry, self._inventory, node, self.run_id)
        except BackendError:
            return False
        return True

    def _folder(self, entry: HostEntry) -> PurePosixPath:
        return PurePosixPath(entry.workdir, "runs", self.run_id)

    def _check_addresses(self) -> None:
        addresses = [host.address for host in self._hosts.values()]
        if len(set(addresses)) != len(addresses):
            raise BackendError("every node needs a host with an address of its own")
        for host in self._hosts.values():
            if host.controller in addresses:
                raise BackendError(
                    f"{host.node} sees the harness at {host.controller}, where a node is to run: "
                    "cutting links would cut the harness off; run it from another machine"
                )


def end_run(entry: HostEntry, inventory: Inventory, node: str, run_id: str) -> None:
    """Remove all that a run left on a host, over a connection of its own; blocks.

    Raises BackendError. Nothing of other runs and nothing that is not Kraftprobe's is touched.
    """
    client = connect(entry, inventory, node)
    try:
        folder = str(PurePosixPath(entry.workdir, "runs", run_id))
        command = _python(entry, "-", folder, run_id)
        _run_checked(client, command, f"host {node} ({entry.where})", CLEANING.encode())
    finally:
        client.close()


def _names(words: bytes, address: str) -> bool:
    """Whether a command names this very address."""
    inside = rb"[0-9a-fA-F.:]"
    pattern = rb"(?<!" + inside + rb")" + re.escape(address.encode()) + rb"(?!" + inside + rb")"
    return re.search(pattern, words) is not None


def _python(entry: HostEntry, *words: str) -> tuple[str, ...]:
    """Run the host's interpreter, standard library only, as the inventory's user."""
    return (*_sudo(entry), *shlex.split(entry.python), "-I", "-S", *words)


def _sudo(entry: HostEntry) -> tuple[str, ...]:
    return ("sudo", "-n", "--") if entry.sudo else ()


def _run_checked(
    client: paramiko.SSHClient, command: Sequence[str], label: str, stdin: bytes = b""
) -> Completed:
    done = execute(client, shlex.join(command), stdin)
    if done.exit_code != 0:
        raise BackendError(f"{label}: {done.complaint(-1)}")
    return done


def _peer_address(entry: HostEntry, label: str) -> str:
    """Return the IP address of the host among its peers. Raises BackendError."""
    asked = entry.peer_address or entry.address
    try:
        found = socket.getaddrinfo(asked, None, type=socket.SOCK_STREAM)[0][4][0]
        return str(ipaddress.ip_address(found))
    except (OSError, ValueError) as error:
        raise BackendError(f"{label}: {asked} is no address: {error}") from error

"""Hosts as network namespaces of this machine: veth pairs, one bridge, nothing visible outside.

    harness ---(sockets handed out by the hub's agent)--- hub: bridge kp0 10.0.0.254
                                                            |        |        |
                                                     10.0.0.1 10.0.0.2 10.0.0.3   eth0 of n1, n2, n3

Everything lives in a network and a mount namespace of its own, for users without privilege inside
a user namespace in which they are root. An agent (`cluster.backends.agent`) holds each network
namespace open, the hub's and every node's. Nodes are children of the harness that enter their
namespace before they become the node, so they are signalled, waited for and labelled as plain
processes are; their files are where every other backend's are. When the last process is gone, so
are the namespaces and all that was set up in them: nothing of this exists outside of them.

Addresses are private to these namespaces, so that they can be the same in every run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from cluster.backends.agent import channel
from cluster.backends.agent.channel import Caller, Channel, Stream
from cluster.backends.base import BackendError, NodeState, ProcessIdentity
from cluster.backends.hosts import NODE_OUTPUT, AgentHost, ByAgent, FoldersHere, all_of, connect_by
from cluster.backends.machine import clocks
from cluster.backends.packages import install
from cluster.backends.processes.labelled import end_escaped
from cluster.backends.processes.records import (
    LocalProcess,
    RecordedProcess,
    identify,
    labels,
    record_process,
    tail_of,
)
from cluster.values import valueclass

HUB_ADDRESS = "10.0.0.254"
_PREFIX = 24
_BRIDGE = "kp0"
_INTERFACE = "eth0"
_TOOLS = ("unshare", "nsenter", "ip", "nft")
_PACKAGES = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "nft": "nftables"}
_SETUP_S = 60.0
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_ENTER_FOLDER = 'cd "$0" && exec "$@"'


@valueclass
class Namespaces:
    """An agent in namespaces of its own, which it holds open."""

    agent: asyncio.subprocess.Process
    channel: Channel


@valueclass
class NetnsHost(ByAgent):
    """One node's namespaces, in whose network its agent runs commands as root of it."""

    node: str
    address: str
    folder: PurePath
    namespaces: Namespaces
    provider: NetnsProvider
    interpreter = sys.executable

    @property
    def holder(self) -> int:
        """Pid of the process that keeps the network namespace open."""
        return self.namespaces.agent.pid

    @property
    def agent(self) -> Caller:
        return self.namespaces.channel

    async def pid(self) -> int | None:
        """Name the node's process; host and harness number processes alike."""
        return self.provider.node_pid(self.node)


class NetnsProvider(FoldersHere):
    """See `cluster.backends.hosts.HostProvider`."""

    name = "netns"

    def __init__(self, run_folder: Path, run_id: str) -> None:
        self.run_id = run_id
        self.run_folder = run_folder.absolute()
        self._privileged = may_make_namespaces()
        self._hub: Namespaces | None = None
        self._sockets: socket.socket | None = None
        """Where sockets of the hub's network arrive."""
        self._agents: list[Namespaces] = []
        self._hosts: dict[str, NetnsHost] = {}
        self._started: list[LocalProcess] = []
        self._nodes: dict[str, LocalProcess] = {}

    @property
    def clock_library(self) -> PurePath | None:
        """Where it lies on this machine."""
        return clocks.library()

    async def create(self, nodes: Sequence[str]) -> Mapping[str, AgentHost]:
        _refuse_without_tools()
        try:
            self._hub = hub = await self._start_hub()
            await self._set_up(hub.channel, _HUB_SETUP)
            hosts = await all_of(self._make_host(node) for node in nodes)
            self._hosts = {host.node: host for host in hosts}
            await all_of(self._connect_host(hub, host) for host in hosts)
        except BaseException:
            await self.tear_down()
            raise
        return dict(self._hosts)

    async def start(
        self, node: str, command: Sequence[str], environment: Mapping[str, str], output: str
    ) -> LocalProcess:
        folder, inside = self.folder(node), self.entering(self._hosts[node].holder)
        process = await LocalProcess.start(
            (*inside, "sh", "-c", _ENTER_FOLDER, str(folder), *command),
            folder,
            environment,
            folder / output,
        )
        self._started.append(process)
        self._record(node if output == NODE_OUTPUT else f"{node}:{output}", process.identity)
        if output == NODE_OUTPUT:
            self._nodes[node] = process
        return process

    async def connect(self, host: str, port: int) -> socket.socket:
        """Connect from the hub's namespace; also when interrupted, no socket is left unclaimed."""
        opening = asyncio.ensure_future(self._socket())
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unclaimed)
            raise
        return await connect_by(opened, host, port)

    async def wait_until_lost(self) -> str:
        """See `Backend.wait_until_lost`: until an agent has ended."""
        ends = [asyncio.ensure_future(each.agent.wait()) for each in self._agents]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        last = "".join(tail_of(self._output())[-1:]) or "it wrote nothing"
        return f"an agent that holds the nodes' namespaces has ended: {last}"

    async def tear_down(self) -> None:
        self.abandon()
        for process in self._started:
            await process.wait()
        for namespaces in self._agents:
            await namespaces.channel.close()
            await namespaces.agent.wait()

    def abandon(self) -> None:
        for process in self._started:
            process.kill_now()
        if self._sockets is not None:
            self._sockets.close()
        for namespaces in self._agents:
            namespaces.channel.hang_up()
            if namespaces.agent.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    namespaces.agent.kill()
        # A filesystem that nobody unmounted keeps the namespace where it is mounted, and that it.
        end_escaped(self.run_id, supports=True)

    def entering(self, pid: int) -> tuple[str, ...]:
        """Command prefix that runs the rest in the namespaces of a process of ours."""
        user = () if self._privileged else ("--user", "--preserve-credentials")
        return ("nsenter", "--target", str(pid), *user, "--net", "--mount", "--")

    def node_pid(self, node: str) -> int | None:
        """Name a node's live process."""
        process = self._nodes.get(node)
        if process is None or process.identity is None:
            return None
        return None if process.state_now() is NodeState.DEAD else process.identity.pid

    # -- parts -----------------------------------------------------------------------------------

    async def _start_hub(self) -> Namespaces:
        ours, theirs = socket.socketpair()
        self._sockets = ours
        self.run_folder.mkdir(parents=True, exist_ok=True)
        ours.setblocking(False)  # noqa: FBT003  (takes no keyword)
        user = () if self._privileged else ("--user", "--map-root-user")
        # Slave: what another run unmounts is not kept mounted here, and its daemon ends.
        unshare = ("unshare", *user, "--net", "--mount", "--propagation", "slave", "--")
        with theirs:
            try:
                return await self._start_agent("netns", unshare, self.run_folder, theirs)
            except BackendError as error:
                lines = tail_of(self._output())
                if not lines:  # nothing was refused: the machine is busy
                    raise
                raise BackendError(refusal(lines[-1])) from error

    async def _start_agent(
        self, name: str, inside: tuple[str, ...], folder: Path, *passed: socket.socket
    ) -> Namespaces:
        """Start an agent in namespaces that it holds open. Raises BackendError."""
        ours, theirs = socket.socketpair()
        numbers = [taken.fileno() for taken in (theirs, *passed)]
        agent = (sys.executable, "-P", "-m", "cluster.backends.agent", "socket", str(folder))
        with theirs, self._output().open("ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(*inside, *agent, *map(str, numbers)),
                    env={**os.environ, **labels(self.run_id, support=True)},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=numbers,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise BackendError(f"cannot start {inside[0]}: {error}") from error

        async def open_once() -> Stream:
            if ours.fileno() < 0:
                raise ConnectionError("it is gone")
            return await asyncio.open_connection(sock=ours)

        namespaces = Namespaces(process, Channel(name, "its agent", open_once))
        self._agents.append(namespaces)
        await namespaces.channel.call("ready", timeout_s=_SETUP_S)
        assert _network_of(process.pid) != _network_of(os.getpid()), "a network of its own"
        return namespaces

    async def _make_host(self, node: str) -> NetnsHost:
        folder = self.folder(node)
        folder.mkdir(parents=True, exist_ok=True)
        inside = (*self._inside_hub(), "unshare", "--net", "--")
        namespaces = await self._start_agent(node, inside, folder)
        self._record(f"{node}:agent", identify(namespaces.agent.pid))
        address = f"10.0.0.{int(node[1:])}"
        return NetnsHost(node, address, folder, namespaces, self)

    def _record(self, role: str, identity: ProcessIdentity | None) -> None:
        if identity is not None:
            record_process(self.run_folder, RecordedProcess(self.run_id, role, identity))

    async def _connect_host(self, hub: Namespaces, host: NetnsHost) -> None:
        outer = f"kp-{host.node}"
        await self._set_up(
            hub.channel,
            f"link add {outer} type veth peer name {_INTERFACE} netns {host.holder}\n"
            f"link set {outer} master {_BRIDGE} up\n",
        )
        await self._set_up(
            host,
            f"link set lo up\naddress add {host.address}/{_PREFIX} dev {_INTERFACE}\n"
            f"link set {_INTERFACE} up\n",
        )

    def _inside_hub(self) -> tuple[str, ...]:
        assert self._hub is not None, "started"
        return self.entering(self._hub.agent.pid)

    async def _set_up(self, agent: Caller, batch: str) -> None:
        done = await channel.run(agent, ("ip", "-batch", "-"), batch.encode(), _SETUP_S)
        if done.exit_code != 0:
            reason = done.complaint(0)
            if "not permitted" in reason:  # AppArmor grants a user namespace, and nothing inside
                raise BackendError(refusal(reason))
            raise BackendError(f"namespaces cannot be connected: {reason}")

    async def _socket(self) -> socket.socket:
        """Get a socket of the hub's namespace. Raises OSError when its agent is gone."""
        if self._hub is None or self._sockets is None or self._sockets.fileno() < 0:
            raise ConnectionError("the namespaces are gone")
        try:
            await self._hub.channel.call("socket")
        except BackendError as error:
            raise ConnectionError(str(error)) from error
        _, numbers, _, _ = socket.recv_fds(self._sockets, 1, 1)  # sent before the answer
        return socket.socket(fileno=numbers[0])

    def _output(self) -> Path:
        return self.run_folder / "netns.log"


def _close_unclaimed(opening: asyncio.Task[socket.socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


_HUB_SETUP = (
    f"link set lo up\nlink add {_BRIDGE} type bridge\n"
    f"address add {HUB_ADDRESS}/{_PREFIX} dev {_BRIDGE}\nlink set {_BRIDGE} up\n"
)


def _network_of(pid: int) -> str:
    return str(Path("/proc", str(pid), "ns/net").readlink())


def refusal(reason: str) -> str:
    """Say in one line that this machine lets its users make no namespaces, and what would help."""
    remedies = []
    for switch, (forbids, allows) in _SWITCHES.items():
        with contextlib.suppress(OSError):
            if (_SYSCTL / switch.replace(".", "/")).read_text().strip() == forbids:
                remedies.append(f"; as root: sysctl -w {switch}={allows}")
    line = f"this machine does not let this user make namespaces: {reason}"
    return line + "".join(remedies)


_SYSCTL = Path("/proc/sys")
_SWITCHES = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
}
"""Switches of distributions: the value that forbids namespaces to users, one that allows them."""


def may_make_namespaces() -> bool:
    """Whether this process needs no user namespace: it has CAP_SYS_ADMIN and CAP_NET_ADMIN."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    capabilities = int(effective.split()[1], 16)
    return all(capabilities >> number & 1 for number in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def _refuse_without_tools() -> None:
    if sys.platform != "linux":
        raise BackendError("backend netns needs Linux")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        command = install(*(_PACKAGES[tool] for tool in missing))
        raise BackendError(f"{', '.join(missing)} not found: {command}")

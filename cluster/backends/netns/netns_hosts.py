"""Hosts as network namespaces of this machine: veth pairs, one bridge, nothing visible outside.

    harness ---(sockets handed out by the keeper)--- hub: bridge kp0 10.0.0.254
                                                       |        |        |
                                                     10.0.0.1 10.0.0.2 10.0.0.3   eth0 of n1, n2, n3

Everything lives in a network and a mount namespace of its own, for users without privilege inside
a user namespace in which they are root. Nodes are children of the harness that enter their
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

from cluster.backends.abilities import Completed, Host
from cluster.backends.base import BackendError, NodeState
from cluster.backends.hosts import NODE_OUTPUT, HostPorts
from cluster.backends.netns import keeper
from cluster.backends.netns.trees import mounted_below, unpack
from cluster.backends.packages import install
from cluster.backends.processes.records import (
    LocalProcess,
    RecordedProcess,
    labels,
    record_process,
    tail_of,
)
from cluster.backends.running import run_command, write_files
from cluster.values import valueclass

HUB_ADDRESS = "10.0.0.254"
_PREFIX = 24
_BRIDGE = "kp0"
INTERFACE = "eth0"
_TOOLS = ("unshare", "nsenter", "ip", "nft")
_PACKAGES = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "nft": "nftables"}
_KEEPER_TIMEOUT_S = 10.0
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_ENTER_FOLDER = 'cd "$0" && exec "$@"'


@valueclass
class NetnsHost:
    """One node's namespaces (`cluster.backends.abilities.Host`)."""

    node: str
    address: str
    interface: str | None
    folder: PurePath
    holder: int
    """Pid of the process that keeps the network namespace open."""
    provider: NetnsProvider

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """Run it in the node's network namespace, as root of it."""
        inside = (*self.provider.entering(self.holder), *command)
        environment = {**os.environ, **labels(self.provider.run_id, support=True)}
        return await run_command(inside, environment, stdin, timeout_s)

    async def pid(self) -> int | None:
        """Name the node's process; host and harness number processes alike."""
        return self.provider.node_pid(self.node)


class NetnsProvider:
    """See `cluster.backends.hosts.HostProvider`."""

    name = "netns"
    interpreter = sys.executable

    def __init__(self, run_folder: Path, run_id: str) -> None:
        self.run_id = run_id
        self._run_folder = run_folder.absolute()
        self._privileged = may_make_namespaces()
        self._keeper: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._talking = asyncio.Lock()
        self._hosts: dict[str, NetnsHost] = {}
        self._started: list[LocalProcess] = []
        self._nodes: dict[str, LocalProcess] = {}

    async def create(self, nodes: Sequence[str]) -> Mapping[str, Host]:
        """See `HostProvider.create`."""
        _refuse_without_tools()
        try:
            await self._start_keeper()
            await self._run_checked(self._inside_hub(), _HUB_SETUP)
            for node in nodes:
                self._hosts[node] = await self._make_host(node)
            await asyncio.gather(*(self._connect_host(host) for host in self._hosts.values()))
        except BaseException:
            await self.tear_down()
            raise
        return dict(self._hosts.items())

    def ports(self, node: str) -> HostPorts:  # noqa: ARG002  (contract)
        """See `HostProvider.ports`."""
        return HostPorts()

    async def put(self, node: str, files: Mapping[str, bytes]) -> None:
        """See `HostProvider.put`."""
        write_files(node, Path(self._hosts[node].folder), files)

    async def start(
        self,
        node: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: str,
        *,
        privileged: bool = False,  # noqa: ARG002  (all are root of their namespaces)
    ) -> LocalProcess:
        """See `HostProvider.start`."""
        host = self._hosts[node]
        folder = Path(host.folder)
        inside = self.entering(host.holder)
        process = await LocalProcess.start(
            (*inside, "sh", "-c", _ENTER_FOLDER, str(folder), *command),
            folder,
            environment,
            folder / output,
        )
        self._started.append(process)
        if process.identity is not None:
            role = node if output == NODE_OUTPUT else f"{node}:{output}"
            record_process(self._run_folder, RecordedProcess(self.run_id, role, process.identity))
        if output == NODE_OUTPUT:
            self._nodes[node] = process
        return process

    async def fetch(self, node: str, destination: Path) -> None:
        """Copy what is on filesystems that only the namespace sees; all else is there already."""
        host = self._hosts[node]
        if mounted_below(host.holder, host.folder):
            packed = await host.run(("tar", "-C", str(host.folder), "-cf", "-", "."))
            if packed.exit_code != 0:
                raise BackendError(f"{node}: its files cannot be read: {_first_line(packed)}")
            unpack(packed.stdout, destination)

    async def connect(self, host: str, port: int) -> socket.socket:
        """Connect from the hub's namespace."""
        connection = await self._socket()
        try:
            connection.setblocking(False)  # noqa: FBT003  (takes no keyword)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def tear_down(self) -> None:
        """See `HostProvider.tear_down`."""
        self.abandon()
        for process in self._started:
            await process.wait()
        if self._keeper is not None:
            await self._keeper.wait()

    def abandon(self) -> None:
        """See `HostProvider.abandon`."""
        for process in self._started:
            process.kill_now()
        if self._control is not None:
            self._control.close()
        if self._keeper is not None and self._keeper.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keeper.pid, 9)

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

    async def _start_keeper(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            user = () if self._privileged else ("--user", "--map-root-user")
            program = str(Path(keeper.__file__))
            self._run_folder.mkdir(parents=True, exist_ok=True)
            with self._output().open("ab") as output:
                # Slave: what another run unmounts is not kept mounted here, and its daemon ends.
                self._keeper = await asyncio.create_subprocess_exec(
                    *("unshare", *user, "--net", "--mount", "--propagation", "slave", "--"),
                    *(sys.executable, "-I", "-S", program, str(theirs.fileno())),
                    env={**os.environ, **labels(self.run_id, support=True)},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise BackendError(f"cannot start unshare: {error}") from error
        finally:
            theirs.close()
        ours.setblocking(False)  # noqa: FBT003  (takes no keyword)
        self._control = ours
        await self._ask(b"")  # it says that it is in its namespaces
        assert self._keeper is not None, "started"
        assert _network_of(self._keeper.pid) != _network_of(os.getpid()), "a network of its own"

    async def _make_host(self, node: str) -> NetnsHost:
        holder = int(await self._ask(b"host\n"))
        if holder < 0:
            raise BackendError(f"{node}: no network namespace could be made")
        assert _network_of(holder) != _network_of(os.getpid()), "never the machine's own network"
        folder = self._run_folder / "nodes" / node
        folder.mkdir(parents=True, exist_ok=True)
        return NetnsHost(node, f"10.0.0.{int(node[1:])}", INTERFACE, folder, holder, self)

    async def _connect_host(self, host: NetnsHost) -> None:
        outer = f"kp-{host.node}"
        await self._run_checked(
            self._inside_hub(),
            f"link add {outer} type veth peer name {INTERFACE} netns {host.holder}\n"
            f"link set {outer} master {_BRIDGE} up\n",
        )
        await self._run_checked(
            self.entering(host.holder),
            f"link set lo up\naddress add {host.address}/{_PREFIX} dev {INTERFACE}\n"
            f"link set {INTERFACE} up\n",
        )

    def _inside_hub(self) -> tuple[str, ...]:
        assert self._keeper is not None, "started"
        return self.entering(self._keeper.pid)

    async def _run_checked(self, inside: tuple[str, ...], batch: str) -> None:
        environment = {**os.environ, **labels(self.run_id, support=True)}
        command = (*inside, "ip", "-batch", "-")
        done = await run_command(command, environment, batch.encode(), _KEEPER_TIMEOUT_S)
        if done.exit_code != 0:
            reason = _first_line(done)
            if "not permitted" in reason:  # AppArmor grants a user namespace, and nothing inside
                raise BackendError(refusal(reason))
            raise BackendError(f"namespaces cannot be connected: {reason}")

    async def _ask(self, line: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._talking:
            assert self._control is not None, "started"
            try:
                async with asyncio.timeout(_KEEPER_TIMEOUT_S):
                    await loop.sock_sendall(self._control, line)
                    answer = await loop.sock_recv(self._control, 64)
            except (OSError, TimeoutError):
                answer = b""
        if not answer:
            lines = tail_of(self._output())
            raise BackendError(refusal(lines[-1] if lines else "the keeper of them is gone"))
        return answer

    async def _socket(self) -> socket.socket:
        """Get a socket of the hub's namespace. Raises OSError when the keeper is gone."""
        async with self._talking:
            if self._control is None or self._control.fileno() < 0:
                raise ConnectionError("the namespaces are gone")
            await asyncio.get_running_loop().sock_sendall(self._control, b"socket\n")
            # The keeper answers within microseconds; waiting for it in the loop's selector would
            # need a reader that sees ancillary data, which asyncio does not offer.
            await _readable(self._control)
            _, numbers, _, _ = socket.recv_fds(self._control, 1, 1)
        if not numbers:
            raise ConnectionError("the keeper of the namespaces is gone")
        return socket.socket(fileno=numbers[0])

    def _output(self) -> Path:
        return self._run_folder / "netns.log"


_HUB_SETUP = (
    f"link set lo up\nlink add {_BRIDGE} type bridge\n"
    f"address add {HUB_ADDRESS}/{_PREFIX} dev {_BRIDGE}\nlink set {_BRIDGE} up\n"
)


def _network_of(pid: int) -> str:
    return str(Path("/proc", str(pid), "ns/net").readlink())


async def _readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def on_ready() -> None:
        loop.remove_reader(channel)
        ready.set_result(None)

    loop.add_reader(channel, on_ready)
    try:
        await ready
    finally:
        loop.remove_reader(channel)


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


def _first_line(done: Completed) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else f"exit code {done.exit_code}"

"""Hosts as containers of an engine on this machine.

    harness --- bridge of the run's own network, .1 of a free private subnet
                   |             |             |
              .11 n1        .12 n2        .13 n3        one container each

A container's first process is an init with `sleep infinity`; the node is started beside it by
`docker exec`, so that the network namespace, its rules and the clock's files outlive the node. It
has the engine's usual capabilities and NET_ADMIN, which its packet filter needs, and no more. The
node's folder is mounted from the run folder, at the same path, so that its files are here as it
writes them; the node's code is mounted from where the harness has it, read-only.

A node runs as the user and group of the harness, so that its files are this user's, and signals
and filesystems that this user mounts reach it. What changes the network runs as the container's
root.

Nodes of an image of the user's run in another root. Beside each container there is one of that
image, in which nothing runs (`user_image`), and the node's process is one of the first container
that has changed its root (`enter`):

    container of the toolkit's image          container of the user's image
    namespaces of network and processes  -->  the same ones
    tools of faults, the agents               the node's folder, at the same path
    a node's process  ----- chroot ----->     its root

So the image needs none of the tools and no C library of ours, and no fault differs in it.

dockerd lets nothing be forwarded but what it has rules for; containers of one network are among it.

Everything is labelled with the run, its folder and its harness; `leftovers` finds it by that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import docker
from docker.models.containers import Container
from docker.types import LogConfig, Mount

from cluster.backends.agent.channel import Caller, Channel
from cluster.backends.base import BackendError, NodeState
from cluster.backends.dependencies import PACKAGE
from cluster.backends.docker import engine, enter, rootfs
from cluster.backends.docker.engine import EngineErrors, EngineGoneError, in_thread
from cluster.backends.docker.image import Say, ensure_image
from cluster.backends.docker.leftovers import remove_run
from cluster.backends.docker.network import Network, make_network
from cluster.backends.docker.process import AgentStream, ExecProcess, inner_pid, wait_executed
from cluster.backends.docker.user_image import at_rest, variables
from cluster.backends.hosts import NODE_OUTPUT, AgentHost, ByAgent, FoldersHere, all_of
from cluster.backends.machine import clocks
from cluster.backends.processes.records import TRIAL, labels
from cluster.backends.terms import NoPlaceError

CODE = PurePath("/opt/kraftprobe/code/cluster")
_INTO_FOLDER = 'cd "$1" || exit; out="$2"; shift 2; exec "$@" >>"$out" 2>&1'
_ROOT = "0:0"
_USUAL = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
"""What a container's processes have of variables where an image sets none."""

PrepareFolder = Callable[[str, Path], Awaitable[None]]
"""Called with a node's name and its folder on this machine before its container is made: what is
mounted there by then is seen inside."""


@dataclass(frozen=True, slots=True, eq=False)
class DockerHost(ByAgent):
    """One node's container, in which commands run as its root unless it is `as_node`."""

    node: str
    address: str
    folder: PurePath
    container: Container
    root: Container | None
    """The one whose root file system is the node's, where that is another."""
    channel: Channel
    user_channel: Channel
    """As the harness's own user; the same one if that is root."""
    provider: DockerProvider
    interpreter = str(rootfs.INTERPRETER)

    @property
    def as_node(self) -> DockerHost:
        """The host as the node sees it: commands run as the node's user."""
        return replace(self, channel=self.user_channel)

    async def hang_up(self) -> None:
        """Close its channels; they open again when they are used."""
        await self.channel.close()
        await self.user_channel.close()

    @property
    def agent(self) -> Caller:
        return self.channel

    async def pid(self) -> int | None:
        """Name the node's process by its number in the container."""
        process = self.provider.node_process(self.node)
        if process is None or process.state_now() is NodeState.DEAD:
            return None
        return process.inner_pid


class DockerProvider(FoldersHere):
    """See `cluster.backends.hosts.HostProvider`."""

    name = "docker"
    clock_library = CODE / clocks.LIBRARY.relative_to(PACKAGE)
    """In every container."""

    def __init__(
        self,
        run_folder: Path,
        run_id: str,
        *,
        say: Say = lambda _: None,
        prepare_folder: PrepareFolder | None = None,
        reads: Sequence[Path] = (),
        image: str | None = None,
    ) -> None:
        """`reads`, `image`: those of the system."""
        self.run_id = run_id
        self.run_folder = run_folder.absolute()
        self._say = say
        self._prepare_folder = prepare_folder
        self._reads = tuple(reads)
        self._image_of_nodes = image
        self._client: docker.DockerClient | None = None
        self._user = f"{os.geteuid()}:{os.getegid()}"
        self.hosts: dict[str, DockerHost] = {}
        """By node, once `create` has made them."""
        self._started: list[ExecProcess] = []
        self._nodes: dict[str, ExecProcess] = {}

    async def create(self, nodes: Sequence[str]) -> Mapping[str, AgentHost]:
        """See `HostProvider.create`. Builds the image first where the engine lacks it."""
        try:
            image = await self._image()
            self._say(f"making {len(nodes)} containers and their network")
            network = await in_thread(
                make_network, self._connect(), f"kraftprobe-{self.run_id}", self._labels()
            )
            hosts = await all_of(self._make_host(image, network, node) for node in nodes)
            self.hosts = dict(zip(nodes, hosts, strict=True))
            self._say(f"starting {len(nodes)} containers on {network.subnet}")
            await all_of(self._start_containers(host) for host in hosts)
            self._say("starting the nodes in them")
        except BaseException:
            await self.tear_down()
            raise
        return dict(self.hosts.items())

    async def _image(self) -> str:
        """Connect, and have the image of the containers. Raises NoPlaceError."""
        try:
            self._client = await asyncio.get_running_loop().run_in_executor(None, engine.connect)
            self._say("looking for the image of the containers")
            return await ensure_image(self._client, self._say)
        except BackendError as error:
            raise NoPlaceError(str(error)) from error

    async def start(
        self, node: str, command: Sequence[str], environment: Mapping[str, str], output: str
    ) -> ExecProcess:
        host = self.hosts[node]
        words = ["sh", "-c", _INTO_FOLDER, "sh", str(host.folder), output, *command]
        user = self._user
        if host.root is not None and output == NODE_OUTPUT:
            words = await self._entering(host, host.root, command, environment)
            environment, user = {}, _ROOT
        exec_id, pid = await in_thread(self._exec, host.container, words, environment, user)
        written = self.folder(node) / output
        process = ExecProcess(self._connect(), exec_id, pid, host, written, self.run_id)
        self._started.append(process)
        if output == NODE_OUTPUT:
            self._nodes[node] = process
        return process

    async def tear_down(self) -> None:
        for host in self.hosts.values():
            await host.hang_up()
        if self._client is not None:
            client, self._client = self._client, None
            try:
                await in_thread(_remove_all, client, self.run_id)
            except EngineGoneError as error:
                raise EngineGoneError(self._left_behind(str(error))) from error
        for process in self._started:
            await process.wait()

    async def wait_until_lost(self) -> str:
        """Wait until the engine is gone; one line that says what it left and what to do."""
        return self._left_behind(f"the docker engine is gone: {await engine.until_gone()}")

    def _left_behind(self, why: str) -> str:
        runs = self.run_folder.parent.parent
        cleanup, check = "kraftprobe cleanup", ""
        if not self.run_id.startswith(TRIAL):
            cleanup += f" --runs {runs}"
            check = f"; what was recorded is kept: kraftprobe check {self.run_folder}"
        made = len(self.hosts) * (1 if self._image_of_nodes is None else 2)
        things = f"{made} containers kraftprobe-{self.run_id}-*"
        return f"{why}; {things} may be left: once it runs again, {cleanup}{check}"

    def abandon(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            with contextlib.suppress(*EngineErrors):
                _remove_all(client, self.run_id)

    def node_process(self, node: str) -> ExecProcess | None:
        """The latest process of a node."""
        return self._nodes.get(node)

    # -- parts -----------------------------------------------------------------------------------

    def _labels(self) -> dict[str, str]:
        return {**engine.marks(self.run_id), engine.FOLDER_LABEL: str(self.run_folder)}

    def _connect(self) -> docker.DockerClient:
        if self._client is None:
            raise BackendError("the containers are gone")
        return self._client

    async def _make_host(self, image: str, network: Network, node: str) -> DockerHost:
        folder = self.folder(node)
        folder.mkdir(parents=True, exist_ok=True)
        if self._prepare_folder is not None:
            await self._prepare_folder(node, folder)
        container = await in_thread(self._create, image, network, node, folder)
        root = None
        if self._image_of_nodes is not None:
            root = await in_thread(self._create_root, self._image_of_nodes, container, node, folder)
        of_root, of_user = (
            Channel(
                node,
                "its container",
                AgentStream(self._connect(), str(container.id), str(folder), user).open,
            )
            for user in (_ROOT, self._user)
        )
        return DockerHost(
            node=node,
            address=network.address(node),
            folder=folder,
            container=container,
            root=root,
            channel=of_root,
            user_channel=of_root if self._user == _ROOT else of_user,
            provider=self,
        )

    def _create(self, image: str, network: Network, node: str, folder: Path) -> Container:
        client = self._connect()
        fixed = client.api.create_endpoint_config(ipv4_address=network.address(node))
        return client.containers.create(
            image,
            ["sleep", "infinity"],
            name=f"kraftprobe-{self.run_id}-{node}",
            hostname=node,
            init=True,
            cap_add=["NET_ADMIN"],
            environment=labels(self.run_id),
            labels={**self._labels(), engine.NODE_LABEL: node},
            log_config=LogConfig(type="none"),
            mounts=[
                Mount(str(folder), str(folder), type="bind"),
                Mount(str(CODE), str(PACKAGE), type="bind", read_only=True),
                *(Mount(str(p), str(p), type="bind", read_only=True) for p in self._reads),
            ],
            network=network.name,
            networking_config={network.name: fixed},
        )

    def _create_root(self, image: str, beside: Container, node: str, folder: Path) -> Container:
        """Create the container of a node's root; it ends with the one that it is beside."""
        mounts = [Mount(str(folder), str(folder), type="bind")]
        if (library := clocks.library()) is not None:
            mounts.append(Mount(str(self.clock_library), str(library), type="bind", read_only=True))
        return self._connect().containers.create(
            **at_rest(image, self.run_id),
            name=f"{beside.name}-root",
            labels={**self._labels(), engine.NODE_LABEL: node},
            mounts=mounts,
            network_mode=f"container:{beside.id}",
            pid_mode=f"container:{beside.id}",
        )

    async def _start_containers(self, host: DockerHost) -> None:
        await in_thread(host.container.start)
        await self._check_visibility(host)
        if host.root is not None:
            await in_thread(host.root.start)

    async def _entering(
        self,
        host: DockerHost,
        root: Container,
        command: Sequence[str],
        environment: Mapping[str, str],
    ) -> list[str]:
        """Return the command that becomes this one in the root (`enter`)."""
        pid = inner_pid(await in_thread(self._first_process, root))
        (Path(host.folder) / NODE_OUTPUT).touch()  # as this user
        order = {
            "root": f"/proc/{pid}/root",
            "user": [os.geteuid(), os.getegid()],
            "folder": str(host.folder),
            "output": NODE_OUTPUT,
            "environment": {**_USUAL, **variables(root.attrs["Config"]), **environment},
            "command": list(command),
        }
        return [host.interpreter, "-m", enter.__name__, json.dumps(order)]

    def _exec(
        self,
        container: Container,
        command: Sequence[str],
        environment: Mapping[str, str],
        user: str,
    ) -> tuple[str, int]:
        """Start a process in the container; answers the exec's id and the process's number here."""
        api = self._connect().api
        created = api.exec_create(
            str(container.id),
            list(command),
            environment=dict(environment),
            user=user,
            stdout=False,
            stderr=False,
        )
        exec_id = str(created["Id"])
        api.exec_start(exec_id, detach=True)
        pid = int(api.exec_inspect(exec_id)["Pid"] or 0)
        wait_executed(pid)
        return exec_id, pid

    async def _check_visibility(self, host: DockerHost) -> None:
        """Make sure that the container's processes can be watched from here."""
        pid = await in_thread(self._first_process, host.container)
        if inner_pid(pid) != 1:
            raise BackendError(
                "the docker engine's processes cannot be seen from here: run the harness on the "
                "engine's own machine, outside of any container"
            )

    @staticmethod
    def _first_process(container: Container) -> int:
        container.reload()
        return int(container.attrs["State"]["Pid"])


def _remove_all(client: docker.DockerClient, run_id: str) -> None:
    """Remove every container and network of the run, found by its label, and hang up."""
    try:
        remove_run(client, run_id)
    finally:
        client.close()

"""Serves the agent's verbs to what connects, and ends when the harness is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

from cluster.backends.agent import cleaning, frames
from cluster.backends.agent.frames import Message
from cluster.backends.agent.probes import Probes
from cluster.backends.agent.processes import OF_HARNESS, Processes, process_state
from cluster.backends.agent.shaper import Shaping

_THROW_AWAY = ("trial-", "kraftprobe-")
"""Begin the ids of runs that only tried something and have no evidence."""
_POLL_S = 0.2
Verb = Callable[[Message], Awaitable[Message]]


class Sockets:
    """Hands out sockets of this network, over a socket that descriptors can travel."""

    def __init__(self, passing: socket.socket) -> None:
        self._passing = passing

    async def do_socket(self, _: Message) -> Message:
        """Send a TCP socket to where the harness takes it up once this is answered."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
            socket.send_fds(self._passing, [b"s"], [opened.fileno()])
        return Message({})


class Agent:
    """Takes requests from any number of connections; see the package for the protocol."""

    def __init__(self, probes: Probes, *parts: object) -> None:
        self._probes = probes
        self._verbs: dict[str, Verb] = {
            name.removeprefix("do_"): getattr(part, name)
            for part in (probes, *parts)
            for name in dir(part)
            if name.startswith("do_")
        }
        self._answers: dict[int, asyncio.Task[bytes] | None] = {}
        """To each request so far; None: it has come."""
        self.heard_s = time.monotonic()
        """When something was asked last."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take requests until the connection ends."""
        try:
            while True:
                request = await frames.read(reader)
                self.heard_s = time.monotonic()
                self._take(request, writer)
        except (asyncio.IncompleteReadError, OSError, frames.NotAMessageError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        """Give the host's port back."""
        self._probes.close()

    def _take(self, request: Message, writer: asyncio.StreamWriter) -> None:
        """Do what is asked, unless it was asked before, and answer when it is done."""
        self._answers.update(dict.fromkeys(request.fields["seen"]))
        number = request.fields["id"]
        if number not in self._answers:
            self._answers[number] = asyncio.ensure_future(self._answer(request))
        answer = self._answers[number]
        if answer is None:
            return  # what a lost connection had on its way may come much later

        def send(done: asyncio.Task[bytes]) -> None:
            if not done.cancelled() and not writer.is_closing():
                writer.write(done.result())

        answer.add_done_callback(send)

    async def _answer(self, request: Message) -> bytes:
        """Render the answer to one request."""
        try:
            answer = await self._verbs[request.fields["do"]](request)
        except Exception as error:  # noqa: BLE001  (whatever it meets is the answer)
            answer = Message({"error": " ".join(str(error).split()) or type(error).__name__})
        return frames.encode(Message({**answer.fields, "id": request.fields["id"]}, answer.payload))


def agent_of(folder: str, environment: Mapping[str, str], *parts: object) -> Agent:
    """Make an agent with all verbs that every host has, and these."""
    return Agent(Probes(), Processes(folder, environment), Shaping(), *parts)


async def serve_socket(folder: str, control: socket.socket, passing: socket.socket | None) -> None:
    """Serve one connection to its end; `passing`: hand out sockets over it."""
    parts = () if passing is None else (Sockets(passing),)
    reader, writer = await asyncio.open_connection(sock=control)
    agent = agent_of(folder, os.environ, *parts)
    await agent.serve(reader, writer)
    agent.close()


def wait_until_alone(namespace: str) -> None:
    """Wait until no other process is in this one's namespace of a kind, "net" or "mnt".

    It would go with this process, and what still runs would see its network vanish.
    """
    while is_inhabited(namespace):
        time.sleep(_POLL_S)


def is_inhabited(namespace: str) -> bool:
    """Whether any process but this one is in its namespace of this kind."""
    own = os.readlink(f"/proc/self/ns/{namespace}")
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                if os.readlink(f"/proc/{name}/ns/{namespace}") == own:
                    return True
            except OSError:  # gone, or another user's
                continue
    return False


async def serve_daemon(folder: str, run: str, grace_s: float) -> None:
    """Serve FOLDER/agent.sock until the harness is lost for good; then end what is the run's."""
    os.umask(0o077)
    agent = agent_of(folder, _environment(folder))
    os.chdir(folder)  # a socket's path is at most some hundred bytes long
    await asyncio.start_unix_server(agent.serve, "agent.sock")
    while time.monotonic() - agent.heard_s <= grace_s:  # noqa: ASYNC110  (time passes by itself)
        await asyncio.sleep(min(1.0, grace_s / 4))
    cleaning.clean(folder, run, keep=not run.startswith(_THROW_AWAY))
    os._exit(3)


def _environment(folder: str) -> dict[str, str]:
    """Make the variables of what a daemon starts on a host behind ssh."""
    own = process_state(os.getpid())
    assert own is not None, "this process lives"
    harness, namespace = OF_HARNESS
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **inherited,
        # Where a preloaded library is looked for that is named without a folder.
        "LD_LIBRARY_PATH": os.path.join(folder, "code", "cluster/backends/machine"),
        # Users without privilege often have no path to nft, and sudo may keep theirs.
        "PATH": os.pathsep.join((f"{folder}/bin", *os.get_exec_path(), "/usr/sbin", "/sbin")),
        harness: f"{os.getpid()}:{own[1]}",
        namespace: str(os.stat("/proc/self/ns/pid").st_ino),
    }


def become_daemon(folder: str) -> None:
    """Leave the parent process, which ends once the daemon's socket is there."""
    path = os.path.join(folder, "agent.sock")
    if os.fork():
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            if os.path.exists(path):
                sys.exit(0)
            time.sleep(0.005)
        sys.exit("the agent did not start: see " + os.path.join(folder, "agent.log"))
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(os.path.join(folder, "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)

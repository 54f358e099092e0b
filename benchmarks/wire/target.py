"""A single-voter node in its own process, on loopback, and what is measured of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Self

from benchmarks.wire.frames import CLUSTER_ID, Frame
from cluster.client.admin_client import CLUSTER_RESOURCE, CallFailed, Client
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey, ListenerType
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork

START_S = 30.0
HANG_S = 20.0
"""Within this a whole frame is answered, or its connection closed, unless its answer may wait."""
PARKED_S = 0.02
"""How long an answer that may wait, or a frame of a false size, may keep a connection."""
_PROBE = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 4711, -1)
_PROBE_ANSWER = struct.pack(">ih", 4711, 0)


class HangError(Exception):
    """The node did not react to a frame, or to a sound request after it."""


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


class Target:
    """The node. Use as a context manager: it kills what it started."""

    def __init__(self, folder: Path) -> None:
        client, controller = _free_ports(2)
        self.ports = {ListenerType.BROKER: client, ListenerType.CONTROLLER: controller}
        self.stderr = folder / "stderr"
        config = folder / "server.properties"
        config.write_text(
            f"process.roles=controller,broker\nnode.id=1\ncluster.id={CLUSTER_ID}\n"
            f"listeners=CLIENT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"controller.quorum.append.linger.ms=0\nmetadata.log.dir={folder / 'metadata'}\n"
        )
        with self.stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cluster.node", "--config", str(config)],
                stdout=stderr,
                stderr=stderr,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    @property
    def exit_code(self) -> int | None:
        """The node's exit code once it is dead."""
        return self._process.poll()

    @property
    def rss_bytes(self) -> int:
        """Resident memory now; 0 when it is dead."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    async def wait_until_up(self) -> None:
        """Wait for both listeners. Raises TimeoutError."""
        async with asyncio.timeout(START_S):
            for listener in ListenerType:
                while not await self.answers(listener):  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.05)

    async def answers(self, listener: ListenerType) -> bool:
        """Return whether a sound request on a new connection is answered."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with Connection(self.ports[listener]) as connection:
                return await connection.reacts(_PROBE, HANG_S) == "answered"
        return False

    async def write_epoch(self) -> int:
        """Write, once the node leads, and return its epoch. Raises HangError."""
        network = TcpNetwork()
        client = Client(network, LoopClock(asyncio.get_running_loop()))
        endpoint = Endpoint(1, "127.0.0.1", self.ports[ListenerType.CONTROLLER])
        written = None
        try:
            async with asyncio.timeout(HANG_S):
                while written is None or written.type != "ok":
                    written = await client.alter_config(
                        endpoint, CLUSTER_RESOURCE, "last", "set", "write"
                    )
                    await asyncio.sleep(0.05)
                return int((await client.describe_quorum(endpoint)).leader_epoch)
        except (TimeoutError, CallFailed) as error:
            raise HangError(f"no write is acknowledged any more: {written or error}") from error
        finally:
            network.close()


class Connection:
    """A connection to one listener, opened anew when the node closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.abort()

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    async def send(self, frame: Frame) -> str:
        """Send a frame and a sound request behind it; return "answered", "closed" or "parked".

        Raises HangError, and OSError when the node does not listen.
        """
        patient = frame.is_whole and not frame.may_be_parked
        outcome = await self.reacts(frame.data + _PROBE, HANG_S if patient else PARKED_S)
        if outcome == "parked" and patient:
            raise HangError(f"no reaction within {HANG_S:g} s to {frame.data.hex()}")
        return outcome

    async def reacts(self, data: bytes, timeout_s: float) -> str:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        received = b""
        outcome = "closed"
        try:
            self._writer.write(data)
            async with asyncio.timeout(timeout_s):
                while chunk := await self._reader.read(65536):
                    received = received[-len(_PROBE_ANSWER) :] + chunk
                    if _PROBE_ANSWER in received:
                        return "answered"
        except TimeoutError:
            outcome = "parked"
        except ConnectionError:
            pass
        self.abort()
        return outcome

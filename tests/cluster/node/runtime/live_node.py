"""A node on real sockets and files, in the test's own process, to which any bytes are sent."""

import asyncio
import contextlib
import random
import struct
from collections.abc import Callable
from pathlib import Path

from cluster.node.assembly import Node, Seams
from cluster.node.config import parse_config
from cluster.node.log.data.log_manager import LogDir, LogDirs
from cluster.node.meta_properties import identify
from cluster.node.protocol.apis import ApiKey, ListenerType
from cluster.node.protocol.codec import read_response
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.disk import FileDisk
from cluster.node.runtime.network import TcpNetwork
from cluster.node.runtime.server import Binding, TcpServer
from cluster.node.runtime.trace import no_trace

PARKED_S = 0.05
"""How long a frame may wait for its answer before it counts as parked; a Fetch may be."""
HANG_S = 200.0
PROBE_ANSWER = struct.pack(">ih", 4711, 0)
PROBE = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 4711, -1)
NAMES = {ListenerType.BROKER: "CLIENT", ListenerType.CONTROLLER: "CONTROLLER"}


class LiveNode:
    """A single-voter node on a loop of its own; the test runs the loop while it waits."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.broken: list[object] = []
        self.answered = 0
        self.loop.set_exception_handler(lambda _, context: self.broken.append(context))
        self.loop.run_until_complete(self._start(folder))

    async def _start(self, folder: Path) -> None:
        config = parse_config(
            "process.roles=controller,broker\nnode.id=1\ncluster.id=c\n"
            "listeners=CLIENT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n"
            "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:2\n"
            f"controller.quorum.append.linger.ms=0\nmetadata.log.dir={folder}\n",
            "fuzz",
        )
        self.disk = FileDisk(folder, self.loop)
        directory = self.loop.create_future()
        identify({"": self.disk}, "c", 1, random.Random(1), directory.set_result)
        self.network = TcpNetwork()
        seams = Seams(
            LoopClock(self.loop),
            self.network,
            self.network,
            self.network,
            self.disk,
            LogDirs((LogDir(str(config.metadata_log_dir), (await directory)[""], self.disk),)),
            random.Random(1),
            no_trace,
        )
        self.node = Node(config, await directory, seams, self.broken.append)
        self.server = TcpServer()
        services = {type_: ListenerService(name, type_, self.node) for type_, name in NAMES.items()}
        ports = await self.server.bind([Binding(s, "127.0.0.1", 0) for s in services.values()])
        self.ports = dict(zip(services, ports, strict=True))
        self.node.start()
        await self.server.serve()
        await _until(lambda: self.node.controller.is_active)

    def answer(self, listener: ListenerType, message: object) -> object:
        """Ask the node itself, without a connection."""
        return self.loop.run_until_complete(
            asyncio.wait_for(self._answer(listener, message), HANG_S)
        )

    async def _answer(self, listener: ListenerType, message: object) -> object:
        reply = self.loop.create_future()
        self.node.handle(NAMES[listener], message, reply.set_result)
        return await reply

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Let the node run until this is so."""
        self.loop.run_until_complete(asyncio.wait_for(_until(condition), HANG_S))

    def close(self) -> None:
        self.server.close()
        self.network.close()
        self.disk.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def feed(self, listener: ListenerType, data: bytes) -> None:
        """Send bytes, then see that the node has neither broken nor stopped answering."""
        self.loop.run_until_complete(asyncio.wait_for(self._feed(listener, data), HANG_S))
        assert self.broken == []

    async def _feed(self, listener: ListenerType, data: bytes) -> None:
        port = self.ports[listener]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data + PROBE)
        received = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(PARKED_S):
                while PROBE_ANSWER not in received:
                    chunk = await reader.read(65536)
                    received += chunk
                    if not chunk:
                        break
        self.answered += received.find(PROBE_ANSWER) > 0
        writer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PROBE)
        frame = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
        writer.transport.abort()
        assert read_response(frame, ApiKey.API_VERSIONS, 0).api_keys


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)

"""Mutated and arbitrary frames against a real node: it must live, answer, and not grow."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from cluster.node.assembly import Node, Seams
from cluster.node.config import parse_config
from cluster.node.meta_properties import load_or_format
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType, request_class
from cluster.node.protocol.codec import read_response
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.disk import FileDisk
from cluster.node.runtime.network import TcpNetwork
from cluster.node.runtime.server import Binding, TcpServer
from cluster.node.runtime.trace import no_trace
from tests.protocol.entities import entities

FRAMES = 2_000
PARKED_S = 0.05
"""How long a frame may wait for its answer before it counts as parked; a Fetch may be."""
HANG_S = 20.0
PROBE_ANSWER = struct.pack(">ih", 4711, 0)
PROBE = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 4711, -1)


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
        load_or_format(self.disk, "c", 1, random.Random(1), directory.set_result)
        self.network = TcpNetwork()
        seams = Seams(
            LoopClock(self.loop),
            self.network,
            self.network,
            self.network,
            self.disk,
            random.Random(1),
            no_trace,
        )
        self.node = Node(config, await directory, seams, self.broken.append)
        self.server = TcpServer()
        services = {
            type_: ListenerService(name, type_, self.node)
            for type_, name in (
                (ListenerType.BROKER, "CLIENT"),
                (ListenerType.CONTROLLER, "CONTROLLER"),
            )
        }
        ports = await self.server.bind([Binding(s, "127.0.0.1", 0) for s in services.values()])
        self.ports = dict(zip(services, ports, strict=True))
        self.node.start()
        await self.server.serve()
        while not self.node.controller.is_active:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)

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


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    live = LiveNode(tmp_path_factory.mktemp("fuzz"))
    yield live
    live.close()


APIS = [
    (listener, key, version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in range(versions.lowest, versions.highest + 1)
]


def encoded(entity, client_id):
    buffer = io.BytesIO()
    buffer.write(struct.pack(">hhi", entity.__api_key__, entity.__version__, 1))
    client = client_id.encode()
    buffer.write(struct.pack(">h", len(client)) + client)
    if entity.__header_schema__.__flexible__:
        buffer.write(b"\0")
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


EXTREMES = [
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0" * 4,
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff",
]


@st.composite
def mutations(draw, frame: bytes) -> bytes:
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(frame)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "extreme", "repeat"]))
        if kind == "flip" and at < len(frame):
            frame = frame[:at] + bytes([frame[at] ^ draw(st.integers(1, 255))]) + frame[at + 1 :]
        elif kind == "cut":
            frame = frame[:at]
        elif kind == "insert":
            frame = frame[:at] + draw(st.binary(min_size=1, max_size=8)) + frame[at:]
        elif kind == "extreme":
            value = draw(st.sampled_from(EXTREMES))
            frame = frame[:at] + value + frame[at + len(value) :]
        else:
            frame = frame[:at] + frame[at:] * 2
    return frame


@st.composite
def frames(draw):
    listener, key, version = draw(st.sampled_from(APIS))
    entity = draw(entities(request_class(key, version)))
    body = draw(mutations(encoded(entity, draw(st.text(max_size=4)))))
    size = len(body)
    if draw(st.integers(0, 19)) == 0:
        size = draw(st.sampled_from([-1, 0, 1, size - 1, size + 1, 2**31 - 1]))
    return listener, struct.pack(">i", size) + body


def test_no_frame_breaks_stalls_or_silences_the_node(node):
    @settings(
        max_examples=FRAMES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(frames())
    def check(case):
        node.feed(*case)

    check()
    assert node.server.buffered_bytes == 0
    assert node.answered > FRAMES / 10, "hardly any frame got past the codec"

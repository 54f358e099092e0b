"""A real quorum of three: how fast topics are made, and how a follower comes back to them."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.node.load import find_leader
from cluster.backends.local import LocalBackend
from cluster.client import Client
from cluster.errors import ErrorCode
from cluster.ports import Endpoint
from cluster.protocol.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    TopicName,
    i16,
    i32,
    milliseconds,
)
from cluster.runtime.clock import LoopClock
from cluster.runtime.network import TcpNetwork
from cluster.systems.kraft import KraftSystem

TOPICS_A_REQUEST = 1_000
TIMEOUT_S = 600.0
NEVER = 2**31 - 1
SNAPSHOT_KEY = "metadata.log.max.record.bytes.between.snapshots"


@dataclass(frozen=True)
class CatchUpFigures:
    create_s: float
    by_log_s: float
    by_snapshot_s: float


async def measure(folder: Path, topics: int) -> CatchUpFigures:
    """The same follower, its folder emptied, first without and then with a snapshot to fetch."""
    backend = LocalBackend(system(NEVER), folder, 3, "metadata")
    await backend.up()
    try:
        leader = await find_leader(backend, backend.nodes, TIMEOUT_S)
        follower = next(node for node in backend.nodes if node != leader)
        began = time.monotonic()
        await create(backend.endpoint(leader), topics)
        create_s = time.monotonic() - began
        by_log_s = await come_back(backend, leader, follower, by_snapshot=False)
        for node in backend.nodes:
            await backend.kill(node)
            configure(backend, node, f"{SNAPSHOT_KEY}={NEVER}", f"{SNAPSHOT_KEY}=1")
            await backend.start(node)
        leader = await find_leader(backend, backend.nodes, TIMEOUT_S)
        await create(backend.endpoint(leader), 1, "last")
        wait_for(backend, leader, "snapshot")
        follower = next(node for node in backend.nodes if node != leader)
        by_snapshot_s = await come_back(backend, leader, follower, by_snapshot=True)
    finally:
        await backend.down()
    return CatchUpFigures(create_s, by_log_s, by_snapshot_s)


def system(snapshot_bytes: int) -> KraftSystem:
    return KraftSystem(
        {
            SNAPSHOT_KEY: snapshot_bytes,
            "controller.quorum.fetch.timeout.ms": 10_000,
            "controller.quorum.request.timeout.ms": 10_000,
        }
    )


def configure(backend: LocalBackend, node: str, line: str, other: str) -> None:
    path = backend.node_folder(node) / "server.properties"
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, other))


async def create(endpoint: Endpoint, topics: int, prefix: str = "topic") -> None:
    network = TcpNetwork()
    client = Client(network, LoopClock(asyncio.get_running_loop()), TIMEOUT_S * 1000)
    deadline = time.monotonic() + 30
    try:
        for first in range(0, topics, TOPICS_A_REQUEST):
            names = [
                f"{prefix}-{n:06d}" for n in range(first, min(topics, first + TOPICS_A_REQUEST))
            ]
            request = CreateTopicsRequest(
                topics=tuple(
                    CreatableTopic(
                        name=TopicName(name),
                        num_partitions=i32(1),
                        replication_factor=i16(-1),
                        assignments=(),
                        configs=(),
                    )
                    for name in names
                ),
                timeout=milliseconds(TIMEOUT_S * 1000),
            )
            response = await client.call(endpoint, request)
            while is_waiting_for_brokers(response) and time.monotonic() < deadline:
                await asyncio.sleep(0.2)
                response = await client.call(endpoint, request)
            errors = {topic.error_code.name for topic in response.topics} - {ErrorCode.none.name}
            if errors:
                raise SystemExit(f"topics were not created: {', '.join(sorted(errors))}")
    finally:
        network.close()


def is_waiting_for_brokers(response: Any) -> bool:
    """No broker is unfenced yet: nothing was created."""
    codes = {topic.error_code for topic in response.topics}
    return codes == {ErrorCode.invalid_replication_factor}


async def come_back(
    backend: LocalBackend, leader: str, follower: str, *, by_snapshot: bool
) -> float:
    """Seconds from the start of the process until it holds what was committed (its high watermark).

    By log the image is still being replayed then; by snapshot it is loaded.
    """
    target = last(backend, leader, "hw")["offset"]
    await backend.kill(follower)
    data = backend.system.data_folder(backend.node_folder(follower))
    shutil.rmtree(data)
    await backend.start(follower)
    started = last(backend, follower, "start")["t"]
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        events = [e for e in trace(backend, follower) if e["t"] >= started]
        loaded = any(event["e"] == "load-snapshot" for event in events)
        for event in events:
            if event["e"] == "hw" and event["offset"] >= target:
                assert loaded == by_snapshot, "it came back another way"
                return (event["t"] - started) / 1e9
        await asyncio.sleep(0.2)
    raise SystemExit("the follower did not come back")


def wait_for(backend: LocalBackend, node: str, event: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not any(e["e"] == event for e in trace(backend, node)):
        if time.monotonic() > deadline:
            raise SystemExit(f"no {event} on {node}")
        time.sleep(0.2)


def trace(backend: LocalBackend, node: str) -> list[dict]:
    text = (backend.node_folder(node) / "trace.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def last(backend: LocalBackend, node: str, event: str) -> dict:
    return [e for e in trace(backend, node) if e["e"] == event][-1]

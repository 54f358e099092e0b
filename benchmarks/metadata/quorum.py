"""A local quorum of three under measurement: its files, its trace, and requests to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.node.load import processor_s
from cluster.backends.local.local_backend import LocalBackend
from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import CallFailed, Peer
from cluster.node.errors import ErrorCode
from cluster.node.ports import Failure
from cluster.node.protocol.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicName,
    i16,
    i32,
    milliseconds,
)
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from cluster.systems.kraft import REGISTRATION, KraftSystem

TOPICS_A_REQUEST = 1_000
TIMEOUT_S = 600.0
POLL_S = 0.05
NEVER = 2**31 - 1
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": NEVER,  # snapshots are asked for
    "metadata.max.retention.bytes": 0,  # the log goes as soon as two snapshots are there
    "kraftprobe.log.clean.interval.ms": 500,
    "controller.quorum.fetch.timeout.ms": 10_000,  # so that a busy machine causes no election
    "controller.quorum.request.timeout.ms": 10_000,
    REGISTRATION: 0,  # brokers that come and go would add records of their own
}


class Quorum:
    """Three nodes, and a client with connections of its own."""

    def __init__(self, folder: Path) -> None:
        self.backend = LocalBackend(KraftSystem(SETTINGS), folder, 3, "metadata")
        self.nodes = self.backend.nodes
        self._network = TcpNetwork()
        clock = LoopClock(asyncio.get_running_loop())
        self.client = Client(self._network, clock)

    async def down(self) -> None:
        self._network.close()
        await self.backend.down()

    async def find_writer(self) -> str:
        """Wait for the node that acknowledges a write."""
        began = time.monotonic()
        while time.monotonic() < began + TIMEOUT_S:
            for node in self.nodes:
                peer = Peer(self.backend.endpoint(node), 2000)
                outcome = await self.client.alter_config(peer, CLUSTER_RESOURCE, "k", "set", "v")
                if outcome.type == "ok" and self.last(node, "claim"):
                    return self.leader()
            await asyncio.sleep(POLL_S)
        raise SystemExit(f"no write was acknowledged within {TIMEOUT_S:g} s")

    def leader(self) -> str:
        """The node that claimed last."""
        claims = {node: self.last(node, "claim") for node in self.nodes}
        return max(self.nodes, key=lambda node: (claims[node] or {"epoch": -1})["epoch"])

    async def create(self, leader: str, topics: int) -> None:
        for first in range(0, topics, TOPICS_A_REQUEST):
            request = CreateTopicsRequest(
                topics=tuple(
                    CreatableTopic(
                        name=TopicName(topic_name(number)),
                        num_partitions=i32(1),
                        replication_factor=i16(3),
                        assignments=(),
                        configs=(),
                    )
                    for number in range(first, min(topics, first + TOPICS_A_REQUEST))
                ),
                timeout=milliseconds(TIMEOUT_S * 1000),
            )
            peer = Peer(self.backend.endpoint(leader), TIMEOUT_S * 1000)
            response = await self.client.call(peer, request)
            errors = {topic.error_code.name for topic in response.topics} - {ErrorCode.none.name}
            if errors:
                raise SystemExit(f"topics were not created: {', '.join(sorted(errors))}")

    async def knows(self, node: str, topic: str) -> tuple[bool, float]:
        """Whether a node's own image holds a topic, and the seconds until it answered."""
        began = time.monotonic()
        request = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=TopicName(topic)),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        try:
            peer = Peer(self.backend.endpoint(node, "CLIENT"), TIMEOUT_S * 1000)
            response = await self.client.call(peer, request)
        except CallFailed as failed:
            if failed.failure is Failure.UNSUPPORTED_VERSION:
                raise
            return False, 0.0  # it does not listen yet
        known = response.topics[0].error_code is ErrorCode.none
        return known, time.monotonic() - began

    async def snapshot(self, node: str) -> tuple[float, int]:
        """Seconds from the request until a new snapshot of a node is durable, and its bytes."""
        before = len(self.events(node, "snapshot"))
        began = time.monotonic()
        os.kill(self.pid(node), signal.SIGUSR2)
        while len(made := self.events(node, "snapshot")) == before:
            if time.monotonic() > began + TIMEOUT_S:
                raise SystemExit(f"no snapshot on {node}")
            await asyncio.sleep(POLL_S)
        return time.monotonic() - began, made[-1]["size_bytes"]

    def set(self, node: str, key: str, value: str) -> None:
        path = self.backend.node_folder(node) / "server.properties"
        lines = path.read_text().splitlines()
        changed = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in lines]
        assert changed != lines, f"{key} is not set, or so already"
        path.write_text("\n".join(changed) + "\n")

    def resident_bytes(self, node: str) -> int:
        pages = int(Path(f"/proc/{self.pid(node)}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_s(self, node: str) -> float:
        """Processor time of a node's process so far, which others do not lengthen much."""
        return processor_s(self.pid(node))

    def pid(self, node: str) -> int:
        started = self.last(node, "start")
        assert started is not None
        return started["pid"]

    def events(self, node: str, event: str) -> list[dict[str, Any]]:
        """What a node traced of one kind, oldest first; all its incarnations."""
        text = (self.backend.node_folder(node) / "trace.jsonl").read_text()
        lines = (line for line in text.splitlines(keepends=True) if f'"{event}"' in line)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in found if line["e"] == event]

    def last(self, node: str, event: str) -> dict[str, Any] | None:
        found = self.events(node, event)
        return found[-1] if found else None


def topic_name(number: int) -> str:
    return f"topic-{number:06d}"

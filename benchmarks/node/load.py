"""Closed-loop load on a running quorum, and the time that a fail-over takes."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.backends.local.local_backend import LocalBackend
from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import CallFailed, Peer
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork


def processor_s(pid: int) -> float:
    """User and system time of a process (fields 14 and 15 of proc(5)'s stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What a closed loop of clients measured."""

    writes_per_s: float
    p50_ms: float
    p99_ms: float


def summarize(latencies_ms: list[float], seconds: float) -> Load:
    ordered = sorted(latencies_ms)
    p50_ms, p99_ms = (ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.99))
    return Load(len(ordered) / seconds, p50_ms, p99_ms)


class Writer:
    """One client with a connection of its own."""

    def __init__(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.network = TcpNetwork()
        self.client = Client(self.network, LoopClock(loop))
        self.number = number
        self.sequence = itertools.count()

    async def write(self, endpoint: Endpoint, timeout_ms: float = 5000.0) -> bool:
        outcome = await self.client.alter_config(
            Peer(endpoint, timeout_ms),
            CLUSTER_RESOURCE,
            f"bench.{self.number}",
            "set",
            f"value-{next(self.sequence):010d}",
        )
        return outcome.type == "ok"


async def find_leader(backend: LocalBackend, nodes: tuple[str, ...], timeout_s: float = 30) -> str:
    """The node that reports itself as leader, with a known high watermark."""
    writer = Writer(0)
    try:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for node in nodes:
                try:
                    described = await writer.client.describe_quorum(backend.endpoint(node))
                except CallFailed:
                    continue
                if described.error is ErrorCode.none and described.high_watermark > 0:
                    return node
            await asyncio.sleep(0.05)
    finally:
        writer.network.close()
    raise SystemExit("no leader within 30 s")


async def closed_loop(endpoint: Endpoint, clients: int, seconds: float) -> Load:
    """Each client writes again as soon as its write is acknowledged."""
    writers = [Writer(number) for number in range(clients)]
    latencies_ms: list[float] = []
    for writer in writers:  # connected and warm before the clock starts
        await writer.write(endpoint)
    started = time.monotonic()
    end = started + seconds

    async def run(writer: Writer) -> None:
        while (before := time.monotonic()) < end:
            if await writer.write(endpoint):
                latencies_ms.append((time.monotonic() - before) * 1000)

    await asyncio.gather(*(run(writer) for writer in writers))
    elapsed = time.monotonic() - started
    for writer in writers:
        writer.network.close()
    return summarize(latencies_ms, elapsed)


async def failover_ms(backend: LocalBackend) -> float:
    """From kill -9 of the leader to the next write that another node acknowledges."""
    leader = await find_leader(backend, backend.nodes)
    others = tuple(node for node in backend.nodes if node != leader)
    writers = {node: Writer(number) for number, node in enumerate(others)}
    killed = asyncio.create_task(backend.kill(leader))
    started = time.monotonic()
    try:
        acknowledged = asyncio.Event()

        async def insist(node: str) -> None:
            while not acknowledged.is_set():
                if await writers[node].write(backend.endpoint(node), timeout_ms=2000):
                    acknowledged.set()
                else:
                    await asyncio.sleep(0.005)

        await killed
        tasks = [asyncio.create_task(insist(node)) for node in others]
        await asyncio.wait_for(acknowledged.wait(), 30)
        elapsed_ms = (time.monotonic() - started) * 1000
        await asyncio.gather(*tasks)
    finally:
        for writer in writers.values():
            writer.network.close()
    await backend.start(leader)
    await asyncio.sleep(1.0)  # it catches up, so that each fail-over begins with three nodes
    return elapsed_ms

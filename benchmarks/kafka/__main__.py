"""Measure three nodes of Kraftprobe and three of Apache Kafka in turns, in one run. See `--help`.

Both are combined nodes of static quorums on this machine, with the same time-outs, both fsync, and
both are asked by the same client, one Python process, which may be what bounds the rows of many
clients. Written is a configuration of the brokers' cluster-wide default.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.node.load import Load, closed_loop, failover_ms, find_leader, processor_s
from cluster.backends.local.local_backend import LocalBackend
from cluster.systems.base import System
from cluster.systems.kinds import SystemRequest
from cluster.systems.registry import system_named

CONSOLE = Console()
OURS, KAFKA = "kraft", "apache-kafka"


@dataclass
class Side:
    """One quorum, and what was measured of it."""

    name: str
    backend: LocalBackend
    loads: dict[int, list[Load]] = field(default_factory=dict)
    failovers: list[float] = field(default_factory=list)
    start_s: float = 0.0
    memory_mib: float = 0.0
    idle_percent: float = 0.0

    async def up(self) -> None:
        began = time.monotonic()
        await self.backend.up()
        await find_leader(self.backend, self.backend.nodes, timeout_s=120)
        self.start_s = time.monotonic() - began

    async def closed_loop(self, clients: int, seconds: float) -> Load:
        leader = await find_leader(self.backend, self.backend.nodes, timeout_s=120)
        return await closed_loop(self.backend.endpoint(leader), clients, seconds)

    async def pids(self) -> list[int]:
        found = [await self.backend.process(node) for node in self.backend.nodes]
        return [identity.pid for identity in found if identity is not None]

    async def rest(self, seconds: float) -> None:
        """Measure memory, and the processor time of a node that has nothing to do."""
        pids = await self.pids()
        self.memory_mib = statistics.mean(map(resident_mib, pids))
        before = [processor_s(pid) for pid in pids]
        began = time.monotonic()
        await asyncio.sleep(seconds)
        used = [processor_s(pid) - was for pid, was in zip(pids, before, strict=True)]
        self.idle_percent = 100 * statistics.mean(used) / (time.monotonic() - began)


def resident_mib(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, "a live process has memory"
    return int(found[1]) / 1024


def system_of(name: str, arguments: argparse.Namespace) -> System:
    settings = {
        "controller.quorum.append.linger.ms": arguments.linger_ms,
        "controller.quorum.fetch.timeout.ms": arguments.fetch_timeout_ms,
    }
    options = {"quorum": "static"}
    options |= {"home": arguments.home} if arguments.home else {"version": arguments.version}
    return system_named(name).create(SystemRequest(settings, options if name == KAFKA else {}))


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    sides = [
        Side(name, LocalBackend(system_of(name, arguments), folder / name, 3, f"bench-{name}"))
        for name in (OURS, KAFKA)
    ]
    try:
        for side in sides:
            CONSOLE.print(f"[dim]starting {side.name}", highlight=False)
            await side.up()
        for side in sides:
            CONSOLE.print(f"[dim]warming {side.name} up", highlight=False)
            await side.closed_loop(8, arguments.warm_up)
        for side in sides:
            await side.rest(arguments.seconds)
        for repeat in range(arguments.repeats):
            for clients in arguments.clients:
                for side in sides:
                    what = f"repeat {repeat + 1}: {side.name}, {clients} clients"
                    CONSOLE.print(f"[dim]{what}", highlight=False)
                    load = await side.closed_loop(clients, arguments.seconds)
                    side.loads.setdefault(clients, []).append(load)
        for number in range(arguments.failovers):
            for side in sides:
                CONSOLE.print(f"[dim]fail-over {number + 1} of {side.name}", highlight=False)
                side.failovers.append(await failover_ms(side.backend))
    finally:
        for side in sides:
            await side.backend.down()
    show(arguments, *sides)


def show(arguments: argparse.Namespace, ours: Side, kafka: Side) -> None:
    table = Table(
        title=f"committed writes, linger {arguments.linger_ms} ms; "
        f"medians of {arguments.repeats} x {arguments.seconds:g} s, in turns"
    )
    for column in ("clients", "kraft/s", "p50 ms", "p99 ms", "Kafka/s", "p50", "p99", "ratio"):
        table.add_column(column, justify="right")

    def medians(side: Side, clients: int) -> list[float]:
        loads = side.loads[clients]
        of: list[Callable[[Load], float]] = [
            lambda load: load.writes_per_s,
            lambda load: load.p50_ms,
            lambda load: load.p99_ms,
        ]
        return [statistics.median(map(one, loads)) for one in of]

    for clients in arguments.clients:
        mine, theirs = medians(ours, clients), medians(kafka, clients)
        cells = [
            f"{value:.0f}" if number == 0 else f"{value:.1f}"
            for row in (mine, theirs)
            for number, value in enumerate(row)
        ]
        table.add_row(str(clients), *cells, f"{mine[0] / theirs[0]:.2f}")
    CONSOLE.print(table)
    rows = [
        ("start to leader, s", ours.start_s, kafka.start_s),
        ("memory of a node, MiB", ours.memory_mib, kafka.memory_mib),
        ("processor of an idle node, %", ours.idle_percent, kafka.idle_percent),
    ]
    if ours.failovers:
        medians_ms = [statistics.median(side.failovers) for side in (ours, kafka)]
        rows.append((f"fail-over, ms (median of {len(ours.failovers)})", *medians_ms))
    for what, mine_value, their_value in rows:
        ratio = mine_value / their_value
        CONSOLE.print(
            f"{what}: kraft {mine_value:.1f}, Kafka {their_value:.1f}, ratio {ratio:.2f}",
            highlight=False,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--version", default="4.3.1", help="a release that was fetched")
    parser.add_argument("--home", help="the folder of an unpacked release instead")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--failovers", type=int, default=5)
    parser.add_argument("--linger-ms", type=int, default=25)
    parser.add_argument("--fetch-timeout-ms", type=int, default=2000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kraftprobe-benchmark-") as folder:
        asyncio.run(measure(arguments, Path(folder)))


if __name__ == "__main__":
    main()

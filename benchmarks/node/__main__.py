"""Measure both in one run and print medians and ratios. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.node.load import Load, closed_loop, failover_ms, find_leader
from benchmarks.node.peer import Peer
from cluster.backends.local.local_backend import LocalBackend
from cluster.systems.kraft import NODE_SETTINGS, KraftSystem

CONSOLE = Console()


def median_load(loads: list[Load]) -> Load:
    return Load(
        statistics.median(load.writes_per_s for load in loads),
        statistics.median(load.p50_ms for load in loads),
        statistics.median(load.p99_ms for load in loads),
    )


class Kraftprobe:
    """Our side: three nodes of the local backend, without faults."""

    def __init__(self, folder: Path, linger_ms: int) -> None:
        system = KraftSystem({"controller.quorum.append.linger.ms": linger_ms})
        self.backend = LocalBackend(system, folder, 3, "benchmark")

    async def closed_loop(self, clients: int, seconds: float) -> Load:
        leader = await find_leader(self.backend, self.backend.nodes)
        return await closed_loop(self.backend.endpoint(leader), clients, seconds)


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    ours: dict[int, list[Load]] = {n: [] for n in arguments.clients}
    theirs: dict[int, list[Load]] = {n: [] for n in arguments.clients}
    side = Kraftprobe(folder / "kraftprobe", arguments.linger_ms)
    await side.backend.up()
    try:
        for repeat in range(arguments.repeats):
            for clients in arguments.clients:
                CONSOLE.print(f"[dim]repeat {repeat + 1}: {clients} clients", highlight=False)
                ours[clients].append(await side.closed_loop(clients, arguments.seconds))
        our_failovers = [await failover_ms(side.backend) for _ in range(arguments.failovers)]
    finally:
        await side.backend.down()
    for clients in arguments.clients:
        mine = median_load(ours[clients])
        CONSOLE.print(
            f"{clients} clients: {mine.writes_per_s:.0f} writes/s, p50 {mine.p50_ms:.1f} ms, "
            f"p99 {mine.p99_ms:.1f} ms",
            highlight=False,
        )
    with running_peer(folder / "load") as peer:
        for repeat in range(arguments.repeats):
            for clients in arguments.clients:
                CONSOLE.print(
                    f"[dim]repeat {repeat + 1}: PySyncObj, {clients} clients", highlight=False
                )
                theirs[clients].append(peer.closed_loop(clients, arguments.seconds))
    # A quorum of its own: after the load above, with its long journal, PySyncObj did not elect a
    # new leader within 90 s.
    with running_peer(folder / "failover") as peer:
        their_failovers = [peer.failover_ms() for _ in range(arguments.failovers)]
    show(arguments, ours, theirs)
    show_failovers(our_failovers, their_failovers)


@contextlib.contextmanager
def running_peer(folder: Path) -> Iterator[Peer]:
    folder.mkdir()
    peer = Peer(folder)
    try:
        yield peer
    finally:
        peer.stop()


def show(
    arguments: argparse.Namespace, ours: dict[int, list[Load]], theirs: dict[int, list[Load]]
) -> None:
    table = Table(
        title=f"committed writes, three local nodes, fsync, linger {arguments.linger_ms} ms; "
        f"medians of {arguments.repeats} x {arguments.seconds:g} s"
    )
    for column in ("clients", "writes/s", "p50 ms", "p99 ms", "PySyncObj/s", "p50", "p99", "ratio"):
        table.add_column(column, justify="right")
    for clients in arguments.clients:
        mine, peer = median_load(ours[clients]), median_load(theirs[clients])
        table.add_row(
            str(clients),
            f"{mine.writes_per_s:.0f}",
            f"{mine.p50_ms:.1f}",
            f"{mine.p99_ms:.1f}",
            f"{peer.writes_per_s:.0f}",
            f"{peer.p50_ms:.1f}",
            f"{peer.p99_ms:.1f}",
            f"{mine.writes_per_s / peer.writes_per_s:.2f}",
        )
    CONSOLE.print(table)


def show_failovers(ours: list[float], theirs: list[float]) -> None:
    if not ours:
        return
    timeout_ms = NODE_SETTINGS["controller.quorum.election.timeout.ms"]
    fetch_ms = NODE_SETTINGS["controller.quorum.fetch.timeout.ms"]
    mine, peer = statistics.median(ours), statistics.median(theirs)
    CONSOLE.print(
        f"fail-over, kill -9 of the leader to the next acknowledged write, {len(ours)} each:\n"
        f"  kraftprobe median {mine:.0f} ms ({min(ours):.0f} to {max(ours):.0f}), "
        f"election timeout {timeout_ms} ms, fetch timeout {fetch_ms} ms\n"
        f"  PySyncObj  median {peer:.0f} ms ({min(theirs):.0f} to {max(theirs):.0f}), "
        f"election timeout 1000 to 2000 ms\n"
        f"  ratio {mine / peer:.2f}",
        highlight=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node", description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--failovers", type=int, default=9)
    parser.add_argument("--linger-ms", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kraftprobe-benchmark-"))
    try:
        asyncio.run(measure(arguments, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

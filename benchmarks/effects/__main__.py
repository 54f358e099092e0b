"""`python -m benchmarks.effects [--rounds 20]`: what is asked of clocks and disks, what is seen.

One folder and one clock of this machine, without a cluster: the abilities alone. Needs root and
/dev/fuse.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from cluster.backends.abilities import ClockSetting, DiskFault
from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.localhost import LocalHost
from cluster.backends.machine.clocks import FakedClocks, library
from cluster.backends.machine.disks import FuseDisks
from cluster.backends.machine.programs import Machine
from cluster.backends.processes.records import labels

NODE = "n1"
RUN = "benchmark-effects"


class Place:
    """One "node" that is a folder: killing it does nothing."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        machines: Mapping[str, Machine] = {
            NODE: Machine(LocalHost(NODE, folder, labels(RUN), self.process), sys.executable)
        }
        self.clocks = FakedClocks(machines, library())
        self.disks = FuseDisks(
            machines, {NODE: self.data}, (), "posix", None, RUN, self.kill, self.state
        )

    async def process(self, node: str) -> ProcessIdentity | None:  # noqa: ARG002  (contract)
        return None

    async def kill(self, node: str) -> None:
        """There is no process."""

    async def state(self, node: str) -> NodeState:  # noqa: ARG002  (contract)
        return NodeState.DEAD


def write(path: Path, data: bytes, *, sync: bool) -> float:
    """Append; returns milliseconds."""
    begun = time.perf_counter()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, data)
    if sync:
        os.fsync(file)
    os.close(file)
    return (time.perf_counter() - begun) * 1e3


async def clocks(place: Place) -> None:
    for setting in (ClockSetting(60_000), ClockSetting(-3_600_000), ClockSetting()):
        await place.clocks.set(NODE, setting)
        seen = await place.clocks.measure(NODE)
        print(
            f"| clock off by {setting.offset_ms:g} ms | {seen.wall_offset_ms:.1f} ms, "
            f"monotonic {seen.monotonic_offset_ms:.1f} ms |"
        )


async def stalls(place: Place) -> None:
    for seconds in (0.5, 5.0):
        await place.disks.set(NODE, DiskFault.STALL, {})
        writing = asyncio.ensure_future(
            asyncio.to_thread(write, place.data / "stalled", b"x", sync=True)
        )
        await asyncio.sleep(seconds)
        await place.disks.clear(NODE, DiskFault.STALL)
        print(f"| stall {seconds:g} s | write and fsync took {await writing:.0f} ms |")


async def losses(place: Place, rounds: int) -> None:
    exact = 0
    lost_ms: list[float] = []
    for number in range(rounds):
        path = place.data / f"log{number}"
        write(path, b"synced" * (number + 1), sync=True)
        folder = os.open(place.data, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        write(path, b"lost" * (number + 1), sync=False)
        write(place.data / f"unnamed{number}", b"whole", sync=True)
        begun = time.perf_counter()
        await place.disks.power_loss(NODE)
        lost_ms.append((time.perf_counter() - begun) * 1e3)
        left = {file.name for file in place.data.iterdir()}
        exact += path.read_bytes() == b"synced" * (number + 1) and f"unnamed{number}" not in left
    result = f"exactly the un-fsynced tail and name gone in {exact} of {rounds}"
    print(f"| power loss | {result}, median {sorted(lost_ms)[rounds // 2]:.0f} ms |")


async def cost(place: Place, folder: Path) -> None:
    for name, where in (("plain", folder), ("through the filesystem", place.data)):
        times = sorted(write(where / "cost", b"x" * 1024, sync=True) for _ in range(200))
        print(f"| append 1 KiB and fsync, {name} | median {times[100] * 1e3:.0f} us |")


@click.command()
@click.option("--rounds", default=20, show_default=True)
def main(rounds: int) -> None:
    async def whole() -> None:
        with tempfile.TemporaryDirectory(prefix="kraftprobe-effects-") as name:
            place = Place(Path(name))
            print("| asked | seen |\n|---|---|")
            try:
                await place.clocks.prepare(NODE)
                await clocks(place)
                await place.disks.prepare(NODE)
                await stalls(place)
                await losses(place, rounds)
                await cost(place, Path(name))
            finally:
                await place.clocks.release()
                await place.disks.release()

    asyncio.run(whole())


if __name__ == "__main__":
    main()

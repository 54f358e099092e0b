"""Measure faults on containers both ways and print medians and ratios. See `--help`.

Ours: the backend's verbs, over one persistent channel a container. The other way is the one that
Jepsen documents for its nodes in containers (`jepsen.control.docker`): every command is a
`docker exec` of its own, and `jepsen.net` cuts with `iptables -A INPUT -s SOURCE -j DROP -w` on the
target and heals with `iptables -F -w` and `iptables -X -w` on every node.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster.backends.base import NodeState
from cluster.backends.docker.docker_backend import DockerBackend
from cluster.systems.idle import IdleSystem
from cluster.systems.kraft import KraftSystem

CONSOLE = Console()
Act = Callable[[], Awaitable[object]]


@dataclass
class Operation:
    """One thing done both ways; `undo` is not measured."""

    name: str
    ours: Act
    theirs: Act | None
    undo: Act | None = None
    took_ms: dict[str, list[float]] = field(default_factory=dict)

    async def measure(self) -> None:
        for way, act in (("ours", self.ours), ("theirs", self.theirs)):
            if act is not None:
                began = time.perf_counter()
                await act()
                took_ms = (time.perf_counter() - began) * 1000
                self.took_ms.setdefault(way, []).append(took_ms)
                if self.undo is not None:
                    await self.undo()

    def row(self) -> list[str]:
        medians = {way: statistics.median(took) for way, took in self.took_ms.items()}
        theirs = medians.get("theirs")
        return [
            self.name,
            f"{medians['ours']:.1f}",
            "" if theirs is None else f"{theirs:.1f}",
            "" if theirs is None else f"{theirs / medians['ours']:.1f}",
        ]


class Peer:
    """Each command over a `docker exec` of its own."""

    def __init__(self, backend: DockerBackend) -> None:
        self._backend = backend

    async def exec(self, node: str, command: str) -> None:
        name = f"kraftprobe-{self._backend.run_id}-{node}"
        process = await asyncio.create_subprocess_exec(
            *("docker", "exec", name, "sh", "-c", command),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{command}: {stderr.decode()}")

    async def isolate(self, node: str) -> None:
        others = [other for other in self._backend.nodes if other != node]
        sources = ",".join(self._backend.hosts[other].address for other in others)
        await asyncio.gather(
            self.exec(node, f"iptables -A INPUT -s {sources} -j DROP -w"),
            *(self.drop(node, other) for other in others),
        )

    async def drop(self, source: str, target: str) -> None:
        address = self._backend.hosts[source].address
        await self.exec(target, f"iptables -A INPUT -s {address} -j DROP -w")

    async def heal(self) -> None:
        await asyncio.gather(*(self._flush(node) for node in self._backend.nodes))

    async def signal(self, node: str, name: str) -> None:
        await self.exec(node, f"kill -{name} {await self._backend.hosts[node].pid()}")

    async def kill(self, node: str) -> None:
        await self.signal(node, "KILL")
        await self._backend.kill(node)  # waits for the death; it was asked for

    async def _flush(self, node: str) -> None:
        await self.exec(node, "iptables -F -w")
        await self.exec(node, "iptables -X -w")


def operations(backend: DockerBackend) -> list[Operation]:
    peer = Peer(backend)
    link = ("n1", "n2")
    around = [
        pair for other in backend.nodes if other != "n1" for pair in ((other, "n1"), ("n1", other))
    ]

    async def whole() -> None:
        await backend.restore_links(backend.links_cut())
        await peer.heal()

    async def running() -> None:
        if await backend.state("n1") is NodeState.PAUSED:
            await backend.resume("n1")
        if await backend.state("n1") is NodeState.DEAD:
            await backend.start("n1")

    async def cut_and_restore() -> None:
        await backend.cut_links(around)
        await backend.restore_links(around)

    async def isolate_and_heal() -> None:
        await peer.isolate("n1")
        await peer.heal()

    async def restart() -> None:
        await backend.kill("n1")
        await backend.start("n1")

    async def lose_and_return() -> None:
        hosts = backend.abilities().hosts
        assert hosts is not None
        await hosts.lose("n1")
        await hosts.bring_back("n1")

    return [
        Operation(
            "run a command",
            lambda: backend.hosts["n1"].run(("true",)),
            lambda: peer.exec("n1", "true"),
        ),
        Operation(
            "cut one link", lambda: backend.cut_links([link]), lambda: peer.drop(*link), whole
        ),
        Operation(
            "isolate one of five",
            lambda: backend.cut_links(around),
            lambda: peer.isolate("n1"),
            whole,
        ),
        Operation("isolate and heal", cut_and_restore, isolate_and_heal, whole),
        Operation("pause", lambda: backend.pause("n1"), lambda: peer.signal("n1", "STOP"), running),
        Operation("kill -9", lambda: backend.kill("n1"), lambda: peer.kill("n1"), running),
        Operation("kill -9 and start, until it answers", restart, None, running),
        Operation("lose a container and bring it back", lose_and_return, None, running),
    ]


async def measure_operations(folder: Path, repeats: int) -> list[Operation]:
    backend = DockerBackend(IdleSystem(), folder, 5, folder.name, say=CONSOLE.print)
    try:
        await backend.up()
        found = operations(backend)
        for repeat in range(repeats):
            CONSOLE.print(f"[dim]repeat {repeat + 1} of {repeats}", highlight=False)
            for operation in found:
                await operation.measure()
        return found
    finally:
        await backend.down()


async def up_s(folder: Path, nodes: int) -> tuple[float, float]:
    """Seconds until all nodes of a quorum answer, and until nothing is left of them."""
    backend = DockerBackend(KraftSystem(), folder, nodes, folder.name, say=CONSOLE.print)
    began = time.perf_counter()
    try:
        await backend.up()
        up = time.perf_counter() - began
    finally:
        began = time.perf_counter()
        await backend.down()
    return up, time.perf_counter() - began


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    found = await measure_operations(folder / f"bench-ops-{folder.name}", arguments.repeats)
    ups = [
        await up_s(folder / f"bench-up{turn}-{folder.name}", arguments.nodes)
        for turn in range(arguments.ups)
    ]
    table = Table("operation (ms, medians)", "ours", "one docker exec a command", "ratio", box=None)
    for operation in found:
        table.add_row(*operation.row())
    CONSOLE.print(table)
    if ups:
        up, down = (statistics.median(times) for times in zip(*ups, strict=True))
        CONSOLE.print(f"{arguments.nodes} nodes up in {up:.1f} s, down in {down:.1f} s (medians)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backends", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--ups", type=int, default=3, help="how often a whole cluster is brought up"
    )
    parser.add_argument("--nodes", type=int, default=5)
    arguments = parser.parse_args()
    if shutil.which("docker") is None:
        parser.error("the other way needs docker's command line: apt install docker-cli")
    with tempfile.TemporaryDirectory(prefix="kraftprobe-bench-") as folder:
        asyncio.run(measure(arguments, Path(folder)))


if __name__ == "__main__":
    main()

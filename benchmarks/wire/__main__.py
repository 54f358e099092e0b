"""Send frames at a node: it must not die, hang or grow. See `--help`.

The node is a process of its own with the real server; a warm-up comes first, because caches fill
and the metadata that valid frames make is kept. Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.wire.frames import APIS, Frames
from benchmarks.wire.target import Connection, HangError, Target
from cluster.node.protocol.apis import ListenerType

CONSOLE = Console()
CONNECTIONS = 32
WARM_UP_OF_10 = 2
"""Tenths of the frames that are sent before memory is first read."""
MIB = 1024 * 1024


class BrokenError(Exception):
    """A promise that the node did not keep."""


async def send_all(target: Target, frames: Frames, count: int, progress: Progress) -> Counter[str]:
    """Send `count` frames over several connections; return how the node took them."""
    outcomes: Counter[str] = Counter()
    bar = progress.add_task("frames", total=count, rss="")
    left = iter(range(count))

    async def worker() -> None:
        connections = {listener: Connection(port) for listener, port in target.ports.items()}
        for number in left:
            frame = next(frames)
            outcomes[await connections[frame.listener].send(frame)] += 1
            progress.advance(bar)
            if number % 500 == 0:
                progress.update(bar, rss=f"{target.rss_bytes / MIB:.0f} MiB")
        for connection in connections.values():
            connection.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(worker())
    return outcomes


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Raises BrokenError."""
    loop = asyncio.get_running_loop()
    frames = Frames(arguments.seed, as_peer=arguments.as_peer)
    warm_up = arguments.frames * WARM_UP_OF_10 // 10
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rss]}"),
    )
    with Target(folder) as target, Progress(*columns, console=CONSOLE) as progress:
        await target.wait_until_up()
        first_epoch = await target.write_epoch()
        try:
            outcomes = await send_all(target, frames, warm_up, progress)
            before_bytes = target.rss_bytes
            start = loop.time()
            outcomes += await send_all(target, frames, arguments.frames - warm_up, progress)
            seconds = loop.time() - start
            alive = [await target.answers(listener) for listener in ListenerType]
            epoch = await target.write_epoch()
        except (HangError, OSError, ExceptionGroup) as errors:
            error: BaseException = errors
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise BrokenError(f"{error}; {_epitaph(target)}") from None
        after_bytes = target.rss_bytes
        if target.exit_code is not None or not all(alive):
            raise BrokenError(_epitaph(target))
    grown_mib = (after_bytes - before_bytes) / MIB
    CONSOLE.print(
        f"{arguments.frames} frames of {len(APIS)} versions of APIs, seed {arguments.seed}: "
        + ", ".join(f"{outcomes[name]} {name}" for name in ("answered", "closed", "parked"))
        + f"\nthe node acknowledges writes, in epoch {epoch}; it began in epoch {first_epoch}"
        + f"\n{(arguments.frames - warm_up) / seconds:.0f} frames/s over {CONNECTIONS} connections"
        + f"\nmemory {before_bytes / MIB:.1f} MiB after {warm_up} frames, "
        + f"{after_bytes / MIB:.1f} MiB at the end: {grown_mib:+.1f}, "
        + f"bound {arguments.max_growth_mib:g} MiB",
        highlight=False,
    )
    if grown_mib > arguments.max_growth_mib:
        raise BrokenError(f"memory grew by {grown_mib:.1f} MiB")
    if outcomes["answered"] < arguments.frames // 10:
        raise BrokenError("hardly any frame got past the codec: nothing was shown")


def _epitaph(target: Target) -> str:
    words = target.stderr.read_text(errors="replace").strip().splitlines()
    state = "alive" if target.exit_code is None else f"dead, exit code {target.exit_code}"
    return f"the node is {state}" + (f": {words[-1]}" if words else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wire", description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--max-growth-mib", type=float, default=16.0, help="after the warm-up; metadata included"
    )
    parser.add_argument(
        "--as-peer",
        action="store_true",
        help="elections' requests carry the node's cluster id: it believes them, and may stop",
    )
    arguments = parser.parse_args()
    if arguments.frames < 1000:
        parser.error("--frames: at least 1000, or nothing is shown")
    with tempfile.TemporaryDirectory(prefix="kraftprobe-wire-") as folder:
        try:
            asyncio.run(measure(arguments, Path(folder)))
        except BrokenError as broken:
            CONSOLE.print(f"[red]FAIL[/red] {broken}", highlight=False)
            return 1
    CONSOLE.print("[green]PASS[/green] no crash, no hang, no growth beyond the bound")
    return 0


if __name__ == "__main__":
    sys.exit(main())

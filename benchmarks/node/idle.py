"""What an idle quorum of three costs: `python -m benchmarks.node.idle`. Fails above two percent.

Processor time of each node, from /proc, over a window that begins when the quorum is quiet; and
what one event of its trace costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.node.load import find_leader
from cluster.backends.local import LocalBackend
from cluster.node.runtime.trace import JsonLinesTrace
from cluster.systems.kraft import KraftSystem

LIMIT_PERCENT = 2.0
TRACE_EVENTS = 20_000


def processor_s(pid: int) -> float:
    """User and system time of a process (fields 14 and 15 of proc(5)'s stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trace_event_us(folder: Path) -> float:
    trace = JsonLinesTrace(folder / "cost.jsonl")
    began = time.process_time()
    for offset in range(TRACE_EVENTS):
        trace("append", epoch=1, base_offset=offset, last_offset=offset, role="leader")
    trace.close()
    return (time.process_time() - began) / TRACE_EVENTS * 1e6


def pids(backend: LocalBackend) -> dict[str, int]:
    """By node, from the trace's last start."""
    found = {}
    for node in backend.nodes:
        folder = str(backend.node_folder(node))
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if f"{folder}/server.properties".encode() in command:
                found[node] = int(path.parent.name)
    return found


async def measure(folder: Path, seconds: float) -> dict[str, float]:
    backend = LocalBackend(KraftSystem(), folder, 3, "idle")
    await backend.up()
    try:
        leader = await find_leader(backend, backend.nodes)
        await asyncio.sleep(3.0)  # brokers register, images catch up
        processes = pids(backend)
        before = {node: processor_s(pid) for node, pid in processes.items()}
        began = time.monotonic()
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - began
        return {
            f"{node} (leader)" if node == leader else node: 100
            * (processor_s(pid) - before[node])
            / elapsed
            for node, pid in processes.items()
        }
    finally:
        await backend.down()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    folder = Path(tempfile.mkdtemp(prefix="kraftprobe-benchmark-"))
    try:
        shares = asyncio.run(measure(folder, parser.parse_args().seconds))
        event_us = trace_event_us(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for node, percent in shares.items():
        print(f"{node:12} {percent:5.2f} % of one core")
    print(f"one trace event costs {event_us:.1f} us")
    if len(shares) != 3 or max(shares.values()) > LIMIT_PERCENT:
        sys.exit(f"an idle node takes more than {LIMIT_PERCENT} % of one core")


if __name__ == "__main__":
    main()

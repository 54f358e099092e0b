"""How fast stored runs are judged: in a loop, by plain processes, by Spark on two cores.

    python -m benchmarks.pipeline [--operations N] [--runs R] [--keys K] [--hot SHARE]
        [--rounds 3] [--ways loop,processes,spark] [--before FOLDER]

N operations (100,000) are generated in R runs (20) of K keys (50), or in one with a share of all on
one key, and judged from journal to results.json each way in turn. Figures are medians of the
rounds: seconds by the clock, processor seconds of everything that was started, and the most memory
that the driver and what it started held. `--before` names a checkout of an older commit, whose own
`results.pipeline.judge` judges the same runs in a loop, and with Spark on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.pipeline.generate import make_run

_SAMPLE_S = 0.05
_BEFORE = """
import collections, json, sys, time
from pathlib import Path
from results.pipeline import judge
from results.session import Spark
from results.store import RunStore
began, handle = time.monotonic(), None
if sys.argv[1] == "spark":
    session = Spark("local[2]")
    handle = session.start()
found = collections.Counter(judge(RunStore(Path(f)), handle).status.value for f in sys.argv[2:])
if handle:
    session.close()
print(json.dumps({"seconds": time.monotonic() - began, "verdicts": found}))
"""


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_s: float
    driver_mb: float
    others_mb: float
    """Of all that the driver started, together."""
    verdicts: dict[str, int]


def measured(command: list[str], folder: Path) -> Measured:
    """Run a program and watch it and all that it starts."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
    driver = psutil.Process(process.pid)
    cpu_s: dict[tuple[int, float], float] = {}
    driver_bytes = others_bytes = 0
    while process.poll() is None:
        others = 0
        try:
            for each in [driver, *driver.children(recursive=True)]:
                with each.oneshot():
                    times = each.cpu_times()
                    cpu_s[each.pid, each.create_time()] = times.user + times.system
                    rss = each.memory_info().rss
                if each.pid == driver.pid:
                    driver_bytes = max(driver_bytes, rss)
                else:
                    others += rss
        except psutil.Error:
            pass  # it has just ended
        others_bytes = max(others_bytes, others)
        time.sleep(_SAMPLE_S)
    assert process.stdout is not None
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:5])} ended with {process.returncode}")
    found = json.loads(process.stdout.read())
    return Measured(
        seconds=found["seconds"],
        cpu_s=sum(cpu_s.values()),
        driver_mb=driver_bytes / (1 << 20),
        others_mb=others_bytes / (1 << 20),
        verdicts=found["verdicts"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline")
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--hot", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="loop,processes,spark")
    parser.add_argument("--before", type=Path)
    arguments = parser.parse_args()
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="kraftprobe-pipeline-") as place:
        each = arguments.operations // arguments.runs
        folders = [
            str(make_run(Path(place), f"r{n}", each, arguments.keys, arguments.hot, n).folder)
            for n in range(arguments.runs)
        ]
        python = sys.executable
        ways = {
            way: ([python, "-m", "benchmarks.pipeline.ways", way, *folders], here)
            for way in arguments.ways.split(",")
            if way
        }
        if arguments.before:
            ways |= {
                f"before, {way}": ([python, "-c", _BEFORE, way, *folders], arguments.before)
                for way in ("loop", "spark")
            }
        found: dict[str, list[Measured]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, (command, folder) in ways.items():
                found[way].append(measured(command, folder))
    report(found, each * arguments.runs)


def report(found: dict[str, list[Measured]], operations: int) -> None:
    verdicts = {json.dumps(m.verdicts, sort_keys=True) for each in found.values() for m in each}
    print(f"{operations:,} operations; verdicts, the same each way: {', '.join(verdicts)}")
    assert len(verdicts) == 1, "the ways do not agree"
    print("| way | seconds | operations/s | CPU s | driver MB | others MB | CPU / first |")
    print("|---|---|---|---|---|---|---|")
    first = None
    for way, rounds in found.items():
        seconds, cpu_s, driver_mb, others_mb = (
            statistics.median(getattr(each, name) for each in rounds)
            for name in ("seconds", "cpu_s", "driver_mb", "others_mb")
        )
        first = first or cpu_s
        print(
            f"| {way} | {seconds:.1f} | {operations / seconds:,.0f} | {cpu_s:.1f} | "
            f"{driver_mb:.0f} | {others_mb:.0f} | {cpu_s / first:.2f} |"
        )


if __name__ == "__main__":
    main()

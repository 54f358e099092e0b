"""How fast stored runs are judged: in a loop, by plain processes, by Spark on two cores.

    python -m benchmarks.pipeline [--operations N,N,...] [--runs R] [--keys K] [--hot SHARE]
        [--nodes] [--rounds 3] [--ways loop,processes,spark]

N operations (100,000; several numbers are measured one after the other) are generated in R runs
(20) of K keys (50), or with a share of all on one key, and judged from journal to results.json each
way in turn; with --nodes each run has logs and traces of three nodes, and is judged by them, too.
Figures are medians of the rounds: seconds by the clock, processor seconds of everything that was
started, the most memory that the driver, the JVMs and all other processes held, and the share of
the seconds that no check took (in a loop; elsewhere checks run side by side). Of several sizes the
exponent says how the processor seconds grow with the operations: 1 is in proportion to them.

What the pipeline is made for, in two commands:

    python -m benchmarks.pipeline --operations 100000,1000000,10000000 --runs 200 --nodes --rounds 1
    python -m benchmarks.pipeline --operations 1000000 --runs 1 --hot 1 --rounds 1

The first writes some 7 GB below the folder for temporary files, and removes them.
"""

from __future__ import annotations

import argparse
import json
import math
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


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_s: float
    driver_mb: float
    jvms_mb: float
    """Of all JVMs together."""
    workers_mb: float
    """Of all else that the driver started, together."""
    outside: float | None
    """Share of the seconds that no check took; None where nothing says."""
    verdicts: dict[str, int]


def measured(command: list[str]) -> Measured:
    """Run a program and watch it and all that it starts."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    driver = psutil.Process(process.pid)
    cpu_s: dict[tuple[int, float], float] = {}
    most = {"driver": 0, "jvms": 0, "workers": 0}
    while process.poll() is None:
        held = dict.fromkeys(most, 0)
        try:
            for each in [driver, *driver.children(recursive=True)]:
                with each.oneshot():
                    times = each.cpu_times()
                    cpu_s[each.pid, each.create_time()] = times.user + times.system
                    name = "jvms" if each.name() == "java" else "workers"
                    held["driver" if each.pid == driver.pid else name] += each.memory_info().rss
        except psutil.Error:
            pass  # it has just ended
        most = {name: max(most[name], held[name]) for name in most}
        time.sleep(_SAMPLE_S)
    assert process.stdout is not None
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:5])} ended with {process.returncode}")
    found = json.loads(process.stdout.read())
    return Measured(
        seconds=found["seconds"],
        cpu_s=sum(cpu_s.values()),
        **{f"{name}_mb": held / (1 << 20) for name, held in most.items()},
        outside=1 - found["checks_s"] / found["seconds"] if found.get("checks_s") else None,
        verdicts=found["verdicts"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline")
    parser.add_argument("--operations", default="100000")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--hot", type=float, default=0.0)
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="loop,processes,spark")
    arguments = parser.parse_args()
    cpu_s: dict[str, list[tuple[int, float]]] = {}
    for size in map(int, arguments.operations.split(",")):
        found = measured_ways(size // arguments.runs, arguments)
        for way, seconds in report(found, size // arguments.runs * arguments.runs).items():
            cpu_s.setdefault(way, []).append((size, seconds))
    for way, points in cpu_s.items():
        if len(points) > 1:
            logs = ([math.log(point[place]) for point in points] for place in (0, 1))
            exponent = statistics.linear_regression(*logs).slope
            print(f"{way}: CPU s grow with operations to the power of {exponent:.2f}")


def measured_ways(each: int, arguments: argparse.Namespace) -> dict[str, list[Measured]]:
    """Generate runs of so many operations each, and judge them each way."""
    with tempfile.TemporaryDirectory(prefix="kraftprobe-pipeline-") as place:
        began = time.monotonic()
        folders = [
            str(
                make_run(
                    *(Path(place), f"r{n}", each, arguments.keys, arguments.hot, n),
                    nodes=arguments.nodes,
                ).folder
            )
            for n in range(arguments.runs)
        ]
        size = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
        took_s = time.monotonic() - began
        print(f"generated {size / 1e6:,.0f} MB in {took_s:.0f} s", file=sys.stderr, flush=True)
        program = [sys.executable, "-m", "benchmarks.pipeline.ways"]
        ways = {way: [*program, way, *folders] for way in arguments.ways.split(",")}
        found: dict[str, list[Measured]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, command in ways.items():
                one = measured(command)
                print(
                    f"{way}: {one.seconds:.1f} s, {one.cpu_s:.1f} CPU s",
                    file=sys.stderr,
                    flush=True,
                )
                found[way].append(one)
    return found


_COLUMNS = ("seconds", "cpu_s", "driver_mb", "jvms_mb", "workers_mb")


def report(found: dict[str, list[Measured]], operations: int) -> dict[str, float]:
    """Print a table; return the CPU seconds of each way."""
    verdicts = {json.dumps(m.verdicts, sort_keys=True) for each in found.values() for m in each}
    print(f"{operations:,} operations; verdicts, the same each way: {', '.join(verdicts)}")
    assert len(verdicts) == 1, "the ways do not agree"
    print(
        "| way | seconds | operations/s | CPU s | driver MB | JVMs MB | workers MB | CPU / first "
        "| outside checks |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    medians: dict[str, float] = {}
    for way, rounds in found.items():
        seconds, cpu_s, driver_mb, jvms_mb, workers_mb = (
            statistics.median(getattr(each, name) for each in rounds) for name in _COLUMNS
        )
        medians[way] = cpu_s
        outside = rounds[0].outside if way == "loop" else None
        print(
            f"| {way} | {seconds:.1f} | {operations / seconds:,.0f} | {cpu_s:.1f} | "
            f"{driver_mb:.0f} | {jvms_mb:.0f} | {workers_mb:.0f} | "
            f"{cpu_s / next(iter(medians.values())):.2f} | "
            f"{'' if outside is None else f'{outside:.0%}'} |",
            flush=True,
        )
    return medians


if __name__ == "__main__":
    main()

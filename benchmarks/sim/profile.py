"""Where the time of a simulated run goes, by part of the program."""

from __future__ import annotations

import cProfile
import pstats
from collections import defaultdict
from pathlib import Path

from benchmarks.sim.scenario import Load, simulate

PARTS = (
    ("cluster/node/kraft", "consensus"),
    ("cluster/node/controller", "controller"),
    ("cluster/node/log", "log"),
    ("aiokafka", "log"),
    ("checkers/invariants", "monitor"),
    ("harness/sim/sight", "monitor"),
    ("cluster/backends/sim/disk", "simulated disks"),
    ("cluster/backends/sim", "simulated network, clocks, queue"),
    ("cluster/client", "harness and clients"),
    ("harness", "harness and clients"),
    ("workloads", "harness and clients"),
    ("nemeses", "harness and clients"),
    ("checkers", "harness and clients"),
    ("asyncio", "asyncio"),
    ("cluster", "node, other"),
)


def part_of(path: str) -> str:
    return next((name for key, name in PARTS if key in path), "Python, other")


def print_profile(load: Load, seed: int = 1) -> None:
    """Profile one run: own time by part, and the functions that take most."""
    simulate(Load(duration_s=20), 0)
    profile = cProfile.Profile()
    profile.enable()
    simulate(load, seed)
    profile.disable()
    stats = pstats.Stats(profile)
    shares: dict[str, float] = defaultdict(float)
    rows = []
    for (path, line, name), (_, calls, own, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        rows.append((own, calls, f"{Path(path).name}:{line} {name}"))
        if path == "~":  # a built-in function is its callers' time
            for (caller, _, _), caller_stats in callers.items():
                shares[part_of(caller)] += caller_stats[2]
        else:
            shares[part_of(path)] += own
    total = sum(shares.values())
    for name, own in sorted(shares.items(), key=lambda share: -share[1]):
        print(f"{own / total:>7.1%}  {name}")
    for own, calls, name in sorted(rows, reverse=True)[:30]:
        print(f"{own / total:>7.1%}  {calls:>8}  {name}")

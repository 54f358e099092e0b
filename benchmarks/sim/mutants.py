"""Seeds that the swarm needs to find each seeded bug: `python -m benchmarks.sim.mutants M01 M02`.

For each mutant several disjoint ranges of seeds are run from their beginning until the first seed
that fails; the median over the ranges is what is reported. `--bound` is where a range gives up.
`--shrink DIR` cuts the first failure of each down and writes it there, as
`tests/harness/sim/regressions` holds them.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from harness.commands.shrink import write_small
from harness.sim.runner import run_plan
from harness.sim.shrink.shrinker import Shrinker
from harness.sim.swarm.draw import draw

RANGE = 5_000
SHRINK_S = 300.0
MUTANTS = (
    *("M01", "M02", "M03", "M04", "M06", "M09", "M16", "M17", "M21", "M22", "M23"),
    *("M26", "M27", "M29", "M30"),
)


def first_found(mutant, first, bound):
    """(seeds needed, property, seed) of one range; None each when the bound was reached."""
    for number in range(bound):
        result = run_plan(draw(first + number, mutant=mutant))
        if result.violations:
            return number + 1, result.property, first + number
    return None, None, None


def shrunk(mutant, violated, seed, folder):
    """Cut one failure down and write it: {"events": [before, after], "shrunk_in_s": ...}."""
    plan = draw(seed, mutant=mutant)
    began = time.monotonic()
    shrinker = Shrinker(violated, began + SHRINK_S)
    small = shrinker.shrink(plan)
    write_small(small, shrinker, folder / f"{mutant}.json")
    return {
        "events": [plan.events, small.events],
        "shrunk_in_s": round(time.monotonic() - began, 1),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mutants", nargs="*", default=MUTANTS)
    parser.add_argument("--ranges", type=int, default=5)
    parser.add_argument("--bound", type=int, default=RANGE)
    parser.add_argument("--shrink", type=Path, metavar="DIR")
    asked = parser.parse_args()
    for mutant in asked.mutants:
        began = time.process_time()
        found = [first_found(mutant, k * RANGE, asked.bound) for k in range(asked.ranges)]
        needed = [asked.bound + 1 if seeds is None else seeds for seeds, _, _ in found]
        row = {
            "mutant": mutant,
            "median": statistics.median(needed),
            "needed": [seeds for seeds, _, _ in found],
            "properties": sorted({name for _, name, _ in found if name}),
            "seeds": [seed for _, _, seed in found],
            "cpu_s": round(time.process_time() - began, 1),
        }
        if asked.shrink is not None and found[0][2] is not None:
            row |= shrunk(mutant, *found[0][1:], asked.shrink)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

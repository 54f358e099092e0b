"""Seeds that the swarm needs to find each seeded bug: `python -m benchmarks.sim.mutants M01 M02`.

For each mutant several disjoint ranges of seeds are run from their beginning until the first seed
that fails; the median over the ranges is what is told. `--bound` is where a range gives up.
"""

import argparse
import json
import statistics
import sys
import time

from harness.sim.draw import draw
from harness.sim.runner import run_scenario

RANGE = 5_000
MUTANTS = ("M01", "M02", "M03", "M04", "M06", "M09", "M17", "M21", "M22", "M23")


def first_found(mutant, first, bound):
    """(seeds needed, property, seed) of one range; None each when the bound was reached."""
    for number in range(bound):
        result = run_scenario(draw(first + number, mutant=mutant))
        if result.violations:
            return number + 1, result.property, first + number
    return None, None, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mutants", nargs="*", default=MUTANTS)
    parser.add_argument("--ranges", type=int, default=5)
    parser.add_argument("--bound", type=int, default=RANGE)
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
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

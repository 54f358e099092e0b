"""How a batch of seeds scales with Spark's workers: `python -m benchmarks.sim.workers`.

The same seeds run by one worker and by two, in turns; the time is that of the batch alone, on a
session that is up and workers that have imported everything. The last line is what the machine
allows: two plain processes at once against one, each with the same seeds.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.sim.batch import Batch, BatchPlan, run_on_spark
from results.session import Spark

WARM_UP = 1_000_000
"""First of the seeds that make the workers import what they need."""
PLAIN = """
import sys, time
from harness.sim.chunks import BatchPlan, plan_of, run_seed
first, last, duration_ms = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
plan = BatchPlan(first, last, duration_ms=duration_ms)
run_seed(plan_of(plan, first, {}))
began = time.monotonic()
for seed in range(first, last):
    run_seed(plan_of(plan, seed, {}))
print(time.monotonic() - began)
"""


def batch_s(workers: int, plan: BatchPlan) -> float:
    """Seconds that a batch takes."""
    with tempfile.TemporaryDirectory() as folder, Spark(f"local[{workers}]") as handle:
        warm_up = BatchPlan(WARM_UP, WARM_UP + 8 * workers, duration_ms=2_000.0)
        for name, asked in (("warm-up", warm_up), ("measured", plan)):
            began = time.monotonic()
            with Batch(Path(folder, name), asked) as batch:
                run_on_spark(batch, handle.spark, lambda _: None)
        return time.monotonic() - began


def plain_s(processes: int, plan: BatchPlan) -> float:
    """Seconds that each of so many plain processes takes for all seeds; the mean."""
    command = [sys.executable, "-c", PLAIN, *map(str, (plan.first, plan.last, plan.duration_ms))]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    return statistics.mean(float(process.communicate()[0]) for process in running)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim.workers", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--duration", type=float, default=20.0, help="simulated seconds of each")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    plan = BatchPlan(0, arguments.seeds, duration_ms=1000 * arguments.duration)
    few = BatchPlan(0, max(1, arguments.seeds // 5), duration_ms=plan.duration_ms)
    print("turn    1 worker s   2 workers s   times as fast   the machine's two processes")
    ratios, bounds = [], []
    for turn in range(arguments.turns):
        one_s, two_s = batch_s(1, plan), batch_s(2, plan)
        ratios.append(one_s / two_s)
        bounds.append(2 * plain_s(1, few) / plain_s(2, few))
        print(
            f"{turn + 1:>4}{one_s:>14.1f}{two_s:>14.1f}{ratios[-1]:>16.2f}{bounds[-1]:>30.2f}",
            flush=True,
        )
    print(f"medians: {statistics.median(ratios):.2f} of {statistics.median(bounds):.2f}")


if __name__ == "__main__":
    main()

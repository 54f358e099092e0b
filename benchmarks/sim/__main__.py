"""`python -m benchmarks.sim`: how many simulated seconds a CPU second buys, and how that grows.

Machines differ, and one differs from minute to minute. A seed repeats itself exactly, and what else
goes on can only slow it: the fastest of its runs counts. `all runs` is the median of all of them.
`x empty` is what an event costs in events that do nothing, of the same queue and just before: where
it is the same, the machine is slower.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.sim.scenario import Load, Measured, simulate, simulate_kafka
from cluster.backends.sim.scheduler import Condition, Scheduler

NODES = (3, 5, 7)
RATES_PER_S = (10, 50, 150, 500)


def cases() -> Iterator[tuple[str, Load]]:
    reference = Load()
    yield "reference: 3 nodes, 5 clients, 50 op/s, faults, monitor", reference
    yield "  without monitor", replace(reference, monitor=False)
    yield "  without faults", replace(reference, faults=())
    yield "  writes that do not linger", replace(reference, linger_ms=0)
    yield "  topics", replace(reference, workload="topics")
    yield "  set", replace(reference, workload="set")
    for nodes in NODES[1:]:
        yield f"  {nodes} nodes", replace(reference, nodes=nodes)
    for rate in RATES_PER_S:
        if rate != reference.rate_per_s:
            clients = max(5, rate // 10)
            yield (
                f"  {rate} op/s of {clients} clients",
                replace(reference, rate_per_s=float(rate), clients=clients),
            )


EMPTY_EVENTS = 50_000
EMPTY_WAITING = 500
"""As many callbacks as wait in the queue of the reference scenario."""


def empty_event_us() -> float:
    """CPU time of one event that does nothing but schedule the next, in µs; best of five runs."""
    times = []
    for _ in range(5):
        scheduler = Scheduler()
        enough = Condition(lambda: scheduler.events == EMPTY_EVENTS)  # noqa: B023  (this turn's)

        def again() -> None:
            scheduler.call_later(1.0, again)  # noqa: B023

        for number in range(EMPTY_WAITING):
            scheduler.call_later(number / EMPTY_WAITING, again)
        began = time.process_time()
        scheduler.run(until=enough)
        times.append(time.process_time() - began)
    return 1e6 * min(times) / EMPTY_EVENTS


def fastest(load: Load, seeds: int, repeats: int) -> tuple[list[Measured], float]:
    """The fastest run of each seed; and the median speed of all runs."""
    runs = [[simulate(load, seed) for seed in range(1, seeds + 1)] for _ in range(repeats)]
    best = [max(of_seed, key=lambda run: run.speed) for of_seed in zip(*runs, strict=True)]
    return best, statistics.median(run.speed for turn in runs for run in turn)


def middle(runs: list[Measured]) -> tuple[float, float, float, float]:
    """Medians: simulated s per CPU s, events per CPU s, µs per event, acknowledged op/s."""
    speed = statistics.median(run.speed for run in runs)
    events_per_s = statistics.median(run.events_per_s for run in runs)
    operations = statistics.median(run.operations / run.simulated_s for run in runs)
    return speed, events_per_s, 1e6 / events_per_s, operations


def print_kafka(release: str, seconds: float, runs: int) -> None:
    """Print how fast a release's raft module plays the reference scenario; all runs count."""
    load = Load(duration_s=seconds)
    simulate_kafka(release, replace(load, duration_s=20), 0)  # the JVM's start and compilation
    measured = [simulate_kafka(release, load, seed) for seed in range(1, runs + 1)]
    calls = sum(run.calls for run in measured)
    print(
        f"kafka-raft {release}, reference: {statistics.median(run.speed for run in measured):.1f} "
        f"simulated s/CPU s of both processes; {calls / sum(r.simulated_s for r in measured):.0f} "
        f"calls a simulated s, each {1e6 * sum(run.python_s for run in measured) / calls:.0f} us "
        f"here and {1e6 * sum(run.jvm_s for run in measured) / calls:.0f} us in the JVM"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="seeds a case; medians are shown")
    parser.add_argument("--repeats", type=int, default=3, help="runs a seed; the fastest counts")
    parser.add_argument("--seconds", type=float, default=120.0, help="simulated fault phase")
    parser.add_argument("--kafka", metavar="V", help="this release's raft module instead")
    arguments = parser.parse_args()
    if arguments.kafka is not None:
        print_kafka(arguments.kafka, arguments.seconds, arguments.runs)
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    simulate(Load(duration_s=20), 0)  # imports, caches
    print(
        f"Python {sys.version.split()[0]}; medians of {arguments.runs} seeds, each the fastest of "
        f"{arguments.repeats} runs"
    )
    columns = ("sim s/CPU s", "all runs", "events/s", "us/event", "x empty", "ok op/s")
    print(f"{'case':<58}{''.join(f'{name:>12}' for name in columns)}")
    for name, case in cases():
        load = replace(case, duration_s=arguments.seconds)
        empty_us = empty_event_us()
        runs, of_all = fastest(load, arguments.runs, arguments.repeats)
        speed, events_per_s, us, operations = middle(runs)
        figures = (speed, of_all, events_per_s, us, us / empty_us, operations)
        print(f"{name:<58}{''.join(f'{figure:>12.1f}' for figure in figures)}", flush=True)


if __name__ == "__main__":
    main()

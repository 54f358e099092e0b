"""Measure what much metadata costs a quorum of three. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from benchmarks.metadata import catch_up

MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="of each return")
    arguments = parser.parse_args()
    topics, rounds = arguments.topics, arguments.rounds
    with tempfile.TemporaryDirectory(prefix="kraftprobe-benchmark-") as folder:
        found = asyncio.run(catch_up.measure(Path(folder), topics, rounds))
    print(f"quorum of three local nodes, {topics} topics with 1 partition of 3 replicas:")
    rate = topics / found.create_s
    print(f"  creating them          {found.create_s:7.2f} s  {rate:,.0f} topics/s")
    print(f"  memory of the leader   {found.resident_bytes / MIB:7.1f} MiB, all of the process")
    print(f"  restart of all three   {middle(found.restart_s):7.2f} s  to an acknowledged write")
    print(
        f"  a snapshot on request  {found.snapshot_s:7.2f} s  "
        f"{found.snapshot_bytes / MIB:.1f} MiB, durable"
    )
    print(f"  an empty follower, medians of {rounds}:   by log  by snapshot")
    for name, what in (
        ("held_s", "holds everything after"),
        ("caught_up_s", "shows it to clients after"),
        ("processor_s", "processor time for that"),
        ("longest_answer_s", "longest wait for Metadata"),
    ):
        by_log = middle([getattr(measured, name) for measured in found.by_log])
        by_snapshot = middle([getattr(measured, name) for measured in found.by_snapshot])
        print(f"    {what:28} {by_log:6.2f} s     {by_snapshot:6.2f} s")
    for name, what in (("caught_up_s", "time"), ("processor_s", "processor time")):
        log_s = middle([getattr(measured, name) for measured in found.by_log])
        snapshot_s = middle([getattr(measured, name) for measured in found.by_snapshot])
        print(f"    by snapshot it takes {snapshot_s / log_s:.2f} of the {what} by log")
    print(
        f"  all three register as brokers and are unfenced {found.registered_s:.2f} s after their "
        f"start, {found.elections} elections"
    )


def middle(values: list[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main()

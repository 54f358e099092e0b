"""Measure what much metadata costs: in one process, then in a quorum of three. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from benchmarks.metadata import catch_up, image

MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=3, help="of a topic, in one process")
    parser.add_argument("--no-quorum", action="store_true", help="leave the quorum out")
    parser.add_argument("--rounds", type=int, default=3, help="of each return, in the quorum")
    arguments = parser.parse_args()
    topics, partitions = arguments.topics, arguments.partitions
    print(f"{topics} topics with {partitions} partitions of 3 replicas on {image.BROKERS} brokers:")
    found = image.measure(topics, partitions)
    records = topics * (1 + partitions) + image.BROKERS
    print(
        f"  replay of the log   {found.replay_s:7.2f} s  {records / found.replay_s:,.0f} records/s"
    )
    print(f"  records in the log  {found.log_bytes / MIB:7.1f} MiB")
    print(f"  memory of the image {found.memory_bytes / MIB:7.1f} MiB")
    print(
        f"  making a snapshot   {found.snapshot_s:7.2f} s  {found.snapshot_bytes / MIB:.1f} MiB, "
        f"longest slice {found.longest_slice_s * 1000:.0f} ms"
    )
    print(f"  loading it          {found.load_s:7.2f} s")
    print(f"  fencing one broker  {found.fence_s:7.2f} s", flush=True)
    if not arguments.no_quorum:
        report_quorum(topics, arguments.rounds)


def report_quorum(topics: int, rounds: int) -> None:
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

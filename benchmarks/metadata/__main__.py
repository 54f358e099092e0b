"""Measure what much metadata costs: in one process, then in a quorum of three. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path

from benchmarks.metadata import catch_up, image

MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=3, help="of a topic, in one process")
    parser.add_argument("--no-quorum", action="store_true", help="leave the quorum out")
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
    if arguments.no_quorum:
        return
    folder = Path(tempfile.mkdtemp(prefix="kraftprobe-benchmark-"))
    try:
        quorum = asyncio.run(catch_up.measure(folder, topics))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"quorum of three local nodes, {topics} topics with 1 partition:")
    rate = topics / quorum.create_s
    print(f"  creating them       {quorum.create_s:7.2f} s  {rate:,.0f} topics/s")
    print(f"  an empty follower holds the log after    {quorum.by_log_s:7.2f} s")
    print(f"  an empty follower has loaded a snapshot after {quorum.by_snapshot_s:7.2f} s")


if __name__ == "__main__":
    main()

"""The image alone: replay, snapshot, load, and what brokers' comings and goings cost."""

from __future__ import annotations

import gc
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.image_writer import frozen_copy, image_records, read_image
from cluster.node.controller.partitions.leadership import broker_fenced
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import PartitionRecord, RegisterBrokerRecord, TopicRecord
from cluster.node.controller.records.schema import MetadataRecord
from cluster.node.kraft.types import CommittedBatch

R = TypeVar("R")
BROKERS = 6
BATCH_RECORDS = 2_000
INCARNATION = uuid.UUID(int=7)


@dataclass(frozen=True)
class ImageFigures:
    """Seconds of processor time, which others on the machine do not lengthen; bytes."""

    replay_s: float
    log_bytes: int
    memory_bytes: int
    snapshot_s: float
    longest_slice_s: float
    snapshot_bytes: int
    load_s: float
    fence_s: float


def timed(work: Callable[[], R]) -> tuple[float, R]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def metadata(topics: int, partitions_each: int) -> Iterator[MetadataRecord]:
    for broker in range(1, BROKERS + 1):
        yield RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=INCARNATION,
            broker_epoch=broker,
            end_points=(),
            features=(),
            rack=None,
            fenced=False,
        )
    for number in range(topics):
        topic_id = uuid.UUID(int=number + 1000)
        yield TopicRecord(name=f"topic-{number:06d}", topic_id=topic_id)
        for index in range(partitions_each):
            replicas = tuple((number + index + k) % BROKERS + 1 for k in range(3))
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )


def batches(records: Iterator[MetadataRecord]) -> list[CommittedBatch]:
    found, offset = [], 0
    while chunk := tuple(encode_record(record) for record in islice(records, BATCH_RECORDS)):
        size = sum(map(len, chunk))
        last = offset + len(chunk) - 1
        found.append(CommittedBatch(offset, last, 1, 0, size, chunk))
        offset = last + 1
    return found


def sliced_snapshot(image: MetadataImage) -> tuple[float, list[bytes]]:
    """Encode as a node does, slice by slice; return the longest slice, the copy included."""
    longest, began = 0.0, time.process_time()
    records = image_records(frozen_copy(image.state))
    values: list[bytes] = []
    while chunk := [encode_record(record) for record in islice(records, 1_000)]:
        values += chunk
        longest = max(longest, time.process_time() - began)
        began = time.process_time()
    return longest, values


def measure(topics: int, partitions_each: int) -> ImageFigures:
    log = batches(metadata(topics, partitions_each))
    gc.collect()
    before = resident_bytes()
    image = MetadataImage()

    def replay() -> None:
        for batch in log:
            image.apply(batch)

    replay_s, _ = timed(replay)
    memory = resident_bytes() - before
    snapshot_s, (longest, values) = timed(lambda: sliced_snapshot(image))
    load_s, state = timed(lambda: read_image(values))
    assert len(state.topics) == topics
    broker = image.state.brokers.get(1)
    assert broker is not None
    fence_s, changes = timed(lambda: list(broker_fenced(image.state, broker)))
    assert len(changes) >= topics * partitions_each // BROKERS
    return ImageFigures(
        replay_s,
        sum(batch.size_bytes for batch in log),
        memory,
        snapshot_s,
        longest,
        sum(map(len, values)),
        load_s,
        fence_s,
    )

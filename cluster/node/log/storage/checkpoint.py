"""Offsets of partitions in Kafka's text files.

A line `0` (version), a line with the number of entries, a line `<topic> <partition> <offset>` for
each. The most important is the recovery point (`recovery-point-offset-checkpoint`): everything
below this offset was durable once and must be found again.

The log of metadata has a file of its own, with one entry. It is shorter than a disk sector and
replaced in place, so a crash leaves the old content or the new one; anything else counts as 0,
which only makes recovery more lenient. A folder of logs has one file for all of them, which is
written beside the old one and renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cluster.node.ports import Completion, Disk
from cluster.values import valueclass, whole_number

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"


def encode_recovery_point(directory: str, offset: int) -> bytes:
    """Encode the file for the log in `directory`, named `<topic>-<partition>`."""
    return encode_offsets({partition_of(directory): offset})


@valueclass(order=True)
class TopicPartition:
    """A partition by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return the name of the folder of its log."""
        return f"{self.topic}-{self.partition}"


def partition_of(directory: str) -> TopicPartition:
    """Read the partition from a folder's name, `<topic>-<partition>`. Raises ValueError."""
    topic, _, number = directory.rpartition("/")[2].rpartition("-")
    partition = whole_number(number)
    if not topic or partition is None:
        raise ValueError(f"{directory}: the name is not <topic>-<partition>")
    return TopicPartition(topic, partition)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode a file of offsets."""
    lines: Iterable[str] = (f"{at.topic} {at.partition} {offset}" for at, offset in offsets.items())
    return "\n".join(["0", str(len(offsets)), *lines, ""]).encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Read a file of offsets. Raises ValueError unless it is complete."""
    version, count, *lines = data.decode().split("\n")
    if version != "0" or lines[-1:] != [""] or count != str(len(lines) - 1):
        raise ValueError("not a complete checkpoint of version 0")
    offsets = {}
    for line in lines[:-1]:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def decode_recovery_point(data: bytes) -> int:
    """Read the offset; 0 when the content is not what `encode_recovery_point` writes."""
    lines = data.split(b"\n")
    if len(lines) != 4 or lines[:2] != [b"0", b"1"] or lines[3]:
        return 0
    return whole_number(lines[2].rpartition(b" ")[2].decode("latin-1")) or 0


def replace_file(
    disk: Disk, path: str, content: bytes, watch: Completion, done: Completion | None = None
) -> None:
    """Replace a file: at any moment one whole version exists. `watch` gets errors of the disk.

    `done` is called when the new content would survive a power loss.
    """
    temporary = f"{path}.tmp"
    disk.write(temporary, content)
    disk.sync(temporary, watch)
    disk.rename(temporary, path)
    disk.sync_directory(path.rpartition("/")[0], watch if done is None else done)

"""The folder of one partition's log, and `partition.metadata` in it (LocalLog.java).

`<topic>-<partition>` is a log in use, `<topic>-<partition>.<id>-future` the copy that is to replace
it from another log directory (KIP-113), `<topic>-<partition>.<id>-delete` what is about to be
removed. A file system's names have 255 bytes: of a long topic the latter keeps only a part, as
nothing is read from it. A log whose future name would be too long cannot be moved.
"""

from __future__ import annotations

import uuid
from typing import Final

from cluster.node.log.storage.checkpoint import TopicPartition, partition_of, replace_file
from cluster.node.log.storage.recovery import CorruptLogError, read_if_there
from cluster.node.ports import Completion, Disk, Random
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text

PARTITION_METADATA_FILE: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
_NAME_MAX: Final = 255


def future_name(partition: TopicPartition, random: Random) -> str:
    """Name the folder of a partition's log that is to be its log later."""
    return f"{partition}.{_unique(random)}{FUTURE_SUFFIX}"


def fits(partition: TopicPartition) -> bool:
    """Whether the name of a future log of a partition is short enough."""
    return len(str(partition)) + 1 + 32 + len(FUTURE_SUFFIX) <= _NAME_MAX


def delete_name(partition: TopicPartition, random: Random) -> str:
    """Name the folder of a partition's log that is about to be removed."""
    rest = f"-{partition.partition}.{_unique(random)}{DELETE_SUFFIX}"
    return partition.topic[: _NAME_MAX - len(rest)] + rest


def parse_folder(name: str) -> tuple[TopicPartition, bool]:
    """Read whose log a folder holds, and whether a future one. Raises ValueError."""
    if not name.endswith(FUTURE_SUFFIX):
        return partition_of(name), False
    current, _, _ = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return partition_of(current), True


def write_topic_id(disk: Disk, directory: str, topic_id: uuid.UUID, watch: Completion) -> None:
    """Queue the file with the topic id of the log in a folder; `watch` gets the disk's errors."""
    content = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()
    replace_file(disk, f"{directory}/{PARTITION_METADATA_FILE}", content, watch)


def read_topic_id(disk: Disk, directory: str) -> uuid.UUID | None:
    """Read the topic id in a log's folder, if it got one. Raises CorruptLogError, OSError."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    content = read_if_there(disk, path).decode("utf-8", "replace").split("\n")
    if content == [""]:
        return None
    if content[0] != "version: 0":
        raise CorruptLogError(path, 0, 0, f"begins with {content[0]!r}, not 'version: 0'")
    try:
        return uuid_from_text("".join(content[1:2]).removeprefix("topic_id: "))
    except ValueError as error:
        raise CorruptLogError(path, 0, 0, str(error)) from error


def _unique(random: Random) -> str:
    return f"{random.getrandbits(128):032x}"

"""The `quorum-state` file: what a replica must never forget about elections.

One line of JSON, as Kafka's FileQuorumStateStore writes it. Version 0 (kraft.version 0) has
clusterId, leaderId, leaderEpoch, votedId, appliedOffset, currentVoters; version 1 (kraft.version
1) has leaderId, leaderEpoch, votedId, votedDirectoryId. -1 stands for none.

An unreadable file is never replaced by a fresh one: that would forget a vote, and a replica that
votes twice in one epoch elects two leaders. An unknown version is an error too (KAFKA-15412).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.node.kraft.messages import NO_DIRECTORY, NO_NODE, ReplicaKey
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.log.batch.control import KRaftVersion
from cluster.node.log.metadata.snapshot import (
    BOOTSTRAP_ID,
    PART_SUFFIX,
    SnapshotEncoder,
    snapshot_name,
)
from cluster.node.log.storage.checkpoint import replace_file
from cluster.node.ports import Disk, nothing
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text
from cluster.values import valueclass

FILE_NAME = "quorum-state"


class QuorumStateError(Exception):
    """The file cannot be read as a quorum-state; the node must refuse to start."""


@valueclass
class ElectionState:
    """What is persisted: the epoch, and in it the known leader and the own vote."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_key: ReplicaKey | None = None


def encode(state: ElectionState, voter_ids: tuple[int, ...], version: int) -> bytes:
    """The file's content for one state."""
    voted = NO_NODE if state.voted_key is None else state.voted_key.id
    fields: dict[str, Any]
    if version == 0:
        fields = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voter_ids],
            "data_version": 0,
        }
    else:
        directory = NO_DIRECTORY if state.voted_key is None else state.voted_key.directory_id
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted,
            "votedDirectoryId": uuid_to_text(directory),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


_INT32_MAX = 2**31 - 1
"""Ids and epochs are 32 bits wide wherever they are sent."""


def decode(content: bytes) -> ElectionState:
    """The state in a file's content. Raises QuorumStateError."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise QuorumStateError(f"{FILE_NAME} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise QuorumStateError(f"{FILE_NAME} is not a JSON object")
    version = fields.get("data_version")
    if version not in (0, 1) or isinstance(version, bool):
        raise QuorumStateError(f"{FILE_NAME} has the unknown data_version {version!r}")
    epoch = _integer(fields, "leaderEpoch", least=0)
    leader_id = _integer(fields, "leaderId", least=NO_NODE)
    voted_id = _integer(fields, "votedId", least=NO_NODE)
    if voted_id == NO_NODE:
        return ElectionState(epoch, leader_id)
    directory = NO_DIRECTORY
    if version == 1:
        directory = _directory_id(fields.get("votedDirectoryId"))
    return ElectionState(epoch, leader_id, ReplicaKey(voted_id, directory))


def _integer(fields: dict[str, Any], name: str, least: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _INT32_MAX:
        raise QuorumStateError(f"{FILE_NAME} has no valid {name}: {value!r}")
    return value


def _directory_id(text: object) -> uuid.UUID:
    try:
        return uuid_from_text(str(text))
    except ValueError:
        raise QuorumStateError(f"{FILE_NAME} has no valid votedDirectoryId: {text!r}") from None


class QuorumStateStore:
    """Reads and durably replaces the file in the metadata partition's folder."""

    def __init__(self, disk: Disk, directory: str, on_failure: Callable[[OSError], None]) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"
        self._on_failure = on_failure

    def read(self) -> ElectionState | None:
        """The persisted state; None when there never was a file. Raises QuorumStateError."""
        if not self._disk.exists(self._path):
            return None
        return decode(self._disk.read(self._path))

    def write(self, content: bytes, done: Callable[[], None]) -> None:
        """Replace the file; `done` is called once the new content would survive a power loss."""
        self._disk.remove(f"{self._path}.tmp")
        watch, finish = partial(self._finish, nothing), partial(self._finish, done)
        replace_file(self._disk, self._path, content, watch, finish)

    def _finish(self, done: Callable[[], None], error: OSError | None) -> None:
        if error is not None:
            self._on_failure(error)
        else:
            done()


# The bootstrap checkpoint 0-0: the first voters of a quorum with voters in the log (KIP-853).
#
# Written when a folder is formatted, never replicated: the first leader copies what it says into
# the log. Source: Formatter.writeDynamicQuorumSnapshot.


KRAFT_VERSION = 1


def write_bootstrap(
    disk: Disk,
    directory: str,
    voters: VoterSet,
    timestamp_ms: int,
    done: Callable[[OSError | None], None],
) -> None:
    """Write the checkpoint durably into the metadata partition's folder, then call `done`.

    The folder is made for it, durably too, and a checkpoint that is there already replaced.
    """
    encoder = SnapshotEncoder(BOOTSTRAP_ID, timestamp_ms)
    content = encoder.header((KRaftVersion(KRAFT_VERSION), voters.to_record())) + encoder.footer()
    part = f"{directory}/{snapshot_name(BOOTSTRAP_ID, PART_SUFFIX)}"
    disk.make_directory(directory)
    disk.write(part, content)

    def on_sync(error: OSError | None) -> None:
        if error is not None:
            done(error)
            return
        disk.rename(part, f"{directory}/{snapshot_name(BOOTSTRAP_ID)}")
        disk.sync_directory(directory, on_rename)

    def on_rename(error: OSError | None) -> None:
        if error is not None:
            done(error)
        else:
            disk.sync_directory("", done)  # the folder's own name

    disk.sync(part, on_sync)


def is_leftover(disk: Disk, directory: str) -> bool:
    """Return whether a folder holds nothing but what a cut-off `write_bootstrap` left."""
    ours = {snapshot_name(BOOTSTRAP_ID), snapshot_name(BOOTSTRAP_ID, PART_SUFFIX)}
    return ours.issuperset(disk.list_directory(directory))

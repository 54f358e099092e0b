"""This repository's raft module by itself, as a node of a quorum with released ones.

There is no controller above it, which would take the records of clients for metadata: it is given
what commits, and answers clients, as `host.KafkaProcess` does for Kafka's.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from crc32c import crc32c

from cluster.backends.sim.incarnation import CONTROLLER_PORT
from cluster.backends.sim.kafka.machine import FEATURES_AS_THEY_ARE, Archive, StateMachine
from cluster.backends.sim.process import OwnReplica, Process, Served
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.client.raft_log import NOT_LEADER, AppendRequest, AppendResponse, ReadRequest
from cluster.node.assembly import NodeSignal, Seams, open_raft
from cluster.node.config import NodeConfig
from cluster.node.controller.core.feature_control import SUPPORTED
from cluster.node.kraft.messages import RaftRequest, ReplicaKey
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.kraft.quorum.quorum_state_store import KRAFT_VERSION
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.types import (
    BufferFullError,
    CommittedBatch,
    IllegalStateError,
    LeaderAndEpoch,
    NotLeaderError,
)
from cluster.node.log.batch.control import KRaftVersion, VoterListener
from cluster.node.log.batch.records import split_batches
from cluster.node.log.metadata.snapshot import (
    BOOTSTRAP_ID,
    Snapshot,
    SnapshotEncoder,
    snapshot_name,
)
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ANONYMOUS, Features, Origin
from cluster.node.protocol.messages import UpdateFeaturesRequest

_READ_BYTES: Final = 1 << 30
_STATE: Final = struct.Struct(">qI")
"""What a snapshot holds, as of SimListener: the number of all values, and their checksum."""


class RaftProcess(Process):
    """One incarnation of such a node."""

    def __init__(
        self,
        world: SimWorld,
        node: SimNode,
        config: NodeConfig,
        directory_id: uuid.UUID,
        archive: Archive,
        first_voters: VoterSet | None,
    ) -> None:
        """`first_voters`: of the checkpoint that its disk is formatted with, if it is."""
        super().__init__(world, node, config, None)
        self._directory_id = directory_id
        self._archive = archive
        self._first_voters = first_voters

    def begin(self, pid: int, ready: Callable[[], None]) -> None:
        """See `Incarnation.begin`; its disk was formatted before the world began."""
        self._ready = ready
        if self._first_voters is not None and self.incarnation == 0:
            self._disk.replace(_checkpoint(self._first_voters))
        self._on_identity(pid, dict.fromkeys(self._disks, self._directory_id))

    def _assemble(self, config: NodeConfig, directory_id: uuid.UUID, seams: Seams) -> Served:
        served = RaftAlone(config, directory_id, seams, self.die, self._archive)
        self.replica = _Replica(served.raft, self._disk)
        return served


def voter_set(voters: Sequence[tuple[Endpoint, uuid.UUID]]) -> VoterSet:
    """Return voters with their directories, each with the listener of raft."""
    return VoterSet(
        [
            Voter(
                ReplicaKey(endpoint.node_id, directory),
                endpoint,
                listeners=(VoterListener("CONTROLLER", endpoint.host, CONTROLLER_PORT),),
            )
            for endpoint, directory in voters
        ]
    )


def _checkpoint(voters: VoterSet) -> dict[str, bytes]:
    """Return the files of a formatted disk."""
    encoder = SnapshotEncoder(BOOTSTRAP_ID, 0)
    content = encoder.header((KRaftVersion(KRAFT_VERSION), voters.to_record())) + encoder.footer()
    return {f"{METADATA_DIRECTORY}/{snapshot_name(BOOTSTRAP_ID)}": content}


class RaftAlone:
    """The raft client and, as its listener, what clients append and read."""

    def __init__(
        self,
        config: NodeConfig,
        directory_id: uuid.UUID,
        seams: Seams,
        on_fatal: Callable[[BaseException], None],
        archive: Archive,
    ) -> None:
        """Raises CorruptLogError, OSError."""
        self._id = config.node_id
        self._trace = seams.trace
        self._archive = archive
        self.raft: RaftClient = open_raft(config, directory_id, seams, on_fatal, self._disk_failed)
        self.raft.register(self)
        self._machine = StateMachine(archive)
        self._claimed: int | None = None
        """The epoch in which it may append."""
        self._end = 0
        """It was given all below, control records included."""
        self._last: CommittedBatch | None = None

    # -- what a process serves -------------------------------------------------------------------

    def start(self) -> None:
        self.raft.start()

    def features(self) -> Features:
        """See `Served.features`: what is finalized is not in the log of raft alone."""
        return Features(SUPPORTED)

    def handle_signal(self, what: NodeSignal) -> None:
        if what == "resign":
            self.raft.resign(self.raft.leader_and_epoch.epoch)
        elif self._last is not None and self._end == self._last.last_offset + 1:
            snapshot_id = OffsetAndEpoch(self._end, self._last.epoch)
            writer = self.raft.create_snapshot(snapshot_id, self._last.timestamp_ms)
            if writer is not None:
                values = self._archive.below(self._end)
                writer.append([_STATE.pack(len(values), crc32c(b"".join(values)))])
                writer.freeze()

    def shutdown(self, timeout_ms: float, done: Callable[[], None]) -> None:
        self.raft.shutdown(timeout_ms, done)

    def handle(
        self,
        listener: str,
        message: Any,
        reply: Callable[[object], None],
        origin: Origin = ANONYMOUS,
    ) -> None:
        """Answer raft and clients; other requests are those of the controller above: silence."""
        del listener, origin
        if isinstance(message, RaftRequest):
            self.raft.handle(message, reply)
        elif isinstance(message, AppendRequest):
            self._append(message.value, reply)
        elif isinstance(message, ReadRequest):
            reply(self._machine.read(message.offset))
        elif isinstance(message, UpdateFeaturesRequest) and self.raft.kraft_version:
            reply(FEATURES_AS_THEY_ARE)

    def _append(self, value: str, reply: Callable[[object], None]) -> None:
        if self._claimed is None:
            reply(AppendResponse(NOT_LEADER))
            return
        try:
            offset = self.raft.prepare_append(self._claimed, [value.encode()])
        except (NotLeaderError, BufferFullError):
            reply(AppendResponse(NOT_LEADER))
            return
        self._machine.expect(offset, value, reply)
        self.raft.schedule_prepared_append()

    def _disk_failed(self, error: OSError) -> None:
        self.raft.fail(error)

    # -- the listener of raft --------------------------------------------------------------------

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            for number, value in enumerate(batch.records):
                self._machine.commit(
                    batch.base_offset + number, batch.epoch, value, self._acknowledge
                )
            self._end = batch.last_offset + 1
            self._last = batch

    def _acknowledge(self, offset: int, epoch: int) -> None:
        self._trace("ack", epoch=epoch, offset=offset, high_watermark=self.raft.high_watermark)

    def handle_load_snapshot(self, snapshot: Snapshot, done: Callable[[], None]) -> None:
        offset, epoch = snapshot.id.offset, snapshot.id.epoch
        (state,) = snapshot.values()
        self._trace("load-snapshot", offset=offset, epoch=epoch)
        reason = self._machine.load(offset, *_STATE.unpack(state))
        if reason is not None:
            raise IllegalStateError(f"the snapshot {offset}-{epoch} {reason}")
        self._end = offset
        done()

    def handle_high_watermark(self) -> None:
        """See `RaftListener.handle_high_watermark`: clients read what was committed only."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        leads = leader.leader_id == self._id
        if self._claimed is not None and (not leads or leader.epoch != self._claimed):
            self._trace("renounce", epoch=self._claimed, offset=self._end)
            self._claimed = None
        if leads and self._claimed is None:
            self._claimed = leader.epoch
            self._trace("claim", epoch=leader.epoch, offset=self._end)
        if not leads:
            self._machine.give_up()


class _Replica(OwnReplica):
    """The log as its invariants compare it with that of Kafka's nodes."""

    def batches(self, offset: int) -> list[tuple[int, int, int, int]]:
        """See `Replica.batches`: each with the checksum of all its bytes, as of Kafka's."""
        log = self._raft.log
        found: list[tuple[int, int, int, int]] = []
        while offset < log.end_offset:
            for header, data in split_batches(log.read(offset, _READ_BYTES)):
                offset, epoch = header.last_offset + 1, header.partition_leader_epoch
                found.append((header.base_offset, offset, epoch, int(crc32c(data))))
        return found

    def snapshot(self, offset: int, epoch: int) -> int | str:
        """See `Replica.snapshot`: the same for all, as each node stamps its own with its time."""
        found = super().snapshot(offset, epoch)
        return found if isinstance(found, str) else 0

"""A follower that the leader's log does not reach back to: it loads a snapshot (KIP-630).

A Fetch is answered with a snapshot id; from then on FetchSnapshot asks for one piece after the
other, each from where the last one ended, so a lost response costs one piece. When all is there the
file is synced, verified, renamed and its folder synced; only then the log is dropped for it and
begins, empty, at the snapshot's end. The state machines load it then.

A move to another leader or epoch gives an unfinished download up: another leader may have another
snapshot. A pre-election that is not won does not, or slow links would let none end that takes
longer than a fetch time-out. While the file gets its name nothing is fetched, as the log is about
to change.
"""

from __future__ import annotations

from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.kraft.types import ContradictionError, Send
from cluster.node.log.metadata.snapshot import CorruptSnapshotError
from cluster.node.log.types import OffsetAndEpoch

START_OVER = (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range)
"""The leader no longer has what was being loaded: ask it what it has."""


class SnapshotFetch:
    """The follower's side of FetchSnapshot."""

    def __init__(self, core: RaftCore, send: Send) -> None:
        self._core = core
        self._send = send

    def begin(self, state: Follower, snapshot_id: OffsetAndEpoch) -> None:
        """Take up the leader's answer that this replica needs a snapshot.

        It may be loading one: while its leader backs off it asks bootstrap servers, of which the
        leader may be one. The same snapshot goes on, another one takes its place.

        Raises ContradictionError for a snapshot that no log of this quorum can have, or one that
        would replace committed records by fewer.
        """
        core = self._core
        offset, epoch = snapshot_id.offset, snapshot_id.epoch
        if offset < max(1, core.log.high_watermark) or not 0 <= epoch <= state.epoch:
            raise ContradictionError(f"the leader names an impossible snapshot {snapshot_id}")
        loading = core.download
        if loading is not None:
            assert not loading.frozen, "no Fetch is in flight while a snapshot gets its name"
            if loading.id == snapshot_id:
                return
            self._give_up(loading)
        if snapshot_id in core.log.snapshots:
            core.install_latest_snapshot()
            return
        core.download = core.log.snapshots.begin(snapshot_id)

    def send(self, state: Follower) -> None:
        """Ask for the next piece."""
        core, file = self._core, self._core.download
        assert file is not None
        core.trace(
            "fetch-snapshot",
            epoch=state.epoch,
            asked_id=state.leader_id,
            snapshot_offset=file.id.offset,
            snapshot_epoch=file.id.epoch,
            position=file.size_bytes,
        )
        request = FetchSnapshotRequest(
            core.config.cluster_id,
            core.config.node_id,
            core.config.directory_id,
            state.epoch,
            file.id,
            file.size_bytes,
            core.config.fetch_snapshot_max_bytes,
        )
        self._send(
            state.leader_endpoint,
            request,
            FetchSnapshotResponse,
            lambda response: self._on_answer(file, response),
        )

    def _on_answer(self, file: SnapshotFile, response: FetchSnapshotResponse) -> None:
        core, state = self._core, self._core.quorum.state
        if not isinstance(state, Follower) or core.download is not file:
            return
        if response.error in START_OVER:
            self._give_up(file)
            return
        size_bytes = file.size_bytes + len(response.records)
        if (response.snapshot_id, response.position) != (file.id, file.size_bytes):
            raise ContradictionError(
                f"{response.snapshot_id} from {response.position} on, not {file.id} from "
                f"{file.size_bytes} on"
            )
        if not response.records or size_bytes > response.size:
            raise ContradictionError(
                f"{len(response.records)} bytes from {response.position} on of {response.size}"
            )
        file.append(response.records)
        state.fetch_deadline_ms = core.clock.monotonic_ms() + core.config.fetch_timeout_ms
        state.has_fetched_from_leader = True
        if size_bytes == response.size:
            file.sync(lambda: core.submit(lambda: self._on_sync(state, file)))

    def _on_sync(self, state: Follower, file: SnapshotFile) -> None:
        core = self._core
        if core.download is not file:
            return  # a move gave it up
        try:
            file.parse()
        except CorruptSnapshotError as error:
            core.trace("corrupt-fetch", epoch=state.epoch, reason=str(error))
            core.requests.on_failure(state.leader_id, core.clock.monotonic_ms())
            self._give_up(file)
            return
        core.is_installing_snapshot = True
        file.publish(lambda: self._durable(file))

    def _durable(self, file: SnapshotFile) -> None:
        self._core.trace_snapshot(file, "fetched")
        self._core.submit(self._on_install)

    def _on_install(self) -> None:
        core = self._core
        core.is_installing_snapshot = False
        core.download = None
        core.install_latest_snapshot()

    def _give_up(self, file: SnapshotFile) -> None:
        self._core.download = None
        file.discard()

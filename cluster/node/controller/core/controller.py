"""QuorumController: turns requests into metadata records, and committed records into metadata.

Every node has one and replays the log with it. The one on the raft leader is *active*: it has
claimed the leader's epoch and may append. The rules, each of which a mutant breaks:

- It claims only when it has replayed everything up to and including the LeaderChange record of its
  epoch (M35), and renounces with everything uncommitted thrown away.
- A write's response leaves only once its last record is committed (`is_committed`; M32).
- A read's response leaves only once a majority confirmed, after the read arrived, that this node
  still leads (`must_confirm`; M31), and comes from the committed image.
- NOT_CONTROLLER means: nothing was appended, and nothing will be. A write that was appended before
  leadership was lost is answered with UNKNOWN_SERVER_ERROR instead (docs/node.md).

A response without records (a topic exists already, a config has that value already) is information
about speculative state: it waits until all that it may have seen is committed, and for the
confirmation, like a read. Kafka has no such confirmation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.core.appending import Appender, EventQueue
from cluster.node.controller.core.feature_control import bootstrap_records
from cluster.node.controller.core.pending import (
    ControllerSettings,
    DeferredWrite,
    Drain,
    WaitingRead,
)
from cluster.node.controller.core.periodic import Generate, PeriodicTasks
from cluster.node.controller.metadata.image import MetadataImage, SpeculativeState
from cluster.node.controller.metadata.loader import MetadataLoader
from cluster.node.controller.metadata.registrations import is_static
from cluster.node.controller.metadata.result import (
    OUTCOME_NOT_KNOWN,
    ControllerResult,
    ErrorResponse,
    PartlyAppendedError,
    PendingReply,
    RequestError,
)
from cluster.node.controller.metadata.snapshot_generator import SnapshotGenerator
from cluster.node.controller.metadata.state import MetadataState, ReplayError
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import AbortTransactionRecord, NoOpRecord
from cluster.node.errors import ErrorCode
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.types import (
    CommittedBatch,
    IllegalStateError,
    LeaderAndEpoch,
    NotLeaderError,
)
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.node.ports import Clock, Timer, Trace

R = TypeVar("R")

NOT_ACTIVE = -1
NOT_CONTROLLER_MESSAGE = "this node is not the active controller"


class QuorumController:
    """The metadata state machine of one node (a RaftListener)."""

    def __init__(
        self,
        raft: RaftClient,
        clock: Clock,
        trace: Trace,
        settings: ControllerSettings | None = None,
        on_leader_change: Callable[[], None] | None = None,
    ) -> None:
        """`on_leader_change`: called after each, a claim of this node or its end included."""
        self.image = MetadataImage()
        self.loader = MetadataLoader(self.image, clock, lambda: raft.reported_high_watermark)
        self.speculative = SpeculativeState(self.image)
        self.cur_claim_epoch = NOT_ACTIVE
        self._raft = raft
        self._clock = clock
        self._trace = trace
        self._settings = settings or ControllerSettings()
        self._queue = EventQueue()
        self._snapshots = SnapshotGenerator(
            self.image,
            clock,
            raft.create_snapshot,
            self._settings.max_record_bytes_between_snapshots,
            self._settings.max_snapshot_interval_ms,
        )
        self.heartbeats = BrokerHeartbeatManager(clock, self._settings.broker_session_timeout_ms)
        self.periodic_tasks = PeriodicTasks(clock, self.heartbeats, self._append_internal_event)
        self._appender = Appender(raft, clock, self._queue, self.speculative)
        self._deferred: deque[DeferredWrite] = deque()
        self._reads: list[WaitingRead] = []
        self._idle_timer: Timer | None = None
        self._drain = Drain(clock)
        self._leader_change_listener = on_leader_change

    # What the rules compare, each in one place.

    @property
    def is_active(self) -> bool:
        """Whether this node believes that it may append. A belief, not a lease (E35)."""
        return self.cur_claim_epoch != NOT_ACTIVE

    def is_committed(self, last_offset: int) -> bool:
        """Return whether everything up to and including `last_offset` is committed and replayed."""
        return last_offset <= self.image.offset

    def must_confirm(self) -> bool:
        """Return whether a read needs a majority's word before it is answered."""
        return True

    def newest_state(self) -> MetadataState:
        """Return what records are generated from: everything appended, committed or not (M42)."""
        return self.speculative.state

    # RaftListener.

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Replay committed batches. Raises ReplayError: the node must stop."""
        self._queue.append(lambda: self._on_commit(batches))

    def handle_load_snapshot(self, snapshot: Snapshot, done: Callable[[], None]) -> None:
        """Replace the image. Raises IllegalStateError when active, ReplayError: the node stops."""
        self._queue.append(lambda: self._on_load_snapshot(snapshot, done))

    def handle_high_watermark(self) -> None:
        """Publish what was loaded before it was known to be as new as the quorum's."""
        self._queue.append(self.loader.maybe_publish)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Claim or renounce. Raises IllegalStateError on a claim before the replay."""
        self._queue.append(lambda: self._on_leader_change(leader))

    def _on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            if self.is_active and batch.epoch != self.cur_claim_epoch:
                # Another leader's batch: what we await at these offsets is not what was committed,
                # whether or not the loss of leadership was reported already.
                self._renounce()
            self.loader.apply(batch)
        self.speculative.drop_through(self.image.stable_offset)
        self.loader.maybe_publish()
        self._complete_deferred()
        self._snapshots.on_commit(batches)
        if self._snapshots.is_due:
            self._queue.append(self._on_snapshot_due)

    def request_snapshot(self) -> None:
        """Snapshot the committed image soon, if it holds what no snapshot does."""
        self._snapshots.request()
        if self._snapshots.is_due:
            self._queue.append(self._on_snapshot_due)

    def _on_snapshot_due(self) -> None:
        if self._queue.is_idle and self.loader.has_caught_up:  # else at the next commit
            self._snapshots.generate()

    def _on_load_snapshot(self, snapshot: Snapshot, done: Callable[[], None]) -> None:
        if self.is_active:
            raise IllegalStateError(f"{snapshot.id} is to be loaded while this node may append")

        def on_load() -> None:
            assert not self.is_active, "a claim before a snapshot was loaded"
            assert self.speculative.is_empty
            self._snapshots.on_load()
            self._trace("load-snapshot", offset=snapshot.id.offset, epoch=snapshot.id.epoch)
            done()

        self.loader.load(snapshot, self._queue.append, on_load)

    def _on_leader_change(self, leader: LeaderAndEpoch) -> None:
        is_own = leader.leader_id == self._raft.node_id
        if not (is_own and leader.epoch == self.cur_claim_epoch):
            if self.is_active:
                self._renounce()
            if is_own:
                self._claim(leader.epoch)
        if self._leader_change_listener is not None:
            self._leader_change_listener()

    def _claim(self, epoch: int) -> None:
        if self.image.provenance.last_contained_epoch != epoch:
            raise IllegalStateError(
                f"claim of epoch {epoch} before its start was replayed: "
                f"the image ends in {self.image.provenance}"
            )
        assert self.speculative.is_empty
        assert not self._deferred
        assert not self._reads
        self.cur_claim_epoch = epoch
        self._appender.begin(self.image.offset)
        self._trace("claim", epoch=epoch, offset=self.image.offset)
        self.heartbeats.activate(self.image.state, self.image.offset)
        if not is_static(self.image.state):
            self.periodic_tasks.start()
        settings = self._settings
        records = bootstrap_records(
            self.image.state, settings.bootstrap, settings.min_insync_replicas
        )
        if self.image.in_transaction:
            # Only the leader that began it could have ended it (KIP-868).
            records = (AbortTransactionRecord(reason="Controller failover"), *records)
        self._activate(records)

    def _activate(self, records: tuple[MetadataRecord, ...]) -> None:
        """Append what a claim begins with, before anything that others ask for."""

        def finish(_count: int, _last_offset: int) -> None:
            self._schedule_no_op()

        def fail(failure: Exception) -> None:
            if not isinstance(failure, RequestError | NotLeaderError | PartlyAppendedError):
                raise failure
            self._resign()

        self._appender.append_in_parts(self.cur_claim_epoch, records, finish, fail)

    def _renounce(self) -> None:
        self._trace("renounce", epoch=self.cur_claim_epoch, offset=self.image.offset)
        self.cur_claim_epoch = NOT_ACTIVE
        self.speculative.revert()
        self.heartbeats.deactivate()
        self.periodic_tasks.stop()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        deferred, self._deferred = self._deferred, deque()
        reads, self._reads = self._reads, []
        for write in deferred:
            write.pending.fail(ErrorCode.unknown_server_error, OUTCOME_NOT_KNOWN)
        for read in reads:
            read.pending.fail(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE)
        self._drain.check(len(self._deferred))

    def drain(self, timeout_ms: float, then: Callable[[], None]) -> None:
        """Accept no more writes; call `then` once those before have answers, or in `timeout_ms`."""

        def begin() -> None:
            self._drain.begin(timeout_ms, then)
            self._drain.check(len(self._deferred))

        self._queue.append(begin)

    def _resign(self) -> None:
        """Give up by ourselves: nothing that we would append can be trusted."""
        epoch = self.cur_claim_epoch
        self._renounce()
        self._raft.resign(epoch)

    # Writes.

    def append_write_event(
        self,
        generate: Callable[[MetadataState], ControllerResult[R]],
        error_response: ErrorResponse[R],
        timeout_ms: float,
        reply: Callable[[R], None],
    ) -> None:
        """Generate records from the newest state, append them as one batch, answer when committed.

        `generate` may raise RequestError, which refuses the whole request.
        """
        pending = PendingReply(reply, error_response)
        self._queue.append(lambda: self._write(generate, pending, timeout_ms))

    def _write(
        self,
        generate: Callable[[MetadataState], ControllerResult[R]],
        pending: PendingReply[R],
        timeout_ms: float,
    ) -> None:
        if not self.is_active or self._drain.begun:
            pending.fail(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE)
            return
        try:
            result = generate(self.newest_state())
        except (ReplayError, AssertionError):
            raise
        except Exception as failure:  # noqa: BLE001  # as in Kafka: see `_write_failed`
            self._write_failed(pending, failure)
            return

        def finish(count: int, last_offset: int) -> None:
            self._on_write(result, pending, last_offset if count else None)
            self._expire(pending, timeout_ms)
            self._complete_deferred()

        self._appender.append(
            self.cur_claim_epoch,
            result,
            finish,
            lambda failure: self._write_failed(pending, failure),
        )

    def _on_write(
        self, result: ControllerResult[R], pending: PendingReply[R], last_offset: int | None
    ) -> None:
        """Owe the response: to a write once it is committed, else to what was learned."""
        if last_offset is None:
            # All that it may have seen must be committed.
            offset, response = self._appender.last_offset, result.response
            self._await_confirmation(offset, lambda: response, pending, query=False)
            return
        if result.appended is not None:
            result.appended(last_offset)
        make = result.response_at
        response = result.response if make is None else make(last_offset)
        self._deferred.append(DeferredWrite(last_offset, pending, response))

    def _write_failed(self, pending: PendingReply[Any], failure: Exception) -> None:
        """Refuse; and lead no longer when it is not known why, or what was appended."""
        if isinstance(failure, RequestError):
            pending.fail(failure.error, failure.message)
        elif isinstance(failure, NotLeaderError):
            pending.fail(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE)
            self._resign()
        else:
            message = f"{type(failure).__name__}: {failure}"
            pending.fail(ErrorCode.unknown_server_error, message)
            self._resign()

    def _append_internal_event(self, generate: Generate, done: Callable[[int], None]) -> None:
        """Append records that nobody asked for, in an event of its own; `done` gets how many."""
        self._queue.append(lambda: self._write_unasked(generate, done))

    def _write_unasked(self, generate: Generate, done: Callable[[int], None]) -> None:
        if not self.is_active:
            return

        def fail(failure: Exception) -> None:
            if isinstance(failure, RequestError):
                done(0)  # the append buffer is full: later, then
            elif isinstance(failure, NotLeaderError | PartlyAppendedError):
                self._resign()
            else:
                raise failure

        records = generate(self.speculative.state)
        self._appender.append_in_parts(
            self.cur_claim_epoch, records, lambda count, _last: done(count), fail
        )

    def _complete_deferred(self) -> None:
        """Answer all writes below the committed offset, in the order of the offsets."""
        while self._deferred and self.is_committed(self._deferred[0].last_offset):
            write = self._deferred.popleft()
            if write.pending.answered:
                continue
            high_watermark = self._raft.high_watermark
            self._trace(
                "ack",
                epoch=self.cur_claim_epoch,
                offset=write.last_offset,
                high_watermark=-1 if high_watermark is None else high_watermark,
            )
            write.pending.complete(write.response)
        self._drain.check(len(self._deferred))
        self._complete_reads()

    def _expire(self, pending: PendingReply[Any], timeout_ms: float) -> None:
        if not pending.answered:
            timer = self._clock.call_later(
                max(0.0, timeout_ms),
                lambda: pending.fail(ErrorCode.request_timed_out, "not committed in time"),
            )
            pending.timer = timer

    # Reads.

    def append_read_event(
        self,
        query: Callable[[MetadataState], R],
        error_response: ErrorResponse[R],
        timeout_ms: float,
        reply: Callable[[R], None],
    ) -> None:
        """Answer from the committed image, linearizably. NOT_CONTROLLER when that cannot be."""
        pending = PendingReply(reply, error_response)
        self._queue.append(lambda: self._read(query, pending, timeout_ms))

    def _read(
        self, query: Callable[[MetadataState], R], pending: PendingReply[R], timeout_ms: float
    ) -> None:
        if not self.is_active:
            pending.fail(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE)
            return
        high_watermark = self._raft.high_watermark
        read_index = self.image.offset if high_watermark is None else high_watermark - 1
        self._await_confirmation(read_index, lambda: query(self.image.state), pending, query=True)
        self._expire(pending, timeout_ms)

    def _await_confirmation(
        self, offset: int, answer: Callable[[], R], pending: PendingReply[R], *, query: bool
    ) -> None:
        must_confirm = self.must_confirm()
        read = WaitingRead(self.cur_claim_epoch, offset, answer, pending, must_confirm, query)
        self._reads.append(read)
        if must_confirm:
            self._raft.confirm_leadership(
                lambda confirmed: self._queue.append(lambda: self._on_confirmation(read, confirmed))
            )
        else:
            self._complete_reads()

    def _on_confirmation(self, read: WaitingRead, confirmed: bool) -> None:  # noqa: FBT001  # raft's callback
        if read.pending.answered:
            return
        if confirmed:
            read.confirmed = True
            self._complete_reads()
        else:
            read.pending.fail(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE)

    def _complete_reads(self) -> None:
        """Answer confirmed reads once their offset is replayed; drop those answered already."""
        waiting, self._reads = self._reads, []
        for read in waiting:
            if read.pending.answered:
                continue
            if (read.must_confirm and not read.confirmed) or read.offset > self.image.offset:
                self._reads.append(read)
                continue
            assert read.epoch == self.cur_claim_epoch, "a read outlived its claim"
            self._trace(
                "read",
                epoch=read.epoch,
                offset=self.image.offset,
                confirmed=read.confirmed,
                query=read.query,
            )
            read.pending.complete(read.answer())

    # Idle time.

    def _schedule_no_op(self) -> None:
        interval_ms = self._settings.max_idle_interval_ms
        if interval_ms <= 0 or not self.is_active:
            return
        # At least 1 ms ahead: a remainder that vanishes in the clock's rounding would be due for
        # ever without its time coming.
        due_ms = self._appender.last_append_ms + interval_ms
        delay_ms = max(1.0, due_ms - self._clock.monotonic_ms())
        self._idle_timer = self._clock.call_later(
            delay_ms, lambda: self._queue.append(self._on_idle)
        )

    def _on_idle(self) -> None:
        if not self.is_active:
            return
        due_ms = self._appender.last_append_ms + self._settings.max_idle_interval_ms
        try:
            if self._clock.monotonic_ms() >= due_ms:
                self._appender.append_atomically(self.cur_claim_epoch, (NoOpRecord(),))
        except (NotLeaderError, RequestError):
            self._resign()
        self._schedule_no_op()

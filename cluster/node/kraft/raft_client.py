"""The raft client of one node (KafkaRaftClient): event queue, poll loop, face to state machines.

All state is owned by one task. Whatever happens (a request, a response, an fsync's completion, a
timer, a call from outside) becomes an event in one queue; events run one at a time, each followed
by `poll`, which does what the current role has to do now and says when it wants to run again.
While a change of epoch, leader or vote is being persisted the queue waits.

An exception in an event is a broken invariant: it goes to `on_fatal`, which must end the process.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from cluster.node.errors import ErrorCode, reason_of
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.inbound import InboundRequests, Reply
from cluster.node.kraft.listeners import ListenerContext
from cluster.node.kraft.log_cleaner import LogCleaner
from cluster.node.kraft.messages import DescribeQuorumRequest, RaftRequest
from cluster.node.kraft.outbound import OutboundRequests
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import ControlState, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.quorum_state import EpochState, QuorumState
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateStore
from cluster.node.kraft.quorum.states import Candidate, Follower, Resigned, Unattached
from cluster.node.kraft.reconfiguration import Reconfiguration
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.role_polls import RolePolls
from cluster.node.kraft.snapshot_store import SnapshotStore, SnapshotWriter
from cluster.node.kraft.types import LeaderAndEpoch, NotLeaderError, RaftListener
from cluster.node.log.batch.control import ControlMessage, KRaftVersion
from cluster.node.log.metadata.log import Log
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock, Disk, Endpoint, Network, Random, Timer, Trace, nothing

WAITING_READERS_MAX = 10_000
"""Reads that may wait for a leadership check; more are refused at once."""

EARLY_TIMER_MS = 1.0
"""A timer that fires more than this before the next poll is wanted polls nothing."""


class RaftClient:
    """One replica of the metadata quorum."""

    def __init__(
        self,
        config: RaftConfig,
        clock: Clock,
        network: Network,
        disk: Disk,
        random: Random,
        trace: Trace,
        log: Log,
        directory: str,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`directory` is the metadata partition's folder on `disk`, where `log` lives too.

        Raises CorruptSnapshotError, OSError: the node must not start.
        """
        self._clock = clock
        self._on_fatal = on_fatal
        store = QuorumStateStore(disk, directory, self.fail)
        control = ControlState(config.voters, config.listener_name)
        snapshots = SnapshotStore(disk, directory, self.fail)
        replicated = ReplicatedLog(log, snapshots, control)
        self._quorum = QuorumState(config, store, clock, random, trace, self._resume, control)
        self._core = RaftCore(
            config, self._quorum, replicated, clock, network, random, trace, self._submit
        )
        self._cleaner = LogCleaner(self._core)
        self._voters = Reconfiguration(self._core)
        self._inbound = InboundRequests(self._core, self._voters)
        self._roles = RolePolls(self._core, OutboundRequests(self._core))
        self._events: deque[Callable[[], None]] = deque()
        self._running = False
        self._started = False
        self._failed = False
        self._halted = False
        """Failed or stopped: nothing is done any more."""
        self._poke_pending = False
        self._timer: Timer | None = None
        self._timer_due_ms = math.inf
        self._due_ms = math.inf
        """When the last poll wanted the next, which the timer may precede."""
        self._shutdown_deadline_ms = math.inf
        self._shutdown_done: Callable[[], None] = nothing

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the persisted state and begin. Raises QuorumStateError."""
        assert not self._started
        self._started = True
        self._core.take_up_voters()
        self._quorum.initialize(self._core.log.end, lambda: self._submit(self._on_start))
        self._submit(nothing)

    def _on_start(self) -> None:
        core, state = self._core, self._quorum.state
        if core.log.durable_end_offset < core.log.end_offset:
            core.flush_log()
        core.feed_listeners()  # a snapshot at the log's start is committed under any leader
        if self._quorum.is_only_voter and isinstance(state, Unattached | Follower | Resigned):
            core.become_prospective()
        elif isinstance(state, Candidate):
            core.lead_if_alone()

    def shutdown(self, timeout_ms: float, done: Callable[[], None]) -> None:
        """Hand over gracefully, for at most `timeout_ms`; then call `done` and do nothing more."""

        def begin() -> None:
            self._core.shutting_down = True
            self._shutdown_deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._shutdown_done = done

        self._submit(begin)

    def fail(self, error: BaseException) -> None:
        """Stop for good: an invariant is broken or the disk failed."""
        if not self._failed:
            self._failed = self._halted = True
            self._core.trace("fatal", reason=reason_of(error))
            self._on_fatal(error)

    # -- face to the state machines --------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """This replica's id."""
        return self._core.config.node_id

    @property
    def log(self) -> ReplicatedLog:
        """Its log, to be looked at; only the client itself may change it."""
        return self._core.log

    @property
    def state(self) -> EpochState:
        """Its epoch state, likewise."""
        return self._quorum.state

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader, as far as this replica knows."""
        return self._quorum.leader_and_epoch

    @property
    def high_watermark(self) -> int | None:
        """Exclusive end of what is known to be committed."""
        return self._core.high_watermark

    @property
    def reported_high_watermark(self) -> int | None:
        """The newest that a leader reported, beyond this replica's log end too; None before."""
        return self._core.reported_high_watermark

    def leader_endpoint(self) -> Endpoint | None:
        """Controller listener of the known leader."""
        return self._core.known_leader_endpoint

    def register(self, listener: RaftListener) -> None:
        """Attach a state machine; call before `start`. It is fed everything from offset 0 on."""
        assert not self._started
        self._core.listeners.append(ListenerContext(listener, self._core.feed_later))

    def create_snapshot(
        self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp_ms: int
    ) -> SnapshotWriter | None:
        """Begin a snapshot of all below an offset; None when there is one, or no need of it.

        Raises ValueError unless the id is the committed end of a batch and names its epoch.
        """
        file = self._core.log.create_new_snapshot(snapshot_id)
        if file is None or self._failed:
            return None

        control = self._control_at(snapshot_id.offset - 1)
        on_durable = partial(self._core.trace_snapshot, origin="created")
        return SnapshotWriter(file, last_contained_log_timestamp_ms, control, on_durable)

    def _control_at(self, offset: int) -> tuple[ControlMessage, ...]:
        """What a snapshot records of the voters that were in force at an offset (KIP-853)."""
        control = self._core.log.control
        version = control.kraft_version_at(offset)
        if version < 1:
            return ()  # they are configured, not recorded
        return (KRaftVersion(version), control.voters_at(offset).to_record())

    @property
    def next_append_offset(self) -> int | None:
        """The offset of what is appended next, None when this node does not lead."""
        leader = self._core.leader
        return None if leader is None else leader.accumulator.next_offset

    def prepare_append(self, epoch: int, records: Sequence[bytes]) -> int:
        """Reserve offsets for one atomic group of records; returns the offset of the last.

        Nothing is sent before `schedule_prepared_append`. Raises NotLeaderError, BufferFullError,
        BatchTooLargeError; then nothing was appended.
        """
        leader = self._core.leader
        if leader is None or self._core.shutting_down or self._failed:
            raise NotLeaderError(f"not the leader of epoch {epoch}")
        return leader.accumulator.append(
            epoch, records, self._clock.monotonic_ms(), self._clock.wall_ms()
        )

    def schedule_prepared_append(self) -> None:
        """Let what was prepared go out once its linger time is over."""
        leader = self._core.leader
        if leader is not None:
            leader.accumulator.allow_drain()
        if not self._poke_pending:
            self._poke_pending = True
            self._clock.call_later(0, self._poke)

    def _poke(self) -> None:
        self._poke_pending = False
        self._submit(nothing)

    def resign(self, epoch: int) -> None:
        """Give up leading `epoch`, if this replica still leads it."""

        def request() -> None:
            leader = self._core.leader
            if leader is not None and leader.epoch == epoch:
                leader.resign_requested = True

        self._submit(request)

    @property
    def voters(self) -> VoterSet:
        """The voters in force, as far as this replica's log says."""
        return self._core.voters

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version, likewise."""
        return self._core.log.control.kraft_version

    def upgrade_kraft_version(
        self, level: int, done: Callable[[ErrorCode, str | None], None], *, validate_only: bool
    ) -> None:
        """Raise kraft.version; `done` gets the error, or none once it is committed."""
        self._submit(lambda: self._voters.upgrade(level, done, validate_only=validate_only))

    def confirm_leadership(self, done: Callable[[bool], None]) -> None:
        """Find out whether this replica still leads, as of some time after this call.

        Other voters are sent a BeginQuorumEpoch, as many as make a majority and more when those are
        slow, and confirm by answering it in our epoch; a majority of confirmations that all began
        after this call prove that no later leader had been elected when the call was made. (A Fetch
        would not do: it may have been sent long before it arrives.) `done(True)` then,
        `done(False)` when leadership is lost before.
        """
        self._submit(lambda: self._add_reader(done))

    def _add_reader(self, done: Callable[[bool], None]) -> None:
        core = self._core
        alone = self._quorum.is_only_voter
        if core.leader is None or alone or len(core.readers) >= WAITING_READERS_MAX:
            confirmed = core.leader is not None and alone
            self._clock.call_later(0, lambda: done(confirmed))
            return
        core.latest_read += 1
        core.readers.append((core.latest_read, done))

    def handle(self, request: RaftRequest, reply: Reply) -> None:
        """Handle a request of another replica; `reply` gets its response, now or later.

        A description is answered at once, also while a change of epoch or vote waits for a slow
        disk. So it must change nothing: an event with a waiting continuation relies on what it saw.
        """
        if isinstance(request, DescribeQuorumRequest) and not self._running:
            self._inbound.handle(request, reply)
        else:
            self._submit(lambda: self._inbound.handle(request, reply))

    # -- events ----------------------------------------------------------------------------------

    def _submit(self, event: Callable[[], None]) -> None:
        self._events.append(event)
        if not self._running:
            self._run()

    def _resume(self, continuation: Callable[[], None]) -> None:
        """Go on with the event, its change of state now persisted, before any other."""
        assert not self._running, "a disk completion from within an event"
        self._events.appendleft(continuation)
        self._run()

    def _run(self) -> None:
        events, quorum = self._events, self._quorum
        self._running = True
        try:
            while events and not (quorum.busy or self._halted):
                events.popleft()()
                if not (quorum.busy or self._halted):
                    self._poll()
        except Exception as error:  # noqa: BLE001  (whatever it is, the node must not go on)
            self.fail(error)
        finally:
            self._running = False

    # -- poll ------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Do what the current role has to do now, and set the timer for what comes next."""
        core, purgatory = self._core, self._core.fetch_purgatory
        now_ms = self._clock.monotonic_ms()
        if core.shutting_down and self._maybe_complete_shutdown(now_ms):
            return
        purgatory.expire(now_ms)
        due_ms = self._roles.poll(now_ms)
        if self._quorum.busy or self._halted:
            return
        due_ms = min(
            due_ms,
            purgatory.next_deadline_ms(),
            self._cleaner.poll(now_ms),
            self._shutdown_deadline_ms,
        )
        self._due_ms = due_ms
        if due_ms < self._timer_due_ms:
            self._arm(due_ms)

    def _maybe_complete_shutdown(self, now_ms: float) -> bool:
        """Whether the graceful shutdown is over, which it may become now."""
        state = self._quorum.state
        if (
            isinstance(state, Leader)
            and state.remote_voters()
            and now_ms < self._shutdown_deadline_ms
        ):
            return False
        resigning = isinstance(state, Resigned) and bool(state.unacknowledged)
        if resigning and now_ms < self._shutdown_deadline_ms:
            return False
        self._halted = True
        self._arm(math.inf)
        self._shutdown_done()
        return True

    # -- timer -----------------------------------------------------------------------------------

    def _arm(self, due_ms: float) -> None:
        """Have one timer that is not later than `due_ms`; an early one is set anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._timer_due_ms = math.inf
        if due_ms < math.inf:
            self._timer_due_ms = due_ms
            delay_ms = max(0.0, due_ms - self._clock.monotonic_ms())
            self._timer = self._clock.call_later(delay_ms, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._timer_due_ms = math.inf
        if self._due_ms > self._clock.monotonic_ms() + EARLY_TIMER_MS:
            self._arm(self._due_ms)
        else:
            self._submit(nothing)

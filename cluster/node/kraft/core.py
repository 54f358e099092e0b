"""What all parts of the raft client share: its state, and what goes with each change of role.

The parts are `inbound` (requests of others), `outbound` (requests to others and their responses)
and `client` (the event queue, the poll loop and the face to the state machine).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster.node.errors import ErrorCode
from cluster.node.kraft.listeners import ListenerContext
from cluster.node.kraft.messages import EPOCHS_AHEAD_MAX, MAX_EPOCH, NO_NODE, ORDINARY_EPOCH_MAX
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import STATIC_OFFSET, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.purgatory import ThresholdPurgatory
from cluster.node.kraft.quorum.quorum_state import QuorumState, Then
from cluster.node.kraft.quorum.states import Candidate, Prospective, Unattached
from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.request_manager import RequestManager
from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.log.batch.control import (
    ControlMessage,
    KRaftVersion,
    LeaderChange,
    encode_control,
)
from cluster.node.ports import Clock, Endpoint, Network, Random, Trace, nothing

Reader = tuple[int, Callable[[bool], None]]
"""A read that waits for a leadership check: its number and its callback."""


class PendingChange:
    """A change of the voter set that was begun and has not ended (KIP-853)."""

    __slots__ = ("_core", "_finish", "deadline_ms", "epoch", "is_appended")

    def __init__(
        self, core: RaftCore, deadline_ms: float, finish: Callable[[ErrorCode, str | None], None]
    ) -> None:
        self._core = core
        self._finish: Callable[[ErrorCode, str | None], None] | None = finish
        self.deadline_ms = deadline_ms
        self.is_appended = False
        """Its VotersRecord is on its way to the log: it may be committed whatever is answered."""

    def finish(self, error: ErrorCode, message: str | None) -> None:
        """Answer the caller, once."""
        if self._core.pending_change is self:
            self._core.pending_change = None
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(error, message)


class RaftCore:
    """State of one raft client. All calls are made on the node's task, one event at a time."""

    def __init__(
        self,
        config: RaftConfig,
        quorum: QuorumState,
        log: ReplicatedLog,
        clock: Clock,
        network: Network,
        random: Random,
        trace: Trace,
        submit: Callable[[Callable[[], None]], None],
    ) -> None:
        self.config = config
        self.quorum = quorum
        self.log = log
        self.clock = clock
        self.network = network
        self.random = random
        self.trace = trace
        self.submit = submit
        """Queue an event; it runs once no move is being persisted, and is followed by a poll."""
        self.requests = RequestManager(config.retry_backoff_ms, config.request_timeout_ms, random)
        self._known_voters: VoterSet | None = None
        """What `take_up_voters` saw last."""
        self.fetch_purgatory = ThresholdPurgatory()
        self.append_purgatory = ThresholdPurgatory()
        self.listeners: list[ListenerContext] = []
        self.pending_change: PendingChange | None = None
        self.readers: list[Reader] = []
        self.latest_read = 0
        self.shutting_down = False
        self.reported_high_watermark: int | None = None
        """The newest that a leader reported; this replica's log may not reach it yet."""
        self.download: SnapshotFile | None = None
        """What a follower loads instead of fetching, until it is whole (KIP-630)."""
        self.is_installing_snapshot = False
        """A downloaded snapshot is being renamed; then the log is dropped for it."""

    # -- small views -----------------------------------------------------------------------------

    @property
    def leader(self) -> Leader | None:
        """The leader's state, when this node leads."""
        return self.quorum.leader

    @property
    def voters(self) -> VoterSet:
        """The voters in force: the newest in the log, committed or not, else the configured."""
        return self.log.control.voters

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where another controller listens, as the voters in force or the configuration say."""
        return self.voters.endpoint(node_id) or self.config.voters.endpoint(node_id)

    @property
    def known_leader_endpoint(self) -> Endpoint | None:
        """Where the known leader of this epoch listens, to be named in responses."""
        endpoint = self.quorum.state.leader_endpoint
        return endpoint or self.endpoint_of(self.quorum.leader_id)

    @property
    def high_watermark(self) -> int | None:
        """What this node knows to be committed; a new leader starts without knowing any."""
        leader = self.leader
        return self.log.high_watermark if leader is None else leader.high_watermark

    # -- changes of role -------------------------------------------------------------------------

    def become_unattached(self, epoch: int, then: Then, leader_id: int = NO_NODE) -> None:
        """Move to Unattached, then continue."""
        self._move(lambda done: self.quorum.to_unattached(epoch, done, leader_id), then)

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint, then: Then) -> None:
        """Move to Follower, then continue."""
        self._move(lambda done: self.quorum.to_follower(epoch, leader_id, endpoint, done), then)

    def become_prospective(self) -> None:
        """Ask whether an election could be won; alone, it is."""
        self._move(self.quorum.to_prospective, self._stand_if_alone)

    def _stand_if_alone(self) -> None:
        if self.quorum.is_only_voter:
            self.become_candidate()

    def become_candidate(self) -> None:
        """Stand for election in the next epoch; alone, it is won."""
        self._move(self.quorum.to_candidate, self.lead_if_alone)

    def lead_if_alone(self) -> None:
        """A candidate that is the only voter needs nobody's answer."""
        if self.quorum.is_only_voter:
            self.become_leader()

    def become_leader(self) -> None:
        """Lead: the epoch starts at the log end with a LeaderChange record."""
        epoch_start = self.log.end_offset
        linger_ms = self.config.append_linger_ms
        accumulator = BatchAccumulator(self.quorum.epoch, epoch_start, linger_ms)
        self._move(
            lambda done: self.quorum.to_leader(epoch_start, accumulator, done), self._begin_epoch
        )

    def _begin_epoch(self) -> None:
        leader = self.leader
        assert leader is not None
        assert leader.epoch_start_offset == self.log.end_offset, "the log grew before the epoch"
        leader.accumulator.append_control(
            [encode_control(message) for message in self._epoch_start_messages(leader)],
            self.clock.wall_ms(),
        )
        leader.update_local(self.log.durable_end_offset)
        self.trace("epoch-start", epoch=leader.epoch, offset=leader.epoch_start_offset)

    def _epoch_start_messages(self, leader: Leader) -> list[ControlMessage]:
        """What an epoch begins with (LeaderState.appendStartOfEpochControlRecords)."""
        control = self.log.control
        messages: list[ControlMessage] = [
            LeaderChange(
                leader_id=leader.leader_id,
                voters=self.voters.ids,
                granting_voters=leader.granting_voters,
            )
        ]
        if control.kraft_version >= 1:
            local, voters = self.config.local_voter, self.voters
            # A follower reports a change of its own to its leader; a leader has nobody to ask.
            if local is not None and local != voters.get(local.key.id):
                voters = voters.with_voter(local)
            # What is in this node's bootstrap checkpoint only is never replicated.
            if voters is not self.voters or control.voters_offset == STATIC_OFFSET:
                messages += [KRaftVersion(control.kraft_version), voters.to_record()]
        return messages

    def become_resigned(self) -> None:
        """Give up leading, and notify the voters."""
        self._move(self.quorum.to_resigned, nothing)

    def after_prospective_loss(self) -> None:
        """Go back from a pre-election that was not won."""
        self._move(self.quorum.after_prospective_loss, nothing)

    def _move(self, move: Callable[[Then], None], then: Then) -> None:
        """Make a move with all that goes with it, then continue with `then`."""
        before = self.quorum.state

        def on_move() -> None:
            self.requests.reset_all()
            after = self.quorum.state
            if (before.epoch, before.leader_id) != (after.epoch, after.leader_id):
                self._give_up_download()
            if self.leader is None:
                self.fetch_purgatory.lose_all()
                self.append_purgatory.lose_all()
                self._fail_readers()
                self._fail_change()
            self.notify_leader()
            then()

        move(on_move)

    def _give_up_download(self) -> None:
        """Another leader may have another snapshot."""
        if self.download is not None and not self.is_installing_snapshot:
            self.download.discard()
        self.download = None

    def _fail_readers(self) -> None:
        readers, self.readers = self.readers, []
        for _, done in readers:
            done(False)  # noqa: FBT003  (the answer itself)

    def _fail_change(self) -> None:
        if self.pending_change is not None:
            error = ErrorCode.not_leader_or_follower
            self.pending_change.finish(error, "The leadership was lost.")

    def leader_only_error(self, epoch: int) -> ErrorCode:
        """Why this node does not answer what only the leader of an epoch can."""
        ours = self.quorum.state.epoch
        if epoch < ours:
            return ErrorCode.fenced_leader_epoch
        if epoch > ours:
            return ErrorCode.unknown_leader_epoch
        if self.quorum.leader is None:
            return ErrorCode.not_leader_or_follower
        if self.shutting_down:
            return ErrorCode.broker_not_available
        return ErrorCode.none

    def is_epoch_in_reach(self, epoch: int) -> bool:
        """Whether an epoch may be taken up: elections must be able to follow it.

        One forged message would otherwise use up all epochs that there are, for good.
        """
        ahead = max(ORDINARY_EPOCH_MAX, self.quorum.epoch + EPOCHS_AHEAD_MAX)
        return epoch <= min(ahead, MAX_EPOCH - 1)

    def contradiction(self, leader_id: int, epoch: int) -> str | None:
        """Why no sound peer names this leader of an epoch not below ours; None: it may be one.

        Kafka ends itself at a second leader of its epoch (KafkaRaftClient.maybeTransition). But
        whoever reaches the port can name one. Nothing here is damaged by that: what this replica
        knows of the epoch is on its disk, and stays.
        """
        quorum, me = self.quorum, self.config.node_id
        if not self.is_epoch_in_reach(epoch):
            return f"epoch {epoch} is out of reach from epoch {quorum.epoch}"
        if leader_id < NO_NODE:
            return f"{leader_id} is no node's id"
        if epoch == quorum.epoch and not self._has_consistent_leader(leader_id):
            return f"epoch {epoch} is led by {quorum.leader_id}, not by {leader_id}"
        # A replica that is no voter may have the id of one whose disk is lost (KIP-853).
        if epoch > quorum.epoch and leader_id == me and quorum.is_voter:
            return f"this replica does not lead epoch {epoch}"
        return None

    def report_contradiction(
        self, message: object, leader_id: int, epoch: int, reason: str
    ) -> None:
        """Write down what was refused: among the nodes of a run nobody says such a thing."""
        self.trace(
            "contradiction",
            epoch=self.quorum.epoch,
            leader_id=self.quorum.leader_id,
            claimed_epoch=epoch,
            claimed_id=leader_id,
            message=type(message).__name__,
            reason=reason,
        )

    def maybe_transition(
        self, leader_id: int, epoch: int, endpoint: Endpoint | None, then: Then
    ) -> None:
        """Take up a message's epoch, not below ours, then continue. Ask `contradiction` first."""
        quorum = self.quorum
        assert epoch >= quorum.epoch
        where = endpoint or self.endpoint_of(leader_id)
        if leader_id == self.config.node_id and not quorum.is_voter:
            # A replica with this id and another disk, lost since, led that epoch (KIP-853).
            leader_id = NO_NODE
        if epoch > quorum.epoch:
            if leader_id not in {NO_NODE, self.config.node_id} and where is not None:
                self.become_follower(epoch, leader_id, where, then)
            else:
                self.become_unattached(epoch, then, leader_id)
        elif self._is_news(leader_id, where):
            assert where is not None
            self.become_follower(epoch, leader_id, where, then)
        else:
            then()

    def _has_consistent_leader(self, leader_id: int) -> bool:
        return leader_id == NO_NODE or self.quorum.leader_id in (NO_NODE, leader_id)

    def _is_news(self, leader_id: int, endpoint: Endpoint | None) -> bool:
        """Whether a leader of the current epoch was not followed so far and now can be."""
        if leader_id in (NO_NODE, self.config.node_id) or endpoint is None:
            return False
        state = self.quorum.state
        if isinstance(state, Prospective):
            # One that lost its leader goes back to it only when the pre-election is not won.
            return state.leader_id == NO_NODE
        return isinstance(state, Unattached | Candidate)

    # -- what follows from appends and acknowledgements ------------------------------------------

    def flush_log(self) -> None:
        """Start an fsync; its completion is an event of its own."""
        self.log.flush(self._durable)

    def _durable(self) -> None:
        # Traced at once: an event that is before ours in the queue may send a Fetch with this end.
        self.trace("flush", end_offset=self.log.durable_end_offset)
        self.submit(self._on_flush)

    def _on_flush(self) -> None:
        leader = self.leader
        if leader is not None and leader.update_local(self.log.durable_end_offset):
            self.leader_high_watermark_moved(leader)

    def leader_high_watermark_moved(self, leader: Leader) -> None:
        """Notify waiting replicas, waiting appends and the state machines."""
        offset = leader.high_watermark
        assert offset is not None
        self.trace(
            "hw",
            epoch=leader.epoch,
            offset=offset,
            role="leader",
            replicas=leader.replica_offsets(),
        )
        self.hear_high_watermark(offset)
        self.log.update_high_watermark(offset)
        if not leader.is_voter and self.log.control.voters_offset < offset:
            # Its own removal is committed: by the new voters, which go on without it.
            leader.resign_requested = True
        self.fetch_purgatory.reach_all()
        self.append_purgatory.reach(offset)
        self.feed_listeners()

    def hear_high_watermark(self, offset: int) -> None:
        """Note what a leader reports; the high watermarks of one quorum only grow."""
        is_first = self.reported_high_watermark is None
        self.reported_high_watermark = max(offset, self.reported_high_watermark or 0)
        if is_first:
            for context in self.listeners:
                context.notify_high_watermark()

    def follower_high_watermark_moved(self, offset: int) -> None:
        """Take over the leader's high watermark as far as this log reaches."""
        if offset == self.log.high_watermark:
            return
        self.trace("hw", epoch=self.quorum.epoch, offset=offset, role="follower")
        self.log.update_high_watermark(offset)
        self.feed_listeners()

    # -- voters ----------------------------------------------------------------------------------

    def take_up_voters(self) -> None:
        """Act by the voters in force, if they changed: call it after each change of the log."""
        voters, control = self.voters, self.log.control
        if voters is self._known_voters:
            return
        is_first = self._known_voters is None
        self._known_voters = voters
        self.trace(
            "voters",
            offset=control.voters_offset,
            kraft_version=control.kraft_version,
            voters={str(v.key.id): str(v.key.directory_id) for v in voters},
        )
        self.requests.bootstrap = self._bootstrap_endpoints()
        if is_first:
            return
        # What is on its way was meant for a voter, or counted as one's answer, of the old set.
        self.requests.reset_all()
        leader = self.leader
        if leader is None:
            self.quorum.take_up_voters()
        elif leader.update_voters(voters, self.clock.monotonic_ms()):
            self.leader_high_watermark_moved(leader)

    def _bootstrap_endpoints(self) -> tuple[Endpoint, ...]:
        """What may know the leader: the voters, those configured, and the bootstrap servers.

        One that moved is configured elsewhere than the log of this replica says: there it is a
        server like others, as its own id is left alone after each attempt where the log says.
        """
        config, me = self.config, self.config.node_id
        known = {v.endpoint.node_id: v.endpoint for v in (*config.voters, *self.voters)}
        known.pop(me, None)
        places = {(e.host, e.port) for e in known.values()}
        if config.local_endpoint is not None:
            places.add((config.local_endpoint.host, config.local_endpoint.port))
        configured = [v.endpoint for v in config.voters if v.key.id != me]
        free_id = -2 - len(config.bootstrap_servers)
        moved = [replace(e, node_id=free_id - i) for i, e in enumerate(configured)]
        servers = [e for e in (*config.bootstrap_servers, *moved) if (e.host, e.port) not in places]
        return (*(known[node_id] for node_id in sorted(known)), *servers)

    # -- snapshots -------------------------------------------------------------------------------

    def install_latest_snapshot(self) -> None:
        """Drop the log for the latest snapshot, if it does not hold all of it, and load that."""
        if not self.log.truncate_to_latest_snapshot(self.clock.monotonic_ms()):
            return
        assert self.leader is None, "a leader's log holds all that is committed"
        start = self.log.end
        self.trace("truncate-fully", start_offset=start.offset, epoch=start.epoch)
        self.trace("hw", epoch=self.quorum.epoch, offset=start.offset, role="follower")
        self.take_up_voters()
        self.feed_listeners()

    def trace_snapshot(self, file: SnapshotFile, origin: str) -> None:
        """Trace a durable snapshot at once, before it could be cleaned away."""
        self.trace(
            "snapshot",
            offset=file.id.offset,
            epoch=file.id.epoch,
            size_bytes=file.size_bytes,
            origin=origin,
        )

    # -- state machines --------------------------------------------------------------------------

    def feed_listeners(self, *, in_turn: bool = False) -> None:
        """Hand committed batches to the state machines, then the leadership that they imply."""
        for context in self.listeners:
            context.feed(self.log, in_turn=in_turn)
        self.notify_leader()

    def feed_later(self) -> None:
        """Hand over more in a turn of its own."""
        self.clock.call_later(0, lambda: self.submit(lambda: self.feed_listeners(in_turn=True)))

    def notify_leader(self) -> None:
        """Notify state machines of the leader; of this node itself only past the epoch's start."""
        leader = self.leader
        current = self.quorum.leader_and_epoch
        for context in self.listeners:
            if leader is None or context.next_offset > leader.epoch_start_offset:
                context.notify_leader(current)

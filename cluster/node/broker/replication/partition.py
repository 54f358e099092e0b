"""A partition on the broker that leads it: who is in sync, what is committed (Partition.scala).

The *committed* ISR is what the metadata hold. A leader that has asked to change it (AlterPartition)
does not know until the answer whether the controller has: so it may neither count a record as
committed that a member of the new set lacks, nor one that a member of the old set lacks. The
*maximal* ISR is the larger of both, and everything is decided by it (KIP-497):

- an expansion counts from the moment at which it is proposed;
- a shrink counts from the moment at which the metadata show it. An answer may come before the
  metadata do, and min.insync.replicas may have been raised before the shrink: by the old minimum
  the leader would commit alone what a member of the ELR lacks (Kafka's does).

The high watermark is the smallest end offset of the leader and the maximal ISR, and of followers
that have caught up and are about to be proposed: else it could run away from them for ever. While
the committed ISR is below min.insync.replicas it stands still, with acks=1 as well (KIP-966): a
replica may leave the ISR then and remain electable, because nothing that it lacks is committed.

A follower is let in only if the broker that fetches is the one that the metadata show: unfenced,
not shutting down and of the same broker epoch (KIP-903). A broker that restarted with an empty disk
may otherwise be let in by what its earlier incarnation had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cluster.node.controller.metadata.state import PartitionRegistration
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_log import DataLog
from cluster.node.ports import Clock
from cluster.values import valueclass

UNKNOWN: Final = -1
"""An offset or a broker epoch of which nothing is known yet."""


@valueclass
class IsrProposal:
    """A change of the ISR that the controller is asked for."""

    isr: tuple[tuple[int, int], ...]
    """Id and broker epoch of each member."""
    leader_epoch: int
    partition_epoch: int


@valueclass
class IsrAnswer:
    """What the controller says that the partition is now."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


Propose = Callable[[IsrProposal, Callable[[IsrAnswer | ErrorCode], None]], None]
"""Asks the controller; the callback is called once, with its answer for this partition."""


class StaleReplicaError(Exception):
    """A fetch of a replica that the partition does not have, or of an earlier incarnation."""


@dataclass(slots=True)
class FetchTimes:
    """When a follower's present session fetched: what it does not name is where it was before."""

    latest_ms: float = -math.inf


@dataclass(slots=True)
class Follower:
    """What a leader knows of another replica (Replica.scala). Times are monotonic."""

    broker_id: int
    start_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    caught_up_ms: float = -math.inf
    """When it last had all that the leader had at that moment."""
    fetched_ms: float = -math.inf
    leader_end_offset: int = UNKNOWN
    """The leader's log end at its last fetch."""
    times: FetchTimes | None = None
    """Of the session that it fetches in: a Fetch that does not name it counts as well."""

    def on_fetch(
        self,
        fetch_offset: int,
        start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now_ms: float,
        times: FetchTimes | None = None,
    ) -> None:
        """Take a fetch at `fetch_offset`, which is the follower's log end."""
        self.times = times
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            # It has all that the leader had at the fetch before this one.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.start_offset, self.end_offset = start_offset, fetch_offset
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        self.fetched_ms, self.leader_end_offset = now_ms, leader_end_offset

    def appends(self, leader_end_offset: int) -> None:
        """Learn that the leader's log is about to grow beyond this end.

        A follower that is there had all until its last Fetch, whether that named it or not.
        """
        if self.end_offset == leader_end_offset and self.times is not None:
            self.caught_up_ms = max(self.caught_up_ms, self.times.latest_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_max_ms: float) -> bool:
        """Whether it has all, or had all not long ago."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def reset(self, now_ms: float, leader_end_offset: int, *, anew: bool, in_sync: bool) -> None:
        """Begin a leader epoch, in which it is given the lag's time to fetch if it is in sync.

        `anew`: by a broker that did not lead before, and knows nothing of it. What its session has
        fetched counts no more: who lagged then would pass for caught up, and be waited for.
        """
        self.times = None
        self.fetched_ms = now_ms if in_sync and not anew else -math.inf
        self.leader_end_offset = UNKNOWN if anew else leader_end_offset
        self.caught_up_ms = now_ms if in_sync else -math.inf
        if anew:
            self.start_offset = self.end_offset = UNKNOWN


class Acknowledged(Enum):
    """Whether a produce request with acks=all is done."""

    NOT_YET = "not-yet"
    DONE = "done"
    TOO_FEW_REPLICAS = "too-few-replicas"
    """It is committed by what was left of the ISR (NOT_ENOUGH_REPLICAS_AFTER_APPEND)."""
    NOT_LEADER = "not-leader"


@dataclass(slots=True)
class _Pending:
    """A change of the ISR on its way."""

    isr: tuple[int, ...]
    maximal: tuple[int, ...]


class Partition:
    """See the module. Owned by the node's task; a follower's partition leads nothing."""

    def __init__(
        self,
        broker_id: int,
        log: DataLog,
        clock: Clock,
        lag_time_max_ms: float,
        eligible_epoch: Callable[[int], int | None],
        propose: Propose,
        on_progress: Callable[[], None],
        high_watermark: int = 0,
    ) -> None:
        """`eligible_epoch`: of a broker that may be in sync as far as the metadata say, else None.

        `on_progress`: called when requests that wait for this partition may be done.
        `high_watermark`: as of the checkpoint; what lies beyond the log does not count.
        """
        self.broker_id = broker_id
        self.log = log
        self.lag_time_max_ms = lag_time_max_ms
        """replica.lag.time.max.ms"""
        self.min_insync_replicas = 1
        """min.insync.replicas of the topic"""
        self.leader: int = UNKNOWN
        self.leader_epoch: int = UNKNOWN
        self.partition_epoch: int = UNKNOWN
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The committed one, as far as known."""
        self.epoch_start_offset: int = UNKNOWN
        """Where the epoch that it leads begins."""
        self.high_watermark = min(high_watermark, log.end_offset)
        self.followers: dict[int, Follower] = {}
        self._clock = clock
        self._eligible_epoch = eligible_epoch
        self._propose = propose
        self._on_progress = on_progress
        self._pending: _Pending | None = None

    # --- roles ---

    @property
    def leads(self) -> bool:
        """Whether this broker leads it."""
        return self.leader == self.broker_id

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """See the module."""
        return self.isr if self._pending is None else self._pending.maximal

    @property
    def change_in_flight(self) -> bool:
        """Whether a change of the ISR is not answered yet."""
        return self._pending is not None

    def make_leader(self, state: PartitionRegistration) -> bool:
        """Lead as the metadata say; return whether it is a new leader epoch.

        What the metadata say may be older than what AlterPartition was answered, or the same: then
        it is left. The same must not end a proposal that was made since: the controller may
        already have committed an expansion whose member the high watermark would run away from.
        """
        if state.partition_epoch < self.partition_epoch or self._knows(state):
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        led = self.leads
        self._adopt(state)
        self.isr = state.isr
        others = [replica for replica in state.replicas if replica != self.broker_id]
        self.followers = {
            replica: self.followers.get(replica, Follower(replica)) for replica in others
        }
        if is_new_epoch:
            self.epoch_start_offset = self.log.end_offset
            self.log.initialize_leader_epoch(state.leader_epoch)
            now_ms = self._clock.monotonic_ms()
            for follower in self.followers.values():
                in_sync = follower.broker_id in self.isr
                follower.reset(now_ms, self.log.end_offset, anew=not led, in_sync=in_sync)
        self.advance()
        return is_new_epoch

    def _knows(self, state: PartitionRegistration) -> bool:
        """Whether it leads as this state says."""
        same = state.partition_epoch == self.partition_epoch
        return same and self.leads and state.leader_epoch == self.leader_epoch

    def make_follower(self, state: PartitionRegistration) -> bool:
        """Follow as the metadata say; return whether it is a new leader epoch."""
        if state.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._adopt(state)
        self.isr = ()
        self.followers = {}
        self.epoch_start_offset = UNKNOWN
        self._on_progress()  # requests that wait here learn that it leads no more
        return is_new_epoch

    def _adopt(self, state: PartitionRegistration) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self._pending = None

    # --- what a leader learns ---

    @property
    def least_in_sync(self) -> int:
        """min.insync.replicas, never more than there are replicas (KIP-966)."""
        return min(self.min_insync_replicas, max(len(self.replicas), 1))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether nothing can be committed: too few replicas are in sync."""
        return self.leads and len(self.isr) < self.least_in_sync

    def appends(self) -> None:
        """Records are about to be appended to the leader's log."""
        for follower in self.followers.values():
            follower.appends(self.log.end_offset)

    def on_fetch(
        self,
        broker_id: int,
        fetch_offset: int,
        start_offset: int,
        broker_epoch: int,
        times: FetchTimes | None = None,
    ) -> None:
        """A follower has everything below `fetch_offset`, which is in the log.

        `times`: of its session, if it has one. Raises StaleReplicaError.
        """
        follower = self.followers.get(broker_id)
        if follower is None or not self.leads:
            raise StaleReplicaError(f"broker {broker_id} is no replica of it")
        registered = self._eligible_epoch(broker_id)
        latest = max(follower.broker_epoch, UNKNOWN if registered is None else registered)
        if UNKNOWN < broker_epoch < latest:
            raise StaleReplicaError(f"broker {broker_id} has been registered anew")
        before = follower.end_offset
        now_ms = self._clock.monotonic_ms()
        follower.on_fetch(
            fetch_offset, start_offset, broker_epoch, self.log.end_offset, now_ms, times
        )
        self._expand_if_due(follower)
        if before != fetch_offset:
            self.advance()

    def shrink_if_due(self) -> None:
        """Propose the ISR without those that lag for too long; asked every now and then."""
        if not self.leads or self._pending is not None:
            return
        now_ms = self._clock.monotonic_ms()
        lagging = {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.isr
            and not follower.is_caught_up(self.log.end_offset, now_ms, self.lag_time_max_ms)
        }
        if lagging:
            kept = tuple(member for member in self.isr if member not in lagging)
            self._submit(_Pending(kept, maximal=self.isr))

    def acknowledgement(self, required_offset: int, leader_epoch: int) -> Acknowledged:
        """Say whether all below `required_offset`, appended in `leader_epoch`, is committed.

        A later epoch may have taken the records back, whoever leads it: they are not asked for in
        its terms.
        """
        if not self.leads or leader_epoch != self.leader_epoch:
            return Acknowledged.NOT_LEADER
        if self.high_watermark < required_offset:
            return Acknowledged.NOT_YET
        few = len(self.maximal_isr) < self.least_in_sync
        return Acknowledged.TOO_FEW_REPLICAS if few else Acknowledged.DONE

    # --- what a follower learns ---

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Take the leader's high watermark, as far as the own log goes; it never sinks by this.

        Consumers that wait at this replica (KIP-392) see more by it.
        """
        reached = min(leader_high_watermark, self.log.end_offset)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self._on_progress()

    def on_truncation(self) -> None:
        """The log has become shorter, or begins later."""
        high_watermark = min(self.high_watermark, self.log.end_offset)
        self.high_watermark = max(high_watermark, self.log.start_offset)
        self._on_progress()  # a consumer that waits here may be out of range now

    # --- ISR ---

    def _expand_if_due(self, follower: Follower) -> None:
        """Propose a follower that has caught up with the epoch and with what is committed.

        The epoch's start counts, too: below it the follower's log may still hold records of other
        epochs that it has to drop, and a high watermark that was learned late would not show it.
        """
        if self._pending is not None or follower.broker_id in self.isr:
            return
        in_sync = follower.end_offset >= max(self.high_watermark, self.epoch_start_offset)
        if in_sync and self._may_join(follower):
            isr = (*self.isr, follower.broker_id)
            self._submit(_Pending(isr, maximal=isr))

    def _may_join(self, follower: Follower) -> bool:
        registered = self._eligible_epoch(follower.broker_id)
        return registered is not None and follower.broker_epoch in (UNKNOWN, registered)

    def _submit(self, pending: _Pending) -> None:
        self._pending = pending
        self._send(pending)

    def _send(self, pending: _Pending) -> None:
        proposal = IsrProposal(
            isr=tuple((member, self._epoch_of(member)) for member in pending.isr),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        self._propose(proposal, lambda answer: self._on_answer(pending, answer))

    def _epoch_of(self, member: int) -> int:
        if member == self.broker_id:
            return self._eligible_epoch(member) or UNKNOWN
        return self.followers[member].broker_epoch

    def takes(self, answer: IsrAnswer) -> bool:
        """Whether an answer of the controller counts before the metadata come: no shrink does."""
        return {*self.isr} <= {*answer.isr}

    def _on_answer(self, pending: _Pending, answer: IsrAnswer | ErrorCode) -> None:
        if self._pending is not pending:
            return  # the metadata have decided meanwhile
        if isinstance(answer, IsrAnswer):
            older = answer.partition_epoch < self.partition_epoch
            if older or answer.leader_epoch != self.leader_epoch:
                return  # this leadership is over, and the metadata are about to say so
            if not self.takes(answer):
                return
            self._pending = None
            self.isr = answer.isr
            self.partition_epoch = answer.partition_epoch
            self.advance()
            self._on_progress()
        elif answer in _NOT_MADE:
            self._pending = None
            self.advance()  # it is not waited for any more, and nobody may fetch anything new
        elif answer not in _METADATA_DECIDE:
            self._send(pending)

    def advance(self) -> None:
        """Raise the high watermark as far as it may go, now that something has changed.

        Of the leader's log that counts which a kill of this process keeps: a follower may have a
        record earlier than the leader's kernel, but a leader that was killed and leads again must
        have what it acknowledged. A broker that the metadata say is gone is waited for no more.
        """
        if not self.leads or self.is_under_min_isr:
            return
        reached = self.log.written_end_offset
        maximal = self.maximal_isr
        for follower in self.followers.values():
            if follower.end_offset >= reached:
                continue
            if follower.broker_id in maximal or self._is_joining(follower):
                reached = follower.end_offset
        if reached > self.high_watermark:
            self.high_watermark = reached
            self._on_progress()

    def _is_joining(self, follower: Follower) -> bool:
        """Whether a follower outside the ISR is so close that it is waited for."""
        now_ms = self._clock.monotonic_ms()
        close = follower.is_caught_up(self.log.end_offset, now_ms, self.lag_time_max_ms)
        return close and self._may_join(follower)


_NOT_MADE: Final = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
"""The controller has not changed the ISR, and will not: what was committed still is."""
_METADATA_DECIDE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)
"""It came too late, or took effect before its answer was lost: it is pending until the metadata
decide."""

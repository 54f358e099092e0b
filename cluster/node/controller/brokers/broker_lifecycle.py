r"""BrokerHeartbeat: which state a broker is in and which comes next (KIP-631).

    FENCED --caught up--> UNFENCED --wants to shut down, leads--> CONTROLLED_SHUTDOWN
       \                    |   \                                  |
        \--wants to shut down, or both, or leads nothing, or nobody needs it--> SHUTDOWN_NOW

A broker is unfenced once its metadata reach its own registration, not the moving end of the log: on
a busy log that might never happen (KAFKA-13959). A controlled shutdown ends when the broker leads
nothing and every active broker has the metadata that say so. An incarnation that has begun one is
not unfenced again, where Kafka would do so and have a leader that may not be in its own ISR.

Log directories that a heartbeat reports offline (KIP-858) leave the registration, and the broker
the ISRs of what it holds there, before it may be unfenced. A broker without any directory left is
taken as one that wants to be fenced; Kafka's ends itself.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from cluster.node.controller.metadata.registrations import (
    checked_epoch,
    has_leaderships,
    is_active,
    registered_brokers,
)
from cluster.node.controller.metadata.result import ControllerResult
from cluster.node.controller.metadata.state import BrokerRegistration, MetadataState
from cluster.node.controller.partitions import leadership
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import BrokerRegistrationChangeRecord
from cluster.node.errors import ErrorCode
from cluster.node.ports import Clock
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

# Sessions of brokers: what the active controller heard of them, and when (BrokerHeartbeatManager).
#
# None of it is in the metadata log. A session belongs to a broker and its epoch, so that a
# heartbeat of an earlier incarnation keeps nobody alive. A controller that becomes active knows
# nothing of what its predecessor heard and gives every unfenced broker a fresh session; without
# one a broker that died together with the controller would never be fenced (KAFKA-18138).


NO_OFFSET = -1


class BrokerHeartbeatManager:
    """Contact times and metadata offsets of brokers. Empty on a controller that is not active."""

    def __init__(self, clock: Clock, session_timeout_ms: float) -> None:
        assert session_timeout_ms > 0
        self.session_timeout_ms = session_timeout_ms
        self._clock = clock
        self._contacts_ms: dict[tuple[int, int], float] = {}
        self._metadata_offsets: dict[int, int] = {}
        self._shutdown_offsets: dict[int, int] = {}
        self._claim_offset = NO_OFFSET

    def activate(self, state: MetadataState, offset: int) -> None:
        """Begin, with a fresh session for every unfenced broker; `offset` ends the log now."""
        self.deactivate()
        self._claim_offset = offset
        for broker in registered_brokers(state):
            if not broker.fenced:
                self._contacts_ms[broker.id, broker.epoch] = self._clock.monotonic_ms()

    def deactivate(self) -> None:
        """Forget everything."""
        self._contacts_ms.clear()
        self._metadata_offsets.clear()
        self._shutdown_offsets.clear()

    def register(self, broker_id: int, epoch: int) -> None:
        """Begin a session of a broker that registered, and forget its earlier epochs.

        One that registers again, with the epoch that it has, goes on where it is.
        """
        if (broker_id, epoch) not in self._contacts_ms:
            self.unregister(broker_id)
        self._contacts_ms[broker_id, epoch] = self._clock.monotonic_ms()

    def unregister(self, broker_id: int) -> None:
        """Forget a broker."""
        for contact in [key for key in self._contacts_ms if key[0] == broker_id]:
            del self._contacts_ms[contact]
        self._metadata_offsets.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def touch(self, broker_id: int, epoch: int, metadata_offset: int) -> None:
        """Take a heartbeat: the session goes on, and the broker has metadata up to an offset."""
        self._contacts_ms[broker_id, epoch] = self._clock.monotonic_ms()
        known = self._metadata_offsets.get(broker_id, NO_OFFSET)
        self._metadata_offsets[broker_id] = max(known, metadata_offset)

    def note_arrival(self, broker_id: int, epoch: int) -> None:
        """Note a heartbeat that waits for its turn, so that nobody is fenced because we are busy.

        Kafka's trackBrokerHeartbeat. Only a session that is known goes on.
        """
        if (broker_id, epoch) in self._contacts_ms:
            self._contacts_ms[broker_id, epoch] = self._clock.monotonic_ms()

    def has_valid_session(self, broker_id: int, epoch: int) -> bool:
        """Return whether a broker was heard of in this epoch within the session timeout."""
        contact_ms = self._contacts_ms.get((broker_id, epoch))
        if contact_ms is None:
            return False
        return self._clock.monotonic_ms() - contact_ms < self.session_timeout_ms

    def stale_broker(self, state: MetadataState) -> BrokerRegistration | None:
        """Return the unfenced broker without a session that has been silent for longest.

        One at a time: the next one's ISRs must be computed from what fencing this one changed
        (KAFKA-13173).
        """
        stale = [
            broker
            for broker in registered_brokers(state)
            if not broker.fenced and not self.has_valid_session(broker.id, broker.epoch)
        ]
        return min(
            stale,
            key=lambda broker: self._contacts_ms.get((broker.id, broker.epoch), -math.inf),
            default=None,
        )

    def controlled_shutdown_began(self, broker_id: int, offset: int) -> None:
        """Note the offset up to which a broker that shuts down caused changes."""
        known = self._shutdown_offsets.get(broker_id, NO_OFFSET)
        self._shutdown_offsets[broker_id] = max(known, offset)

    def may_shut_down(self, broker_id: int, state: MetadataState) -> bool:
        """Return whether every active broker has heard that this one leads nothing any more.

        What this controller did not see begin ended before it became active.
        """
        offset = self._shutdown_offsets.get(broker_id, self._claim_offset)
        return all(
            self._metadata_offsets.get(broker.id, NO_OFFSET) >= offset
            for broker in registered_brokers(state)
            if is_active(state, broker.id)
        )


class BrokerControlState(enum.Enum):
    """What a broker may do."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"
    SHUTDOWN_NOW = "shutdown-now"

    @property
    def is_fenced(self) -> bool:
        """Whether clients do not see the broker."""
        return self in {BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW}


def broker_heartbeat(
    request: BrokerHeartbeatRequest, state: MetadataState, heartbeats: BrokerHeartbeatManager
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Take a heartbeat. Raises RequestError, STALE_BROKER_EPOCH."""
    broker = checked_epoch(state, request.broker_id, request.broker_epoch)
    heartbeats.touch(broker.id, broker.epoch, request.current_metadata_offset)
    current = control_state(broker)
    offline = frozenset(
        directory for directory in request.offline_log_dirs if directory in broker.log_dirs
    )
    if offline and offline == frozenset(broker.log_dirs):
        request = dataclasses.replace(request, want_fence=True)
    following = next_control_state(
        current,
        request,
        broker,
        lambda: has_leaderships(state, broker.id),
        lambda: heartbeats.may_shut_down(broker.id, state),
    )
    if current is BrokerControlState.FENCED and following is BrokerControlState.UNFENCED:
        following = BrokerControlState.FENCED if offline else following
    shutting_down = following is BrokerControlState.CONTROLLED_SHUTDOWN
    leaves_isrs = shutting_down or (following.is_fenced and not broker.fenced)

    def on_append(last_offset: int) -> None:
        heartbeats.controlled_shutdown_began(broker.id, last_offset)

    return ControllerResult(
        records=chain(
            _records(state, broker, current, following),
            _offline_records(state, broker, offline, leaves_isrs=leaves_isrs),
        ),
        response=BrokerHeartbeatResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            is_caught_up=request.current_metadata_offset >= broker.epoch,
            is_fenced=following.is_fenced,
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        ),
        is_atomic=False,
        appended=on_append if shutting_down else None,
    )


def _offline_records(
    state: MetadataState,
    broker: BrokerRegistration,
    offline: frozenset[uuid.UUID | None],
    *,
    leaves_isrs: bool,
) -> Iterator[MetadataRecord]:
    """Yield what becomes of directories that went offline, but for ISRs that it leaves anyway."""
    left = tuple(directory for directory in broker.log_dirs if directory not in offline)
    if not offline or not left:
        return
    if not leaves_isrs:
        yield from leadership.directories_offline(state, broker, offline)
    yield BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left
    )


def control_state(broker: BrokerRegistration) -> BrokerControlState:
    """Return the state that a registration stands for."""
    if broker.fenced:
        return BrokerControlState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def next_control_state(
    current: BrokerControlState,
    request: BrokerHeartbeatRequest,
    broker: BrokerRegistration,
    leads: Callable[[], bool],
    is_dispensable: Callable[[], bool],
) -> BrokerControlState:
    """Return the state after a heartbeat (calculateNextBrokerState).

    `leads` and `is_dispensable` are asked only where they decide: they cost a walk.
    """
    if current is BrokerControlState.FENCED:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        if request.want_fence or not caught_up or broker.in_controlled_shutdown:
            return BrokerControlState.FENCED
        return BrokerControlState.UNFENCED
    if current is BrokerControlState.UNFENCED:
        if request.want_fence:
            shut_down = request.want_shut_down
            return BrokerControlState.SHUTDOWN_NOW if shut_down else BrokerControlState.FENCED
        if not request.want_shut_down:
            return BrokerControlState.UNFENCED
        if leads():
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.SHUTDOWN_NOW
    assert current is BrokerControlState.CONTROLLED_SHUTDOWN, "nobody is registered as shut down"
    if leads() or not is_dispensable():
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.SHUTDOWN_NOW


def _records(
    state: MetadataState,
    broker: BrokerRegistration,
    current: BrokerControlState,
    following: BrokerControlState,
) -> Iterable[MetadataRecord]:
    if following.is_fenced:
        return [] if broker.fenced else leadership.broker_fenced(state, broker)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        return leadership.broker_shutting_down(state, broker)
    return leadership.broker_unfenced(state, broker) if current is BrokerControlState.FENCED else []

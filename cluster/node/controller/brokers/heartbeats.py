"""Sessions of brokers: what the active controller heard of them, and when (BrokerHeartbeatManager).

None of it is in the metadata log. A session belongs to a broker and its epoch, so that a heartbeat
of an earlier incarnation keeps nobody alive. A controller that becomes active knows nothing of what
its predecessor heard and gives every unfenced broker a fresh session; without one a broker that
died together with the controller would never be fenced (KAFKA-18138).
"""

from __future__ import annotations

import math

from cluster.node.controller.metadata.registrations import is_active, registered_brokers
from cluster.node.controller.metadata.state import BrokerRegistration, MetadataState
from cluster.node.ports import Clock

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
        """Begin a session of a broker that registered, and forget its earlier epochs."""
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

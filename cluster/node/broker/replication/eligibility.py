"""Which replicas of a partition may be in sync, as far as the metadata say (isReplicaIsrEligible).

Beside Kafka's conditions (unfenced, not shutting down) a replica's log directory must not be known
to be offline: its broker goes on fetching other partitions and stays unfenced, so without this a
leader would wait with its high watermark for a replica that is out of reach, until that has lagged
for `replica.lag.time.max.ms`, and the next record comes.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.controller.metadata.registrations import has_online_replica, is_active
from cluster.node.controller.metadata.state import MetadataState, PartitionKey


class ReplicaEligibility:
    """See `cluster.node.broker.replication.partition.Eligibility`."""

    def __init__(
        self, broker_id: int, key: PartitionKey, state: Callable[[], MetadataState]
    ) -> None:
        self._broker_id = broker_id
        self._key = key
        self._state = state

    def broker_epoch(self, broker_id: int) -> int | None:
        """See `cluster.node.broker.replication.partition.Eligibility`."""
        state = self._state()
        if not is_active(state, broker_id):
            return None
        partition = state.partitions.get(self._key)
        is_other = broker_id != self._broker_id
        if is_other and partition and not has_online_replica(state, partition, broker_id):
            return None
        broker = state.brokers.get(broker_id)
        assert broker is not None
        return broker.epoch

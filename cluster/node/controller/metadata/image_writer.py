"""An image as metadata records, and back (MetadataImage.write, MetadataLoader.loadSnapshot).

The order is that of the image's maps, which is the same on every replica that replayed the same
records: so snapshots with equal ids are equal byte for byte. `metadata.version` comes first, as it
decides what the other records may contain; a topic's partitions follow it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import (
    NEXT_PRODUCER_ID,
    BrokerRegistration,
    MetadataState,
    PartitionRegistration,
    ReplayError,
    committed_state,
)
from cluster.node.controller.metadata.timeline import CommittedMap, StateMap
from cluster.node.controller.records import (
    MetadataRecord,
    MetadataRecordError,
    decode_record,
    encode_record,
)
from cluster.node.controller.records.kinds import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from cluster.node.log.batch.records import CorruptBatchError
from cluster.node.log.metadata.snapshot import (
    BOOTSTRAP_ID,
    CorruptSnapshotError,
    SnapshotEncoder,
    parse_snapshot,
)
from cluster.node.ports import Disk

V = TypeVar("V")

METADATA_VERSION = "metadata.version"
RECORDS_PER_SLICE = 512
"""Records of one batch of a snapshot, and of one turn of the node's task."""
NO_BROKER = -1
_PARTITIONS_REMEMBERED = 16_384
"""Most partitions of an image are the same in the next snapshot."""


def frozen_copy(state: MetadataState) -> MetadataState:
    """Return a committed state that later commits do not change; values are immutable anyway."""
    copied: dict[str, Any] = {
        field.name: copy.copy(_committed_map(state, field.name)) for field in fields(state)
    }
    return MetadataState(**copied)


def replace_state(state: MetadataState, by: MetadataState) -> None:
    """Let a committed state hold what another does, and nothing else, in its own maps.

    Overlays of the state see the new content. The other is not to be used again.
    """
    for field in fields(state):
        _committed_map(state, field.name).replace_by(_committed_map(by, field.name))


def _committed_map(state: MetadataState, name: str) -> CommittedMap[object, object]:
    found = getattr(state, name)
    assert isinstance(found, CommittedMap), "an overlay is never part of a snapshot"
    return found


def read_image(values: Iterable[bytes]) -> MetadataState:
    """Build a state from a snapshot's records. Raises ReplayError."""
    reading = ImageReading(values)
    while not reading.read(RECORDS_PER_SLICE):
        pass
    return reading.state


class ImageReading:
    """A state that is being built from a snapshot's records, some of them at a time."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self.state = committed_state()
        self._values = iter(values)
        self._count = 0

    def read(self, records: int) -> bool:
        """Take so many more records; return whether that was the rest. Raises ReplayError."""
        taken = 0
        try:
            for value in islice(self._values, records):
                record, _ = decode_record(value)
                replay(self.state, record)
                taken += 1
        except (MetadataRecordError, ReplayError, CorruptBatchError) as error:
            message = f"metadata record {self._count + taken} of the snapshot: {error}"
            raise ReplayError(message) from error
        self._count += taken
        return taken < records


def image_records(state: MetadataState) -> Iterator[MetadataRecord]:
    """Yield the records that rebuild a committed state."""
    yield from _features(state)
    yield from map(_broker, _values(state.brokers))
    yield from _values(state.controllers)
    for topic in _values(state.topics):
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index in range(topic.partition_count):
            yield _partition(topic.id, index, state.partition(topic.id, index))
    for resource in state.config_names.keys():  # noqa: SIM118 - a StateMap is no dict
        for name, value in state.resource_configs(resource).items():
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )
    next_producer_id = state.producer_ids.get(NEXT_PRODUCER_ID)
    if next_producer_id is not None:
        yield ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=next_producer_id)
    yield from _security(state)


def _security(state: MetadataState) -> Iterator[MetadataRecord]:
    yield from _values(state.scram_credentials)
    yield from _values(state.delegation_tokens)
    yield from _values(state.access_control)
    for entity, name in state.client_quotas.keys():  # noqa: SIM118 - a StateMap is no dict
        quota = _require(state.client_quotas.get((entity, name)))
        yield ClientQuotaRecord(entity=entity, key=name, value=quota)


def _features(state: MetadataState) -> Iterator[MetadataRecord]:
    names = list(state.features.keys())
    for name in sorted(names, key=lambda name: name != METADATA_VERSION):  # stable
        yield FeatureLevelRecord(name=name, feature_level=_require(state.features.get(name)))


def _broker(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.listeners,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs or None,
    )


@lru_cache(maxsize=_PARTITIONS_REMEMBERED)
def _partition(topic_id: UUID, index: int, partition: PartitionRegistration) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _values(of: StateMap[Any, V]) -> Iterator[V]:
    for key in of.keys():  # noqa: SIM118 - a StateMap is no dict
        yield _require(of.get(key))


def _require(value: V | None) -> V:
    assert value is not None, "a key without a value"
    return value


# `bootstrap.checkpoint`: the metadata that a folder was formatted with (BootstrapDirectory).
#
# It is a snapshot of metadata records beside the log. The first active controller of a cluster
# puts its own folder's into the log; without the file a cluster begins as Kafka 4.3 would begin
# it.


FILE_NAME: Final = "bootstrap.checkpoint"


def bootstrap_content(records: Sequence[MetadataRecord], timestamp_ms: int) -> bytes:
    """Return what the file holds."""
    encoder = SnapshotEncoder(BOOTSTRAP_ID, timestamp_ms)
    values = [encode_record(record) for record in records]
    return encoder.header() + encoder.records(values) + encoder.footer()


def read_bootstrap(disk: Disk) -> tuple[MetadataRecord, ...]:
    """Return the records of a node's folder, if any. Raises OSError, CorruptSnapshotError."""
    if not disk.exists(FILE_NAME):
        return ()
    snapshot = parse_snapshot(FILE_NAME, BOOTSTRAP_ID, disk.read(FILE_NAME))
    try:
        return tuple(decode_record(value)[0] for value in snapshot.values())
    except MetadataRecordError as error:
        raise CorruptSnapshotError(FILE_NAME, 0, 0, str(error)) from error

"""What becomes of partitions when a broker comes, goes or dies (ReplicationControlManager).

Every function yields records, made while they are drawn, and changes nothing. A broker that leaves
(fenced, shutting down, restarted) is taken out of every ISR before the record that says so; one
that was unfenced may lead again from that record on. Each looks at the partitions that the broker
holds, or that have no leader, and at no others.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator

from cluster.node.controller.configs.definitions import MIN_INSYNC_REPLICAS, TOPIC
from cluster.node.controller.configs.sources import ALL_BROKERS
from cluster.node.controller.configs.values import InvalidValueError, Value
from cluster.node.controller.metadata import registrations
from cluster.node.controller.metadata.feature_levels import is_elr_enabled
from cluster.node.controller.metadata.state import (
    IMBALANCED,
    LEADERLESS,
    BrokerRegistration,
    ConfigResource,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ResourceType,
)
from cluster.node.controller.partitions.partition_change import Election, PartitionChangeBuilder
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
ELECTIONS_PER_EVENT_MAX = 1_000
"""MAX_ELECTIONS_PER_IMBALANCE: so many partitions are balanced at once, the rest later."""
NO_BROKER = -1

Partitions = Iterable[tuple[PartitionKey, PartitionRegistration]]


def builder(
    state: MetadataState,
    key: PartitionKey,
    partition: PartitionRegistration,
    is_acceptable: Callable[[int], bool],
    **wanted: object,
) -> PartitionChangeBuilder:
    """Return the builder of a partition's change, under the configuration of its topic.

    Only a broker that holds the partition, in an online log directory, may lead (LeaderAcceptor).
    """
    topic = state.topics.get(key[0])
    assert topic is not None, f"partition {key} without its topic"
    unclean = is_unclean_election_enabled(state, topic.name)
    options: dict[str, object] = {"election": Election.UNCLEAN if unclean else Election.ONLINE}
    return PartitionChangeBuilder(
        topic_id=topic.id,
        index=key[1],
        partition=partition,
        is_acceptable=lambda replica: (
            replica in partition.replicas
            and is_acceptable(replica)
            and registrations.has_online_replica(state, partition, replica)
        ),
        min_isr=effective_min_isr(state, key[0], topic.name),
        elr_enabled=is_elr_enabled(state),
        directory_of=lambda replica: registrations.default_directory(state, replica),
        **{**options, **wanted},  # type: ignore[arg-type]  # fields of the builder, by their names
    )


def is_unclean_election_enabled(state: MetadataState, topic: str) -> bool:
    """Return whether a topic may get a leader that is not in sync without a request."""
    return bool(_topic_config(state, topic, UNCLEAN_LEADER_ELECTION))


def min_insync_replicas(state: MetadataState, topic: str) -> int:
    """Return what is configured for a topic, for all brokers, or the default."""
    value = _topic_config(state, topic, MIN_INSYNC_REPLICAS)
    assert isinstance(value, int)
    return value


def effective_min_isr(state: MetadataState, topic_id: uuid.UUID, topic: str) -> int:
    """Return how large an ISR is enough: as configured, at most the replicas of partition 0.

    As in Kafka (getTopicEffectiveMinIsr), where partition 0 stands for all partitions of a topic.
    """
    replicas = state.partition(topic_id, 0).replicas
    return min(min_insync_replicas(state, topic), len(replicas))


def _topic_config(state: MetadataState, topic: str, name: str) -> Value:
    """Return what is in force, read as brokers read it: "TRUE" and " 2" are values as well."""
    key = TOPIC[name]
    for resource in (ConfigResource(ResourceType.TOPIC, topic), ALL_BROKERS):
        text = state.resource_config(resource, name)
        try:
            if text is not None:
                return key.parse(text)
        except InvalidValueError:  # of all brokers: a controller takes any value there
            continue
    assert key.default_value is not None
    return key.default_value


def leader_and_isr_updates(
    state: MetadataState,
    among: Partitions,
    *,
    remove: int = NO_BROKER,
    add: int = NO_BROKER,
    unclean: int = NO_BROKER,
) -> Iterator[MetadataRecord]:
    """Yield the changes of partitions when brokers go or come (generateLeaderAndIsrUpdates).

    `remove` and `unclean` leave every ISR and cannot lead, `unclean` leaves the ELR as well; `add`
    may lead although it is still fenced.
    """
    gone = {remove, unclean} - {NO_BROKER}

    def is_acceptable(replica: int) -> bool:
        return replica not in gone and (replica == add or registrations.is_active(state, replica))

    for key, partition in among:
        change = builder(
            state,
            key,
            partition,
            is_acceptable,
            isr=tuple(replica for replica in partition.isr if replica not in gone),
            unclean_shutdown=frozenset({unclean} - {NO_BROKER}),
        ).build()
        if change is not None:
            yield change


def _in_sync(state: MetadataState, broker_id: int) -> Partitions:
    held = registrations.partitions_marked(state, broker_id)
    return ((key, found) for key, found in held if broker_id in found.isr)


def _in_sync_or_eligible(state: MetadataState, broker_id: int) -> Partitions:
    held = registrations.partitions_marked(state, broker_id)
    return ((key, found) for key, found in held if broker_id in (*found.isr, *found.elr))


def broker_fenced(state: MetadataState, broker: BrokerRegistration) -> Iterator[MetadataRecord]:
    """Fence a broker that is not fenced."""
    assert not broker.fenced, f"broker {broker.id} is fenced already"
    yield from leader_and_isr_updates(state, _in_sync(state, broker.id), remove=broker.id)
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)


def broker_unfenced(state: MetadataState, broker: BrokerRegistration) -> Iterator[MetadataRecord]:
    """Unfence a broker, and let it lead what nobody leads."""
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=-1)
    yield from leader_and_isr_updates(
        state, registrations.partitions_marked(state, LEADERLESS), add=broker.id
    )


def broker_shutting_down(
    state: MetadataState, broker: BrokerRegistration
) -> Iterator[MetadataRecord]:
    """Begin or go on with a controlled shutdown: it leads nothing and is in sync nowhere.

    But for an ISR with no other member (without ELR): that partition has no leader from now on.
    """
    if not broker.in_controlled_shutdown:
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
    yield from leader_and_isr_updates(state, _in_sync(state, broker.id), remove=broker.id)


def broker_restarted(
    state: MetadataState, broker_id: int, *, clean: bool
) -> Iterator[MetadataRecord]:
    """Take a broker that registers as a new incarnation out of every ISR.

    An unclean shutdown may have lost what it had not flushed: it leaves the ELR too (KIP-966).
    """
    if clean or not is_elr_enabled(state):
        return leader_and_isr_updates(state, _in_sync(state, broker_id), remove=broker_id)
    return leader_and_isr_updates(state, _in_sync_or_eligible(state, broker_id), unclean=broker_id)


def replica_assigned(
    state: MetadataState,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker: BrokerRegistration,
    directory: uuid.UUID,
) -> MetadataRecord | None:
    """Note in which directory a broker holds its replica (KIP-858); None when that is known.

    In one that is offline it can neither lead nor be in sync; in one that is online it may lead
    what nobody leads.
    """
    online = registrations.is_online_directory(broker, directory)
    moved = dataclasses.replace(
        partition, directories=_with_directory(partition, broker.id, directory)
    )

    def is_acceptable(replica: int) -> bool:
        usable = registrations.has_online_replica(state, moved, replica)
        return usable and registrations.is_active(state, replica)

    change = builder(
        state,
        key,
        partition,
        lambda _replica: True,
        directories=moved.directories,
        isr=tuple(replica for replica in partition.isr if online or replica != broker.id),
    )
    return dataclasses.replace(change, is_acceptable=is_acceptable).build()


def _with_directory(
    partition: PartitionRegistration, broker_id: int, directory: uuid.UUID
) -> tuple[uuid.UUID, ...]:
    return tuple(
        directory if replica == broker_id else registrations.replica_directory(partition, replica)
        for replica in partition.replicas
    )


def directories_offline(
    state: MetadataState, broker: BrokerRegistration, offline: frozenset[uuid.UUID | None]
) -> Iterator[MetadataRecord]:
    """Take a broker out of the ISRs of what it holds in directories that went offline (KIP-858)."""
    held = (
        (key, found)
        for key, found in _in_sync(state, broker.id)
        if registrations.replica_directory(found, broker.id) in offline
    )
    return leader_and_isr_updates(state, held, remove=broker.id)


def broker_unregistered(
    state: MetadataState, broker: BrokerRegistration
) -> Iterator[MetadataRecord]:
    """Take a broker out of the cluster; its replicas stay assigned to it, and it stays in ELRs.

    Registered again it has no previous epoch, which counts as an unclean shutdown.
    """
    held = _in_sync_or_eligible(state, broker.id)
    yield from leader_and_isr_updates(state, held, remove=broker.id)
    yield UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)


def preferred_elections(state: MetadataState) -> list[MetadataRecord]:
    """Give leadership back to first replicas that may lead (auto.leader.rebalance.enable)."""
    imbalanced = (
        (key, found)
        for key, found in registrations.partitions_marked(state, IMBALANCED)
        if found.replicas[0] in found.isr and registrations.is_active(state, found.replicas[0])
    )
    return _elect(state, imbalanced, {"election": Election.PREFERRED})


def unclean_elections(state: MetadataState) -> list[MetadataRecord]:
    """Elect a leader for what has none, where the topic allows an unclean one."""
    return _elect(state, registrations.partitions_marked(state, LEADERLESS), {})


def _elect(
    state: MetadataState, among: Partitions, wanted: dict[str, object]
) -> list[MetadataRecord]:
    def is_acceptable(replica: int) -> bool:
        return registrations.is_active(state, replica)

    records: list[MetadataRecord] = []
    for key, partition in among:
        change = builder(state, key, partition, is_acceptable, **wanted).build()
        if change is not None:
            records.append(change)
        if len(records) == ELECTIONS_PER_EVENT_MAX:
            break
    return records

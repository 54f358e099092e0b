"""What each metadata record does to the state: the one definition for image and overlay alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from cluster.node.controller.metadata.feature_levels import READABLE
from cluster.node.controller.metadata.state import (
    NEXT_PRODUCER_ID,
    BrokerRegistration,
    ConfigResource,
    MetadataState,
    PartitionRegistration,
    ReplayError,
    ResourceType,
    TopicImage,
    similar_name,
)
from cluster.node.controller.metadata.timeline import StateMap
from cluster.node.controller.records.kinds import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from cluster.node.controller.records.schema import MetadataRecord

K = TypeVar("K")


def replay(state: MetadataState, record: MetadataRecord) -> None:
    """Apply one record. Raises ReplayError when it does not fit the state."""
    apply = _REPLAY.get(type(record))
    if apply is None:
        raise ReplayError(f"{type(record).__name__} cannot be replayed")
    apply(state, record)


def _topic(state: MetadataState, record: TopicRecord) -> None:
    if state.topic_names.get(record.name) is not None or state.topics.get(record.topic_id):
        raise ReplayError(f"topic {record.name} ({record.topic_id}) exists already")
    state.topics.put(record.topic_id, TopicImage(record.name, record.topic_id))
    state.topic_names.put(record.name, record.topic_id)
    state.similar_names.put(similar_name(record.name), record.name)


def _partition(state: MetadataState, record: PartitionRecord) -> None:
    topic = state.topics.get(record.topic_id)
    if topic is None:
        raise ReplayError(f"partition {record.partition_id} of unknown topic {record.topic_id}")
    if not 0 <= record.partition_id <= topic.partition_count:
        message = f"partition {record.partition_id} of {topic.name} after {topic.partition_count}"
        raise ReplayError(message)
    if record.partition_id == topic.partition_count:
        state.topics.put(topic.id, TopicImage(topic.name, topic.id, topic.partition_count + 1))
    state.partitions.put(
        (topic.id, record.partition_id),
        PartitionRegistration(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            leader_recovery_state=record.leader_recovery_state,
            directories=record.directories,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        ),
    )


def _partition_change(state: MetadataState, record: PartitionChangeRecord) -> None:
    key = (record.topic_id, record.partition_id)
    old = state.partitions.get(key)
    if old is None:
        raise ReplayError(f"change of unknown partition {record.partition_id} of {record.topic_id}")
    state.partitions.put(key, changed_partition(old, record))


def changed_partition(
    old: PartitionRegistration, record: PartitionChangeRecord
) -> PartitionRegistration:
    """Return a partition with a change merged into it."""
    moves = record.leader != NO_LEADER_CHANGE
    recovers = record.leader_recovery_state != NO_RECOVERY_STATE_CHANGE
    return PartitionRegistration(
        replicas=old.replicas if record.replicas is None else record.replicas,
        isr=old.isr if record.isr is None else record.isr,
        leader=record.leader if moves else old.leader,
        leader_epoch=old.leader_epoch + 1 if moves else old.leader_epoch,
        partition_epoch=old.partition_epoch + 1,
        removing_replicas=old.removing_replicas
        if record.removing_replicas is None
        else record.removing_replicas,
        adding_replicas=old.adding_replicas
        if record.adding_replicas is None
        else record.adding_replicas,
        leader_recovery_state=record.leader_recovery_state
        if recovers
        else old.leader_recovery_state,
        directories=old.directories if record.directories is None else record.directories,
        elr=old.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas,
        last_known_elr=old.last_known_elr
        if record.last_known_elr is None
        else record.last_known_elr,
    )


def _remove_topic(state: MetadataState, record: RemoveTopicRecord) -> None:
    topic = state.topics.get(record.topic_id)
    if topic is None:
        raise ReplayError(f"removal of unknown topic {record.topic_id}")
    state.topics.remove(topic.id)
    state.topic_names.remove(topic.name)
    if state.similar_names.get(similar_name(topic.name)) == topic.name:
        state.similar_names.remove(similar_name(topic.name))
    for index in range(topic.partition_count):
        state.partitions.remove((topic.id, index))
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    for name in state.config_names.get(resource) or ():
        state.configs.remove((resource, name))
    state.config_names.remove(resource)


def _clear_elr(state: MetadataState, record: ClearElrRecord) -> None:
    if record.topic_name:
        topic_id = state.topic_names.get(record.topic_name)
        if topic_id is None:
            raise ReplayError(f"clearing the ELR of unknown topic {record.topic_name}")
        topic_ids = [topic_id]
    else:
        topic_ids = list(state.topics.keys())
    for topic_id in topic_ids:
        topic = state.topics.get(topic_id)
        assert topic is not None
        for index in range(topic.partition_count):
            partition = state.partition(topic_id, index)
            if partition.elr or partition.last_known_elr:
                state.partitions.put(
                    (topic_id, index),
                    dataclasses.replace(
                        partition,
                        elr=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    ),
                )


def _config(state: MetadataState, record: ConfigRecord) -> None:
    resource = ConfigResource(record.resource_type, record.resource_name)
    key = (resource, record.name)
    names = state.config_names.get(resource) or ()
    known = state.configs.get(key) is not None
    if record.value is not None:
        state.configs.put(key, record.value)
        if not known:
            state.config_names.put(resource, (*names, record.name))
    elif known:
        state.configs.remove(key)
        rest = tuple(name for name in names if name != record.name)
        if rest:
            state.config_names.put(resource, rest)
        else:
            state.config_names.remove(resource)


def _feature_level(state: MetadataState, record: FeatureLevelRecord) -> None:
    # From here on the log may hold records that mean something else, or that we cannot read: a
    # node that went on would serve another state than its leader's (FeatureControlManager.replay).
    readable = READABLE.get(record.name, range(1))
    if record.feature_level and record.feature_level not in readable:
        raise ReplayError(
            f"{record.name} is finalized at level {record.feature_level}, "
            f"and this node supports levels {readable.start} to {readable.stop - 1}"
        )
    if record.feature_level == 0:
        state.features.remove(record.name)
    else:
        state.features.put(record.name, record.feature_level)


def _producer_ids(state: MetadataState, record: ProducerIdsRecord) -> None:
    current = state.producer_ids.get(NEXT_PRODUCER_ID)
    if current is not None and record.next_producer_id <= current:
        raise ReplayError(f"next producer id {record.next_producer_id} is not above {current}")
    state.producer_ids.put(NEXT_PRODUCER_ID, record.next_producer_id)


def _register_broker(state: MetadataState, record: RegisterBrokerRecord) -> None:
    state.brokers.put(
        record.broker_id,
        BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=record.end_points,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs or (),
        ),
    )


def _registration(state: MetadataState, broker_id: int, epoch: int) -> BrokerRegistration:
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise ReplayError(f"broker {broker_id} is not registered with epoch {epoch}")
    return broker


def _unregister_broker(state: MetadataState, record: UnregisterBrokerRecord) -> None:
    state.brokers.remove(_registration(state, record.broker_id, record.broker_epoch).id)


def _fence_broker(state: MetadataState, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
    broker = _registration(state, record.id, record.epoch)
    fenced = isinstance(record, FenceBrokerRecord)
    state.brokers.put(broker.id, dataclasses.replace(broker, fenced=fenced))


def _broker_change(state: MetadataState, record: BrokerRegistrationChangeRecord) -> None:
    broker = _registration(state, record.broker_id, record.broker_epoch)
    if record.fenced not in {-1, 0, 1} or record.in_controlled_shutdown not in {0, 1}:
        raise ReplayError(f"unknown change of broker {broker.id}: {record}")
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced == 1
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = True
    if record.log_dirs:
        changes["log_dirs"] = record.log_dirs
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = record.cordoned_log_dirs
    state.brokers.put(broker.id, dataclasses.replace(broker, **changes))


def _register_controller(state: MetadataState, record: RegisterControllerRecord) -> None:
    state.controllers.put(record.controller_id, record)


def _scram_credential(state: MetadataState, record: UserScramCredentialRecord) -> None:
    state.scram_credentials.put((record.name, record.mechanism), record)


def _remove_scram_credential(state: MetadataState, record: RemoveUserScramCredentialRecord) -> None:
    _remove(state.scram_credentials, (record.name, record.mechanism), "SCRAM credential")


def _remove(known: StateMap[K, Any], key: K, kind: str) -> None:
    if known.get(key) is None:
        raise ReplayError(f"removal of unknown {kind} {key}")
    known.remove(key)


def _delegation_token(state: MetadataState, record: DelegationTokenRecord) -> None:
    state.delegation_tokens.put(record.token_id, record)


def _remove_delegation_token(state: MetadataState, record: RemoveDelegationTokenRecord) -> None:
    state.delegation_tokens.remove(record.token_id)


def _access_control(state: MetadataState, record: AccessControlEntryRecord) -> None:
    if state.access_control.get(record.id) is not None:
        raise ReplayError(f"access control entry {record.id} exists already")
    state.access_control.put(record.id, record)


def _remove_access_control(state: MetadataState, record: RemoveAccessControlEntryRecord) -> None:
    _remove(state.access_control, record.id, "access control entry")


def _client_quota(state: MetadataState, record: ClientQuotaRecord) -> None:
    # A ClientQuotaEntity is a map: the order of its parts means nothing, and differs by writer.
    key = (tuple(sorted(record.entity, key=lambda part: part.entity_type)), record.key)
    if record.remove:
        state.client_quotas.remove(key)
    else:
        state.client_quotas.put(key, record.value)


def _unregister_controller(state: MetadataState, record: UnregisterControllerRecord) -> None:
    _remove(state.controllers, record.controller_id, "controller")


def _no_op(_state: MetadataState, _record: NoOpRecord | ZkMigrationStateRecord) -> None:
    pass


_REPLAY: dict[type[MetadataRecord], Callable[[MetadataState, Any], None]] = {
    TopicRecord: _topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
    RemoveTopicRecord: _remove_topic,
    ClearElrRecord: _clear_elr,
    ConfigRecord: _config,
    FeatureLevelRecord: _feature_level,
    ProducerIdsRecord: _producer_ids,
    RegisterBrokerRecord: _register_broker,
    UnregisterBrokerRecord: _unregister_broker,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _fence_broker,
    BrokerRegistrationChangeRecord: _broker_change,
    RegisterControllerRecord: _register_controller,
    UserScramCredentialRecord: _scram_credential,
    RemoveUserScramCredentialRecord: _remove_scram_credential,
    DelegationTokenRecord: _delegation_token,
    RemoveDelegationTokenRecord: _remove_delegation_token,
    AccessControlEntryRecord: _access_control,
    RemoveAccessControlEntryRecord: _remove_access_control,
    ClientQuotaRecord: _client_quota,
    UnregisterControllerRecord: _unregister_controller,
    ZkMigrationStateRecord: _no_op,  # of a migration that ended before 4.0, or never began
    NoOpRecord: _no_op,
}
"""Metadata transactions (KIP-868) are not here: what they hold back is the image's affair."""

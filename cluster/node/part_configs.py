"""What each part of a node takes from the node's configuration."""

from __future__ import annotations

import uuid
from typing import Any

from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH, LifecycleConfig
from cluster.node.broker.replication.topic_settings import ReplicaConfig
from cluster.node.config import NodeConfig
from cluster.node.config_values import CONTROLLER_ROLE
from cluster.node.controller.configs.definitions import broker_key
from cluster.node.controller.core.feature_control import SUPPORTED
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.log.batch.control import VoterListener
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, i16, i32, i64, u16


def raft_config(config: NodeConfig, directory_id: uuid.UUID) -> RaftConfig:
    """Return raft's part of a node's configuration."""
    return RaftConfig(
        node_id=config.node_id,
        directory_id=directory_id,
        cluster_id=config.cluster_id,
        voters=VoterSet.of(config.controller_quorum_voters),
        local_listeners=tuple(
            VoterListener(listener.name, listener.host, listener.port)
            for listener in config.advertised_listeners
            if listener.name in config.controller_listener_names
        ),
        listener_name=config.controller_listener_names[0],
        bootstrap_servers=config.controller_quorum_bootstrap_servers,
        can_become_voter=CONTROLLER_ROLE in config.process_roles,
        auto_join=config.controller_quorum_auto_join_enable,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        append_linger_ms=config.controller_quorum_append_linger_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        metadata_max_retention_bytes=config.metadata_max_retention_bytes,
        metadata_max_retention_ms=config.metadata_max_retention_ms,
        log_clean_interval_ms=config.kraftprobe_log_clean_interval_ms,
    )


def controller_registration(config: NodeConfig) -> messages.ControllerRegistrationRequest:
    """Return how a node's controller registers, but for its incarnation."""
    return messages.ControllerRegistrationRequest(
        controller_id=i32(config.node_id),
        incarnation_id=None,
        zk_migration_ready=False,
        listeners=_listeners(messages.ControllerRegistrationListener, config, controller=True),
        features=_features(messages.ControllerRegistrationFeature),
    )


def lifecycle_config(
    config: NodeConfig,
    log_dirs: tuple[uuid.UUID, ...],
    previous_broker_epoch: int = NOT_REGISTERED_EPOCH,
) -> LifecycleConfig:
    """Return what a node's broker registers; `log_dirs`: the directories that are online."""
    return LifecycleConfig(
        registration=messages.BrokerRegistrationRequest(
            broker_id=BrokerId(config.node_id),
            cluster_id=config.cluster_id,
            incarnation_id=None,
            listeners=_listeners(messages.BrokerRegistrationListener, config, controller=False),
            features=_features(messages.BrokerRegistrationFeature),
            rack=config.broker_rack,
            log_dirs=log_dirs,
            previous_broker_epoch=i64(previous_broker_epoch),
        ),
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        initial_registration_timeout_ms=config.initial_broker_registration_timeout_ms,
    )


def _listeners(kind: type[Any], config: NodeConfig, *, controller: bool) -> tuple[Any, ...]:
    return tuple(
        kind(
            name=listener.name,
            host=listener.host,
            port=u16(listener.port),
            security_protocol=i16(config.security[listener.name].protocol.value),
        )
        for listener in config.advertised_listeners
        if (listener.name in config.controller_listener_names) is controller
    )


def _features(kind: type[Any]) -> tuple[Any, ...]:
    return tuple(
        kind(
            name=feature.name,
            min_supported_version=i16(feature.min_level),
            max_supported_version=i16(feature.max_level),
        )
        for feature in SUPPORTED
    )


def cluster_info(config: NodeConfig, raft: RaftClient) -> ClusterInfo:
    """Return the description of the cluster that clients get.

    Where nodes register themselves, brokers are those that did. Else a node knows of the others'
    client listeners only what `kraftprobe.brokers` says; without it, it names itself.
    """
    brokers = config.kraftprobe_brokers
    own = config.advertised_endpoint(controller=False)
    if config.kraftprobe_registration:
        brokers = ()
    elif not brokers and own is not None:
        brokers = (own,)
    return ClusterInfo(
        cluster_id=config.cluster_id,
        node_id=config.node_id,
        brokers=brokers,
        registration=config.kraftprobe_registration,
        is_controller=CONTROLLER_ROLE in config.process_roles,
        controllers=config.controller_quorum_voters,
        voters=lambda: tuple(voter.endpoint for voter in raft.voters),
        controller_listener=config.controller_listener_names[0],
        min_insync_replicas=config.min_insync_replicas,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        static_configs=_static_configs(config),
    )


def _static_configs(config: NodeConfig) -> dict[str, str]:
    """Return Kafka's keys in the node's own file; broker.id is what node.id was called once."""
    found = {name: text for name, text in config.properties.items() if broker_key(name)}
    return {**found, "broker.id": str(config.node_id)}


def replica_config(config: NodeConfig) -> ReplicaConfig:
    """Return how a node's broker replicates."""
    return ReplicaConfig(
        broker_id=config.node_id,
        listener=config.inter_broker_listener_name,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        lag_time_max_ms=config.replica_lag_time_max_ms,
        fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
        fetch_backoff_ms=config.replica_fetch_backoff_ms,
        request_timeout_ms=config.replica_socket_timeout_ms,
        controller_timeout_ms=config.controller_socket_timeout_ms,
        fetch_max_bytes=config.replica_fetch_max_bytes,
        fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
    )

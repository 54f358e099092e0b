"""Bugs of the controller: `K` with the number of JIRA's issue, others by the rule that they break.

What registers, fences and unfences brokers, and what chooses leaders and ISRs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from cluster.mutants.mutations import always, mutant
from cluster.node.broker.replication.partition import Partition
from cluster.node.controller.brokers import broker_lifecycle, cluster_control
from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.configs import configuration_control
from cluster.node.controller.core import periodic
from cluster.node.controller.core.periodic import PeriodicTasks
from cluster.node.controller.metadata import replay
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    ConfigResource,
    MetadataState,
    PartitionRegistration,
    ResourceType,
)
from cluster.node.controller.partitions import alter_partition, leadership
from cluster.node.controller.partitions.leadership import broker_fenced, broker_restarted
from cluster.node.controller.partitions.partition_change import PartitionChangeBuilder, _Target
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import BrokerRegistrationChangeRecord, RemoveTopicRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import AlterPartitionRequestPartition, BrokerHeartbeatRequest

# -- sessions ------------------------------------------------------------------------------------

_ACTIVATE = BrokerHeartbeatManager.activate
_STALE_BROKER = BrokerHeartbeatManager.stale_broker
_NEXT_STATE = broker_lifecycle.next_control_state


def _without_sessions(self: BrokerHeartbeatManager, state: MetadataState, offset: int) -> None:
    del state
    self.deactivate()
    self._claim_offset = offset


def _k18138_known(self: BrokerHeartbeatManager, state: MetadataState) -> BrokerRegistration | None:
    stale = _STALE_BROKER(self, state)
    known = stale is not None and (stale.id, stale.epoch) in self._contacts_ms
    return stale if known else None


def _l10_after_three(
    self: BrokerHeartbeatManager, state: MetadataState
) -> BrokerRegistration | None:
    stale = _STALE_BROKER(self, state)
    if stale is None:
        return None
    heard_ms = self._contacts_ms.get((stale.id, stale.epoch), -math.inf)
    silent_ms = self._clock.monotonic_ms() - heard_ms
    return stale if silent_ms >= 3 * self.session_timeout_ms else None


def _k13173_at_once(self: PeriodicTasks, state: MetadataState) -> Iterable[MetadataRecord]:
    sessions = self._heartbeats
    return chain.from_iterable(
        broker_fenced(state, broker)
        for broker in registered_brokers(state)
        if not broker.fenced and not sessions.has_valid_session(broker.id, broker.epoch)
    )


def _m41b_not_caught_up(
    current: Any,
    request: BrokerHeartbeatRequest,
    broker: BrokerRegistration,
    leads: Callable[[], bool],
    is_dispensable: Callable[[], bool],
) -> Any:
    claimed = replace(request, current_metadata_offset=broker.epoch)  # type: ignore[arg-type]
    return _NEXT_STATE(current, claimed, broker, leads, is_dispensable)


def _m41e_stays_in_sync(
    state: MetadataState, broker: BrokerRegistration
) -> Iterator[MetadataRecord]:
    del state
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)


# -- leaders and ISRs ----------------------------------------------------------------------------

_VALIDATE = alter_partition.validate
_ELR = PartitionChangeBuilder._elr
_ELECT = PartitionChangeBuilder._elect
_TARGET = PartitionChangeBuilder._target


def _k13916_any_broker(*row: Any) -> ErrorCode:
    error = _VALIDATE(*row)
    return ErrorCode.none if error is ErrorCode.ineligible_replica else error


def _m39c_any_partition_epoch(
    broker_id: int,
    item: AlterPartitionRequestPartition,
    partition: PartitionRegistration,
    state: MetadataState,
) -> ErrorCode:
    newest = replace(item, partition_epoch=partition.partition_epoch)  # type: ignore[arg-type]
    return _VALIDATE(broker_id, newest, partition, state)


def _m39d_always_clean(
    state: MetadataState, broker_id: int, *, clean: bool
) -> Iterator[MetadataRecord]:
    del clean
    return broker_restarted(state, broker_id, clean=True)


def _m39f_one_is_enough(self: PartitionChangeBuilder) -> _Target:
    target = _TARGET(self)
    left = tuple(replica for replica in target.replicas if replica not in target.removing)
    isr = tuple(replica for replica in target.isr if replica in left)
    return _Target(isr, left) if set(target.adding) & set(isr) else target


def _m39e_keeps_elr(self: PartitionChangeBuilder, target: _Target) -> tuple[int, ...]:
    if not self.elr_enabled:
        return _ELR(self, target)
    candidates = {*self.partition.elr, *self.partition.isr} & set(target.replicas)
    return tuple(sorted(candidates - set(target.isr) - self.unclean_shutdown))


def _k19522_fenced(
    self: PartitionChangeBuilder, target: _Target, elr: tuple[int, ...]
) -> tuple[int, bool]:
    elected, unclean = _ELECT(self, target, elr)
    last_known = self.partition.last_known_elr
    if elected >= 0 or not self.elr_enabled or target.isr or elr or len(last_known) != 1:
        return elected, unclean
    return last_known[0], True


# -- configurations ------------------------------------------------------------------------------


def _m26c_keeps_configs(state: MetadataState, record: RemoveTopicRecord) -> None:
    topic = state.topics.get(record.topic_id)
    assert topic is not None, "it was created"
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    configs, names = state.resource_configs(resource), state.config_names.get(resource)
    replay._remove_topic(state, record)
    for name, value in configs.items():
        state.configs.put((resource, name), value)
    if names is not None:
        state.config_names.put(resource, names)


ALL = (
    mutant(
        "K13173",
        "fences brokers whose sessions end at one time by the same state (KAFKA-13173)",
        "valid state: the ISR of a partition that both hold keeps one of them",
        (PeriodicTasks, "_fence_stale_broker", _k13173_at_once),
    ),
    mutant(
        "K13916",
        "lets brokers into an ISR that are fenced, shut down, or registered anew (KAFKA-13916)",
        "durability: one that has lost what it had may lead (KAFKA-14617, KIP-903)",
        (alter_partition, "validate", _k13916_any_broker),
        (Partition, "_may_join", always(True)),
    ),
    mutant(
        "K18138",
        "knows, as a new active controller, the brokers alone that it hears of (KAFKA-18138)",
        "progress: a broker that dies with its controller is never fenced",
        (BrokerHeartbeatManager, "activate", _without_sessions),
        (BrokerHeartbeatManager, "stale_broker", _k18138_known),
    ),
    mutant(
        "K19294",
        "fences, as a new active controller, all that it has not heard of yet (KAFKA-19294)",
        "availability: brokers that are alive are fenced",
        (BrokerHeartbeatManager, "activate", _without_sessions),
    ),
    mutant(
        "K19522",
        "elects the last known leader though it is fenced (KAFKA-19522)",
        "valid state: a partition is led by a broker that is not there",
        (PartitionChangeBuilder, "_elect", _k19522_fenced),
    ),
    mutant(
        "L10",
        "fences a silent broker after three sessions",
        "availability: clients are sent to a broker that is gone (KIP-631)",
        (BrokerHeartbeatManager, "stale_broker", _l10_after_three),
    ),
    mutant(
        "M26C",
        "keeps the configurations of a topic that is deleted",
        "state machine safety: a topic that is made anew begins with those of the old one",
        (replay, "_REPLAY", {**replay._REPLAY, RemoveTopicRecord: _m26c_keeps_configs}),
    ),
    mutant(
        "M39C",
        "changes an ISR by a request that was made of an earlier one",
        "durability: a replica that has left the ISR is back in it (KIP-497)",
        (alter_partition, "validate", _m39c_any_partition_epoch),
    ),
    mutant(
        "M39D",
        "takes each restart of a broker for a clean one",
        "durability: an eligible leader may have lost what it had not flushed (KIP-966)",
        (cluster_control, "broker_restarted", _m39d_always_clean),
    ),
    mutant(
        "M39E",
        "keeps eligible leaders when the ISR is large enough again",
        "durability: one that lacks what was committed since is elected (KIP-966)",
        (PartitionChangeBuilder, "_elr", _m39e_keeps_elr),
    ),
    mutant(
        "M39F",
        "ends a reassignment when one of the replicas that it adds is in sync",
        "durability: fewer replicas hold the partition than were asked for (KIP-455)",
        (PartitionChangeBuilder, "_target", _m39f_one_is_enough),
    ),
    mutant(
        "M39G",
        "keeps its eligible leaders when min.insync.replicas changes",
        "durability: one is elected that lacks what fewer committed (KIP-966)",
        (configuration_control, "_cleared_elr", always([])),
    ),
    mutant(
        "M41B",
        "unfences a broker before it has the metadata of its own registration",
        "broker fencing: clients are sent to a broker that does not know what it holds (KIP-631)",
        (broker_lifecycle, "next_control_state", _m41b_not_caught_up),
    ),
    mutant(
        "M41C",
        "registers a second incarnation of a broker though the first is alive",
        "broker fencing: two processes take turns as one broker",
        (cluster_control, "_check_incarnation", always(None)),
    ),
    mutant(
        "M41D",
        "lets a broker shut down before others know that it leads nothing",
        "availability: clients go on asking it",
        (BrokerHeartbeatManager, "may_shut_down", always(True)),
    ),
    mutant(
        "M41E",
        "leaves a broker that it fences in its ISRs, and leading",
        "valid state: partitions are led by a broker that is not there",
        (leadership, "broker_fenced", _m41e_stays_in_sync),
        (periodic, "broker_fenced", _m41e_stays_in_sync),
    ),
)

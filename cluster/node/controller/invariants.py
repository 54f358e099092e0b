"""What holds of brokers and partitions in every committed state.

After the TLA+ specifications of KIP-966 (ValidControllerState, ValidControllerIsrAndElr) and
Kafka's rules for the last member of an ISR. Where no broker is registered nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.node.controller.feature_levels import is_elr_enabled
from cluster.node.controller.leadership import min_insync_replicas
from cluster.node.controller.partition_change import RECOVERING
from cluster.node.controller.records.topic import NO_LEADER
from cluster.node.controller.registrations import (
    has_online_replica,
    is_active,
    is_static,
    partitions,
)
from cluster.node.controller.state import MetadataState, PartitionKey, PartitionRegistration


def broken_invariants(
    state: MetadataState,
    among: Iterable[tuple[PartitionKey, PartitionRegistration]] | None = None,
) -> Iterator[str]:
    """Tell what is wrong with a state, one sentence each; nothing when all is right.

    `among`: the partitions to look at, all when None.
    """
    if is_static(state):
        return
    elr_enabled = is_elr_enabled(state)
    for (topic_id, index), one in partitions(state) if among is None else among:
        topic = state.topics.get(topic_id)
        if topic is None:
            yield f"partition {index} of topic {topic_id}, which does not exist"
            continue
        minimum = min_insync_replicas(state, topic.name)
        for reason in _broken(state, one, minimum, elr_enabled=elr_enabled):
            yield (
                f"{topic.name}-{index} {reason}: leader {one.leader}, replicas "
                f"{_ids(one.replicas)}, ISR {_ids(one.isr)}, ELR {_ids(one.elr)}"
            )


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _broken(
    state: MetadataState, one: PartitionRegistration, minimum: int, *, elr_enabled: bool
) -> Iterator[str]:
    isr, elr, replicas = set(one.isr), set(one.elr), set(one.replicas)
    if len(isr) != len(one.isr) or not isr <= replicas or not elr <= replicas:
        yield "has members in sync that are not its replicas, or twice"
    if isr & elr:
        yield "has a member of the ISR in the ELR"
    if one.elr and len(isr) >= min(minimum, len(replicas)):
        yield "keeps an ELR although its ISR is large enough"
    if one.leader != NO_LEADER and (one.leader not in isr or not is_active(state, one.leader)):
        yield "is led by a broker that is not in sync, or not alive"
    if one.leader in replicas and not has_online_replica(state, one, one.leader):
        yield "is led from a log directory that is offline"
    alive = all(is_active(state, replica) for replica in isr)
    last_one = not elr_enabled and len(isr) == 1 and one.leader == NO_LEADER
    if not alive and not last_one:
        yield "has a fenced broker in its ISR"
    online = all(has_online_replica(state, one, replica) for replica in isr & replicas)
    if isr and alive and online and one.leader == NO_LEADER:
        yield "has no leader although brokers in sync are alive"
    if one.leader_recovery_state == RECOVERING and one.leader != NO_LEADER and len(isr) != 1:
        yield "is recovering, and more than its leader is in sync"

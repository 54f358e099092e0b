"""Shows what simulated nodes answer to administrators and producers to the invariants of answers.

`AnswerWatch(world, watcher)` sees requests as they are handed to a node, and answers as they leave
it: see `checkers.invariants.answers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from checkers.invariants.answers import Preferred
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.world import SimWorld
from cluster.client.data_client import ALL
from cluster.node.assembly import Node
from cluster.node.controller.metadata.feature_levels import OFFERED
from cluster.node.controller.metadata.registrations import (
    has_online_replica,
    is_active,
    is_static,
)
from cluster.node.controller.metadata.result import OUTCOME_NOT_KNOWN
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import NO_PRODUCER, parse_header
from cluster.node.protocol.data_messages import InitProducerIdRequest, ProduceRequest
from cluster.node.protocol.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    ElectLeadersRequest,
    MetadataRequest,
    UpdateFeaturesRequest,
)
from harness.sim.sights.descriptions import broker_rows, known_brokers, partition_rows
from workloads.data.wrong_requests import WRONG, errors_of, has_rows

_BROKERS: Final = 1
"""DescribeCluster's type of endpoints that are brokers."""
_TAKEN: Final = (
    *(AlterPartitionRequest, AssignReplicasToDirsRequest, AllocateProducerIdsRequest),
    *(BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRegistrationRequest),
    *(CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest),
    *(AlterPartitionReassignmentsRequest, ElectLeadersRequest, MetadataRequest),
)
"""Requests that are right, but for those that are made to be wrong."""
_PREFERRED: Final = 0
"""ElectionType"""
_WHAT: Final = {wrong.request: what for what, wrong in WRONG.items()}


@dataclasses.dataclass(slots=True)
class _Update:
    """An update of features that a node was asked for."""

    request: object
    """Kept, so that no other has its identity."""
    node: Node | None
    is_alone: bool
    """Whether the node had no other to answer at any time since."""


class AnswerWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._asked: dict[tuple[str, int], tuple[object, Node, int, Preferred | None]] = {}
        """By node and identity: an election that the active controller has to answer, its claim,
        and its partition as it came."""
        self._updates: dict[int, _Update] = {}
        """By identity: updates of features that are not answered."""
        self._sequences: dict[tuple[str, int], tuple[object, dict[str, Any]]] = {}
        """By node and identity: requests with sequences, and what they show."""
        self._count = 0
        mesh = world.mesh
        mesh.on_serve[ElectLeadersRequest].append(self._hear)
        mesh.on_reply[ElectLeadersRequest].append(self._look_at_election)
        mesh.on_serve[UpdateFeaturesRequest].append(self._hear_update)
        mesh.on_reply[UpdateFeaturesRequest].append(self._look_at_update)
        mesh.on_serve[ProduceRequest].append(self._hear_sequences)
        mesh.on_reply[ProduceRequest].append(self._look_at_sequences)
        mesh.on_reply[DescribeClusterRequest].append(self._look_at_cluster)
        mesh.on_reply[MetadataRequest] += [self._look_at_controller, self._look_at_partitions]
        mesh.on_reply[InitProducerIdRequest].append(self._look_at_producer_id)
        for kind in dict.fromkeys(type(wrong.request) for wrong in WRONG.values()):
            mesh.on_reply[kind].append(self._look_at_refusal)
        for taken in _TAKEN:
            mesh.on_reply[taken].append(self._look_at_errors)

    def _node(self, name: str) -> Node | None:
        process = self._world.nodes[name].process
        return None if process is None else process.node

    def _hear(self, name: str, request: Any) -> None:
        node = self._node(name)
        if node is not None and node.controller.is_active:
            before = _election(node.controller.newest_state(), request)
            self._asked[name, id(request)] = request, node, node.controller.cur_claim_epoch, before

    def _look_at_election(self, name: str, request: Any, response: Any) -> None:
        """Show an election that was answered by the claim that took it."""
        _, node, epoch, before = self._asked.pop((name, id(request)), (None, None, -1, None))
        if node is None or node is not self._node(name):
            return
        if before is None or node.controller.cur_claim_epoch != epoch:
            return
        after = _election(node.controller.newest_state(), request)
        for error in errors_of(response):
            shown = {"error": error, "before": before, "after": after}
            self._watcher.take(name, "election-answer", shown)

    def _hear_update(self, name: str, request: object) -> None:
        node = self._node(name)
        others = [other for other in self._updates.values() if other.node is node]
        for other in others:
            other.is_alone = False
        self._updates[id(request)] = _Update(request, node, is_alone=not others)

    def _look_at_update(self, name: str, request: Any, response: Any) -> None:
        update, node = self._updates.pop(id(request), None), self._node(name)
        if update is None or node is None or update.node is not node:
            return
        if request.validate_only or response.error_code is not ErrorCode.none:
            return
        states = (node.controller.newest_state(), node.controller.image.state)
        for change in request.feature_updates:
            feature = str(change.feature)
            if feature not in OFFERED:  # kraft.version is among the voters
                continue
            shown = {
                "feature": feature,
                "level": int(change.max_version_level),
                "found": [state.features.get(feature) or 0 for state in states],
                "is_alone": update.is_alone,
            }
            self._watcher.take(name, "feature-answer", shown)

    def _hear_sequences(self, name: str, request: Any) -> None:
        if request.acks != ALL or len(request.partitions) != 1:
            return
        (asked,) = request.partitions
        header = parse_header(asked.records)
        if header.producer_id == NO_PRODUCER:
            return
        self._count += 1
        shown = {
            "partition": f"{asked.topic}-{asked.index}",
            "producer": (header.producer_id, header.producer_epoch),
            "first": header.base_sequence,
            "next": header.last_sequence + 1,
            "number": self._count,
        }
        self._sequences[name, id(request)] = request, shown
        self._watcher.take(name, "sequences-asked", shown)

    def _look_at_sequences(self, name: str, request: object, response: Any) -> None:
        _, shown = self._sequences.pop((name, id(request)), (None, None))
        if shown is not None:
            (row,) = response.partitions
            answer = {**shown, "error": row.error.name, "offset": row.base_offset}
            self._watcher.take(name, "sequences-answer", answer)

    def _look_at_cluster(self, name: str, request: Any, response: Any) -> None:
        node = self._node(name)
        if node is None or response.error_code is not ErrorCode.none:
            return
        state = node.controller.image.state
        is_of_brokers = request.endpoint_type == _BROKERS
        if is_of_brokers:
            self._look_at_controller(name, request, response)
            if is_static(state):
                return
        known = known_brokers(state, fenced=request.include_fenced_brokers)
        shown = {
            "of": "brokers" if is_of_brokers else "controllers",
            "rows": broker_rows(response.brokers),
            "known": dict(known) if is_of_brokers else dict(_controllers(node, state)),
        }
        self._watcher.take(name, "cluster-answer", shown)

    def _look_at_controller(self, name: str, request: object, response: Any) -> None:
        del request
        node = self._node(name)
        if node is None or response.error_code is not ErrorCode.none:
            return
        shown = {
            "named": int(response.controller_id),
            "own": node.raft.node_id,
            "leader": node.raft.leader_and_epoch.leader_id,
            "shown": list(_live(response.brokers)),
        }
        self._watcher.take(name, "controller-named", shown)

    def _look_at_partitions(self, name: str, request: object, response: Any) -> None:
        del request
        node = self._node(name)
        if node is None or is_static(node.controller.image.state):
            return  # the brokers are those of the configuration, in no state
        for shown in partition_rows(response):
            self._watcher.take(name, "metadata-answer", shown)

    def _look_at_producer_id(self, name: str, request: Any, response: Any) -> None:
        if request.transactional_id is None and response.error_code is ErrorCode.none:
            self._watcher.take(name, "producer-id", {"id": int(response.producer_id)})

    def _look_at_errors(self, name: str, request: Any, response: Any) -> None:
        if request not in _WHAT:
            asked = type(request).__name__.removesuffix("Request")
            errors = [*errors_of(response), *_failures(response)]
            self._watcher.take(name, "answer", {"request": asked, "errors": errors})

    def _look_at_refusal(self, name: str, request: Any, response: Any) -> None:
        what = _WHAT.get(request)
        if what is None:
            return
        right, is_bare = WRONG[what].errors, not has_rows(response)
        errors = errors_of(response)
        if is_bare:
            errors, right = ([], right) if WRONG[what].has_rows else (errors, right[:1])
        self._watcher.take(name, "refusal", {"what": what, "errors": errors, "right": right})


def _failures(answer: Any) -> Iterator[str]:
    """Yield an error for each thing at which a node failed and does not know why."""
    rows = (getattr(answer, field.name) for field in dataclasses.fields(answer))
    for each in (answer, *(row for row in rows if isinstance(row, tuple) for row in row)):
        says = getattr(each, "error_message", None)
        failed = getattr(each, "error_code", None) is ErrorCode.unknown_server_error
        if failed and says and says != OUTCOME_NOT_KNOWN:
            yield "unexpected_failure"


def _election(state: MetadataState, request: Any) -> Preferred | None:
    """Describe the only partition whose preferred leader is asked for."""
    topics = request.topic_partitions or ()
    asked = [(each.topic, index) for each in topics for index in each.partitions]
    topic = state.topic_by_name(asked[0][0]) if len(asked) == 1 else None
    found = None if topic is None else state.partitions.get((topic.id, asked[0][1]))
    if topic is None or found is None or request.election_type != _PREFERRED:
        return None
    first = found.replicas[0]
    may_lead = is_active(state, first) and has_online_replica(state, found, first)
    return Preferred(
        f"{topic.name}-{asked[0][1]}",
        str(topic.id),
        (found.leader_epoch, found.partition_epoch),
        leads=found.leader == first,
        may_lead=may_lead and (first in found.isr or (not found.isr and first in found.elr)),
    )


def _live(rows: Iterable[Any]) -> Iterator[int]:
    """Yield the brokers that are not fenced; Metadata shows no others, and no state."""
    for row in rows:
        if hasattr(row, "node_id"):
            yield int(row.node_id)
        elif not row.is_fenced:
            yield int(row.broker_id)


def _controllers(node: Node, state: MetadataState) -> Iterator[tuple[int, str]]:
    """Yield those that have registered, and the voters in force."""
    voters = {voter.endpoint.node_id for voter in node.raft.voters}
    yield from ((number, "") for number in sorted({*voters, *state.controllers.keys()}))

"""ElectLeaders: elections on request (KIP-460).

PREFERRED gives leadership back to the first replica, if that is in sync and alive. UNCLEAN gives a
partition without a leader any replica that is alive, in sync or not, whatever the topic's
configuration says: the caller accepts that records are lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.node.controller.metadata.registrations import is_acceptable, partitions
from cluster.node.controller.metadata.replay import changed_partition
from cluster.node.controller.metadata.result import (
    NO_ERROR,
    ApiError,
    ControllerResult,
    RequestError,
)
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.partitions.leadership import builder
from cluster.node.controller.partitions.partition_change import Election
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import NO_LEADER
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import TopicName, i32

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
"""ElectionType, by its number in the request."""

Asked = tuple[str, int]
"""Topic name and partition index."""


def elect_leaders(
    request: messages.ElectLeadersRequest, state: MetadataState
) -> ControllerResult[messages.ElectLeadersResponse]:
    """Hold the elections; each partition has its own outcome. Raises RequestError.

    Asked about all partitions, those are left out for which there was nothing to do.
    """
    election = _ELECTIONS.get(int(request.election_type))
    if election is None:
        message = f"Unknown election type {request.election_type}."
        raise RequestError(ErrorCode.invalid_request, message)
    records: list[MetadataRecord] = []
    outcomes: dict[str, dict[int, ApiError]] = {}
    for topic, index in _requested_elections(request, state):
        results = outcomes.setdefault(topic, {})
        if index in results:
            continue  # asked about twice: once is enough
        record, outcome = _elect(topic, index, election, state)
        if record is not None:
            records.append(record)
        if request.topic_partitions is None and outcome.error is ErrorCode.election_not_needed:
            continue
        results[index] = outcome
    return ControllerResult(
        records=tuple(records),
        response=messages.ElectLeadersResponse(
            throttle_time=messages.NO_THROTTLE,
            error_code=ErrorCode.none,
            replica_election_results=tuple(
                messages.ElectLeadersTopicResult(
                    topic=TopicName(topic), partition_result=_results(results)
                )
                for topic, results in outcomes.items()
                if results
            ),
        ),
        is_atomic=False,
    )


def _results(results: dict[int, ApiError]) -> tuple[messages.ElectLeadersPartitionResult, ...]:
    return tuple(
        messages.ElectLeadersPartitionResult(
            partition_id=i32(index), error_code=outcome.error, error_message=outcome.message
        )
        for index, outcome in results.items()
    )


def _requested_elections(
    request: messages.ElectLeadersRequest, state: MetadataState
) -> Iterable[Asked]:
    if request.topic_partitions is not None:
        for item in request.topic_partitions:
            for index in item.partitions:
                yield item.topic, int(index)
        return
    for (topic_id, number), _ in partitions(state):
        topic = state.topics.get(topic_id)
        assert topic is not None
        yield topic.name, number


def _elect(
    topic: str, index: int, election: Election, state: MetadataState
) -> tuple[MetadataRecord | None, ApiError]:
    topic_id = state.topic_names.get(topic)
    if topic_id is None:
        message = f"No such topic as {topic}"
        return None, ApiError(ErrorCode.unknown_topic_or_partition, message)
    partition = state.partitions.get((topic_id, index))
    if partition is None:
        message = f"No such partition as {topic}-{index}"
        return None, ApiError(ErrorCode.unknown_topic_or_partition, message)
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        message = "Leader election not needed for topic partition."
        return None, ApiError(ErrorCode.election_not_needed, message)
    record = builder(
        state,
        (topic_id, index),
        partition,
        lambda replica: is_acceptable(state, replica),
        election=election,
    ).build()
    changed = partition if record is None else changed_partition(partition, record)
    led = changed.leader
    if led == partition.replicas[0] if preferred else led != NO_LEADER:
        return record, NO_ERROR
    if preferred:
        message = "The preferred leader was not available."
        return None, ApiError(ErrorCode.preferred_leader_not_available, message)
    message = "No replica of the partition is alive."
    return None, ApiError(ErrorCode.eligible_leaders_not_available, message)

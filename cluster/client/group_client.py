"""The requests of a consumer group's member: each one request to one broker, never retried.

As of `cluster.client.admin_client`, with the same outcomes. The protocol is the classic one
(KIP-62), with static members (KIP-345). An OffsetCommit that is answered with an error is a `fail`
where the coordinator gives that error before it appends. NOT_COORDINATOR and
COORDINATOR_NOT_AVAILABLE it also gives to what it has appended, for errors of its partition.

What members say to each other through the coordinator is in Kafka's own form (ConsumerProtocol,
version 0): topics in the subscription, topics and partitions in the assignment.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.serial import entity_reader, entity_writer

from cluster.client.caller import Caller, Outcome, Peer, WrongAnswerError, accept, only
from cluster.client.data_client import TopicPartition
from cluster.node.errors import ErrorCode
from cluster.node.protocol import group_messages as g
from cluster.node.protocol.codec import MAX_RESPONSE_ELEMENTS
from cluster.node.protocol.messages import TopicName, i32, i64, milliseconds
from cluster.node.wire.bounds import bound_frame
from cluster.values import valueclass

NONE_COMMITTED: Final = -1
"""The offset of a partition for which nothing was ever committed."""
_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "in-turns"
_VERSION: Final = bytes(2)
"""Before each of the messages of ConsumerProtocol: version 0."""
_REFUSED: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.group_id_not_found,
    }
)
"""Errors of a commit that was not appended."""


@valueclass
class Member:
    """Who a member is: the first join of a dynamic one has no member id yet."""

    group: str
    member_id: str = ""
    instance_id: str | None = None
    """Of a static member (group.instance.id)."""
    generation: int = -1


@valueclass
class Joined:
    """A member of a new generation, which waits for its assignment."""

    member: Member
    others: tuple[str, ...]
    """Of the leader: the ids of all members, for whom it decides; else empty."""


class GroupClient:
    """Asks coordinators of groups through a client that never retries."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def join(
        self,
        peer: Peer,
        member: Member,
        topic: str,
        session_timeout_ms: float,
        rebalance_timeout_ms: float,
    ) -> Outcome:
        """Join the next generation. The value is `Joined`; of `member_id_required`, a member id."""
        subscription = _encode(g.ConsumerProtocolSubscription(topics=(topic,)))
        request = g.JoinGroupRequest(
            group_id=g.GroupId(member.group),
            session_timeout=milliseconds(session_timeout_ms),
            rebalance_timeout=milliseconds(rebalance_timeout_ms),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=(g.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=subscription),),
        )

        def read(response: g.JoinGroupResponse) -> Outcome:
            if response.error_code is ErrorCode.member_id_required:
                return Outcome("fail", response.member_id, response.error_code.name)
            accept(response.error_code)
            if not response.member_id or response.generation_id < 0:
                raise WrongAnswerError(
                    f"member {response.member_id!r} of generation {response.generation_id}"
                )
            generation = int(response.generation_id)
            found = Member(member.group, response.member_id, member.instance_id, generation)
            decides = response.leader == response.member_id and not response.skip_assignment
            others = tuple(each.member_id for each in response.members) if decides else ()
            return Outcome("ok", Joined(found, others))

        return await self._client.attempt(peer, request, read)

    async def sync(
        self, peer: Peer, member: Member, assignments: Mapping[str, Sequence[TopicPartition]]
    ) -> Outcome:
        """Wait for the assignment, as the leader after deciding it. The value is its partitions."""
        request = g.SyncGroupRequest(
            group_id=g.GroupId(member.group),
            generation_id=i32(member.generation),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=tuple(
                g.SyncGroupRequestAssignment(member_id=other, assignment=_assignment(partitions))
                for other, partitions in assignments.items()
            ),
        )

        def read(response: g.SyncGroupResponse) -> Outcome:
            accept(response.error_code)
            return Outcome("ok", _partitions(response.assignment))

        return await self._client.attempt(peer, request, read)

    async def heartbeat(self, peer: Peer, member: Member) -> Outcome:
        """Say that the member is alive; `fail` where it has to join again."""
        request = g.HeartbeatRequest(
            group_id=g.GroupId(member.group),
            generation_id=i32(member.generation),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        return await self._client.attempt(peer, request, _answer)

    async def leave(self, peer: Peer, member: Member) -> Outcome:
        """Leave the group."""
        identity = g.MemberIdentity(
            member_id=member.member_id, group_instance_id=member.instance_id
        )
        request = g.LeaveGroupRequest(group_id=g.GroupId(member.group), members=(identity,))

        def read(response: g.LeaveGroupResponse) -> Outcome:
            accept(response.error_code)
            return _answer(*response.members)

        return await self._client.attempt(peer, request, read)

    async def commit(
        self, peer: Peer, member: Member, offsets: Mapping[TopicPartition, int]
    ) -> Outcome:
        """Commit offsets, all of one topic."""
        (topic,) = {partition.topic for partition in offsets}
        partitions = tuple(
            g.OffsetCommitRequestPartition(
                partition_index=i32(partition.index),
                committed_offset=i64(offset),
                committed_metadata=None,
            )
            for partition, offset in offsets.items()
        )
        request = g.OffsetCommitRequest(
            group_id=g.GroupId(member.group),
            generation_id_or_member_epoch=i32(member.generation),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=(g.OffsetCommitRequestTopic(name=TopicName(topic), partitions=partitions),),
        )

        def read(response: g.OffsetCommitResponse) -> Outcome:
            errors = {
                TopicPartition(each.name, int(result.partition_index)): result.error_code
                for each in response.topics
                for result in each.partitions
            }
            if errors.keys() != offsets.keys():
                raise WrongAnswerError(f"{len(errors)} results for {len(offsets)} partitions")
            wrong = [error for error in errors.values() if error is not ErrorCode.none]
            if not wrong:
                return Outcome("ok")
            refused = len(wrong) == len(errors) and _REFUSED.issuperset(wrong)
            return Outcome("fail" if refused else "info", error=wrong[0].name)

        return await self._client.attempt(peer, request, read)

    async def offsets(
        self, peer: Peer, member: Member, partitions: Sequence[TopicPartition]
    ) -> Outcome:
        """Look up committed offsets, of one topic: {partition: offset, or NONE_COMMITTED}.

        With require_stable (KIP-447) the answer waits until what the coordinator has appended is
        replicated. Without, one that has just taken over may not show what was acknowledged: it
        reads below a high watermark that is still behind.
        """
        (topic,) = {partition.topic for partition in partitions}
        asked = g.OffsetFetchRequestTopics(
            name=TopicName(topic),
            partition_indexes=tuple(i32(partition.index) for partition in partitions),
        )
        group = g.OffsetFetchRequestGroup(group_id=g.GroupId(member.group), topics=(asked,))
        request = g.OffsetFetchRequest(groups=(group,), require_stable=True)

        def read(response: g.OffsetFetchResponse) -> Outcome:
            of_group = only(response.groups, group_id=member.group)
            results = [
                (TopicPartition(each.name, int(result.partition_index)), result)
                for each in of_group.topics
                for result in each.partitions
            ]
            errors = [of_group.error_code, *(result.error_code for _, result in results)]
            for error in errors:
                accept(error)
            offsets = {partition: int(result.committed_offset) for partition, result in results}
            if offsets.keys() != set(partitions) or min(offsets.values()) < NONE_COMMITTED:
                raise WrongAnswerError(f"offsets {offsets}")
            return Outcome("ok", offsets)

        return await self._client.attempt(peer, request, read)


def _answer(response: Any) -> Outcome:
    accept(response.error_code)
    return Outcome("ok")


# --- what members say to each other ---


def _encode(message: g.ConsumerProtocolSubscription | g.ConsumerProtocolAssignment) -> bytes:
    written = io.BytesIO()
    entity_writer(type(message))(written, message)
    return _VERSION + written.getvalue()


def _assignment(partitions: Sequence[TopicPartition]) -> bytes:
    topics: dict[str, list[i32]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(i32(partition.index))
    assigned = tuple(
        g.AssignedPartitions(topic=TopicName(topic), partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )
    return _encode(g.ConsumerProtocolAssignment(assigned_partitions=assigned))


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Read an assignment; empty bytes are one of nothing. Raises MalformedError, or as kio does."""
    if not assignment:
        return ()
    kind = g.ConsumerProtocolAssignment
    body = bound_frame(assignment[len(_VERSION) :], (kind,), max_elements=MAX_RESPONSE_ELEMENTS)
    read, _ = entity_reader(kind)(body, 0)
    return tuple(
        TopicPartition(assigned.topic, int(index))
        for assigned in read.assigned_partitions
        for index in assigned.partitions
    )

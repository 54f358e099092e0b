"""Brokers of `scripted_brokers` with a coordinator of one group, on broker 2.

A generation begins with each join, which is answered at once with whoever is a member then.
"""

from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.response import JoinGroupResponseMember
from kio.schema.leave_group.v5.response import MemberResponse
from kio.schema.offset_commit.v9 import response as committed

from cluster.node.errors import ErrorCode
from cluster.node.protocol import group_messages as g
from cluster.node.protocol import transaction_messages as t
from tests.kio_bytes import filled
from tests.workloads.scripted_brokers import NONE, Brokers


class GroupBrokers(Brokers):
    """The network of a client, with one coordinator."""

    def __init__(self):
        super().__init__()
        self.generation = 0
        self.members = {}
        """Member id -> group.instance.id."""
        self.assignments = {}
        self.rebalances = False

    def join_other(self):
        """Let another member join: it leads the next generation."""
        self.members["other"] = None
        self.rebalances = True

    def expel(self):
        """Let the time of all members run out."""
        self.members.clear()
        self.generation += 1

    def _FindCoordinatorRequest(self, broker, message):  # noqa: N802 - the name of the class
        assert message.key_type == t.GROUP
        return super()._FindCoordinatorRequest(broker, message)

    def _JoinGroupRequest(self, broker, message):  # noqa: N802
        assert broker.node_id == self.coordinator
        member, error = message.member_id, NONE
        if not member:
            member = f"m{len(self.sent(g.JoinGroupRequest))}"
            error = NONE if message.group_instance_id else ErrorCode.member_id_required
        if message.group_instance_id:
            former = [k for k, v in self.members.items() if v == message.group_instance_id]
            for each in former:
                del self.members[each]
        if error is NONE:
            self.members[member] = message.group_instance_id
            self.generation += 1
            self.rebalances = False
        leader = "other" if "other" in self.members else member
        members = tuple(
            JoinGroupResponseMember(member_id=each, metadata=b"") for each in self.members
        )
        return filled(
            g.JoinGroupResponse,
            error_code=error,
            generation_id=self.generation if error is NONE else -1,
            protocol_name="in-turns",
            leader=leader,
            member_id=member,
            members=members if leader == member else (),
        )

    def _SyncGroupRequest(self, broker, message):  # noqa: N802
        error = self._refusal(message)
        if error is NONE and message.assignments:
            self.assignments = {a.member_id: a.assignment for a in message.assignments}
        assigned = self.assignments.get(message.member_id, b"")
        return filled(g.SyncGroupResponse, error_code=error, assignment=assigned)

    def _HeartbeatRequest(self, broker, message):  # noqa: N802
        error = self._refusal(message)
        if error is NONE and self.rebalances:
            error = ErrorCode.rebalance_in_progress
        return filled(HeartbeatResponse, error_code=error)

    def _LeaveGroupRequest(self, broker, message):  # noqa: N802
        (member,) = message.members
        del self.members[member.member_id]
        left = filled(MemberResponse, member_id=member.member_id)
        return filled(g.LeaveGroupResponse, members=(left,))

    def _OffsetCommitRequest(self, broker, message):  # noqa: N802
        error = self._refusal(message, message.generation_id_or_member_epoch)
        (topic,) = message.topics
        if error is NONE:
            self.offsets |= {p.partition_index: p.committed_offset for p in topic.partitions}
        results = tuple(
            committed.OffsetCommitResponsePartition(
                partition_index=p.partition_index, error_code=error
            )
            for p in topic.partitions
        )
        answer = committed.OffsetCommitResponseTopic(name=topic.name, partitions=results)
        return filled(committed.OffsetCommitResponse, topics=(answer,))

    def _refusal(self, message, generation=None):
        generation = message.generation_id if generation is None else generation
        if message.member_id not in self.members:
            known = message.group_instance_id in self.members.values()
            is_static = message.group_instance_id is not None
            fenced = is_static and known
            return ErrorCode.fenced_instance_id if fenced else ErrorCode.unknown_member_id
        return NONE if generation == self.generation else ErrorCode.illegal_generation

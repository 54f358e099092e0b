"""How one process of workload `groups` asks the coordinator, and what is certain.

**What a join shows is the latest.** A new generation is answered once its assignment is replicated,
so the coordinator was one then, after the join had begun; and what is committed is looked up at
this very node, which in its time had everything that was acknowledged before. For that a join has
to be of a new generation, or of a new member with an instance id, which is replicated, too (in a
stable group, before it is answered): whoever does not know what became of its join, or was refused,
is no member any more and joins as a new one.

A static member that was late for a rebalance is kept, and its join is answered by the generation
that is stable by then, without a record. A coordinator that was deposed answers so for ever. So a
member joins again only in the operation, and at the node, in which a heartbeat was refused with
REBALANCE_IN_PROGRESS: there the stable generation was replicated after that.

Nothing is claimed by a join, heartbeat or poll that failed, so these are `fail`. A commit is `info`
where its coordinator may have appended it; the process is done then, and its member with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checkers.groups.facts import ABANDON, COMMIT, JOIN_ALL, LEAVE, ZOMBIE_COMMIT
from checkers.history import EventType
from checkers.partition_logs.columns import CONSUME
from cluster.client.data_client import ALL, DataClient, Fetched, TopicPartition
from cluster.client.group_client import NONE_COMMITTED, GroupClient, Joined, Member
from cluster.node.errors import ErrorCode
from cluster.node.protocol.transaction_messages import GROUP
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, completion
from workloads.data.coordinators import Coordinator
from workloads.data.leads import Budget, Leads, Stopped, Topics
from workloads.data.log_client import LogClient, SharedProducer

GROUP_ID: Final = "g"
SESSION_TIMEOUT_MS: Final = 2000
REBALANCE_TIMEOUT_MS: Final = 2000
_POLL_BYTES: Final = 2 * 1024
_POLL_WAIT_MS: Final = 20.0
_STATIC_EVERY: Final = 3
"""One worker of so many is a static member."""


def instance_of(worker: int) -> str | None:
    """Return the group.instance.id of a worker's members; None: they are dynamic."""
    return f"w{worker}" if worker % _STATIC_EVERY == _STATIC_EVERY - 1 else None


@valueclass
class _Membership:
    """A member with its partitions, and where it reads on in each of them."""

    member: Member
    positions: dict[TopicPartition, int]


class GroupsClient:
    """One process: a producer, and a member of the group."""

    def __init__(self, context: ClientContext, topic: str, topics: Topics) -> None:
        self._context = context
        self._topic = topic
        self._partitions = topics.partitions
        self._log = LogClient(context, topics, ALL, 0, "none", SharedProducer())
        self._data = DataClient(context.client)
        self._group = GroupClient(context.client)
        self._leads = Leads(context, topics)
        self._coordinator = Coordinator(
            self._leads, context.client, GROUP, GROUP_ID, lambda budget: budget.left_ms
        )
        self._membership: _Membership | None = None
        self._former: _Membership | None = None
        self._turn = 0

    async def invoke(self, op: Op) -> Completion:
        perform = {
            CONSUME: self._consume,
            COMMIT: self._commit,
            ZOMBIE_COMMIT: self._commit_again,
            LEAVE: self._leave,
            ABANDON: self._abandon,
            JOIN_ALL: self._join_all,
        }.get(op.f)
        if perform is None:
            return await self._log.invoke(op)
        try:
            return await perform(Budget(self._context.timeout_ms))
        except Stopped as stopped:
            return Completion(EventType.FAIL, op.value, stopped.error, stopped.node)

    async def close(self) -> None:
        """Nothing is held: the group finds out by itself that the member is gone."""

    # --- membership ---

    async def _consume(self, budget: Budget) -> Completion:
        node = await self._coordinator.find(budget)
        if self._membership is None:
            return await self._join(self._new_member(), node, budget)
        member = self._membership.member
        peer = self._leads.peer(node, budget.left_ms)
        beat = await self._group.heartbeat(peer, member)
        if beat.error == ErrorCode.rebalance_in_progress.name:
            return await self._join(member, node, budget)
        if beat.type != "ok":
            self._coordinator.learn(beat)
            if beat.error in _FENCED:
                self._forget()
            raise Stopped(beat.error, node)
        return await self._poll(self._membership, budget)

    def _new_member(self) -> Member:
        return Member(GROUP_ID, instance_id=instance_of(self._context.worker))

    def _forget(self) -> None:
        if self._membership is not None:
            self._former, self._membership = self._membership, None

    async def _join(self, member: Member, node: str, budget: Budget) -> Completion:
        """Join the next generation; raises Stopped, and then is no member any more."""
        self._forget()

        async def ask(who: Member) -> Any:
            limits_ms = SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS
            peer = self._leads.peer(node, budget.left_ms)
            outcome = await self._group.join(peer, who, self._topic, *limits_ms)
            if outcome.error == ErrorCode.member_id_required.name and not who.member_id:
                return await ask(Member(who.group, outcome.value, who.instance_id))
            return self._got(outcome, node)

        joined: Joined = await ask(member)
        assignments = self._assign(joined)
        peer = self._leads.peer(node, budget.left_ms)
        sync = await self._group.sync(peer, joined.member, assignments)
        given = self._got(sync, node)
        shown: Mapping[TopicPartition, int] = {}
        if given:
            peer = self._leads.peer(node, budget.left_ms)
            shown = self._got(await self._group.offsets(peer, joined.member, given), node)
        positions = {of: 0 if at == NONE_COMMITTED else at for of, at in shown.items()}
        self._membership = _Membership(joined.member, positions)
        committed = {str(partition): offset for partition, offset in shown.items()}
        value = {**_who(joined.member), "partitions": [*committed], "committed": committed}
        return Completion(EventType.OK, value, None, node)

    def _got(self, outcome: Any, node: str) -> Any:
        if outcome.type != "ok":
            self._coordinator.learn(outcome)
        return self._leads.got(outcome, node)

    def _assign(self, joined: Joined) -> dict[str, list[TopicPartition]]:
        """Decide, as the leader, who gets what: in turn, beginning with another each time."""
        members = sorted(joined.others)
        assignments: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for index in range(self._partitions if members else 0):
            member = members[(index + joined.member.generation) % len(members)]
            assignments[member].append(TopicPartition(self._topic, index))
        return assignments

    async def _leave(self, budget: Budget) -> Completion:
        if self._membership is None:
            raise Stopped("no-member", self._leads.asked)
        member = self._membership.member
        self._forget()
        node = await self._coordinator.find(budget)
        left = await self._group.leave(self._leads.peer(node, budget.left_ms), member)
        self._got(left, node)
        return Completion(EventType.OK, _who(member), None, node)

    async def _abandon(self, budget: Budget) -> Completion:
        del budget
        if self._membership is None:
            raise Stopped("no-member", self._leads.asked)
        member = self._membership.member
        self._forget()
        return Completion(EventType.OK, _who(member), None, None)

    async def _join_all(self, budget: Budget) -> Completion:
        """Join as a new member; fails where others are in the group still, and leaves it then."""
        node = await self._coordinator.find(budget)
        joined = await self._join(Member(GROUP_ID), node, budget)
        membership = self._membership
        assert membership is not None, "it has joined"
        if len(membership.positions) < self._partitions:
            await self._leave(budget)
            raise Stopped("others-in-the-group", joined.node or self._leads.asked)
        return joined

    # --- processing ---

    async def _poll(self, membership: _Membership, budget: Budget) -> Completion:
        """Fetch from the next partition, and read on behind."""
        records: dict[str, Any] = {}
        node = self._coordinator.node
        if membership.positions:
            self._turn += 1
            of = [*membership.positions][self._turn % len(membership.positions)]
            lead = await self._leads.lead(of, budget)
            node = lead.node
            fetched: Fetched = self._leads.read(
                await self._data.fetch(
                    self._leads.peer(node, budget.left_ms),
                    of,
                    membership.positions[of],
                    lead.epoch,
                    max_wait_ms=_POLL_WAIT_MS,
                    max_bytes=_POLL_BYTES,
                ),
                of,
                node,
            )
            membership.positions[of] = fetched.next_offset
            records = {str(of): [list(record) for record in fetched.records]}
        value = {**_who(membership.member), "records": records}
        return Completion(EventType.OK, value, None, node)

    async def _commit(self, budget: Budget) -> Completion:
        return await self._commit_of(self._membership, budget)

    async def _commit_again(self, budget: Budget) -> Completion:
        return await self._commit_of(self._former, budget)

    async def _commit_of(self, membership: _Membership | None, budget: Budget) -> Completion:
        if membership is None or not membership.positions:
            raise Stopped("no-member", self._leads.asked)
        node = await self._coordinator.find(budget)
        offsets = dict(membership.positions)
        peer = self._leads.peer(node, budget.left_ms)
        outcome = await self._group.commit(peer, membership.member, offsets)
        self._coordinator.learn(outcome)
        if outcome.error in _FENCED and membership is self._membership:
            self._forget()
        shown = {str(partition): offset for partition, offset in offsets.items()}
        value = {**_who(membership.member), "offsets": shown}
        return completion(outcome, node, value)


_FENCED: Final = frozenset(
    {
        ErrorCode.illegal_generation.name,
        ErrorCode.unknown_member_id.name,
        ErrorCode.fenced_instance_id.name,
    }
)
"""Errors by which a coordinator says that there is no such member, or not in this generation."""


def _who(member: Member) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "generation": member.generation,
    }

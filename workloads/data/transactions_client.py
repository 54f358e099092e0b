"""How one process of workload `transactions` asks brokers and coordinators, and what is certain.

Only an EndTxn that commits makes a transaction's appends visible to read_committed. So whatever
goes wrong before the first of these is sent is a `fail`, though records may be in the logs: the
next InitProducerId of the transactional id aborts them (KIP-98), and until then they are undecided.
Once a commit was sent the outcome is what the coordinator says: `fail` where its first answer
refuses for certain (`cluster.client.transactional_client`), `info` where an attempt may have
decided and none was acknowledged.

As Kafka's own producer does, a process asks again where a broker says that it is not the one or not
yet: the same batch with the same sequence, the same EndTxn. After any failure it takes its
transactional id anew, and with it another epoch (KIP-360), so that nothing of a failed transaction
can be taken for the next one's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from checkers.history import EventType
from checkers.transactions.atomic_rules import (
    LATE,
    OUTLIVE,
    READ_ALL,
    READ_UNCOMMITTED,
    REFUSED_LATE,
    TXN,
    ZOMBIE,
)
from checkers.transactions.committed_offsets import COMMIT, OFFSETS
from cluster.client.batches import batch_of
from cluster.client.caller import Outcome, Peer
from cluster.client.data_client import ALL, DataClient, TopicPartition
from cluster.client.group_client import GroupClient, Member
from cluster.client.transactional_client import BUMPS_EPOCHS_FROM, Producer, TransactionalClient
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import Sequenced
from cluster.node.ports import Failure
from cluster.node.protocol.transaction_messages import GROUP, TRANSACTION
from workloads.base import ClientContext, Completion, Op
from workloads.data.coordinators import ELSEWHERE, NOT_YET, PAUSE_S, Coordinator
from workloads.data.java_clients import SILENCE, JavaClient
from workloads.data.leads import Budget, Leads, Stopped, Topics, partition_of
from workloads.data.transactions_consumers import Consumers

_ATTEMPTS: Final = 3
"""One attempt takes this part of an operation's time at most."""
_OTHER_LEADER: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower.name,
        ErrorCode.unknown_topic_or_partition.name,
        ErrorCode.not_enough_replicas.name,
        ErrorCode.not_enough_replicas_after_append.name,
        ErrorCode.request_timed_out.name,
        *(failure.value for failure in (Failure.TIMED_OUT, Failure.DISCONNECTED, Failure.NOT_SENT)),
    }
)
"""After which the same batch is sent again, to whoever leads then."""

_Append = tuple[TopicPartition, str]
_Commit = tuple[TopicPartition, int]


def _group_of(partition: TopicPartition) -> str:
    """Name the group whose offset of a partition is committed in transactions."""
    return f"of-{partition}"


class TransactionsClient:
    """One process: a transactional producer, and consumers of both isolation levels."""

    def __init__(
        self,
        context: ClientContext,
        topics: Topics,
        transaction_timeout_ms: int,
        java: JavaClient | None = None,
    ) -> None:
        """`java`: performs the transactions, beside the reads; None: this client does."""
        self._context = context
        self._java = java
        self._transaction_timeout_ms = transaction_timeout_ms
        self._id = f"w{context.worker}"
        self._data = DataClient(context.client)
        self._transactional = TransactionalClient(context.client)
        self._leads = Leads(context, topics)
        self._bumps_epoch: bool | None = None
        """Whether the cluster has transaction.version 2, once it is known."""
        self._coordinator = Coordinator(
            self._leads, context.client, TRANSACTION, self._id, self._share
        )
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        """Partitions of the transaction under way."""
        self._late: tuple[Producer, bool] | None = None
        """Whose EndTxn is still to arrive once more, and whether it commits."""
        self._consumers = Consumers(self._leads, self._data, self._share)
        self._groups = GroupClient(context.client)
        self._group_coordinators: dict[TopicPartition, Coordinator] = {}

    async def invoke(self, op: Op) -> Completion:
        budget = Budget(self._context.timeout_ms)
        assert isinstance(op.value, list), "a transaction is a list of steps"
        try:
            if op.f == READ_ALL:
                return await self._consumers.read_all(op, budget)
            if op.f == OFFSETS:
                return await self._read_offset(op, budget)
            committed = op.f != READ_UNCOMMITTED
            steps, node = await self._consumers.read(op.value, budget, committed=committed)
            written = [(step[0], partition_of(step[1]), step[2]) for step in op.value]
            appends = [(to, str(value)) for f, to, value in written if f == "append"]
            commits = [(of, int(offset)) for f, of, offset in written if f == COMMIT]
            if not appends:
                return Completion(EventType.OK, steps, None, node)
            if self._java is None:
                kind, error = await self._transact(op.f, appends, commits, budget)
            else:
                kind, error = await self._transact_in_java(op.f, appends, budget)
        except Stopped as stopped:
            return Completion(EventType.FAIL, op.value, stopped.error, stopped.node)
        value = steps if kind is EventType.OK else op.value
        return Completion(kind, value, error, self._coordinator.node)

    async def close(self) -> None:
        """End the client in Java."""
        if self._java is not None:
            await self._java.close()

    # --- transactions ---

    async def _transact(
        self, function: str, appends: Sequence[_Append], commits: Sequence[_Commit], budget: Budget
    ) -> tuple[EventType, str | None]:
        """Perform a transaction; raises Stopped before anything could commit it."""
        try:
            await self._begin(budget)
            for of, offset in commits:
                await self._commit(of, offset, budget)
            if function == ZOMBIE:
                return await self._zombie(appends, budget)
            await self._append_all(appends, budget)
            if function == OUTLIVE:
                return await self._outlive(*appends[-1])
        except Stopped:
            self._producer = None
            raise
        return await self._end(function, budget)

    async def _transact_in_java(
        self, function: str, appends: Sequence[_Append], budget: Budget
    ) -> tuple[EventType, str | None]:
        """Have Kafka's own producer perform a transaction; raises Stopped where it did nothing.

        Without an answer it may still be at work: the process is done, or its next transaction
        would begin behind this one, when nobody waits for it any more.
        """
        assert self._java is not None, "it is of Java"
        steps = [text for partition, value in appends for text in (str(partition), value)]
        timeout_ms = str(self._transaction_timeout_ms)
        fields = ("transact", function, self._id, timeout_ms, *steps)
        kind, error, *_ = await self._java.call(*fields, budget=budget) or ("info", SILENCE, "")
        return EventType(kind), error or None

    async def _begin(self, budget: Budget) -> None:
        self._added.clear()
        if self._bumps_epoch is None:
            node = self._leads.asked
            peer = self._leads.peer(node, self._share(budget))
            found = await self._transactional.transaction_version(peer)
            if found.type != "ok":
                self._leads.ask_next()
            self._bumps_epoch = self._leads.got(found, node) >= BUMPS_EPOCHS_FROM
        if self._producer is None:
            self._take(await self._init(budget))

    def _take(self, producer: Producer) -> None:
        """Go on as a producer in an epoch of its own, in which sequences begin with 0."""
        if producer != self._producer:
            self._sequences.clear()
        self._producer = producer

    async def _init(self, budget: Budget) -> Producer:
        def ask(peer: Peer) -> Awaitable[Outcome]:
            timeout_ms = self._transaction_timeout_ms
            return self._transactional.init_producer(peer, self._id, timeout_ms)

        producer: Producer = await self._coordinator.ask(ask, budget)
        return producer

    async def _commit(self, of: TopicPartition, offset: int, budget: Budget) -> None:
        """Make the offset of a group part of the transaction; raises Stopped where it is not."""
        assert self._producer is not None, "it has begun"
        producer, group, adds_group = self._producer, _group_of(of), bool(self._bumps_epoch)
        if not adds_group:
            await self._coordinator.ask(
                lambda peer: self._transactional.add_offsets(peer, self._id, producer, group),
                budget,
            )
        await self._group_coordinator(of).ask(
            lambda peer: self._transactional.commit_offset(
                peer, self._id, producer, group, of, offset, adds_group=adds_group
            ),
            budget,
        )

    async def _read_offset(self, op: Op, budget: Budget) -> Completion:
        """Look up a group's committed offset, once no transaction that changes it is open."""
        assert isinstance(op.value, list), "a list of steps"
        ((_, key, _),) = op.value
        of = partition_of(key)
        coordinator = self._group_coordinator(of)
        offsets = await coordinator.ask(
            lambda peer: self._groups.offsets(peer, Member(_group_of(of)), [of]), budget
        )
        return Completion(EventType.OK, [["r", key, offsets[of]]], None, coordinator.node)

    def _group_coordinator(self, of: TopicPartition) -> Coordinator:
        if of not in self._group_coordinators:
            self._group_coordinators[of] = Coordinator(
                self._leads, self._context.client, GROUP, _group_of(of), self._share
            )
        return self._group_coordinators[of]

    async def _append_all(self, appends: Sequence[_Append], budget: Budget) -> None:
        assert self._producer is not None, "it has begun"
        for partition, value in appends:
            await self._append(partition, value, self._producer, budget)
            if self._late is not None:
                (late, commits), self._late = self._late, None
                await self._send_end(late, budget, commit=commits)

    async def _append(
        self, to: TopicPartition, value: str, producer: Producer, budget: Budget
    ) -> None:
        """Append one record; raises Stopped where it is not acknowledged."""
        if not self._bumps_epoch and to not in self._added:
            await self._coordinator.ask(
                lambda peer: self._transactional.add_partition(peer, self._id, producer, to), budget
            )
            self._added.add(to)
        sequence = self._sequences.get(to, 0)
        sequenced = Sequenced(producer.producer_id, producer.epoch, sequence, transactional=True)
        batch = batch_of([value], self._context.client.wall_ms(), sequenced)
        while True:
            lead = await self._leads.lead(to, budget)
            outcome = await self._data.produce(
                self._leads.peer(lead.node, self._share(budget)),
                to,
                batch,
                ALL,
                transactional_id=self._id,
                adds_partitions=bool(self._bumps_epoch),
            )
            if outcome.type == "ok":
                self._sequences[to] = sequence + 1
                return
            if outcome.error not in NOT_YET:
                self._leads.forget(to)
            if budget.over or outcome.error not in NOT_YET | ELSEWHERE | _OTHER_LEADER:
                raise Stopped(outcome.error, lead.node)
            await asyncio.sleep(PAUSE_S)

    async def _end(self, function: str, budget: Budget) -> tuple[EventType, str | None]:
        """Commit or abort, until it is acknowledged."""
        commit = function.removesuffix(LATE) == TXN
        assert self._producer is not None, "it has begun"
        ended = self._producer
        certain = True
        while True:
            outcome = await self._send_end(ended, budget, commit=commit)
            if outcome.type == "ok":
                self._take(outcome.value)
                if function.endswith(LATE):
                    self._late = ended, commit
                return (EventType.OK, None) if commit else (EventType.FAIL, "aborted")
            certain = certain and outcome.type == "fail"
            again = outcome.error in NOT_YET | ELSEWHERE or outcome.type == "info"
            if budget.over or not again:
                break
            await asyncio.sleep(PAUSE_S)
        self._producer = None
        kind = EventType.FAIL if certain or not commit else EventType.INFO
        return kind, outcome.error

    async def _send_end(self, producer: Producer, budget: Budget, *, commit: bool) -> Outcome:
        """Send one EndTxn; a coordinator that is not found is a certain failure."""
        try:
            node = await self._coordinator.find(budget)
        except Stopped as stopped:
            return Outcome("fail", error=Failure.NOT_SENT.value if budget.over else stopped.error)
        outcome = await self._transactional.end(
            self._leads.peer(node, self._share(budget)),
            self._id,
            producer,
            commit=commit,
            bumps_epoch=bool(self._bumps_epoch),
        )
        self._coordinator.learn(outcome)
        return outcome

    async def _zombie(
        self, appends: Sequence[_Append], budget: Budget
    ) -> tuple[EventType, str | None]:
        """Have another producer take over the transactional id, and go on and commit.

        The other one has its answer before the commit is sent, so the transaction is aborted: a
        commit without an answer did not happen either.
        """
        zombie = self._producer
        assert zombie is not None, "it has begun"
        *before, (partition, value) = appends
        await self._append_all(before or appends, budget)
        successor = await self._init(budget)
        error: str | None = None
        try:
            if before:
                await self._append(partition, value, zombie, budget)
        except Stopped as stopped:
            error = stopped.error
        outcome = await self._send_end(zombie, budget, commit=True)
        self._producer, self._late = None, None
        self._take(successor)
        if outcome.type == "ok":
            return EventType.OK, None
        return EventType.FAIL, outcome.error or error

    async def _outlive(self, to: TopicPartition, value: str) -> tuple[EventType, str | None]:
        """Pause until the transaction has timed out, send its last batch until it is refused.

        The pause is no part of the operation's time, and its coordinator has as long again to abort
        it. Raises Stopped where the batch is refused for another reason, or not at all: no commit
        was sent then. Where it was refused the transaction is over, so a commit without an answer
        did not happen: the broker knows the transaction, and asks nobody of its batch, until the
        abort is in its log.
        """
        producer = self._producer
        assert producer is not None, "it has begun"
        await asyncio.sleep(self._transaction_timeout_ms / 1000.0)
        budget = Budget(self._transaction_timeout_ms + self._context.timeout_ms)
        last = self._sequences[to] - 1
        while True:
            self._sequences[to] = last  # a retry of what was answered: the broker knows it
            try:
                await self._append(to, value, producer, budget)
            except Stopped as stopped:
                if stopped.error not in REFUSED_LATE:
                    raise
                error = stopped.error
                break
            if budget.over:
                raise Stopped(Failure.TIMED_OUT.value, self._leads.asked)
            await asyncio.sleep(PAUSE_S)
        outcome = await self._send_end(producer, budget, commit=True)
        self._producer = None
        return (EventType.OK, None) if outcome.type == "ok" else (EventType.FAIL, error)

    def _share(self, budget: Budget) -> float:
        return min(budget.left_ms, self._context.timeout_ms / _ATTEMPTS)

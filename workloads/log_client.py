"""How one process of workload `log` asks brokers, and what makes its answers certain.

**A lead is confirmed.** Metadata may be ahead of the broker that it names as leader, or behind. So
before a lead is used its broker is asked for the end of the log in the very epoch that the metadata
names (OffsetForLeaderEpoch), which it refuses in any other. What is sent there afterwards is
appended in this epoch or a later one; a Fetch names the epoch again, and so is answered in it or
refused. A client that is pinned to a node takes the lead from that node's own metadata: so a leader
that was cut off goes on being asked.

**A read of the whole log is complete.** Whatever was acknowledged with acks=all before `poll-all`
was invoked, it shows, if it is still there. First every broker names leader and epoch, and all have
to agree: a leader of a later epoch that had acknowledged something would be one of them, and would
name its own. Then the end of that leader's log is taken, and the log is read up to there at the
leader or at a replica, until the high watermark there has reached it as well. Without an answer of
every broker it fails.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Final

from checkers.history import EventType, Value
from checkers.partition_logs.columns import POLL, POLL_ALL, SEND
from cluster.client.admin_client import Outcome
from cluster.client.batches import batch_of
from cluster.client.data_client import (
    ANY_EPOCH,
    LATEST,
    NO_LEADER,
    Acks,
    DataClient,
    Fetched,
    PartitionView,
    TopicPartition,
)
from cluster.client.placement_client import PlacementClient
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import NOBODY, SEQUENCE_MAX, Sequenced
from cluster.node.ports import Endpoint
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, completion
from workloads.target import Target

MOVE: Final = "move-leader"
_POLL_BYTES: Final = 16 * 1024
_WHOLE_BYTES: Final = 1024 * 1024
_POLL_WAIT_SHARE: Final = 0.25
"""Share of an operation's time for which a poll waits for records."""
_PAUSE_S: Final = 0.02
"""Between two looks at a log whose end is not committed yet."""
_UNKNOWN_TOPIC: Final = ErrorCode.unknown_topic_or_partition.name


@valueclass
class AtReplica(Op):
    """A `poll-all` of one replica, by its place among the partition's replicas."""

    replica: int = 0


@valueclass
class Topics:
    """What topics are created with."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int


@valueclass
class Lead:
    """A leader that has confirmed its epoch."""

    node: str
    epoch: int
    end_offset: int
    """Of its log, when it did."""
    replicas: tuple[int, ...]


class _Stopped(Exception):  # noqa: N818 - an answer, not an error
    """An operation ended before anything with an effect was sent."""

    def __init__(self, error: str | None, node: str) -> None:
        super().__init__(error)
        self.error = error
        self.node = node


class _Budget:
    """The time that is left of an operation."""

    def __init__(self, timeout_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + timeout_ms / 1000.0

    @property
    def left_ms(self) -> float:
        """At least a millisecond: a request with no time has no sense."""
        return max(1.0, (self._deadline_s - self._loop.time()) * 1000.0)

    @property
    def over(self) -> bool:
        """Whether nothing more should be begun."""
        return self._loop.time() >= self._deadline_s


class LogClient:
    """One process: a producer and a consumer, with positions and sequences of its own."""

    def __init__(
        self, context: ClientContext, topics: Topics, acks: Acks, retries: int, *, idempotent: bool
    ) -> None:
        self._context = context
        self._topics = topics
        self._acks = acks
        self._retries = retries
        self._idempotent = idempotent
        self._data = DataClient(context.client)
        self._placement = PlacementClient(context.client)
        self._controllers = Target(context)
        self._brokers = tuple(context.nodes_at("CLIENT"))
        self._own = context.pinned_to if context.pinned_to in self._brokers else None
        self._turns = itertools.cycle(self._brokers)
        for _ in range(context.worker % len(self._brokers)):
            next(self._turns)
        self._asked = self._own or next(self._turns)
        """The broker whose metadata is used."""
        self._leads: dict[TopicPartition, Lead] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    async def invoke(self, op: Op) -> Completion:
        """Perform one operation."""
        assert op.key is not None, "partitions have names"
        topic, _, index = op.key.rpartition("-")
        partition = TopicPartition(topic, int(index))
        budget = _Budget(self._context.timeout_ms)
        perform = {SEND: self._send, POLL: self._poll, POLL_ALL: self._poll_all, MOVE: self._move}
        try:
            return await perform[op.f](op, partition, budget)
        except _Stopped as stopped:
            return Completion(EventType.FAIL, op.value, stopped.error, stopped.node)

    async def close(self) -> None:
        """Nothing is held."""

    # --- sending ---

    async def _send(self, op: Op, to: TopicPartition, budget: _Budget) -> Completion:
        values = op.value if isinstance(op.value, list) else [op.value]
        lead = await self._lead(to, budget)
        sequenced = await self._next_sequence(lead.node, to, budget)
        batch = batch_of(
            [str(value) for value in values], self._context.client.wall_ms(), sequenced
        )
        first, certain = lead, True
        """Every attempt so far certainly appended nothing."""
        for attempts_left in range(self._retries, -1, -1):
            timeout_ms = budget.left_ms / (attempts_left + 1)
            endpoint = self._client_of(lead.node)
            outcome = await self._data.produce(endpoint, to, batch, self._acks, timeout_ms)
            if outcome.type == "ok":
                break
            certain = certain and outcome.type == "fail"
            self._leads.pop(to, None)
            if not attempts_left or budget.over:
                break
            try:
                lead = await self._lead(to, budget)
            except _Stopped:
                break
        if outcome.type == "ok":
            self._sequences[to] = (sequenced.base_sequence + len(values)) & SEQUENCE_MAX
            # An earlier attempt may be what was appended, so its epoch is the one that is sure.
            found = outcome.value
            return Completion(EventType.OK, op.value, None, lead.node, found, first.epoch)
        kind = EventType.FAIL if certain else EventType.INFO
        return Completion(kind, op.value, outcome.error, lead.node)

    async def _next_sequence(self, node: str, to: TopicPartition, budget: _Budget) -> Sequenced:
        """Return what the next batch carries; raises _Stopped where there is no producer id."""
        if not self._idempotent:
            return NOBODY
        if self._producer is None:
            endpoint = self._client_of(node)
            found = await self._data.init_producer_id(endpoint, budget.left_ms)
            self._producer = self._read(found, to, node)
        producer_id, producer_epoch = self._producer
        return Sequenced(producer_id, producer_epoch, self._sequences.get(to, 0))

    # --- reading ---

    async def _poll(self, op: Op, of: TopicPartition, budget: _Budget) -> Completion:
        node, epoch = await self._reader(of, budget)
        endpoint = self._client_of(node)
        position = self._positions.get(of) if op.value is None else op.value
        if position is None and epoch == ANY_EPOCH:
            position = 0  # a follower does not say where its log ends
        elif position is None:
            end = await self._data.list_offset(endpoint, of, LATEST, epoch, budget.left_ms)
            position = self._read(end, of, node)
        assert isinstance(position, int), "offsets are numbers"
        left_ms = budget.left_ms
        outcome = await self._data.fetch(
            endpoint,
            of,
            position,
            epoch,
            left_ms,
            max_wait_ms=left_ms * _POLL_WAIT_SHARE,
            max_bytes=_POLL_BYTES,
        )
        reign = None if epoch == ANY_EPOCH else epoch
        if outcome.type != "ok":
            self._leads.pop(of, None)
            kind = EventType.FAIL if outcome.type == "fail" else EventType.INFO
            return Completion(kind, op.value, outcome.error, node, epoch=reign)
        fetched: Fetched = outcome.value
        self._positions[of] = fetched.next_offset
        return Completion(EventType.OK, _answer(fetched, fetched.records), None, node, epoch=reign)

    async def _reader(self, of: TopicPartition, budget: _Budget) -> tuple[str, int]:
        """Choose a node, and the epoch in which it has to lead: a pinned one may be a follower."""
        if self._own is None:
            lead = await self._lead(of, budget)
            return lead.node, lead.epoch
        view = await self._view(self._own, of, budget)
        if _node_name(view.leader) != self._own:
            return self._own, ANY_EPOCH
        return self._own, view.epoch

    async def _poll_all(self, op: Op, of: TopicPartition, budget: _Budget) -> Completion:
        views = [await self._view(node, of, budget) for node in self._brokers]
        leads = {(view.leader, view.epoch) for view in views}
        if len(leads) > 1:
            raise _Stopped("leaders-differ", self._brokers[0])
        lead = await self._confirm(self._brokers[0], views[0], of, budget)
        node, epoch = lead.node, lead.epoch
        if isinstance(op, AtReplica):
            node = _node_name(lead.replicas[op.replica % len(lead.replicas)])
            epoch = lead.epoch if node == lead.node else ANY_EPOCH
        records: list[tuple[int, str]] = []
        position = 0
        while True:
            fetched: Fetched = self._got(
                await self._data.fetch(
                    self._client_of(node),
                    of,
                    position,
                    epoch,
                    budget.left_ms,
                    max_wait_ms=0.0,
                    max_bytes=_WHOLE_BYTES,
                ),
                node,
            )
            records += fetched.records
            position = fetched.next_offset
            if position >= lead.end_offset <= fetched.high_watermark:
                reign = None if epoch == ANY_EPOCH else epoch
                return Completion(EventType.OK, _answer(fetched, records), None, node, epoch=reign)
            if budget.over:
                raise _Stopped("not-committed-in-time", node)
            if not fetched.records:
                await asyncio.sleep(_PAUSE_S)

    # --- leaders ---

    async def _lead(self, of: TopicPartition, budget: _Budget) -> Lead:
        """Return the leader as this client knows it; raises _Stopped."""
        lead = self._leads.get(of)
        if lead is None:
            view = await self._view(self._asked, of, budget)
            lead = self._leads[of] = await self._confirm(self._asked, view, of, budget)
        return lead

    async def _view(self, node: str, of: TopicPartition, budget: _Budget) -> PartitionView:
        """Look a partition up at a broker; makes its topic if there is none. Raises _Stopped."""
        found = await self._data.describe(self._client_of(node), of.topic, budget.left_ms)
        if found.type != "ok" and node == self._asked and self._own is None:
            self._asked = next(self._turns)
        views = self._got(found, node)
        if views is None:
            await self._create(of.topic, budget)
        view = None if views is None else views.get(of.index)
        if view is None:
            raise _Stopped(_UNKNOWN_TOPIC, node)
        assert isinstance(view, PartitionView)
        return view

    async def _confirm(
        self, asked: str, view: PartitionView, of: TopicPartition, budget: _Budget
    ) -> Lead:
        """Have a leader confirm its epoch; raises _Stopped where it does not."""
        node = _node_name(view.leader)
        if view.leader == NO_LEADER or node not in self._brokers:
            raise _Stopped(ErrorCode.leader_not_available.name, asked)
        endpoint = self._client_of(node)
        end = await self._data.end_of_reign(endpoint, of, view.epoch, budget.left_ms)
        return Lead(node, view.epoch, self._read(end, of, node), view.replicas)

    async def _move(self, op: Op, of: TopicPartition, budget: _Budget) -> Completion:
        view = await self._view(self._asked, of, budget)
        assert isinstance(op.value, int), "a move names a placement"
        begin, brokers = op.value % len(self._brokers), self._brokers
        chosen = [brokers[(begin + n) % len(brokers)] for n in range(len(view.replicas))]
        node = self._controllers.choose("CONTROLLER")
        controller = self._context.endpoint(node, "CONTROLLER")
        replicas = [_node_id(name) for name in chosen]
        outcome = await self._placement.reassign(controller, of, replicas, budget.left_ms)
        if outcome.type == "ok":
            elected = await self._placement.elect_preferred(controller, of, budget.left_ms)
            outcome = Outcome(elected.type, replicas, elected.error)
        self._controllers.learn(node, outcome)
        self._leads.pop(of, None)
        return completion(outcome, node, op.value)

    async def _create(self, topic: str, budget: _Budget) -> None:
        """Ask for a topic; whether it is there then, a later operation sees."""
        node = self._controllers.choose("CONTROLLER")
        factor = min(self._topics.replication_factor, len(self._brokers))
        least = min(self._topics.min_insync_replicas, factor)
        outcome = await self._context.client.create_topic(
            self._context.endpoint(node, "CONTROLLER"),
            topic,
            self._topics.partitions,
            replication_factor=factor,
            configs={"min.insync.replicas": str(least)},
            timeout_ms=budget.left_ms,
        )
        self._controllers.learn(node, outcome)

    # --- answers ---

    def _client_of(self, node: str) -> Endpoint:
        return self._context.endpoint(node, "CLIENT")

    def _got(self, outcome: Outcome, node: str) -> Any:
        """Return the value of a request without effect; raises _Stopped where it has none."""
        if outcome.type != "ok":
            raise _Stopped(outcome.error, node)
        return outcome.value

    def _read(self, outcome: Outcome, of: TopicPartition, node: str) -> Any:
        """As `_got`, of a node that is believed to lead: the belief ends where it refuses."""
        if outcome.type != "ok":
            self._leads.pop(of, None)
            if self._own is None:
                self._asked = next(self._turns)
        return self._got(outcome, node)


def _answer(fetched: Fetched, records: Sequence[tuple[int, str]]) -> Value:
    return {
        "records": [list(record) for record in records],
        "high_watermark": fetched.high_watermark,
        "log_start": fetched.log_start,
    }


def _node_name(node_id: int) -> str:
    return f"n{node_id}"


def _node_id(name: str) -> int:
    return int(name[1:])

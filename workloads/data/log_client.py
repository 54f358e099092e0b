"""How one process of workload `log` asks brokers, and what makes its answers certain.

Leads are confirmed (`workloads.data.leads`), and **a read of the whole log is complete.** What was
acknowledged with acks=all before `poll-all` was invoked, it shows, if it is still there. First all
brokers have to agree in leader and epoch. Then the end of that leader's log is taken, and the log
is read up to there at the leader or at a replica, until the high watermark there has reached it as
well. Without an answer of every broker it fails. A replica is read in small pieces, as long as the
time allows: a read of the whole log would find it without its index.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from checkers.history import EventType, Value
from checkers.partition_logs.columns import CONFIGURE, POLL, POLL_ALL, RENEW, SEND
from cluster.backends.base import Listener
from cluster.client.admin_client import BROKER_RESOURCE, TOPIC_RESOURCE, Resource
from cluster.client.batches import batch_of
from cluster.client.caller import Outcome, Peer
from cluster.client.data_client import ANY_EPOCH, Acks, DataClient, Fetched, TopicPartition
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import NOBODY, SEQUENCE_MAX, Sequenced
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, completion
from workloads.data.leads import Budget, Lead, Leads, Stopped, Topics, node_name, partition_of
from workloads.data.wrong_requests import WRONG, errors_of

if TYPE_CHECKING:
    from workloads.shapes import Shapes

MOVE: Final = "move-leader"
RESIZE: Final = "resize-broker"
"""Sets one configuration of the broker that is asked, whose `name` and `value` are given."""
GROW: Final = "grow-topic"
"""Adds a partition to a topic that is renewed, with replicas where its first one has some."""
DESCRIBE: Final = "describe-cluster"
"""Asks a broker for the brokers, and a controller for the controllers."""
DELETE: Final = "delete-records"
"""Deletes what lies below an offset, of a topic that is renewed: of others nothing may be lost."""
FILL: Final = "fill-topic"
"""Sends records to a topic that may lose them: so many batches of one as is given."""
PRODUCERS: Final = "init-producers"
"""Asks a broker for so many producer ids as is given, all at one time."""
ASK_WRONG: Final = "wrong-request"
"""Sends the request of `wrong_requests.WRONG` whose name is given."""
_POLL_BYTES: Final = 16 * 1024
_WHOLE_BYTES: Final = 1024 * 1024
_PIECE_BYTES: Final = 256
_PIECES: Final = 250
"""A replica is read in about so many pieces: each begins where its index says."""
_PIECES_SHARE: Final = 0.5
"""Share of an operation's time after which the rest is read at once."""
_POLL_WAIT_SHARE: Final = 0.25
"""Share of an operation's time for which a poll waits for records."""
_LOOK_SHARE: Final = 0.25
"""Share of the time that is left for one look for a leader: the last one may not answer."""
_PAUSE_S: Final = 0.02
"""Between two looks at a log whose end is not committed yet, or for a leader."""


@valueclass
class AtReplica(Op):
    """A `poll-all` of one replica, by its place among the partition's replicas."""

    replica: int = 0


@dataclass(slots=True)
class Producer:
    """An idempotent producer (KIP-98): who shares it has several batches in flight."""

    id: int
    epoch: int
    is_over: bool = False
    """Whether it may have left a gap, behind which nothing of it is taken."""
    sequences: Counter[TopicPartition] = field(default_factory=Counter)
    """The next one."""
    in_flight: Counter[TopicPartition] = field(default_factory=Counter)
    acknowledged: set[TopicPartition] = field(default_factory=set)

    def begin(self, to: TopicPartition, count: int) -> Sequenced | None:
        """Take the sequences of a batch.

        None while the first one of a partition is in flight: of a producer that it does not know a
        leader takes any sequence, and would then refuse those before it.
        """
        if self.in_flight[to] and to not in self.acknowledged:
            return None
        sequenced = Sequenced(self.id, self.epoch, self.sequences[to])
        self.in_flight[to] += 1
        self.sequences[to] = (sequenced.base_sequence + count) & SEQUENCE_MAX
        return sequenced

    def end(self, to: TopicPartition, first: int, count: int, kind: EventType) -> None:
        """Note what became of a batch."""
        self.in_flight[to] -= 1
        if kind is EventType.OK:
            self.acknowledged.add(to)
        elif kind is EventType.FAIL and self.sequences[to] == (first + count) & SEQUENCE_MAX:
            self.sequences[to] = first
        else:
            self.is_over = True


@dataclass(slots=True)
class SharedProducer:
    """The producer of several processes, as threads share one of Kafka's."""

    now: Producer | None = None


def log_shapes(own: Sequence[str]) -> Shapes:
    """Return what listed operations of a log's clients may say.

    `own`: the partitions that are judged. Of others no record that is sent is read in the end, and
    what renews, fills or empties a topic would be a loss of theirs.
    """
    from workloads.shapes import Count, Offset, Records, Setting, one_of, partition_but  # noqa: PLC0415

    judged, any_ = {"key": one_of(own)}, {"key": partition_but(())}
    other = {"key": partition_but(own)}
    return {
        SEND: {**judged, "value": Records},
        POLL: {**judged, "value": (Offset | None, None)},
        POLL_ALL: judged,
        MOVE: {**any_, "value": Offset},
        CONFIGURE: {**any_, "value": Setting},
        RESIZE: {**any_, "value": Setting},
        DESCRIBE: any_,
        GROW: other,
        RENEW: other,
        FILL: {**other, "value": Count},
        PRODUCERS: {**any_, "value": Count},
        DELETE: {**other, "value": int},
        ASK_WRONG: {**any_, "value": one_of([*WRONG])},
    }


class LogClient:
    """One process: a consumer with positions of its own, and a producer that it may share."""

    def __init__(
        self,
        context: ClientContext,
        topics: Topics,
        acks: Acks,
        retries: int,
        compression: str,
        producer: SharedProducer | None,
    ) -> None:
        """`producer`: an idempotent one; None: batches carry no sequences."""
        self._context = context
        self._acks = acks
        self._retries = retries
        self._compression = compression
        self._shared = producer
        self._data = DataClient(context.client)
        self._leads = Leads(context, topics)
        self._positions: dict[TopicPartition, int] = {}

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "partitions have names"
        partition = partition_of(op.key)
        budget = Budget(self._context.timeout_ms)
        perform = {
            SEND: self._send,
            POLL: self._poll,
            POLL_ALL: self._poll_all,
            MOVE: self._move,
            CONFIGURE: self._configure,
            RESIZE: self._resize,
            DESCRIBE: self._describe,
            GROW: self._grow,
            RENEW: self._renew,
            FILL: self._fill,
            PRODUCERS: self._init_producers,
            DELETE: self._delete,
            ASK_WRONG: self._ask_wrong,
        }
        try:
            return await perform[op.f](op, partition, budget)
        except Stopped as stopped:
            return Completion(EventType.FAIL, op.value, stopped.error, stopped.node)

    async def close(self) -> None:
        """Nothing is held."""

    # --- sending ---

    async def _send(self, op: Op, to: TopicPartition, budget: Budget) -> Completion:
        values = op.value if isinstance(op.value, list) else [op.value]
        lead = await self._leads.lead(to, budget)
        if self._shared is None:
            return await self._append(op, values, to, lead, NOBODY, budget)
        producer, sequenced = await self._begin(self._shared, lead.node, to, len(values), budget)
        kind = EventType.INFO
        try:
            done = await self._append(op, values, to, lead, sequenced, budget)
            kind = done.type
        finally:
            producer.end(to, sequenced.base_sequence, len(values), kind)
        return done

    async def _append(
        self,
        op: Op,
        values: Sequence[Value],
        to: TopicPartition,
        lead: Lead,
        sequenced: Sequenced,
        budget: Budget,
    ) -> Completion:
        texts, now_ms = [str(value) for value in values], self._context.client.wall_ms()
        batch = batch_of(texts, now_ms, sequenced, self._compression)
        epoch, certain = lead.epoch, True
        """The least of any attempt; every attempt so far certainly appended nothing."""
        for attempts_left in range(self._retries, -1, -1):
            peer = self._leads.peer(lead.node, budget.left_ms / (attempts_left + 1))
            outcome = await self._data.produce(peer, to, batch, self._acks)
            if outcome.type == "ok":
                break
            certain = certain and outcome.type == "fail"
            self._leads.forget(to)
            if not attempts_left or budget.over:
                break
            found_lead = await self._next_lead(to, budget)
            if found_lead is None:
                break
            lead = found_lead
            epoch = min(epoch, lead.epoch)
        if outcome.type == "ok":
            # An earlier attempt may be what was appended; and a later one may have gone to a leader
            # that does not know yet that it is deposed.
            return Completion(EventType.OK, op.value, None, lead.node, outcome.value, epoch)
        kind = EventType.FAIL if certain else EventType.INFO
        return Completion(kind, op.value, outcome.error, lead.node)

    async def _next_lead(self, of: TopicPartition, budget: Budget) -> Lead | None:
        """Look for a leader until there is one again, as producers do; None: there is no time."""
        while not budget.over:
            try:
                return await self._leads.lead(of, Budget(budget.left_ms * _LOOK_SHARE))
            except Stopped:
                await asyncio.sleep(_PAUSE_S)
        return None

    async def _begin(
        self, shared: SharedProducer, node: str, to: TopicPartition, count: int, budget: Budget
    ) -> tuple[Producer, Sequenced]:
        """Return what the next batch carries, and whose; raises Stopped where there is no id."""
        while True:
            producer = shared.now
            if producer is None or producer.is_over:
                peer = self._leads.peer(node, budget.left_ms)
                found = await self._data.init_producer_id(peer)
                made = Producer(*self._leads.read(found, to, node))
                if shared.now is producer:  # nobody else was faster
                    shared.now = made
            elif (sequenced := producer.begin(to, count)) is not None:
                return producer, sequenced
            elif budget.over:
                raise Stopped("first-batch-in-flight", node)
            else:
                await asyncio.sleep(_PAUSE_S)

    # --- reading ---

    async def _poll(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        node, epoch = await self._reader(of, budget)
        position = self._positions.get(of) if op.value is None else op.value
        if position is None and epoch == ANY_EPOCH:
            position = 0  # a follower does not say where its log ends
        elif position is None:
            peer = self._leads.peer(node, budget.left_ms)
            end = await self._data.find_end(peer, of, epoch)
            position = self._leads.read(end, of, node)
        assert isinstance(position, int), "offsets are numbers"
        left_ms = budget.left_ms
        outcome = await self._data.fetch(
            self._leads.peer(node, left_ms),
            of,
            position,
            epoch,
            max_wait_ms=left_ms * _POLL_WAIT_SHARE,
            max_bytes=_POLL_BYTES,
        )
        reign = None if epoch == ANY_EPOCH else epoch
        if outcome.type != "ok":
            self._leads.forget(of)
            return replace(completion(outcome, node, op.value), epoch=reign)
        fetched: Fetched = outcome.value
        self._positions[of] = fetched.next_offset
        return Completion(EventType.OK, _answer(fetched, fetched.records), None, node, epoch=reign)

    async def _reader(self, of: TopicPartition, budget: Budget) -> tuple[str, int]:
        """Choose a node, and the epoch in which it has to lead: a pinned one may be a follower."""
        if self._leads.own is None:
            lead = await self._leads.lead(of, budget)
            return lead.node, lead.epoch
        view = await self._leads.view(self._leads.own, of, budget)
        if node_name(view.leader) != self._leads.own:
            return self._leads.own, ANY_EPOCH
        return self._leads.own, view.epoch

    async def _poll_all(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        lead = await self._leads.common_lead(of, budget)
        node, epoch = lead.node, lead.epoch
        if isinstance(op, AtReplica):
            node = node_name(lead.replicas[op.replica % len(lead.replicas)])
            epoch = lead.epoch if node == lead.node else ANY_EPOCH
        records: list[tuple[int, str]] = []
        position = 0
        whole_ms = budget.left_ms
        piece_bytes = _PIECE_BYTES * (1 + lead.end_offset // _PIECES)
        while True:
            in_time = budget.left_ms > whole_ms * (1 - _PIECES_SHARE)
            in_pieces = isinstance(op, AtReplica) and in_time
            fetched: Fetched = self._leads.got(
                await self._data.fetch(
                    self._leads.peer(node, budget.left_ms),
                    of,
                    position,
                    epoch,
                    max_wait_ms=0.0,
                    max_bytes=piece_bytes if in_pieces else _WHOLE_BYTES,
                ),
                node,
            )
            records += fetched.records
            position = fetched.next_offset
            if position >= lead.end_offset <= fetched.high_watermark:
                reign = None if epoch == ANY_EPOCH else epoch
                return Completion(EventType.OK, _answer(fetched, records), None, node, epoch=reign)
            if budget.over:
                raise Stopped("not-committed-in-time", node)
            if not fetched.records:
                await asyncio.sleep(_PAUSE_S)

    # --- leaders ---

    async def _move(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        view = await self._leads.view(self._leads.asked, of, budget)
        assert isinstance(op.value, int), "a move names a placement"
        begin, brokers = op.value % len(self._leads.brokers), self._leads.brokers
        chosen = [brokers[(begin + n) % len(brokers)] for n in range(len(view.replicas))]
        node = self._leads.controllers.choose("CONTROLLER")
        replicas = [_node_id(name) for name in chosen]
        peer = self._leads.peer(node, budget.left_ms, "CONTROLLER")
        outcome = await self._context.client.reassign(peer, of, replicas)
        if outcome.type == "ok":
            peer = self._leads.peer(node, budget.left_ms, "CONTROLLER")
            elected = await self._context.client.elect_preferred(peer, of)
            outcome = Outcome(elected.type, replicas, elected.error)
        self._leads.controllers.learn(node, outcome)
        self._leads.forget(of)
        return completion(outcome, node, op.value)

    # --- topics ---

    async def _configure(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        node = self._leads.controllers.choose("CONTROLLER")
        peer = self._leads.peer(node, budget.left_ms, "CONTROLLER")
        outcome = await self._set(op, peer, (TOPIC_RESOURCE, of.topic))
        self._leads.controllers.learn(node, outcome)
        return completion(outcome, node, op.value)

    async def _resize(self, op: Op, _: TopicPartition, budget: Budget) -> Completion:
        """Change a configuration of one broker, which that broker alone can judge."""
        node = self._leads.asked
        peer = self._leads.peer(node, budget.left_ms)
        outcome = await self._set(op, peer, (BROKER_RESOURCE, str(peer.endpoint.node_id)))
        return completion(outcome, node, op.value)

    async def _set(self, op: Op, peer: Peer, resource: Resource) -> Outcome:
        assert isinstance(op.value, dict), "a configuration has a name and a value"
        name, value = op.value["name"], op.value["value"]
        outcome = await self._context.client.alter_config(peer, resource, name, "set", value)
        return replace(outcome, value=None)

    async def _grow(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        asked = self._leads.asked
        view = await self._leads.view(asked, of, budget)  # makes the topic
        found = await self._data.describe(self._leads.peer(asked, budget.left_ms), of.topic)
        count = len(self._leads.got(found, asked) or ())
        node = self._leads.controllers.choose("CONTROLLER")
        outcome = await self._context.client.create_partition(
            self._leads.peer(node, budget.left_ms, "CONTROLLER"), of.topic, count, view.replicas
        )
        self._leads.controllers.learn(node, outcome)
        return completion(outcome, node, op.value)

    async def _describe(self, op: Op, _: TopicPartition, budget: Budget) -> Completion:
        node = self._leads.asked
        controller = self._leads.controllers.choose("CONTROLLER")
        of_each: tuple[tuple[str, Listener], ...] = ((node, "CLIENT"), (controller, "CONTROLLER"))
        for asked, listener in of_each:
            outcome = await self._context.client.describe_cluster(
                self._leads.peer(asked, budget.left_ms, listener),
                is_controller=listener == "CONTROLLER",
            )
            if outcome.type != "ok":
                break
        return completion(replace(outcome, value=None), asked, op.value)

    async def _ask_wrong(self, op: Op, _: TopicPartition, budget: Budget) -> Completion:
        assert isinstance(op.value, str), "requests have names"
        asked = WRONG[op.value]
        listener: Listener = "CLIENT" if asked.is_of_broker else "CONTROLLER"
        node = self._leads.controllers.choose(listener)
        peer = self._leads.peer(node, budget.left_ms, listener)

        def read(answer: object) -> Outcome:
            error = ErrorCode.__members__.get(errors_of(answer)[0], ErrorCode.none)
            self._context.client.accept(error)
            return Outcome("ok")

        outcome = await self._context.client.attempt(peer, asked.request, read)
        self._leads.controllers.learn(node, outcome)
        return completion(outcome, node, op.value)

    async def _delete(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        assert isinstance(op.value, int), "offsets are numbers"
        lead = await self._leads.lead(of, budget)
        peer = self._leads.peer(lead.node, budget.left_ms)
        outcome = await self._data.delete_records(peer, of, op.value)
        self._leads.forget(of)
        return completion(replace(outcome, value=None), lead.node, op.value)

    async def _renew(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        """Delete a topic that nothing else uses, make it anew, and send a record to it."""
        self._leads.forget(of)
        node = self._leads.controllers.choose("CONTROLLER")
        outcome = await self._context.client.delete_topic(
            self._leads.peer(node, budget.left_ms, "CONTROLLER"), of.topic
        )
        self._leads.controllers.learn(node, outcome)
        lead = await self._next_lead(of, budget)  # makes the topic
        if lead is None:
            raise Stopped("no-leader-in-time", node)
        outcome = await self._produce("renewed", of, lead, budget)
        return completion(replace(outcome, value=None), lead.node, op.value)

    async def _fill(self, op: Op, of: TopicPartition, budget: Budget) -> Completion:
        assert isinstance(op.value, int), "batches are counted"
        lead = await self._leads.lead(of, budget)
        outcome = Outcome("ok")
        for number in range(op.value):
            outcome = await self._produce(f"filled.{number}", of, lead, budget)
            if outcome.type != "ok":
                self._leads.forget(of)
                break
        return completion(replace(outcome, value=None), lead.node, op.value)

    async def _init_producers(self, op: Op, _: TopicPartition, budget: Budget) -> Completion:
        assert isinstance(op.value, int), "ids are counted"
        node = self._leads.asked
        peer = self._leads.peer(node, budget.left_ms)
        outcomes = await asyncio.gather(
            *(self._data.init_producer_id(peer) for _ in range(op.value))
        )
        worst = next((outcome for outcome in outcomes if outcome.type != "ok"), Outcome("ok"))
        return completion(replace(worst, value=None), node, op.value)

    async def _produce(self, text: str, to: TopicPartition, lead: Lead, budget: Budget) -> Outcome:
        """Send a record that nobody is owed."""
        batch = batch_of([text], self._context.client.wall_ms(), NOBODY)
        peer = self._leads.peer(lead.node, budget.left_ms)
        return await self._data.produce(peer, to, batch, self._acks)


def _answer(fetched: Fetched, records: Sequence[tuple[int, str]]) -> Value:
    return {
        "records": [list(record) for record in records],
        "high_watermark": fetched.high_watermark,
        "log_start": fetched.log_start,
    }


def _node_id(name: str) -> int:
    return int(name[1:])

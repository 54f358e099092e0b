"""The clients of a random story (`tests.cluster.node.broker.story_of_records`): what they send, take and note."""

from dataclasses import dataclass

from cluster.node.controller.metadata.state import TopicImage
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import decode_batch, split_batches
from cluster.node.ports import Endpoint
from cluster.node.protocol import data_messages as data
from cluster.node.protocol.messages import ProducerId, i16, milliseconds
from tests.cluster.node.broker.cluster_of_brokers import CLIENT_PORT
from tests.cluster.node.log.data_helpers import batch

IDS = (1, 2, 3)
_GIVEN_UP = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


@dataclass(frozen=True)
class Target:
    """One partition of one incarnation of a topic."""

    topic: TopicImage
    index: int


@dataclass
class Producer:
    """It sends one batch after the other; `acks` and `is_idempotent` as in its configuration."""

    name: str
    topic: str
    index: int
    acks: int
    is_idempotent: bool
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    sent: int = 0
    target: Target | None = None
    values: tuple[bytes, ...] = ()
    attempt: int = 0
    leader_epoch: int = 0
    """The latest that it knows of: like a client of Kafka it returns to no earlier leader."""

    def is_done(self) -> bool:
        return not self.values


@dataclass
class Consumer:
    """It reads one partition, from its leader or from any replica."""

    topic: str
    index: int
    leader_only: bool
    offset: int = 0
    epoch: int = 0
    """The latest leader epoch that it knows of: it asks no leader of an earlier one (KIP-320)."""
    target: Target | None = None


class Clients:
    """What a story has of clients; it has their world, and draws."""

    # --- what clients know ---

    def known_state(self):
        """The metadata of some running broker, which may be stale."""
        nodes = [self.brokers.node(b) for b in self.up()]
        known = [node.controller.image.state for node in nodes if node is not None]
        return self.draw.choice(known) if known else None

    def target(self, topic: str, index: int) -> Target | None:
        state = self.known_state()
        found = None if state is None else state.topic_by_name(topic)
        return None if found is None else Target(found, index)

    def known_partition(self, target: Target | None):
        state = self.known_state()
        if state is None or target is None:
            return None
        return state.partitions.get((target.topic.id, target.index))

    def leader_of(self, target: Target | None) -> int | None:
        found = self.known_partition(target)
        return None if found is None or found.leader < 0 else found.leader

    def ask(self, broker, request, on_reply, timeout_ms=1_500) -> None:
        endpoint = Endpoint(broker, f"n{broker}", CLIENT_PORT)
        self.world.mesh.request(self.brokers.client, None, endpoint, request, timeout_ms, on_reply)

    # --- producers ---

    def begin(self, producer: Producer) -> None:
        """Send the next batch, or get a producer id first."""
        if self.has_ended and producer.is_done():
            return
        if producer.is_idempotent and producer.producer_id < 0:
            self.get_id(producer)
            return
        if producer.is_done():
            target = self.target(producer.topic, producer.index)
            if target != producer.target:
                producer.target, producer.leader_epoch = target, 0
            count = self.draw.randint(1, 3)
            numbers = range(producer.sent, producer.sent + count)
            producer.values = tuple(f"{producer.name}-{n}".encode() for n in numbers)
        self.attempt(producer)

    def get_id(self, producer: Producer) -> None:
        answers = []

        def answered(reply) -> None:
            answers.append(reply)
            if len(answers) > 1:
                return  # what comes after its time-out is another's
            if (
                isinstance(reply, data.InitProducerIdResponse)
                and reply.error_code is ErrorCode.none
            ):
                producer.producer_id = int(reply.producer_id)
                producer.epoch, producer.sequence = 0, 0
            self.scheduler.call_later(50, lambda: self.begin(producer))

        request = data.InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout=milliseconds(1_000),
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        )
        self.ask(self.draw.choice(self.up() or list(IDS)), request, answered)

    def attempt(self, producer: Producer) -> None:
        producer.attempt += 1
        attempt = producer.attempt
        found = self.known_partition(producer.target)
        if found is None or found.leader < 0 or found.leader_epoch < producer.leader_epoch:
            self.scheduler.call_later(100, lambda: self.failed(producer, attempt, None))
            return
        leader, producer.leader_epoch = found.leader, found.leader_epoch
        identity = (-1, -1, -1)
        if producer.is_idempotent:
            identity = (producer.producer_id, producer.epoch, producer.sequence)
        now_ms = self.world.nodes["n1"].clock.wall_ms()
        sent = batch(*producer.values, timestamp_ms=now_ms, producer=identity)
        request = data.ProduceRequest(
            producer.acks,
            self.draw.choice((300, 1_000)),
            (data.ProducePartition(producer.target.topic.id, producer.index, sent),),
        )

        def answered(reply) -> None:
            if producer.attempt != attempt or producer.is_done():
                return  # the answer to an earlier attempt
            if isinstance(reply, data.ProduceResponse) and producer.acks == 0:
                self.succeeded(producer)
            elif isinstance(reply, data.ProduceResponse):
                result = reply.partitions[0]
                if result.error is ErrorCode.none:
                    self.appended(producer, result)
                else:
                    self.failed(producer, attempt, result.error)
            else:
                self.failed(producer, attempt, None)

        self.ask(leader, request, answered)
        if producer.is_idempotent and self.draw.random() < 0.1:
            self.ask(leader, request, answered)  # the network repeats it

    def appended(self, producer: Producer, result) -> None:
        if producer.acks == -1:
            known = self.acknowledged.setdefault(producer.target, {})
            for number, value in enumerate(producer.values):
                before = known.setdefault(result.base_offset + number, value)
                assert before == value, (
                    f"offset {result.base_offset + number} of {producer.topic} was acknowledged "
                    f"for {before!r} and for {value!r}"
                )
        self.succeeded(producer)

    def succeeded(self, producer: Producer) -> None:
        producer.sent += len(producer.values)
        producer.sequence += len(producer.values)
        producer.values = ()
        self.scheduler.call_later(self.draw.uniform(5, 120), lambda: self.begin(producer))

    def failed(self, producer: Producer, attempt: int, error: ErrorCode | None) -> None:
        if producer.attempt != attempt or producer.is_done():
            return
        present = self.target(producer.topic, producer.index)
        gone = present is not None and present != producer.target
        if error is ErrorCode.out_of_order_sequence_number:
            # With acks=1 a batch may be lost whose successor comes now.
            assert producer.acks == 1, f"{producer.name} is refused although it left out nothing"
            gone = True
        else:
            assert error is not ErrorCode.corrupt_message
            assert error is not ErrorCode.invalid_producer_epoch
        if gone or (not producer.is_idempotent and error is not None):
            producer.sent += len(producer.values)
            producer.values, producer.producer_id = (), -1
        elif not producer.is_idempotent:
            producer.sent += len(producer.values)  # it may be there or not
            producer.values = ()
        self.scheduler.call_later(self.draw.uniform(20, 200), lambda: self.begin(producer))

    # --- consumers ---

    def poll(self, consumer: Consumer) -> None:
        if self.has_ended:
            return
        if consumer.target is None:
            consumer.target = self.target(consumer.topic, consumer.index)
            consumer.offset = consumer.epoch = 0
        target = consumer.target
        found = self.known_partition(target)
        if target is None or found is None or found.leader < 0:
            consumer.target = None if found is None else target
            self.scheduler.call_later(200, lambda: self.poll(consumer))
            return
        if found.leader_epoch < consumer.epoch:
            self.scheduler.call_later(50, lambda: self.poll(consumer))
            return
        consumer.epoch = found.leader_epoch
        broker = found.leader if consumer.leader_only else self.draw.choice(IDS)
        offset = consumer.offset
        request = data.FetchRequest(
            data.CONSUMER,
            -1,
            self.draw.choice((0, 50, 300)),
            1,
            self.draw.choice((100, 1 << 20)),
            (
                data.FetchPartition(
                    target.topic.id, consumer.index, offset, 1 << 20, found.leader_epoch
                ),
            ),
            session_epoch=data.FINAL_SESSION_EPOCH,
        )

        def answered(reply) -> None:
            if isinstance(reply, data.FetchResponse):
                self.fetched(consumer, target, offset, reply.partitions[0])
            self.scheduler.call_later(self.draw.uniform(1, 60), lambda: self.poll(consumer))

        self.ask(broker, request, answered)

    def fetched(self, consumer: Consumer, target: Target, offset: int, result) -> None:
        if result.error is ErrorCode.offset_out_of_range:
            if consumer.leader_only:
                assert offset < result.log_start_offset, (
                    f"a consumer at {offset} of {target.topic.name}-{target.index} is beyond the "
                    f"end, high watermark {result.high_watermark}"
                )
                consumer.offset = result.log_start_offset
            elif offset < result.log_start_offset:
                consumer.offset = result.log_start_offset
        elif result.error in _GIVEN_UP:
            consumer.target = None
        elif result.error is ErrorCode.none:
            shown = self.shown.setdefault(target, {})
            for header, part in split_batches(result.records):
                assert header.next_offset <= result.high_watermark
                for record in decode_batch(part):
                    seen = (record.value, header.partition_leader_epoch)
                    before = shown.setdefault(record.offset, seen)
                    assert before == seen, (
                        f"offset {record.offset} of {target.topic.name}-{target.index} was "
                        f"{before}, and is {seen}"
                    )
                consumer.offset = header.next_offset
                consumer.epoch = max(consumer.epoch, header.partition_leader_epoch)

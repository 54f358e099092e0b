"""`python -m tests.cluster.client.record_programs`: producer and consumer of the two clients for Python.

A producer sends the numbers from 0 on, number N to partition N modulo the count of partitions, and
prints `partition offset number` for each that was acknowledged. A consumer is assigned all
partitions, without a group, reads from their beginnings, prints the same, and goes on until it is
ended.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Place

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.producer.future import FutureRecordMetadata

DELIVERY_TIMEOUT_MS = 300_000
POLL_S = 0.2


def paced(records: int, rate: int) -> Iterator[int]:
    """Count from 0 on, at most `rate` numbers a second."""
    began = time.monotonic()
    for number in range(records):
        ahead_s = began + number / rate - time.monotonic()
        if ahead_s > 0.01:
            time.sleep(ahead_s)
        yield number


def show(partition: int, offset: int, value: str) -> None:
    """Print where a record lies."""
    sys.stdout.write(f"{partition} {offset} {value}\n")


def produce_by_confluent(asked: argparse.Namespace) -> None:
    """Send all, by librdkafka's own retries."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            show(message.partition(), message.offset(), message.value().decode())
        else:
            sys.stderr.write(f"{message.value().decode()}: {error}\n")

    producer = Producer(
        {
            "bootstrap.servers": asked.bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
    )
    for number in paced(asked.records, asked.rate):
        while True:
            try:
                producer.produce(
                    asked.topic,
                    value=str(number),
                    partition=number % asked.partitions,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(POLL_S)
        producer.poll(0)
    assert producer.flush() == 0, "some record has no outcome"


def consume_by_confluent(asked: argparse.Namespace) -> None:
    """Read for ever. librdkafka wants the name of a group, which it never asks for."""
    consumer = Consumer(
        {"bootstrap.servers": asked.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([Place(asked.topic, p, OFFSET_BEGINNING) for p in range(asked.partitions)])
    while True:
        for message in consumer.consume(1000, timeout=POLL_S):
            if message.error() is None:
                show(message.partition(), message.offset(), message.value().decode())
            else:
                sys.stderr.write(f"{message.error()}\n")
        sys.stdout.flush()


def produce_by_kafka_python(asked: argparse.Namespace) -> None:
    """Send all, by kafka-python's own retries."""
    producer = KafkaProducer(
        bootstrap_servers=asked.bootstrap,
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
    )
    sent: list[tuple[int, FutureRecordMetadata]] = []
    for number in paced(asked.records, asked.rate):
        partition = number % asked.partitions
        sent.append(
            (number, producer.send(asked.topic, value=str(number).encode(), partition=partition))
        )
    producer.flush()
    for number, future in sent:
        assert future.is_done, "some record has no outcome"
        if future.succeeded():
            show(future.value.partition, future.value.offset, str(number))
        else:
            sys.stderr.write(f"{number}: {future.exception!r}\n")
    producer.close()


def consume_by_kafka_python(asked: argparse.Namespace) -> None:
    """Read for ever."""
    consumer = KafkaConsumer(
        bootstrap_servers=asked.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    places = [TopicPartition(asked.topic, p) for p in range(asked.partitions)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    while True:
        for messages in consumer.poll(timeout_ms=round(POLL_S * 1000)).values():
            for message in messages:
                show(message.partition, message.offset, message.value.decode())
        sys.stdout.flush()


PROGRAMS = {
    ("confluent-kafka", "produce"): produce_by_confluent,
    ("confluent-kafka", "consume"): consume_by_confluent,
    ("kafka-python", "produce"): produce_by_kafka_python,
    ("kafka-python", "consume"): consume_by_kafka_python,
}


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=sorted({client for client, _ in PROGRAMS}))
    parser.add_argument("what", choices=sorted({what for _, what in PROGRAMS}))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--rate", type=int, default=1)
    asked = parser.parse_args()
    PROGRAMS[asked.client, asked.what](asked)


if __name__ == "__main__":
    main()

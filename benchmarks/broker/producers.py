"""The client of both sides: librdkafka's producers, in a process of their own.

Each producer keeps so many records outstanding, and sends the next when one is acknowledged; with a
rate it sends no more than that. All begin when each has got one record through. A record's latency
is the time from its call to its acknowledgement. Prints one line of JSON, see
`python -m benchmarks.broker.producers --help`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time

from confluent_kafka import KafkaError, Message, Producer


class Sender:
    """One producer and its thread."""

    def __init__(self, asked: argparse.Namespace, payload: bytes, begin: threading.Barrier) -> None:
        self._asked = asked
        self._begin = begin
        self._payload = payload
        self._outstanding = 0
        self.latencies_s: list[float] = []
        self.refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": asked.bootstrap,
                "acks": asked.acks,
                "enable.idempotence": asked.acks == "all",
                "linger.ms": asked.linger_ms,
            }
        )
        self.thread = threading.Thread(target=self._run)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._outstanding -= 1
        if error is None:
            self.latencies_s.append(message.latency())
        else:
            self.refused.append(str(error))

    def _run(self) -> None:
        asked, producer = self._asked, self._producer
        # librdkafka takes half a second to connect and to get its producer id.
        producer.produce(asked.topic, self._payload)
        producer.flush(60)
        self._begin.wait()
        began = time.monotonic()
        end = began + asked.seconds
        sent = 0
        while (now := time.monotonic()) < end and sent < asked.records:
            due = asked.rate == 0 or sent < (now - began) * asked.rate
            if due and self._outstanding < asked.outstanding:
                producer.produce(asked.topic, self._payload, on_delivery=self._delivered)
                self._outstanding += 1
                sent += 1
                producer.poll(0)
            else:
                producer.poll(0.001 if asked.rate else 0.05)
        producer.flush(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--outstanding", type=int, default=500, help="records of each producer")
    parser.add_argument("--rate", type=int, default=0, help="records a second of each; 0: no limit")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--records", type=int, default=sys.maxsize, help="of each, at most")
    parser.add_argument("--record-bytes", type=int, default=1_000)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--linger-ms", type=float, default=5.0)
    asked = parser.parse_args()
    payload = os.urandom(asked.record_bytes)
    begin = threading.Barrier(asked.producers + 1)
    senders = [Sender(asked, payload, begin) for _ in range(asked.producers)]
    for sender in senders:
        sender.thread.start()
    begin.wait()
    began = time.monotonic()
    for sender in senders:
        sender.thread.join()
    seconds = time.monotonic() - began
    latencies_s = sorted(latency for sender in senders for latency in sender.latencies_s)
    refused = [reason for sender in senders for reason in sender.refused]

    def quantile_ms(part: float) -> float:
        return 1000 * latencies_s[min(len(latencies_s) - 1, int(part * len(latencies_s)))]

    found = {
        "records_per_s": len(latencies_s) / seconds,
        "p50_ms": quantile_ms(0.5),
        "p99_ms": quantile_ms(0.99),
        "records": len(latencies_s),
        "refused": refused[:3],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

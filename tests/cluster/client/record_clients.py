"""Stock clients as processes that produce and consume numbered records.

| client | produces by | consumes by |
|---|---|---|
| confluent-kafka | librdkafka's producer, from Python | the same, assigned |
| kafka-python | KafkaProducer | KafkaConsumer, assigned |
| kcat | `kcat -P`, an older librdkafka | `kcat -C` of all partitions |
| java | kafka-producer-perf-test | kafka-console-consumer, one for each partition |

Each sends the numbers from 0 on, in that order, with acks=all and idempotence. To which partition,
the last two decide by themselves, and they do not print what was acknowledged: kcat ends with an
error when something was not, perf-test counts.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

from cluster.systems.kafka.installation import find
from cluster.systems.kafka.kafka_system import JVM
from tests.cluster.client.record_programs import paced

ENDS_WITHIN_S = 600.0
_PERF_TEST: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_COUNTED: Final = re.compile(r"^(\d+) records sent", re.MULTILINE)
_PRINTED: Final = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(\d+)")


@dataclass(frozen=True)
class Place:
    """Where a number lies."""

    partition: int
    offset: int
    number: int


@dataclass(frozen=True)
class Task:
    """What is to be sent, or read."""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    rate: int
    """At most so many records are sent a second."""
    version: str
    """The release of Kafka whose classes are Java's client."""


def plain(line: str) -> Place:
    """Read `partition offset number`."""
    partition, offset, number = line.split()
    return Place(int(partition), int(offset), int(number))


def of_console(line: str) -> Place:
    """Read what kafka-console-consumer prints."""
    found = _PRINTED.fullmatch(line.strip())
    assert found is not None, line
    return Place(int(found[1]), int(found[2]), int(found[3]))


class Process:
    """A client's process whose lines are read as they come."""

    def __init__(self, words: Sequence[str], parse: Callable[[str], Place], feed: Task | None):
        """`feed`: what to send through its standard input, a number a line."""
        self.places: list[Place] = []
        self.odd: list[str] = []
        """Lines that are no record."""
        self._parse = parse
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            text=True,
        )
        self._threads = [threading.Thread(target=self._read, daemon=True)]
        if feed is not None:
            self._threads.append(threading.Thread(target=self._feed, args=(feed,), daemon=True))
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.places.append(self._parse(line))
            except (AssertionError, ValueError):
                self.odd.append(line)

    def _feed(self, task: Task) -> None:
        stdin: IO[str] | None = self.process.stdin
        assert stdin is not None
        with stdin:
            for number in paced(task.records, task.rate):
                stdin.write(f"{number}\n")
                stdin.flush()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def finish(self) -> int:
        """Wait for its end; returns its exit code."""
        code = self.process.wait(ENDS_WITHIN_S)
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
        return code

    def end(self) -> str:
        """End it, if it still runs; returns the end of what it said on standard error."""
        if self.is_running:
            self.process.kill()
        self.finish()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.seek(0)
        with self._errors:
            return self._errors.read()[-2000:]


def _program(client: str, what: str, task: Task) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.cluster.client.record_programs", client, what),
        *("--bootstrap", task.bootstrap, "--topic", task.topic),
        *("--partitions", str(task.partitions)),
        *("--records", str(task.records), "--rate", str(task.rate)),
    ]


def _java(task: Task, class_name: str, *words: str) -> list[str]:
    release = find({"version": task.version})
    return [release.java, *JVM, "-cp", release.class_path, class_name, *words]


class PythonClient:
    """A client for Python, in a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def produce(self, task: Task) -> Process:
        """Begin to send."""
        return Process(_program(self.name, "produce", task), plain, None)

    def consume(self, task: Task) -> list[Process]:
        """Begin to read."""
        return [Process(_program(self.name, "consume", task), plain, None)]

    def acknowledged(self, code: int, producer: Process, task: Task) -> int | None:
        """Count what was acknowledged; None: it is not known."""
        del task
        return len(producer.places) if code == 0 else None


class Kcat:
    """kcat, for which no acknowledgement is known but that of all."""

    name = "kcat"

    def _words(self, mode: str, task: Task) -> list[str]:
        found = shutil.which("kcat")
        assert found is not None, "kcat is not installed"
        return [found, mode, "-b", task.bootstrap, "-t", task.topic]

    def produce(self, task: Task) -> Process:
        """Begin to send."""
        settings = ("enable.idempotence=true", "acks=all", "linger.ms=5")
        options = [word for setting in settings for word in ("-X", setting)]
        return Process([*self._words("-P", task), *options], plain, task)

    def consume(self, task: Task) -> list[Process]:
        """Begin to read."""
        words = [*self._words("-C", task), "-o", "beginning", "-q", "-u", "-f", "%p %o %s\n"]
        return [Process(words, plain, None)]

    def acknowledged(self, code: int, producer: Process, task: Task) -> int | None:
        """Count what was acknowledged: all, or None."""
        del producer
        return task.records if code == 0 else None


class Java:
    """Apache Kafka's own tools."""

    name = "java"

    def produce(self, task: Task) -> Process:
        """Begin to send."""
        settings = ("acks=all", "enable.idempotence=true", "linger.ms=5")
        words = [
            *("--bootstrap-server", task.bootstrap, "--topic", task.topic),
            *("--num-records", str(task.records), "--throughput", str(task.rate)),
            "--payload-monotonic",
            *(word for setting in settings for word in ("--command-property", setting)),
        ]
        return Process(_java(task, _PERF_TEST, *words), of_console, None)

    def consume(self, task: Task) -> list[Process]:
        """Begin to read; with `--partition` it asks for no group."""
        return [
            Process(
                _java(
                    task,
                    _CONSOLE,
                    *("--bootstrap-server", task.bootstrap, "--topic", task.topic),
                    *("--partition", str(partition), "--offset", "earliest"),
                    *("--formatter-property", "print.partition=true"),
                    *("--formatter-property", "print.offset=true"),
                ),
                of_console,
                None,
            )
            for partition in range(task.partitions)
        ]

    def acknowledged(self, code: int, producer: Process, task: Task) -> int | None:
        """Count what was acknowledged, as its last line says; None: it says nothing."""
        del task
        counted = _COUNTED.findall("".join(producer.odd))
        return int(counted[-1]) if code == 0 and counted else None


CLIENTS: Final = {
    client.name: client
    for client in (PythonClient("kafka-python"), PythonClient("confluent-kafka"), Kcat(), Java())
}

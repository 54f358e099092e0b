"""A folder of logs on a simulated disk, and batches as clients make them."""

import uuid
from random import Random

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.batch.records import parse_header
from cluster.node.log.data.data_config import DataLogConfig
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.storage.checkpoint import TopicPartition
from tests.cluster.node.controller.fakes import FakeClock

AT = TopicPartition("topic", 0)
TOPIC_ID = uuid.UUID(int=7)
NOW_MS = 1_700_000_000_000


class TestClock(FakeClock):
    """Time that a test advances, apart from that of the disk."""

    __test__ = False
    start_ms = NOW_MS

    def wall_ms(self) -> int:
        return self.start_ms + int(self.now_ms)


class Folder:
    """One simulated disk and the folder of logs on it, opened again and again."""

    def __init__(self, **config) -> None:
        self.config = DataLogConfig(**config)
        self.clock = TestClock()
        self.steps = Scheduler()
        self.disk = MemoryDisk(self.steps.call_later)
        self.failures: list[Exception] = []
        self.retention_check_interval_ms = 300_000.0
        self.logs: LogDirectory

    def open(self) -> DataLog:
        """Open the folder, which must succeed, and the one log in it."""
        self.try_open()
        assert not self.failures, self.failures
        if AT not in self.logs.logs:
            self.logs.create(AT, TOPIC_ID)
        return self.logs.logs[AT]

    def try_open(self) -> LogDirectory:
        if hasattr(self, "logs"):
            self.logs._cancel_timers()
        self.logs = LogDirectory(
            self.disk,
            self.clock,
            Random(1),
            lambda _: self.config,
            self.failures.append,
            retention_check_interval_ms=self.retention_check_interval_ms,
        )
        self.logs.read_mark()
        self.logs.remove_mark(lambda _: None)
        self.logs.open()
        return self.logs

    def run(self) -> None:
        self.steps.run()

    def flush(self, log: DataLog) -> None:
        called: list[int] = []
        log.flush(lambda: called.append(log.recovery_point))
        self.run()
        assert called, self.failures

    def close(self) -> None:
        called: list[bool] = []
        self.logs.close(5, lambda: called.append(True))
        self.run()
        assert called, self.failures

    def kill(self, seed: int = 0) -> None:
        self.disk.crash(Random(seed), "written")
        self.steps.run()

    def replace(self, path: str, content: bytes) -> None:
        files = self.disk.files()
        files[path] = content
        self.disk.replace(files)


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: int = 0,
    transactional: bool = False,
    key: bytes | None = None,
    step_ms: int = 0,
) -> bytes:
    """Make what a client sends: producer id, epoch and first sequence in `producer`."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 30)
    for delta, value in enumerate(values):
        builder.append(delta, timestamp_ms + delta * step_ms, key, value, [])
    return bytes(builder.build())


def contents(log: DataLog, start: int | None = None) -> list[bytes]:
    """Read all batches, one by one."""
    found, offset = [], log.start_offset if start is None else start
    while offset < log.end_offset:
        data = log.read(offset, 1)
        if not data:
            assert log.config.compact, "only a compacted log may end in offsets without records"
            break
        found.append(data)
        offset = parse_header(data).next_offset
    return found

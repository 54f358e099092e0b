"""The log against a list of batches, on a disk that loses power at any moment."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.node.log.batch.records import parse_header
from cluster.node.log.types import OffsetAndEpoch
from tests.cluster.node.log.log_helpers import Logs, batch

pytestmark = pytest.mark.slow


class LogMachine(RuleBasedStateMachine):
    """`model` is the log; `abandoned` are states it was truncated from, which a crash may revive.

    `durable` is the largest end offset that was reported durable and not truncated since.
    """

    @initialize(segment_bytes=st.sampled_from([150, 300, 1 << 20]), cache=st.sampled_from([0, 200]))
    def start(self, segment_bytes: int, cache: int) -> None:
        self.logs = Logs(segment_bytes, cache)
        self.log = self.logs.open()
        self.model: list[bytes] = []
        self.abandoned: list[list[bytes]] = []
        self.durable = 0
        self.epoch = 0
        self.called = 0
        self.flushes: list[list[int]] = []

    @property
    def end(self) -> int:
        return parse_header(self.model[-1]).next_offset if self.model else 0

    @rule(
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        bump=st.integers(0, 1),
        size=st.sampled_from([2, 10, 120]),
    )
    def append(self, counts: list[int], bump: int, size: int) -> None:
        self.epoch += bump
        fresh, offset = [], self.end
        for count in counts:
            fresh.append(batch(offset, self.epoch, count, size))
            offset += count
        self.log.append(b"".join(fresh))
        self.model += fresh

    @rule()
    def flush(self) -> None:
        lows = [self.end]  # the log end now, and wherever it is truncated to before the callback
        self.flushes.append(lows)

        def done() -> None:
            self.called += 1
            assert self.log.durable_end_offset >= min(lows)

        self.log.flush(done)

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        index = int(where * len(self.model))
        offset = (
            parse_header(self.model[index]).base_offset if index < len(self.model) else self.end
        )
        if index < len(self.model):
            self.abandoned.append(list(self.model))
        self.log.truncate_to(offset)
        del self.model[index:]
        self.durable = min(self.durable, offset)
        for lows in self.flushes:
            lows.append(offset)

    @rule(count=st.integers(1, 6))
    def let_the_disk_work(self, count: int) -> None:
        for _ in range(count):
            self.logs.steps.step()

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4), bump=st.booleans())
    def append_and_flush(self, counts: list[int], bump: bool) -> None:
        self.append(counts, bump, 10)
        self.flush()
        self.drain()

    @rule()
    def stall(self) -> None:
        self.logs.disk.stall()

    @rule()
    def drain(self) -> None:
        self.logs.disk.resume()
        self.logs.steps.run()
        assert self.called == len(self.flushes)

    @rule(seed=st.integers(0, 2**32), keep=st.sampled_from(["any", "any", "nothing", "everything"]))
    def crash(self, seed: int, keep) -> None:
        self.reopen(seed, keep, "nothing")  # opening changes nothing that matters

    @rule(seed=st.integers(0, 2**32), fails=st.booleans())
    def kill(self, seed: int, fails: bool) -> None:
        """The process dies, after an fsync failed or not; the kernel lives."""
        if fails:
            self.logs.disk.fail(OSError(5, "Input/output error"))
            self.log.flush(lambda: None)
            self.logs.disk.resume()
            self.logs.steps.run()
            self.logs.failures.clear()
        self.reopen(seed, "written")

    def reopen(self, seed: int, *keeps) -> None:
        durable = max(self.durable, self.log.durable_end_offset)
        self.logs.disk.resume()
        for keep in keeps:
            self.logs.disk.crash(Random(seed), keep)
            self.logs.steps.run()
            self.log = self.logs.open()
        found = self.batches()
        end = self.log.end_offset
        assert end >= durable
        assert any(state[: len(found)] == found for state in [self.model, *self.abandoned])
        kept = [b for b in self.model if parse_header(b).next_offset <= durable]
        assert found[: len(kept)] == kept
        self.model = found
        if keeps[-1] != "written":  # a truncation that a kill left to the kernel may be undone yet
            self.abandoned = []
        self.durable = self.log.durable_end_offset
        self.called, self.flushes = 0, []

    def batches(self) -> list[bytes]:
        found, offset = [], 0
        while offset < self.log.end_offset:
            found.append(self.log.read(offset, 1))
            offset = parse_header(found[-1]).next_offset
        return found

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def the_log_is_the_model(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.durable_end_offset <= self.end
        self.durable = max(self.durable, self.log.durable_end_offset)
        assert self.durable == self.log.durable_end_offset
        assert self.batches() == self.model
        assert not self.logs.failures

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def epochs_end_where_their_records_do(self) -> None:
        headers = [parse_header(b) for b in self.model]
        for epoch in {h.partition_leader_epoch for h in headers}:
            expected = max(h.next_offset for h in headers if h.partition_leader_epoch == epoch)
            assert self.log.end_offset_for_epoch(epoch) == OffsetAndEpoch(expected, epoch)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)

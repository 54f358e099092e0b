"""The log of data against a list of batches, on a disk that kills, loses power and is restarted."""

from collections import deque
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.node.log.batch.records import parse_header
from tests.cluster.node.log.data_helpers import NOW_MS, Folder, batch, contents

pytestmark = pytest.mark.slow


def producers_of(batches: list[bytes]) -> dict[int, tuple[int, list[tuple[int, int]]]]:
    """Each producer's epoch, and first sequence and offset of its last five batches."""
    found: dict[int, tuple[int, deque[tuple[int, int]]]] = {}
    for each in batches:
        header = parse_header(each)
        if header.producer_id < 0:
            continue
        epoch, last = found.get(header.producer_id, (-1, deque()))
        if epoch != header.producer_epoch:
            last = deque(maxlen=5)
        last.append((header.base_sequence, header.base_offset))
        found[header.producer_id] = header.producer_epoch, last
    return {producer: (epoch, list(last)) for producer, (epoch, last) in found.items()}


class DataLogMachine(RuleBasedStateMachine):
    """`model` is the log from offset 0 on; `abandoned` are states that a power loss may revive.

    `durable` is the largest recovery point that was reported and not truncated since.
    """

    @initialize(
        segment_bytes=st.sampled_from([300, 900, 1 << 20]),
        interval=st.sampled_from([1, 150, 4096]),
        cache=st.sampled_from([0, 300]),
    )
    def start(self, segment_bytes: int, interval: int, cache: int) -> None:
        self.folder = Folder(
            segment_bytes=segment_bytes, index_interval_bytes=interval, cache_bytes=cache
        )
        self.log = self.folder.open()
        self.model: list[bytes] = []
        self.abandoned: list[list[bytes]] = []
        self.durable = 0
        self.epoch = 0

    @property
    def end(self) -> int:
        return parse_header(self.model[-1]).next_offset if self.model else self.base

    base = 0

    @rule(
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=5),
        bump=st.integers(0, 1),
        producer=st.sampled_from([-1, -1, 4, 5]),
        producer_bump=st.booleans(),
        size=st.sampled_from([2, 60]),
    )
    def append(self, counts, bump, producer, producer_bump, size) -> None:
        self.epoch += bump
        for count in counts:
            known = self.log.producers.producers.get(producer)
            epoch, sequence = (0, 0) if known is None else (known.epoch, known.last_sequence + 1)
            if producer_bump and known is not None:
                epoch, sequence = epoch + 1, 0
            producer_bump = False
            who = (producer, epoch, sequence) if producer >= 0 else (-1, -1, -1)
            values = [bytes([self.end % 251]) * size] * count
            sent = batch(*values, timestamp_ms=NOW_MS + self.end % 7, producer=who)
            info = self.log.append_as_leader(sent, self.epoch)
            assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
            if producer >= 0:
                again = self.log.append_as_leader(sent, self.epoch)
                assert again.is_duplicate
                assert (again.first_offset, again.last_offset) == (
                    info.first_offset,
                    info.last_offset,
                )
            self.model.append(self.log.read(info.first_offset, 1))

    @rule(count=st.integers(1, 4), bump=st.integers(0, 1))
    def replicate(self, count: int, bump: int) -> None:
        """Append what another log of the same content would send."""
        self.epoch += bump
        leader = Folder()
        source = leader.open()
        if self.end:
            source.truncate_fully_and_start_at(self.end)
        for _ in range(count):
            source.append_as_leader(batch(b"r" * 20, timestamp_ms=NOW_MS), self.epoch)
        sent = contents(source)
        self.log.append_as_follower(b"".join(sent) + sent[0][:30])
        self.model += sent

    @rule()
    def flush(self) -> None:
        self.log.flush(lambda: None)

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        index = int(where * len(self.model))
        if index < len(self.model):
            header = parse_header(self.model[index])
            if header.base_offset < self.log.start_offset:
                return
            self.abandoned.append(list(self.model))
            within = header.base_offset + int(where * 7) % header.record_count
            self.log.truncate_to(within)
            del self.model[index:]
            self.durable = min(self.durable, self.end)
        else:
            self.log.truncate_to(self.end)

    @rule(count=st.integers(1, 8))
    def let_the_disk_work(self, count: int) -> None:
        for _ in range(count):
            self.folder.steps.step()

    @rule()
    def drain(self) -> None:
        self.folder.run()
        assert self.log.written_end_offset == self.end

    @rule(where=st.floats(0, 1))
    def delete_records(self, where: float) -> None:
        offset = self.log.start_offset + int(where * (self.end - self.log.start_offset))
        self.log.high_watermark = self.end
        self.log.increment_log_start_offset(offset)
        self.log.delete_old_segments()
        assert self.log.start_offset == max(offset, self.log.start_offset)

    @rule(ms=st.sampled_from([5_000, 61_000]))
    def let_time_pass(self, ms: int) -> None:
        self.folder.clock.advance(ms)

    @rule(seed=st.integers(0, 2**32))
    def kill(self, seed: int) -> None:
        self.reopened(seed, "written", max(self.log.written_end_offset, self.durable))

    @rule(seed=st.integers(0, 2**32), keep=st.sampled_from(["any", "any", "nothing", "everything"]))
    def lose_power(self, seed: int, keep) -> None:
        self.reopened(seed, keep, self.durable)

    @rule()
    def restart(self) -> None:
        self.folder.close()
        before = self.log
        self.log = self.folder.open()
        assert self.log.end_offset == self.log.recovery_point == before.end_offset
        assert self.log.start_offset == before.start_offset
        assert self.log.epochs.entries == tuple(
            entry for entry in before.epochs.entries if entry.start_offset < self.end
        )
        self.durable, self.abandoned = self.end, []
        self.compare_producers()

    def reopened(self, seed: int, keep, least: int) -> None:
        start = self.log.start_offset
        self.folder.disk.crash(Random(seed), keep)
        self.folder.run()
        self.log = self.folder.open()
        self.folder.disk.crash(Random(seed), "written")  # opening loses nothing more
        self.folder.run()
        self.log = self.folder.open()
        assert self.log.start_offset <= start, "it may forget what was not saved"
        assert self.log.end_offset >= least
        found = contents(self.log)
        first = parse_header(found[0]).base_offset if found else self.log.end_offset
        match = [
            state[: len(below) + len(found)]
            for state in [self.model, *self.abandoned]
            for below in [[b for b in state if parse_header(b).base_offset < first]]
            if state[len(below) :][: len(found)] == found
        ]
        assert match, "a mixture of states"
        kept = [b for b in self.model if first <= parse_header(b).base_offset < least]
        assert found[: len(kept)] == kept
        self.abandoned.append(self.model)  # a cut that is not synced may still be undone
        self.model = match[0]
        if self.end != self.log.end_offset:
            assert not found, "nothing is left but a log start above all that was kept"
            self.model, self.base = [], self.log.end_offset
        self.durable = self.log.recovery_point
        self.epoch = max(self.epoch, self.log.epochs.latest_epoch or 0)
        self.compare_producers()

    def compare_producers(self) -> None:
        """A restart keeps of each producer the last batch before the snapshot, and all after it."""
        expected = producers_of(self.model)
        kept = [b for b in self.model if parse_header(b).last_offset >= self.log.start_offset]
        present = producers_of(kept)
        actual = self.log.producers.producers
        assert set(present) <= set(actual) <= set(expected)
        for producer, entry in actual.items():
            epoch, batches = expected[producer]
            assert entry.epoch == epoch
            found = [(b.first_sequence, b.first_offset) for b in entry.batches]
            assert found
            assert batches[-len(found) :] == found

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def the_log_is_the_model(self) -> None:
        assert not self.folder.failures
        assert self.log.end_offset == self.end
        self.durable = max(self.durable, self.log.recovery_point)
        assert self.durable == self.log.recovery_point <= self.end
        kept = [b for b in self.model if parse_header(b).last_offset >= self.log.start_offset]
        assert contents(self.log) == kept
        for each in kept[-3:]:
            header = parse_header(each)
            last = max(header.last_offset, self.log.start_offset)
            assert self.log.read(last, 1) == each

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def epochs_end_where_their_records_do(self) -> None:
        headers = [parse_header(b) for b in self.model]
        kept = [h for h in headers if h.last_offset >= self.log.start_offset]
        for epoch in sorted({h.partition_leader_epoch for h in kept}):
            expected = max(h.next_offset for h in kept if h.partition_leader_epoch == epoch)
            found = self.log.end_offset_for_epoch(epoch)
            assert found is not None
            assert (found.offset, found.epoch) == (expected, epoch)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def indexes_name_batches(self) -> None:
        interval = self.folder.config.index_interval_bytes
        for segment in self.log._segments:
            where, position, largest = {}, 0, -1
            offset, end = segment.base_offset, self.log.end_of(segment)
            lasting = [b for b in self.model if offset <= parse_header(b).base_offset < end]
            times = {}
            for each in lasting:
                header = parse_header(each)
                if header.max_timestamp_ms > largest:
                    largest = header.max_timestamp_ms
                    times[header.last_offset] = largest
                where[header.last_offset] = position
                position += header.size_bytes
            if not lasting and segment.size_bytes:
                continue  # deleted records that the model has forgotten
            assert position == segment.size_bytes
            index = segment.index
            pairs = [
                (segment.base_offset + o, p)
                for o, p in zip(index.offsets, index.positions, strict=True)
            ]
            assert all(where[last] == at for last, at in pairs)
            previous = 0
            expected = []
            for last, at in where.items():
                if at - previous > interval:
                    expected.append((last, at))
                    previous = at
            assert pairs == expected
            assert all(
                times[segment.base_offset + o] == t
                for o, t in zip(
                    segment.time_index.offsets, segment.time_index.timestamps, strict=True
                )
            )


TestDataLog = DataLogMachine.TestCase
TestDataLog.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)

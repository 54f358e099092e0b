"""Gathering records into batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.config import MAX_COMPLETED_BATCHES
from cluster.node.kraft.types import BatchTooLargeError, BufferFullError, NotLeaderError
from cluster.node.log.batch.records import Record, decode_records, iter_batches


def accumulator(linger_ms=25.0, limit=1000, base_offset=10):
    return BatchAccumulator(5, base_offset, linger_ms, limit)


def add(batches, *values, now_ms=0.0, epoch=5):
    offset = batches.append(epoch, [v if isinstance(v, bytes) else v.encode() for v in values], now_ms, 1)  # fmt: skip
    batches.allow_drain()
    return offset


def values(batch):
    return [record.value for record in decode_records(batch.data)]


def test_offsets_are_known_at_the_append_and_true_in_the_batch():
    batches = accumulator()
    assert (add(batches, "a", "b"), add(batches, "c"), batches.next_offset) == (11, 12, 13)
    [batch] = batches.drain(1)
    [(header, _)] = iter_batches(batch.data)
    assert (batch.base_offset, batch.last_offset) == (10, 12)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (10, 12, 5)
    assert values(batch) == [b"a", b"b", b"c"]
    assert batches.drain(1) == []


def test_a_batch_lingers_from_its_first_record_on():
    batches = accumulator(linger_ms=25)
    assert batches.ms_until_drain(0) is None
    add(batches, "a", now_ms=100)
    assert batches.ms_until_drain(100) == 25
    add(batches, "b", now_ms=110)
    assert batches.ms_until_drain(110) == 15
    assert batches.ms_until_drain(125) == 0
    batches.drain(1)
    assert batches.ms_until_drain(130) is None


def test_what_is_only_prepared_does_not_go_out():
    batches = accumulator(linger_ms=0)
    batches.append(5, [b"a"], 0.0, 1)
    assert batches.ms_until_drain(1000) is None
    assert batches.drain(1) == []
    batches.allow_drain()
    assert batches.ms_until_drain(1000) == 0
    assert [values(batch) for batch in batches.drain(1)] == [[b"a"]]


def test_a_full_batch_goes_out_without_what_is_only_prepared():
    batches = accumulator(limit=200)
    add(batches, b"x" * 100)
    batches.append(5, [b"y" * 100], 0.0, 1)
    assert batches.ms_until_drain(0) == 0
    assert [values(batch) for batch in batches.drain(1)] == [[b"x" * 100]]
    assert batches.ms_until_drain(1000) is None


def test_a_full_batch_goes_out_at_once():
    batches = accumulator(limit=200)
    add(batches, b"x" * 100)
    assert batches.ms_until_drain(0) == 25
    add(batches, b"y" * 100)
    assert batches.ms_until_drain(0) == 0
    assert [(b.base_offset, b.last_offset) for b in batches.drain(1)] == [(10, 10), (11, 11)]


def test_an_append_that_no_batch_can_hold_is_refused_whole():
    batches = accumulator(limit=200)
    with pytest.raises(BatchTooLargeError):
        add(batches, b"x" * 100, b"y" * 100)
    assert (batches.next_offset, batches.drain(1)) == (10, [])


def test_too_many_waiting_batches_are_refused_whole():
    batches = accumulator(limit=200)
    for _ in range(MAX_COMPLETED_BATCHES + 1):
        add(batches, b"x" * 100)
    before = batches.next_offset
    with pytest.raises(BufferFullError):
        add(batches, b"x" * 100)
    assert batches.next_offset == before
    assert len(batches.drain(1)) == MAX_COMPLETED_BATCHES + 1
    assert add(batches, "a") == before


def test_an_append_for_another_epoch_is_refused():
    batches = accumulator()
    with pytest.raises(NotLeaderError):
        add(batches, "a", epoch=4)
    with pytest.raises(AssertionError, match="not begun"):
        add(batches, "a", epoch=6)
    with pytest.raises(ValueError, match="no records"):
        add(batches)
    assert batches.drain(1) == []


def test_a_control_batch_forces_everything_out_in_order():
    batches = accumulator()
    add(batches, "a")
    assert batches.append_control([Record(b"v", b"k")], 1) == 11
    assert batches.ms_until_drain(0) == 0
    headers = [next(iter_batches(batch.data))[0] for batch in batches.drain(1)]
    assert [(h.base_offset, h.is_control) for h in headers] == [(10, False), (11, True)]
    assert batches.ms_until_drain(0) is None


@given(st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=4), max_size=12))
def test_every_append_is_whole_in_one_batch_and_in_order(appends):
    batches = accumulator(limit=400)
    expected, drained = [], []
    for group in appends:
        last = add(batches, *group)
        expected.append((last - len(group) + 1, group))
        drained += batches.drain(1) if last % 3 == 0 else []
    drained += batches.drain(1)
    held = [(b.base_offset, b.last_offset, values(b)) for b in drained]
    position = 10
    for base, last, content in held:
        assert (base, last) == (position, position + len(content) - 1)
        assert len(content) > 0
        position = last + 1
    for base, group in expected:
        [(start, content)] = [(s, c) for s, end, c in held if s <= base <= end]
        assert content[base - start : base - start + len(group)] == group

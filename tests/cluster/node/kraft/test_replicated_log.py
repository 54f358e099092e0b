"""The log as replication uses it: positions, truncation, the high watermark."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.kraft.replicated_log import ReplicatedLog, Validity
from cluster.node.kraft.snapshot_store import SnapshotStore
from cluster.node.kraft.types import IllegalStateError
from cluster.node.log.batch.records import CorruptBatchError, Record, encode_batch
from cluster.node.log.metadata.log import Log, LogConfig
from cluster.node.log.types import OffsetAndEpoch


def log_of(*epochs):
    """A log with one record of each of these epochs."""
    scheduler = Scheduler()
    disk = MemoryDisk(scheduler.call_later)
    log = ReplicatedLog(
        Log.open(disk, "log-0", LogConfig(), lambda _: None),
        SnapshotStore(disk, "log-0", lambda _: None),
    )
    for epoch in epochs:
        log.append_as_leader(batch(log.end_offset, epoch))
    return log


def batch(offset, epoch, value=b"v"):
    return encode_batch(offset, epoch, [Record(value)], 1)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ((0, 0), (Validity.VALID, (0, 0))),
        ((4, 3), (Validity.VALID, (4, 3))),
        ((5, 3), (Validity.VALID, (5, 3))),
        ((2, 1), (Validity.VALID, (2, 1))),
        ((6, 3), (Validity.DIVERGING, (5, 3))),
        ((3, 1), (Validity.DIVERGING, (2, 1))),
        ((4, 2), (Validity.DIVERGING, (2, 1))),
        ((5, 7), (Validity.DIVERGING, (5, 3))),
    ],
)
def test_a_position_is_valid_where_this_log_has_its_epoch_up_to_there(position, expected):
    validity, where = log_of(1, 1, 3, 3, 3).validate(*position)
    assert (validity, (where.offset, where.epoch)) == expected


@pytest.mark.parametrize(
    ("mine", "diverging", "end"),
    [
        ((1, 1, 2, 2), (3, 2), 3),
        ((1, 1, 2, 2), (9, 2), 4),
        ((1, 1, 2, 2), (2, 1), 2),
        ((1, 1, 3, 3), (4, 2), 2),
        ((1, 1), (0, 0), 0),
        ((1, 1), (5, 0), 2),
        ((2, 2), (0, 1), 0),
    ],
)
def test_a_log_is_cut_to_where_it_may_agree(mine, diverging, end):
    log = log_of(*mine)
    assert log.truncate_to_end_offset(OffsetAndEpoch(*diverging)) == end
    assert log.end_offset == end


def test_nothing_below_the_high_watermark_is_ever_cut():
    log = log_of(1, 1, 2)
    log.update_high_watermark(2)
    with pytest.raises(IllegalStateError):
        log.truncate_to_end_offset(OffsetAndEpoch(1, 1))
    assert log.end_offset == 3


def test_a_divergence_below_the_high_watermark_is_an_alarm_even_if_nothing_committed_is_cut():
    log = log_of(1, 1, 3)
    log.update_high_watermark(2)
    with pytest.raises(IllegalStateError):
        log.truncate_to_end_offset(OffsetAndEpoch(1, 2))
    assert log.end_offset == 3


def test_the_high_watermark_neither_goes_back_nor_passes_the_end():
    log = log_of(1, 1, 1)
    log.update_high_watermark(2)
    for offset in (1, 4):
        with pytest.raises(IllegalStateError):
            log.update_high_watermark(offset)
    assert log.high_watermark == 2


def test_a_follower_takes_no_batch_of_an_epoch_that_it_does_not_know():
    log = log_of(1)
    fetched = batch(1, 1) + batch(2, 2) + batch(3, 3)
    assert log.append_as_follower(fetched, epoch=2)
    assert (log.end_offset, log.last_fetched_epoch) == (3, 2)
    assert not log.append_as_follower(batch(3, 3), epoch=2)
    assert log.end_offset == 3


def test_a_damaged_fetch_changes_nothing():
    log = log_of(1)
    fetched = bytearray(batch(1, 1) + batch(2, 1))
    fetched[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        log.append_as_follower(bytes(fetched), epoch=1)
    assert log.end_offset == 1


def test_only_committed_batches_are_read_as_committed():
    log = log_of(1, 1, 1)
    log.update_high_watermark(2)
    assert log.read_committed(0, 1 << 20) == batch(0, 1) + batch(1, 1)
    assert log.read(0, 1 << 20) == batch(0, 1) + batch(1, 1) + batch(2, 1)


epochs = st.lists(st.integers(1, 5), max_size=8).map(sorted)


@pytest.mark.slow
@given(epochs, epochs)
def test_reconciliation_ends_at_the_longest_common_prefix_of_epochs(mine, leaders):
    """A record is named by offset and epoch, so equal epochs at an offset mean equal records."""
    # Logs as elections produce them: the same epoch never begins at two offsets.
    common = next(
        (i for i, (a, b) in enumerate(zip(mine, leaders, strict=False)) if a != b),
        min(len(mine), len(leaders)),
    )
    assume(min(len(mine), len(leaders)) == common or not shares_an_epoch(mine, leaders, common))
    follower, leader = log_of(*mine), log_of(*leaders)
    for _ in range(20):
        validity, where = leader.validate(follower.end_offset, follower.last_fetched_epoch)
        if validity is Validity.VALID:
            break
        follower.truncate_to_end_offset(where)
    assert validity is Validity.VALID
    assert follower.end_offset == common


def shares_an_epoch(mine, leaders, common):
    return set(mine[common:]) & set(leaders) or set(leaders[common:]) & set(mine)


def test_a_last_batch_that_a_full_response_cuts_off_is_left_for_the_next_fetch():
    """Kafka's leaders fill a Fetch up to its last byte (LogSegment.read)."""
    whole, following = batch(0, 1), batch(1, 1)
    for left_bytes in (1, 40, len(following) - 1):
        log = log_of()
        assert log.append_as_follower(whole + following[:left_bytes], 1)
        assert log.end_offset == 1
        with pytest.raises(CorruptBatchError):
            log.append_as_follower(following[:left_bytes], 1)

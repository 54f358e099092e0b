import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.log.storage.epoch_cache import EpochEntry, LeaderEpochCache
from cluster.node.log.types import OffsetAndEpoch


def cache(*pairs: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(tuple(EpochEntry(epoch, start) for epoch, start in pairs))


def pairs(epochs: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in epochs.entries]


def test_epoch_zero_is_an_epoch():
    epochs = cache()
    assert epochs.latest_epoch is None
    assert epochs.assign(0, 0)
    assert (epochs.latest_epoch, pairs(epochs)) == (0, [(0, 0)])
    assert epochs.end_offset_for(0, 7) == OffsetAndEpoch(7, 0)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (9, OffsetAndEpoch(30, 7)),  # later than all: the latest, at the log end
        (7, OffsetAndEpoch(30, 7)),
        (5, OffsetAndEpoch(20, 4)),  # left no record: the one before it, where the next begins
        (4, OffsetAndEpoch(20, 4)),
        (2, OffsetAndEpoch(10, 2)),
        (1, OffsetAndEpoch(3, 1)),  # below all: itself, at the first start
    ],
)
def test_end_offset_for(epoch, expected):
    assert cache((2, 3), (4, 10), (7, 20)).end_offset_for(epoch, 30) == expected


def test_end_offset_for_an_empty_cache():
    assert cache().end_offset_for(5, 12) == OffsetAndEpoch(12, 0)


def test_the_latest_epoch_keeps_its_start():
    epochs = cache((1, 5))
    assert not epochs.assign(1, 9)
    assert pairs(epochs) == [(1, 5)]


def test_an_epoch_that_left_no_record_gives_way():
    epochs = cache((1, 0), (5, 10))
    assert epochs.assign(3, 10)
    assert pairs(epochs) == [(1, 0), (3, 10)]
    assert epochs.assign(6, 10)
    assert pairs(epochs) == [(1, 0), (6, 10)]


def test_truncation_at_the_log_end_drops_an_epoch_without_records():
    """KAFKA-10706: also when the log itself is not shortened."""
    epochs = cache((1, 0), (5, 10))
    assert epochs.truncate_from_end(10)
    assert pairs(epochs) == [(1, 0)]
    assert not epochs.truncate_from_end(10)


def test_truncation_from_the_start_keeps_the_epoch_of_the_new_start():
    epochs = cache((1, 0), (3, 10), (4, 20))
    assert epochs.truncate_from_start(15)
    assert pairs(epochs) == [(3, 15), (4, 20)]
    assert not epochs.truncate_from_start(15)
    assert not epochs.truncate_from_start(3)


def test_the_file_has_kafkas_format():
    assert cache((1, 0), (3, 10)).encode() == b"0\n2\n1 0\n3 10\n"
    assert cache().encode() == b"0\n0\n"


entries = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), max_size=8).map(
    lambda steps: [
        (sum(s[0] for s in steps[:i]), sum(s[1] for s in steps[:i])) for i in range(len(steps))
    ]
)


@given(entries)
def test_the_file_is_read_back(listed):
    epochs = cache(*listed)
    assert LeaderEpochCache.decode(epochs.encode()).entries == epochs.entries


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\n1 0",
        b"0\n2\n1 0\n",
        b"0\n1\nx 0\n",
        b"0\n1\n1\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n1\n-1 0\n",
        b"\xff",
    ],
)
def test_a_damaged_file_is_refused(content):
    with pytest.raises(ValueError):
        LeaderEpochCache.decode(content)


@pytest.mark.slow
@given(entries, st.integers(0, 40), st.integers(0, 60))
def test_end_offset_for_agrees_with_counting_records(listed, epoch, extra):
    epochs = cache(*listed)
    log_end = (listed[-1][1] if listed else 0) + extra + 1
    record_epochs = [epochs.epoch_at(offset) for offset in range(log_end)]
    found = epochs.end_offset_for(epoch, log_end)
    if listed and listed[0][0] <= epoch:
        held = [e for e in record_epochs if e <= epoch]
        assert found == OffsetAndEpoch(len(held), max(held))

"""How a state machine is fed: everything once and in order, a slice in each turn of the task."""

from types import SimpleNamespace

import pytest

from cluster.node.kraft.listeners import FEED_BYTES_PER_TURN, ListenerContext
from cluster.node.log.batch.records import Record, encode_batch, split_batches
from cluster.node.log.types import OffsetAndEpoch
from tests.cluster.node.kraft.world import Listener

VALUE_BYTES = 10_000


class FakeLog:
    """Batches of one record, all committed up to `high_watermark`."""

    start_offset = 0
    latest_snapshot_id = None

    def __init__(self, batches, value_bytes=VALUE_BYTES):
        self.high_watermark = batches
        self.end_offset = batches
        self._batches = [
            encode_batch(n, 1, [Record(b"%06d" % n + b"x" * value_bytes)], 7)
            for n in range(batches)
        ]

    def read_committed(self, offset, max_bytes):
        data = self._batches[offset]
        for batch in self._batches[offset + 1 : self.high_watermark]:
            if len(data) + len(batch) > max_bytes:
                break
            data += batch
        return data

    def read_snapshot(self, snapshot_id):
        return SimpleNamespace(id=snapshot_id, values=lambda: iter(()))


class Turns:
    """A listener, fed from a log in turns that the test takes."""

    def __init__(self, log, listener=None):
        self.log = log
        self.listener = listener or Listener()
        self.asked = 0
        self.context = ListenerContext(self.listener, self._ask)

    def _ask(self):
        self.asked += 1

    def turn(self):
        assert self.asked == 1
        self.asked = 0
        self.context.feed(self.log, in_turn=True)


def test_a_short_backlog_is_given_at_once():
    turns = Turns(FakeLog(3))
    turns.context.feed(turns.log)
    assert (turns.listener.next_offset, turns.asked) == (3, 0)


def test_a_long_backlog_is_given_in_slices_with_a_turn_between_two():
    turns = Turns(FakeLog(50))
    turns.context.feed(turns.log)
    slices = [turns.listener.next_offset]
    while turns.asked:
        turns.turn()
        slices.append(turns.listener.next_offset)
    assert slices[-1] == 50
    assert [int(value[:6]) for _, value in turns.listener.values] == list(range(50))
    most = 2 * FEED_BYTES_PER_TURN / VALUE_BYTES  # a slice begins below the limit
    assert max(b - a for a, b in zip([0, *slices], slices, strict=False)) <= most
    assert len(slices) >= 4


def test_a_batch_that_is_larger_than_a_slice_is_given_whole():
    turns = Turns(FakeLog(2, value_bytes=2 * FEED_BYTES_PER_TURN))
    turns.context.feed(turns.log)
    assert (turns.listener.next_offset, turns.asked) == (1, 1)
    turns.turn()
    assert (turns.listener.next_offset, turns.asked) == (2, 0)


def test_a_commit_between_two_turns_neither_skips_the_wait_nor_asks_for_another():
    turns = Turns(FakeLog(50))
    turns.context.feed(turns.log)
    given = turns.listener.next_offset
    turns.context.feed(turns.log)
    assert (turns.listener.next_offset, turns.asked) == (given, 1)


class SlowLoader(Listener):
    """Says that a snapshot is loaded when the test wants it."""

    done = None

    def handle_load_snapshot(self, snapshot, done):
        super().handle_load_snapshot(snapshot, lambda: None)
        self.done = done


def loading(offset=20):
    log = FakeLog(50)
    log.latest_snapshot_id = OffsetAndEpoch(offset, 1)
    turns = Turns(log, SlowLoader())
    turns.context.feed(log)
    return turns


def test_nothing_is_given_while_a_snapshot_is_loaded_and_all_that_follows_it_then():
    turns = loading()
    turns.context.feed(turns.log)
    assert (turns.listener.loaded, turns.listener.values) == ([OffsetAndEpoch(20, 1)], [])
    assert turns.context.next_offset == 0, "a claim would count on what is not there"
    turns.listener.done()
    assert turns.listener.values == [], "in a turn of its own"
    while turns.asked:
        turns.turn()
    assert [offset for offset, _ in turns.listener.values] == list(range(20, 50))


def test_a_newer_snapshot_that_came_meanwhile_is_loaded_next():
    turns = loading()
    turns.log.latest_snapshot_id, turns.log.start_offset = OffsetAndEpoch(40, 1), 40
    turns.listener.done()
    turns.turn()
    assert turns.listener.loaded == [OffsetAndEpoch(20, 1), OffsetAndEpoch(40, 1)]
    turns.listener.done()
    turns.turn()
    assert [offset for offset, _ in turns.listener.values] == list(range(40, 50))


def test_a_load_ends_once():
    turns = loading()
    turns.listener.done()
    with pytest.raises(AssertionError, match="loaded once"):
        turns.listener.done()


def test_the_batches_of_this_test_are_what_a_log_holds():
    (header, _), *rest = split_batches(FakeLog(2).read_committed(0, 10**6))
    assert (header.base_offset, len(rest)) == (0, 1)

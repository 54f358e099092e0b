"""What is known of each record of logs with offsets, in NumPy.

Where it stands, since when it is certainly in the log, and whether it is *committed*, i.e. may
never be lost. The package argues why that holds; `rules` go by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from checkers.history import INFINITY_NS
from checkers.partition_logs.columns import NONE, OFFSET_BITS, Log, Reads
from porcupine_py.columns import Bools, Int64s


@dataclass(frozen=True, slots=True)
class Promise:
    """What producers asked for."""

    acks: str = "all"
    idempotence: bool = False
    retries: bool = False

    @property
    def may_repeat(self) -> bool:
        """Whether a client may have sent a record twice that the broker cannot recognise."""
        return self.retries and not self.idempotence


class Facts:
    """What sends and reads together say of each record."""

    def __init__(self, log: Log, promise: Promise) -> None:
        self.log = log
        self.promise = promise
        sends, reads = log.sends, log.reads
        self.send = np.repeat(np.arange(len(sends.row)), np.diff(sends.first))
        self.nth = np.arange(log.records) - sends.first[self.send]
        """Position of a record in its send."""
        self.read = np.repeat(np.arange(len(reads.row)), np.diff(reads.first))
        self.partition = sends.partition[self.send]
        self.acknowledged = sends.ok & (promise.acks != "0")
        self._observe()
        self._place()
        self._commit()

    def _observe(self) -> None:
        """Find each record's places that reads showed, and the first read of each."""
        log, count = self.log, self.log.records
        value = log.shown_value
        known = np.flatnonzero(value < count)
        known = known[~self.log.sends.failed[self.send[value[known]]]]
        done = log.reads.complete_ns[self.read[known]]
        order = known[np.lexsort((done, log.shown_offset[known], value[known]))]
        first = first_of_equals(value[order], log.shown_offset[order])
        order = order[first]
        self.pair_record, self.pair_offset = value[order], log.shown_offset[order]
        """Each record at each place where it was read, in this order."""
        self.pair_read = self.read[order]
        self.pair_ns = log.reads.complete_ns[self.pair_read]
        self.copies = np.bincount(self.pair_record, minlength=count)
        self.seen = self.copies > 0
        self.shown_at = np.full(count, NONE, np.int64)
        self.shown_at[self.pair_record[::-1]] = self.pair_offset[::-1]  # the lowest is left
        self.seen_ns = np.full(count, INFINITY_NS, np.int64)
        self.seen_read = np.full(count, NONE, np.int64)
        late_first = np.argsort(-self.pair_ns, kind="stable")
        self.seen_ns[self.pair_record[late_first]] = self.pair_ns[late_first]
        self.seen_read[self.pair_record[late_first]] = self.pair_read[late_first]

    def _place(self) -> None:
        """Place records: where they were read, else behind what is known of their batch."""
        sends = self.log.sends
        base = sends.offset.copy()
        rows = np.flatnonzero(self.seen & (sends.offset[self.send] == NONE))
        inferred = self.shown_at[rows] - self.nth[rows]
        base[self.send[rows[::-1]]] = inferred[::-1]  # that of the first record seen is left
        self.astray = rows[inferred != base[self.send[rows]]]
        """Records that were not read where the first one seen of their batch says."""
        begins = base[self.send]
        self.asked = np.where(begins < 0, NONE, begins + self.nth)
        """Where a record must be, by its acknowledgement or its batch."""
        elsewhere = self.seen & (sends.offset[self.send] != NONE)
        right = self.pair_offset == self.asked[self.pair_record]
        elsewhere[self.pair_record[right]] = False
        self.moved = elsewhere
        self.place = np.where(self.seen, self.shown_at, self.asked)

    def _commit(self) -> None:
        """Decide which sends are committed, and since when that is certain."""
        sends = self.log.sends
        since = least(self.seen_ns, sends.first)
        if self.promise.acks == "all":
            since = np.where(sends.ok, np.minimum(since, sends.complete_ns), since)
        self.marked_ns = self._below_mark()
        since = np.minimum(since, self.marked_ns)
        self.since_ns = since[self.send]
        self.committed = (since < INFINITY_NS)[self.send]
        self.place = np.where(self.committed, self.place, NONE)

    def _below_mark(self) -> Int64s:
        """Return when the leader that took a send first announced a high watermark above it."""
        sends, reads = self.log.sends, self.log.reads
        none = np.full(len(sends.row), INFINITY_NS, np.int64)
        marked = np.flatnonzero((reads.epoch != NONE) & (reads.high_watermark != NONE))
        last = sends.offset + np.diff(sends.first) - 1
        asking = np.flatnonzero(sends.ok & (sends.offset != NONE) & (sends.epoch != NONE))
        if not len(marked) or not len(asking):
            return none
        group = group_numbers(
            np.concatenate([reads.partition[marked], sends.partition[asking]]),
            np.concatenate([reads.epoch[marked], sends.epoch[asking]]),
        )
        mark = places(group[: len(marked)], reads.high_watermark[marked])
        order = np.argsort(mark, kind="stable")
        mark, times = mark[order], reads.complete_ns[marked][order]
        ranked = np.argsort(times, kind="stable")
        rank = np.empty(len(times), np.int64)
        rank[ranked] = np.arange(len(times))
        keyed = (mark >> OFFSET_BITS) * len(times) + rank
        best = np.minimum.accumulate(keyed[::-1])[::-1] % len(times)
        mine = group[len(marked) :]
        at = np.searchsorted(mark, places(mine, last[asking]), side="right")
        there = at < len(mark)
        there[there] = (mark[at[there]] >> OFFSET_BITS) == mine[there]
        none[asking[there]] = times[ranked[best[at[there]]]]
        return none

    @cached_property
    def last_shown(self) -> Int64s:
        """Highest offset of each read; NONE where it shows nothing."""
        return extreme(self.log, np.maximum, NONE)

    @cached_property
    def begin(self) -> Int64s:
        """Offset from which each read must show all there is; NONE where that is not known."""
        reads = self.log.reads
        begin = np.where(reads.whole, np.maximum(reads.position, 0), reads.position)
        return self._carry_positions(reads, begin)

    def _carry_positions(self, reads: Reads, begin: Int64s) -> Int64s:
        """Let polls without a position go on where their consumer's last one ended."""
        open_polls = ~reads.whole & (reads.position == NONE)
        if not open_polls.any():
            return begin
        polls = np.flatnonzero(~reads.whole)
        group = group_numbers(reads.partition[polls], reads.consumer[polls])
        order = np.lexsort((polls, group))
        polls, group = polls[order], group[order]
        shows = self.last_shown[polls] != NONE
        ends = np.where(shows, self.last_shown[polls] + 1, reads.position[polls])
        row = np.arange(len(polls))
        anchor = np.maximum.accumulate(np.where(ends != NONE, row, -1))
        before = np.concatenate([[-1], anchor[:-1]])
        known = (before >= 0) & (group[before] == group) & (reads.consumer[polls] != NONE)
        carried = np.where(known, ends[before], NONE)
        begin = begin.copy()
        begin[polls] = np.where(reads.position[polls] == NONE, carried, begin[polls])
        return begin


def places(group: Int64s, offset: Any) -> Int64s:
    """Return places as single integers, ordered by group and then by offset."""
    assert int(group.max(initial=0)) < 1 << (63 - OFFSET_BITS), "a place fits into 63 bits"
    at: Int64s = (group << OFFSET_BITS) | offset
    return at


def group_numbers(*codes: Int64s) -> Int64s:
    """Number the different rows of two columns, in their order."""
    first, second = codes
    low = int(second.min(initial=0))
    span = int(second.max(initial=0)) - low + 1
    if span > 1 << 40:
        second, low = np.unique(second, return_inverse=True)[1], 0
        span = int(second.max(initial=0)) + 1
    numbers: Int64s = np.unique(first * span + (second - low), return_inverse=True)[1]
    return numbers.astype(np.int64)


def first_of_equals(*columns: Int64s) -> Bools:
    """Mark the first of equal rows that stand one behind the other."""
    new = np.zeros(max(0, len(columns[0])), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def extreme(log: Log, ufunc: np.ufunc, none: int) -> Int64s:
    """Return the lowest or highest offset of each read."""
    first = log.reads.first
    result = np.full(len(log.reads.row), none, np.int64)
    some = np.flatnonzero(np.diff(first))
    if len(some):
        result[some] = ufunc.reduceat(log.shown_offset, first[some])
    return result


def least(numbers: Int64s, first: Int64s) -> Int64s:
    """Return the least number of each group; no group is empty."""
    if len(first) == 1:
        return np.empty(0, np.int64)
    found: Int64s = np.minimum.reduceat(numbers, first[:-1])
    return found

"""The rules for logs with offsets, in NumPy: O(n log n) for n operations and records.

By what `facts` say of each record, each rule is one sort, one running maximum or one count over a
range. The package states the rules and why they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.history import INFINITY_NS
from checkers.partition_logs.columns import NONE, OFFSET_BITS, Reads
from checkers.partition_logs.facts import Facts, extreme, first_of_equals, group_numbers, places
from porcupine_py.columns import Bools, Int64s

_OFFSETS = (1 << OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Anomalies of one kind; one row for each, NONE where there is no such witness."""

    kind: str
    record: Int64s
    """The record that is wrong."""
    other: Int64s
    """The record that shows it."""
    read: Int64s
    """The read that shows it."""
    before: Int64s
    """The read that had shown another thing."""
    offset: Int64s

    def __len__(self) -> int:
        return len(self.record)


def findings(kind: str, **witnesses: Int64s) -> Found:
    """Return anomalies by their witnesses; those that are not given are NONE."""
    count = len(next(iter(witnesses.values())))
    none = np.full(count, NONE, np.int64)
    names = ("record", "other", "read", "before", "offset")
    return Found(kind, **{name: witnesses.get(name, none) for name in names})


def anomalies(facts: Facts) -> Iterator[tuple[Found, bool]]:
    """Yield what is wrong, most telling first, and whether the promise allows it."""
    losses = Losses(facts)
    again = facts.promise.may_repeat
    yield losses.writes, False
    yield losses.committed, False
    yield losses.allowed, True
    yield duplicates(facts), again
    yield inconsistent(facts, losses.lost), False
    yield find_moved(facts), again
    yield find_torn(facts), False
    yield from unsent(facts)
    yield early(facts), False
    for each in find_reordered(facts, losses.lost):
        yield each, False
    for each in find_skipped(facts, losses.lost):
        yield each, False
    for each in went_back(facts):
        yield each, False
    yield find_truncated(facts), False
    yield dirty_acks(facts), False
    yield dirty_reads(facts), False
    yield log_start(facts), False


class Losses:
    """What reads of the whole log do not show."""

    def __init__(self, facts: Facts) -> None:
        log, promise = facts.log, facts.promise
        self._facts = facts
        self._shown = np.zeros(len(log.values), np.bool_)
        self._witness = np.full((2, log.records), NONE, np.int64)
        """By record: the read that lacks what is forbidden to lose, and what is allowed to."""
        by_partition = np.argsort(facts.partition, kind="stable")
        cuts = np.searchsorted(facts.partition[by_partition], np.arange(len(log.partitions) + 1))
        for read in np.flatnonzero(log.reads.whole).tolist():
            where = log.reads.partition[read]
            self._look(read, by_partition[cuts[where] : cuts[where + 1]])
        forbidden, allowed = self._witness
        self.lost: Bools = forbidden != NONE
        written = self.lost & facts.acknowledged[facts.send]
        if promise.acks != "all":
            written &= ~facts.committed
        self.writes = self._of("lost-write", np.flatnonzero(written), forbidden)
        self.committed = self._of("lost-committed", np.flatnonzero(self.lost & ~written), forbidden)
        may = (allowed != NONE) & ~self.lost
        self.allowed = self._of("allowed-loss", np.flatnonzero(may), allowed)

    def _of(self, kind: str, records: Int64s, witness: Int64s) -> Found:
        asked = self._facts.asked[records]
        place = self._facts.place[records]
        offset = np.where(place == NONE, asked, place)
        return findings(kind, record=records, read=witness[records], offset=offset)

    def _look(self, read: int, records: Int64s) -> None:
        """Find what one read of a whole log lacks, of the records sent there."""
        facts, reads = self._facts, self._facts.log.reads
        sends = facts.log.sends
        values = facts.log.shown_value[reads.first[read] : reads.first[read + 1]]
        self._shown[values] = True
        send = facts.send[records]
        begin, mark = facts.begin[read], reads.high_watermark[read]
        end = max(int(mark), int(facts.last_shown[read]) + 1)
        place = np.where(facts.place[records] == NONE, facts.asked[records], facts.place[records])
        covered = np.where(place == NONE, begin == 0, place >= begin)
        lacks = ~self._shown[records] & covered & ~sends.failed[send]
        invoked = reads.invoke_ns[read]
        owed = facts.since_ns[records] < invoked
        owed |= (place >= begin) & (place < end) & (place != NONE)
        forbidden = lacks & facts.committed[records] & owed
        if facts.promise.acks == "1":
            open_ = lacks & ~facts.committed[records] & sends.ok[send]
            open_ &= sends.complete_ns[send] < invoked
            known = (reads.epoch[read] != NONE) & (sends.epoch[send] != NONE)
            same_reign = known & (reads.epoch[read] <= sends.epoch[send])
            forbidden |= open_ & same_reign
            self._note(1, records[open_ & ~same_reign], read)
        self._note(0, records[forbidden], read)
        self._shown[values] = False

    def _note(self, which: int, records: Int64s, read: int) -> None:
        new = records[self._witness[which, records] == NONE]
        self._witness[which, new] = read


def duplicates(facts: Facts) -> Found:
    """Find records that stand at two places."""
    again = (facts.pair_record[1:] == facts.pair_record[:-1]).nonzero()[0]
    rows = again[first_of_equals(facts.pair_record[again])]
    return findings(
        "duplicate",
        record=facts.pair_record[rows],
        read=facts.pair_read[rows + 1],
        before=facts.pair_read[rows],
        offset=facts.pair_offset[rows + 1],
    )


def inconsistent(facts: Facts, lost: Bools) -> Found:
    """Find places that two values were seen at. A loss that nobody had read is only a loss."""
    log = facts.log
    order = np.argsort(log.reads.complete_ns[facts.read], kind="stable")
    unread = np.flatnonzero(facts.committed & ~facts.seen & ~lost & (facts.place != NONE))
    where = np.concatenate([log.reads.partition[facts.read[order]], facts.partition[unread]])
    value = np.concatenate([log.shown_value[order], unread])
    at = places(where, np.concatenate([log.shown_offset[order], facts.place[unread]]))
    read = np.concatenate([facts.read[order], np.full(len(unread), NONE, np.int64)])
    rows = np.lexsort((value, at))  # stable: the earliest read of a value there is the first
    rows = rows[first_of_equals(at[rows], value[rows])]
    again = (at[rows[1:]] == at[rows[:-1]]).nonzero()[0]
    again = again[first_of_equals(at[rows[again]])]
    first, then = rows[again], rows[again + 1]
    return findings(
        "inconsistent-offsets",
        record=value[then],
        other=value[first],
        read=read[then],
        before=read[first],
        offset=at[then] & _OFFSETS,
    )


def find_moved(facts: Facts) -> Found:
    """Find records that were read only elsewhere than where they were acknowledged."""
    rows = np.flatnonzero(facts.moved)
    return findings("moved", record=rows, read=facts.seen_read[rows], offset=facts.shown_at[rows])


def find_torn(facts: Facts) -> Found:
    """Find batches with records that do not stand one behind the other.

    Where a client may have appended a batch twice, reads may have shown parts of both: then another
    record has to stand where one of the batch must.
    """
    astray, rows = facts.astray, np.flatnonzero(facts.seen)
    begins = rows[np.searchsorted(facts.send[rows], facts.send[astray])]
    if facts.promise.may_repeat:
        apart = facts.nth[astray] - facts.nth[begins]
        torn = _shows_another(facts, astray, facts.shown_at[begins] + apart)
        torn |= _shows_another(facts, begins, facts.shown_at[astray] - apart)
        astray, begins = astray[torn], begins[torn]
    first = first_of_equals(facts.send[astray])
    astray, begins = astray[first], begins[first]
    return findings(
        "torn-batch",
        record=astray,
        other=begins,
        read=facts.seen_read[astray],
        offset=facts.shown_at[astray],
    )


def _shows_another(facts: Facts, records: Int64s, offsets: Int64s) -> Bools:
    """Whether any read shows another record at these offsets of the records' partitions."""
    shown = places(facts.partition[facts.pair_record], facts.pair_offset)
    order = np.lexsort((facts.pair_record, shown))
    asked = places(facts.partition[records], np.maximum(offsets, 0))
    low = np.searchsorted(shown, asked, side="left", sorter=order)
    high = np.searchsorted(shown, asked, side="right", sorter=order)
    there = (low < high) & (offsets >= 0)
    another = np.zeros(len(records), np.bool_)
    for end in (low[there], high[there] - 1):
        another[there] |= facts.pair_record[order[end]] != records[there]
    return another


def unsent(facts: Facts) -> Iterator[tuple[Found, bool]]:
    """Find values read that nobody sent, or whose send certainly failed; once for each value."""
    log, count = facts.log, facts.log.records
    alien = np.flatnonzero(log.shown_value >= count)
    failed = np.flatnonzero(log.shown_value < count)
    failed = failed[log.sends.failed[facts.send[log.shown_value[failed]]]]
    for kind, rows in (("phantom", alien), ("aborted-read", failed)):
        value = log.shown_value[rows]
        order = rows[np.argsort(value, kind="stable")]
        order = order[first_of_equals(log.shown_value[order])]
        yield (
            findings(
                kind,
                record=log.shown_value[order],
                read=facts.read[order],
                offset=log.shown_offset[order],
            ),
            False,
        )


def early(facts: Facts) -> Found:
    """Find records that a read had shown before they were sent."""
    rows = np.flatnonzero(facts.seen_ns < facts.log.sends.invoke_ns[facts.send])
    return findings(
        "read-before-send", record=rows, read=facts.seen_read[rows], offset=facts.shown_at[rows]
    )


def find_reordered(facts: Facts, lost: Bools) -> tuple[Found, Found]:
    """Find records that stand behind one that was sent after they were certainly in the log."""
    sends = facts.log.sends
    acknowledged = facts.acknowledged[facts.send]
    done = np.where(acknowledged, sends.complete_ns[facts.send], INFINITY_NS)
    done = np.minimum(done, facts.seen_ns)
    single = facts.committed & (facts.copies < 2) & ~facts.moved & ~lost & (facts.place != NONE)
    rows = np.flatnonzero(single)
    own = group_numbers(facts.partition[rows], sends.producer[facts.send[rows]])
    mine, mine_other = _behind_later(facts, rows, own, done)
    any_, any_other = _behind_later(facts, rows, facts.partition[rows], done)
    rest = ~np.isin(any_, mine)
    missing = np.flatnonzero(lost & (facts.place != NONE))
    taken = places(facts.partition[missing], facts.place[missing])
    others = rows[~np.isin(places(facts.partition[rows], facts.place[rows]), taken)]
    below, marks = _below_earlier_mark(facts, others)
    more = ~np.isin(below, np.concatenate([mine, any_]))
    record = np.concatenate([any_[rest], below[more]])
    none = np.full(int(more.sum()), NONE, np.int64)
    return (
        findings("nonmonotonic-send", record=mine, other=mine_other, offset=facts.place[mine]),
        findings(
            "real-time",
            record=record,
            other=np.concatenate([any_other[rest], none]),
            read=np.concatenate([np.full(int(rest.sum()), NONE, np.int64), marks[more]]),
            offset=facts.place[record],
        ),
    )


def _below_earlier_mark(facts: Facts, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the records below a high watermark that a read gave before they were sent."""
    sends, reads = facts.log.sends, facts.log.reads
    marks = np.flatnonzero(reads.high_watermark != NONE)
    is_record = np.arange(len(rows) + len(marks)) < len(rows)
    which = np.concatenate([rows, marks])
    where = np.concatenate([facts.partition[rows], reads.partition[marks]])
    time_ns = np.concatenate([sends.invoke_ns[facts.send[rows]], reads.complete_ns[marks]])
    mark = np.concatenate([np.zeros(len(rows), np.int64), reads.high_watermark[marks]])
    order = np.lexsort((~is_record, time_ns, where))  # what touches in time is concurrent
    which, where, mark, is_record = which[order], where[order], mark[order], is_record[order]
    best = _running_best(places(where, mark))
    wrong = np.flatnonzero(is_record)
    wrong = wrong[mark[best[wrong]] > facts.place[which[wrong]]]
    return which[wrong], which[best[wrong]]


def _behind_later(facts: Facts, rows: Int64s, group: Int64s, done: Int64s) -> tuple[Int64s, Int64s]:
    """Return the records with one below them in their group that was sent after they were done."""
    order = np.lexsort((facts.place[rows], group))
    rows, group = rows[order], group[order]
    sent = facts.log.sends.invoke_ns[facts.send[rows]]
    ranked = np.argsort(sent, kind="stable")
    rank = np.empty(len(rows), np.int64)
    rank[ranked] = np.arange(len(rows))
    latest = np.maximum.accumulate(group * len(rows) + rank)
    new = np.flatnonzero(first_of_equals(group, facts.place[rows]))
    below = np.repeat(new, np.diff([*new, len(rows)])) - 1  # strictly: one place is no order
    there = (below >= 0) & (group[below] == group)
    later = ranked[latest[below] % max(1, len(rows))]
    wrong = np.flatnonzero(there & (sent[later] > done[rows]))
    return rows[wrong], rows[later[wrong]]


def find_skipped(facts: Facts, lost: Bools) -> tuple[Found, Found]:
    """Find polls that pass over a committed record that the log still has."""
    log, reads = facts.log, facts.log.reads
    kept = np.flatnonzero(~lost[facts.pair_record])
    unread = np.flatnonzero(facts.committed & ~facts.seen & ~lost & (facts.place != NONE))
    at = np.concatenate(
        [
            places(facts.partition[facts.pair_record[kept]], facts.pair_offset[kept]),
            places(facts.partition[unread], facts.place[unread]),
        ]
    )
    record = np.concatenate([facts.pair_record[kept], unread])
    order = np.argsort(at, kind="stable")
    order = order[first_of_equals(at[order])]
    at, record = at[order], record[order]
    polls = np.flatnonzero(~reads.whole & (facts.last_shown != NONE))
    lowest = extreme(log, np.minimum, _OFFSETS)[polls]
    begin, where = facts.begin[polls], reads.partition[polls]
    begin = np.where(begin == NONE, lowest, begin)
    from_ = np.searchsorted(at, places(where, begin))
    low = np.searchsorted(at, places(where, lowest))
    high = np.searchsorted(at, places(where, facts.last_shown[polls]), side="right")
    inside = _known_inside(facts, at)[polls]
    head = np.flatnonzero(low > from_)
    hole = np.flatnonzero(high - low != inside)
    missing = [
        _first_missing(facts, at, *rows)
        for rows in zip(*(each[hole].tolist() for each in (polls, low, high)), strict=True)
    ]
    first = np.array(missing, np.int64)
    return (
        findings(
            "poll-skip",
            record=record[from_[head]],
            read=polls[head],
            offset=at[from_[head]] & _OFFSETS,
        ),
        findings(
            "int-poll-skip", record=record[first], read=polls[hole], offset=at[first] & _OFFSETS
        ),
    )


def _known_inside(facts: Facts, at: Int64s) -> Int64s:
    """Count of each read the places that it shows and that are among `at`."""
    shown = places(facts.log.reads.partition[facts.read], facts.log.shown_offset)
    order = np.lexsort((shown, facts.read))
    order = order[first_of_equals(facts.read[order], shown[order])]
    place = np.searchsorted(at, shown[order])
    known = place < len(at)
    known[known] = at[place[known]] == shown[order][known]
    return np.bincount(facts.read[order[known]], minlength=len(facts.log.reads.row))


def _first_missing(facts: Facts, at: Int64s, read: int, low: int, high: int) -> int:
    """Return the first of the places `at[low:high]` that a read does not show."""
    reads = facts.log.reads
    shown = facts.log.shown_offset[reads.first[read] : reads.first[read + 1]]
    missing = ~np.isin(at[low:high] & _OFFSETS, shown)
    return low + int(np.argmax(missing))


def went_back(facts: Facts) -> tuple[Found, Found]:
    """Find reads whose offsets do not grow, and reads that begin below where they must."""
    log = facts.log
    down = (facts.read[1:] == facts.read[:-1]) & (log.shown_offset[1:] <= log.shown_offset[:-1])
    rows = np.flatnonzero(down) + 1
    rows = rows[first_of_equals(facts.read[rows])]
    lowest = extreme(log, np.minimum, _OFFSETS)
    below = (facts.begin != NONE) & (facts.last_shown != NONE) & (lowest < facts.begin)
    reads = np.flatnonzero(below)
    return (
        findings(
            "int-nonmonotonic-poll",
            record=log.shown_value[rows],
            other=log.shown_value[rows - 1],
            read=facts.read[rows],
            offset=log.shown_offset[rows],
        ),
        findings("nonmonotonic-poll", read=reads, offset=lowest[reads]),
    )


def find_truncated(facts: Facts) -> Found:
    """Find polls refused as out of range where a committed record had been read before."""
    refused, reads = facts.log.refused, facts.log.reads
    witness = np.full(len(refused.row), NONE, np.int64)
    shows = np.flatnonzero((reads.epoch != NONE) & (facts.last_shown != NONE))
    if not len(refused.row) or not len(shows):
        return findings("truncated", read=witness[:0])
    shows = shows[np.argsort(reads.complete_ns[shows], kind="stable")]
    reign = group_numbers(reads.partition[shows], reads.epoch[shows])
    for code in np.unique(reign).tolist():
        mine = shows[reign == code]
        where, epoch = reads.partition[mine[0]], reads.epoch[mine[0]]
        asks = np.flatnonzero((refused.partition == where) & (refused.epoch >= epoch))
        best = _running_best(facts.last_shown[mine])
        before = np.searchsorted(reads.complete_ns[mine], refused.invoke_ns[asks]) - 1
        asks, before = asks[before >= 0], before[before >= 0]
        far = mine[best[before]]
        hit = facts.last_shown[far] >= refused.position[asks] - 1
        witness[asks[hit]] = far[hit]
    rows = np.flatnonzero(witness != NONE)
    return findings("truncated", read=rows, before=witness[rows], offset=refused.position[rows])


def _running_best(numbers: Int64s) -> Int64s:
    """Return, up to each row, the row of the highest number."""
    highest = np.maximum.accumulate(numbers)
    new = np.concatenate([[True], highest[1:] > highest[:-1]])
    best: Int64s = np.maximum.accumulate(np.where(new, np.arange(len(numbers)), 0))
    return best


def dirty_reads(facts: Facts) -> Found:
    """Find what was read, or below a high watermark, and uncommitted to its leader afterwards."""
    reads = facts.log.reads
    committed = np.maximum(facts.last_shown, reads.high_watermark - 1)
    shows = np.flatnonzero((reads.epoch != NONE) & (committed >= 0))
    offset = committed[shows]
    columns = [(of_reads, of_reads[shows]) for of_reads in (reads.partition, reads.epoch)]
    read, before = _find_lower_marks(reads, columns, reads.complete_ns[shows], offset)
    return findings("dirty-read", read=read, before=shows[before], offset=offset[before])


def dirty_acks(facts: Facts) -> Found:
    """Find records acknowledged with acks=all that the node afterwards held for uncommitted.

    Only by the same node: the epoch of a send may be lower than that in which it was acknowledged,
    by a later leader of which the former one does not know. A node does not go back to an epoch.
    """
    sends, reads = facts.log.sends, facts.log.reads
    known = sends.ok & (sends.offset != NONE) & (sends.epoch != NONE) & (sends.node != NONE)
    acks = np.flatnonzero(known & (facts.promise.acks == "all"))
    last = sends.first[acks + 1] - 1
    offset = sends.offset[acks] + facts.nth[last]
    columns = [
        (reads.partition, sends.partition[acks]),
        (reads.epoch, sends.epoch[acks]),
        (reads.node, sends.node[acks]),
    ]
    read, before = _find_lower_marks(reads, columns, sends.complete_ns[acks], offset)
    return findings("dirty-ack", record=last[before], read=read, offset=offset[before])


def _find_lower_marks(
    reads: Reads, columns: Sequence[tuple[Int64s, Int64s]], done_ns: Int64s, offset: Int64s
) -> tuple[Int64s, Int64s]:
    """Find reads invoked after an offset was certain, whose high watermark is not above it.

    `columns`: what must be equal, of the reads and of the offsets. Returns rows of both.
    """
    marks = np.flatnonzero((reads.epoch != NONE) & (reads.high_watermark != NONE))
    if not len(marks) or not len(offset):
        return marks[:0], marks[:0]
    rows = np.concatenate([marks, np.arange(len(offset))])
    asks = np.arange(len(rows)) < len(marks)
    group = np.zeros(len(rows), np.int64)
    for of_reads, of_offsets in columns:
        group = group_numbers(group, np.concatenate([of_reads[marks], of_offsets]))
    time_ns = np.concatenate([reads.invoke_ns[marks], done_ns])
    shown = np.concatenate([np.full(len(marks), NONE, np.int64), offset])
    order = np.lexsort((~asks, time_ns, group))  # what touches in time is concurrent
    rows, asks, group, shown = rows[order], asks[order], group[order], shown[order]
    best = _running_best(places(group, shown + 1))
    latest = np.where(asks[best] | (group[best] != group), NONE, shown[best])
    wrong = np.flatnonzero(asks)
    wrong = wrong[(latest[wrong] != NONE) & (latest[wrong] >= reads.high_watermark[rows[wrong]])]
    return rows[wrong], rows[best[wrong]]


def log_start(facts: Facts) -> Found:
    """Find partitions with a log that does not begin at 0 though nothing deletes records."""
    reads = facts.log.reads
    rows = np.flatnonzero(reads.log_start > 0)
    rows = rows[np.argsort(reads.partition[rows], kind="stable")]
    rows = rows[first_of_equals(reads.partition[rows])]
    return findings("log-start-moved", read=rows, offset=reads.log_start[rows])


def unread(facts: Facts) -> list[str]:
    """Name the partitions that were not read from their start after the last acknowledgement."""
    sends, reads = facts.log.sends, facts.log.reads
    count = len(facts.log.partitions)
    last_ns = np.full(count, NONE, np.int64)
    np.maximum.at(last_ns, sends.partition[sends.ok], sends.complete_ns[sends.ok])
    read_ns = np.full(count, NONE, np.int64)
    whole = reads.whole & (reads.position <= np.maximum(reads.log_start, 0))
    np.maximum.at(read_ns, reads.partition[whole], reads.invoke_ns[whole])
    sent = np.zeros(count, np.bool_)
    sent[sends.partition] = True
    missing = np.flatnonzero(sent & (read_ns <= last_ns))
    return [facts.log.partitions[partition] for partition in missing.tolist()]

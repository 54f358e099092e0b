"""The audit of logs finds what a plain reading of its rules does, and the same wherever it is cut."""

from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence import LogRecord
from checkers.evidence.log_audit import LogColumns, audit_logs, audit_range, columns_of_logs, merge

NODES = ("n1", "n2", "n3")


def by_the_rules(logs, committed):
    """What the columns must find: each rule as a loop over the records."""
    found = {kind: {} for kind in ("gaps", "decreases", "unlike", "changed")}
    bytes_of, committed_at = {}, {}
    for node, log in logs.items():
        for before, after in pairwise(log):
            if after.offset != before.offset + 1:
                found["gaps"].setdefault(node, (before.offset, after.offset))
            if after.epoch < before.epoch:
                numbers = before.epoch, after.epoch, after.offset
                found["decreases"].setdefault(node, numbers)
        for record in log:
            place = record.offset, record.epoch
            if bytes_of.setdefault(place, record.batch_crc) != record.batch_crc:
                found["unlike"].setdefault(node, place)
            if record.offset < committed[node]:
                this = record.epoch, record.batch_crc
                known = committed_at.setdefault(record.offset, this)
                if known != this:
                    found["changed"].setdefault(node, (record.offset, *this, *known))
    return found


def agreeing(length):
    epochs = sorted(offset // 4 + 1 for offset in range(length))
    return {
        node: [LogRecord(node, o, e, 100 * o + e, "TopicRecord") for o, e in enumerate(epochs)]
        for node in NODES
    }


def other_bytes(log, at):
    return [*log[:at], replace(log[at], batch_crc=1), *log[at + 1 :]]


def other_epoch(log, at):
    return [*log[:at], replace(log[at], epoch=9), *log[at + 1 :]]


def lost(log, at):
    return [*log[:at], *log[at + 1 :]]


def cut(log, at):
    return log[:at]


ALTERATIONS = {"bytes": other_bytes, "epoch": other_epoch, "lost": lost, "cut": cut}


def kinds(found):
    return {kind: of for kind, of in asdict(found).items() if kind != "edges"}


def in_ranges(logs, committed, borders):
    """Audit ranges of offsets one by one, as other processes would."""
    columns = columns_of_logs(logs)
    ends = [*sorted(borders), 10**6]
    parts, begin = [], 0
    for end in ends:
        rows = np.flatnonzero((columns.offset >= begin) & (columns.offset < end))
        parts.append(LogColumns(columns.nodes, *(c[rows] for c in numbers(columns))))
        begin = end
    return merge(audit_range(part, committed) for part in parts)


def numbers(columns):
    return columns.node, columns.offset, columns.epoch, columns.crc


@pytest.mark.slow
@given(
    length=st.integers(1, 12),
    how=st.sampled_from([None, *ALTERATIONS]),
    node=st.sampled_from(NODES),
    at=st.integers(0, 11),
    ends=st.tuples(*[st.integers(0, 13)] * 3),
    borders=st.sets(st.integers(1, 12), max_size=4),
)
def test_one_alteration_is_found_as_the_rules_say_and_wherever_it_is_cut(
    length, how, node, at, ends, borders
):
    logs = agreeing(length)
    if how is not None:
        logs[node] = ALTERATIONS[how](logs[node], min(at, length - 1))
    committed = dict(zip(NODES, ends, strict=True))
    expected = by_the_rules(logs, committed)
    assert kinds(audit_logs(logs, committed)) == expected
    assert kinds(in_ranges(logs, committed, borders)) == expected


rows = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(0, 1)), max_size=6)


@pytest.mark.slow
@given(st.tuples(rows, rows, rows), st.tuples(*[st.integers(0, 7)] * 3), st.sets(st.integers(1, 6)))
def test_any_logs_are_judged_as_the_rules_say(many, ends, borders):
    logs = {
        node: [LogRecord(node, o, e, c, "TopicRecord") for o, e, c in sorted(set(found))]
        for node, found in zip(NODES, many, strict=True)
    }
    logs = {
        node: [r for n, r in enumerate(log) if n == 0 or r.offset != log[n - 1].offset]
        for node, log in logs.items()
    }
    committed = dict(zip(NODES, ends, strict=True))
    expected = by_the_rules(logs, committed)
    assert kinds(audit_logs(logs, committed)) == expected
    assert kinds(in_ranges(logs, committed, borders)) == expected


def test_logs_that_agree_have_no_findings():
    found = kinds(audit_logs(agreeing(12), dict.fromkeys(NODES, 12)))
    assert found == {"gaps": {}, "decreases": {}, "unlike": {}, "changed": {}}


@pytest.mark.parametrize("logs", [{}, {"n1": []}])
def test_no_records_are_no_findings(logs):
    assert kinds(audit_logs(logs, {})) == {kind: {} for kind in by_the_rules({}, {})}

"""The journal survives a kill, and a damaged one is refused."""

import errno
import json
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.history import Event, EventType, HistoryError
from results.store.journal import JournalWriter, decode_event, encode_event, read_journal

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NATURAL = st.integers(0, 2**63 - 2)
INT64 = st.integers(-(2**63) + 1, 2**63 - 2)
EVENTS = st.builds(
    Event,
    index=NATURAL,
    time_ns=NATURAL,
    process=NATURAL | TEXT,
    type=st.sampled_from(EventType),
    f=TEXT,
    key=st.none() | TEXT,
    value=JSON,
    error=st.none() | TEXT,
    node=st.none() | TEXT,
    offset=st.none() | INT64,
    epoch=st.none() | INT64,
)


def event(index, **fields):
    values = {"time_ns": index, "process": 0, "type": EventType.INVOKE, "f": "read"}
    return Event(index=index, **{**values, **fields})


def journal_of(path, count=3):
    with JournalWriter(path) as writer:
        for index in range(count):
            writer.append(event(index, key="a", value={"x": [None, 1.5, "ü\u2028"]}))
    return path


@pytest.mark.slow
@given(EVENTS)
@settings(max_examples=200, deadline=None)
def test_every_event_reads_back_as_it_was_written(written):
    assert decode_event(encode_event(written)) == written


def test_null_fields_are_left_out_of_the_line():
    fields = {"index", "time_ns", "process", "type", "f", "crc"}
    assert fields == json.loads(encode_event(event(0))).keys()


def test_no_flipped_bit_of_a_line_goes_unnoticed():
    line = encode_event(event(3, key="k1", value="w1.2", offset=16))[:-1]
    for position in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[position] ^= 1 << bit
            with pytest.raises(HistoryError):
                decode_event(bytes(changed))


def test_each_cut_of_the_file_loses_at_most_the_torn_line(tmp_path):
    whole = journal_of(tmp_path / "whole.jsonl").read_bytes()
    path = tmp_path / "cut.jsonl"
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        events, dropped_bytes = read_journal(path)
        kept = whole[:size].count(b"\n")
        tail = size - (whole[:size].rfind(b"\n") + 1)
        if whole[size : size + 1] == b"\n":  # everything of the line but its newline
            assert (kept + 1, 0) == (len(events), dropped_bytes)
        else:
            assert (kept, tail) == (len(events), dropped_bytes)


@pytest.mark.slow
def test_a_killed_writer_leaves_every_event_it_appended(tmp_path):
    path = tmp_path / "history.jsonl"
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from checkers.history import Event, EventType
        from results.store.journal import JournalWriter
        writer = JournalWriter(Path(sys.argv[1]))
        for index in range(100):
            writer.append(Event(index, index, 0, EventType.INVOKE, "read"))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -9
    assert (len(read_journal(path)[0]), read_journal(path)[1]) == (100, 0)


def test_a_history_is_never_overwritten(tmp_path):
    path = journal_of(tmp_path / "history.jsonl")
    with pytest.raises(FileExistsError):
        JournalWriter(path)


def test_the_writer_refuses_a_gap_and_a_step_back_in_time(tmp_path):
    with JournalWriter(tmp_path / "history.jsonl") as writer:
        writer.append(event(0, time_ns=10))
        with pytest.raises(HistoryError, match="1 is next"):
            writer.append(event(2, time_ns=10))
        with pytest.raises(HistoryError, match="comes after"):
            writer.append(event(1, time_ns=9))
        writer.append(event(1, time_ns=10))


def test_the_writer_refuses_what_is_no_json_and_goes_on(tmp_path):
    path = tmp_path / "history.jsonl"
    with JournalWriter(path) as writer:
        for value in (float("nan"), object()):
            with pytest.raises((ValueError, TypeError)):
                writer.append(event(0, value=value))
        writer.append(event(0))
    assert len(read_journal(path)[0]) == 1


def test_after_a_write_error_the_journal_takes_nothing_more(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    writer = JournalWriter(path)
    write, room = os.write, [5]

    def fill(fd, data):
        if not room:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return write(fd, data[: room.pop()])

    monkeypatch.setattr(os, "write", fill)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            writer.append(event(0))
        monkeypatch.undo()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(event(0))
    assert read_journal(path) == ([], 5)


GOOD = b'{"index":0,"time_ns":5,"process":0,"type":"invoke","f":"read"}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "line 2: no JSON"),
        (b"garbage\n", "line 2: no JSON"),
        (b"[1]\n", "line 2: no JSON object"),
        (b"\xff\xfe\n", "line 2: no JSON"),
        (b"[" * 100_000 + b"\n", "line 2: no JSON"),
        (GOOD, "line 2: index is 0 where 1 is next"),
        (GOOD.replace(b":0,", b":2,", 1), "index is 2 where 1 is next"),
        (GOOD.replace(b":0,", b":true,", 1), "index is True, not a whole number"),
        (GOOD.replace(b"0", b"1", 1).replace(b"5", b"4"), "time goes back"),
        (GOOD.replace(b'"time_ns":5', b'"time_ns":-1'), "time_ns must be numbers from 0"),
        (GOOD.replace(b'"time_ns":5', b'"time_ns":1e3'), "time_ns is 1000.0, not a whole"),
        (GOOD.replace(b'"process":0', b'"process":null'), "process is None, not a number"),
        (GOOD.replace(b"}", b',"key":3}'), "key is 3, not a text"),
        (GOOD.replace(b"}", b',"offset":"3"}'), "offset is '3', not a whole"),
        (GOOD.replace(b"}", b',"offset":9223372036854775808}'), "not a whole number of 64"),
        (GOOD.replace(b"}", b',"value":NaN}'), "no JSON"),
        (GOOD.replace(b"}", b',"value":1e999}'), "no JSON"),
        (GOOD.replace(b"}", b',"error":"\\ud800"}'), "half a surrogate pair"),
    ],
)
def test_anything_else_that_is_wrong_is_refused_by_file_and_line(tmp_path, line, message):
    path = tmp_path / "history.jsonl"
    path.write_bytes(GOOD + line)
    with pytest.raises(HistoryError) as caught:
        read_journal(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_last_line_without_newline_that_is_json_but_no_event_is_refused(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(GOOD + b'{"a":1}')
    with pytest.raises(HistoryError, match="line 2: unknown field"):
        read_journal(path)

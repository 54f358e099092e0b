"""Operations that a page holds are those of the run, in a few bytes each."""

import base64
import json
import struct
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from factory import SECOND, make_run
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.history import Event, EventType, pair
from checkers.verdict import CheckResult, Status
from results.report import packed as packed_columns
from results.report import page
from results.report.narration import value_text
from results.report.packed import pack


def unpacked(packed):
    """Decode as the page's script does."""
    data = zlib.decompress(base64.b64decode(packed.text))
    (length,) = struct.unpack_from("<I", data)
    known, at = json.loads(data[4 : 4 + length]), 4 + length
    for name, width, rows in known["columns"]:
        planes = np.frombuffer(data, np.uint8, width * rows, at).reshape(width, rows)
        known[name] = sum(planes[n].astype(np.int64) << (8 * n) for n in range(width))
        at += width * rows
    assert at == len(data)
    for name in ("index", "from"):
        signs = known[name]
        known[name] = np.cumsum((signs >> 1) ^ -(signs & 1))
    return known


def rows_of(packed):
    """What a reader is shown of each row; None for what the page does not hold."""
    known = unpacked(packed)
    begin, end = known["detail"]
    rows = []
    for row in range(known["count"]):
        inside = begin <= row < end

        def text(name, row=row, inside=inside):
            return known["texts"][known[name][row - begin]] if inside else None

        took = int(known["took"][row])
        rows.append(
            (
                int(known["index"][row]),
                known["processes"][known["process"][row]],
                known["functions"][known["f"][row]],
                known["keys"][known["key"][row]],
                *(text("asked"), text("answer"), text("error")),
                ("ok", "fail", "info")[known["type"][row]],
                int(known["from"][row]) * known["quantum_ns"],
                None if took == 0 else (took - 1) * known["quantum_ns"],
                known["nodes"][known["node"][row]],
            )
        )
    return rows


def expected(operation, events):
    end = operation.end_index
    took = None if end is None else events[end].time_ns - operation.invoke_ns
    return (
        operation.index,
        str(operation.process),
        operation.f,
        operation.key or "",
        *("" if v is None else value_text(v) for v in (operation.input, operation.output)),
        operation.error or "",
        operation.type.value,
        operation.invoke_ns // 1000 * 1000,
        None if took is None else took // 1000 * 1000,
        operation.node or "",
    )


@pytest.mark.slow
def test_each_operation_of_a_run_is_there_with_all_that_a_table_shows(tmp_path):
    events = make_run(tmp_path, stale_reads=1).events()
    operations = pair(events)
    packed = pack(operations, events)
    assert rows_of(packed) == [expected(operation, events) for operation in operations]
    assert (packed.rows, packed.detailed, packed.of) == (len(operations),) * 3


def test_of_too_many_those_nearest_to_the_violation_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_columns, "ROWS_MAX", 200)
    monkeypatch.setattr(packed_columns, "DETAIL_MAX", 20)
    events = make_run(tmp_path, duration_s=30).events()
    operations = pair(events)
    near = 20 * SECOND
    packed = pack(operations, events, (near, near))
    rows = rows_of(packed)
    assert (packed.rows, packed.detailed, packed.of) == (200, 20, len(operations))
    by_distance = sorted(operations, key=lambda o: abs(o.invoke_ns - near))
    assert {by_distance[at].index for at in range(50)} < {row[0] for row in rows}
    detailed = [row for row in rows if row[4] is not None]
    assert len(detailed) == 20
    assert max(abs(row[8] - near) for row in detailed) < 2 * SECOND


def test_a_violated_key_is_called_as_in_the_columns_however_long_it_is():
    key = "k" * 300
    events = [Event(0, 0, 1, EventType.INVOKE, "read", key)]
    check = CheckResult("c", Status.FAIL, "wrong", anomalies=({"key": key},))
    focus = page._focus(SimpleNamespace(checks=[check]), None)
    assert focus["keys"] == unpacked(pack(pair(events), events))["keys"][-1:]


@pytest.mark.slow
def test_operations_take_a_few_bytes_each_and_never_more_than_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_columns, "DETAIL_MAX", 0)
    monkeypatch.setattr(packed_columns, "FINE_MAX", 0)
    events = make_run(tmp_path, duration_s=60, keys=50).events()
    operations = pair(events)
    packed = pack(operations, events)
    assert packed.quantum_ns == 100_000
    assert len(packed.text) / len(operations) < 7
    monkeypatch.setattr(packed_columns, "TEXT_MAX", 10_000)
    small = pack(operations, events)
    assert len(small.text) <= 10_000
    assert len(operations) / 10 < small.rows < small.of == len(operations)


values = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**15),
            st.integers(0, 10**13),
            values,
            values,
            st.sampled_from(EventType),
        ),
        max_size=8,
    )
)
def test_any_operation_comes_back(drawn):
    events = []
    time_ns = 0
    for process, (pause, lasts, asked, got, kind) in enumerate(drawn):
        time_ns += pause
        invoked = Event(len(events), time_ns, process, EventType.INVOKE, "cas", "k", asked)
        events.append(invoked)
        if kind is not EventType.INVOKE:
            time_ns += lasts
            events.append(Event(len(events), time_ns, process, kind, "cas", "k", got))
    operations = pair(events)
    packed = pack(operations, events)
    quantum = packed.quantum_ns
    for row, operation in zip(rows_of(packed), operations, strict=True):
        wanted = expected(operation, events)
        assert row[:8] == wanted[:8]
        assert row[8] == operation.invoke_ns // quantum * quantum

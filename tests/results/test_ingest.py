"""A journal in columns is what its lines are one by one, and checks say the same of both."""

import json
from dataclasses import asdict, replace
from itertools import count

import pyarrow.parquet as pq
import pytest
from factory import events_from, make_run, operations_from

from checkers.history import Event, EventType, HistoryError, journal_columns, pair
from checkers.history.event_columns import EventColumns
from checkers.history.recorded import Recorded
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from porcupine_py.columns import FUNCTIONS_MAX
from results.judge.pipeline import judge
from results.store import ingest, tables
from results.store.ingest import read_history
from results.store.journal import JournalWriter, encode_event, read_journal
from results.store.model import counts_of
from results.store.tables import OPERATIONS_FILE, RunName, events_table, operations_table

RUN = RunName("campaign", "run")
VALUES = [
    *("x", "5", "", "ü\u2028</script>", 'a"b\\c', "null", '"value":1', "{", "}"),
    *(None, True, 0, -7, 2**80, 1.5, 1e300),
    *([], [1, None], ["a", "b"], [[1], ["]"]], {"value": 5}, {"a": {"b": [False]}}),
]


def journal(path, values, process=0):
    """Store a journal in which one client writes each value and then reads it, with notes between."""
    with JournalWriter(path) as writer:
        indexes = count()

        def append(**fields):
            index = next(indexes)
            writer.append(Event(index=index, time_ns=10 * index, **fields))

        for value in values:
            append(process="nemesis", type=EventType.OK, f="leader", value={"epoch": value})
            for f, given, seen in (("write", value, value), ("read", None, value)):
                append(process=process, type=EventType.INVOKE, f=f, key="k", value=given, node="n1")
                append(process=process, type=EventType.OK, f=f, key="k", value=seen, offset=3)
        append(process=process, type=EventType.INVOKE, f="write", key=None, value="last")
    return path


def same_as_line_by_line(path):
    """Assert that a journal is read in columns, and as the reader of lines and pairing have it."""
    history = read_history(path, RUN)
    events, dropped_bytes = read_journal(path)
    assert isinstance(history.operations, Recorded), "it is read in columns"
    assert list(history.events) == events
    assert list(history.operations) == pair(events)
    assert history.dropped_bytes == dropped_bytes
    assert events_from(history.events_table) == events
    assert operations_from(history.operations_table) == pair(events)
    assert history.events_table.schema == events_table(RUN, events).schema
    assert history.operations_table.schema == operations_table(RUN, pair(events)).schema
    return history


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_any_kind_is_the_same_in_columns(tmp_path, value):
    same_as_line_by_line(journal(tmp_path / "history.jsonl", [value]))


@pytest.mark.slow
@pytest.mark.parametrize("block_bytes", [1, 700, 1 << 24])
def test_the_size_of_blocks_does_not_matter(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(journal_columns, "_BLOCK_BYTES", block_bytes)
    history = same_as_line_by_line(journal(tmp_path / "history.jsonl", VALUES))
    assert len(history.operations) == 2 * len(VALUES) + 1


def test_distinct_values_become_json_once_however_many_blocks_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_columns, "_BLOCK_BYTES", 300)
    converted = []
    as_json = ingest._as_json
    monkeypatch.setattr(
        ingest, "_as_json", lambda values: converted.append(len(values)) or as_json(values)
    )
    path = journal(tmp_path / "history.jsonl", [f"v{n}" for n in range(50)])
    history = read_history(path, RUN)
    assert len(history.events) > 200
    assert sorted(converted) == [2, 101]  # processes; values of the client and of the notes


def test_a_process_may_have_a_name(tmp_path):
    same_as_line_by_line(journal(tmp_path / "history.jsonl", ["a"], process="client x"))


def test_a_torn_last_line_is_left_out_and_a_whole_one_without_its_newline_is_not(tmp_path):
    path = journal(tmp_path / "history.jsonl", ["a", {"b": 1}])
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert same_as_line_by_line(path).dropped_bytes == 0
    path.write_bytes(data[:-30])
    assert same_as_line_by_line(path).dropped_bytes > 0


@pytest.mark.parametrize("field", ["leader", "write", "time_ns"])
def test_a_changed_line_is_refused_by_number(tmp_path, field):
    path = journal(tmp_path / "history.jsonl", ["a", "b"])
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines[3:], 4) if field.encode() in line)
    lines[number - 1] = lines[number - 1].replace(b'"ok"', b'"OK"').replace(b"nvoke", b"nvokE")
    path.write_bytes(b"".join(lines))
    with pytest.raises(HistoryError, match=f"line {number}: its checksum"):
        read_history(path, RUN)


def test_a_missing_line_is_refused(tmp_path):
    path = journal(tmp_path / "history.jsonl", ["a", "b"])
    lines = path.read_bytes().splitlines(keepends=True)
    for at in (0, 5, len(lines) // 2):
        path.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
        with pytest.raises(HistoryError, match=r"where \d+ is next"):
            read_history(path, RUN)


def test_what_columns_do_not_hold_is_read_line_by_line(tmp_path):
    events = [Event(n, n, n, EventType.INVOKE, f"f{n}", key="k") for n in range(FUNCTIONS_MAX + 1)]
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(map(encode_event, events)))
    history = read_history(path, RUN)
    assert (history.events, history.operations) == (events, pair(events))


@pytest.mark.slow
def test_checks_say_the_same_of_columns_and_of_objects(tmp_path):
    store = make_run(tmp_path, stale_reads=2, lost_on="n2", rate_per_s=80)
    plan = store.plan()
    events = store.events()
    wrong = Event(len(events), events[-1].time_ns, 99_000, EventType.INVOKE, "read", key="k00")
    odd = replace(wrong, index=wrong.index + 1, type=EventType.INFO, error="wrong-answer: odd")
    with store.journal_path.open("ab") as file:
        file.writelines(map(encode_event, (wrong, odd)))
    events = store.events()
    history = store.tables(RUN)
    evidence = store.evidence(plan).evidence
    in_columns = RunInput(history.events, history.operations, evidence)
    in_objects = RunInput(events, pair(events), evidence)
    assert isinstance(in_columns.events, EventColumns)
    assert counts_of(in_columns) == counts_of(in_objects)
    statuses = set()
    for each in plan["checks"]:
        spec = CheckSpec(each["name"], each["options"])
        found = asdict(run_check(spec, in_columns))
        assert found == asdict(run_check(spec, in_objects)), spec.name
        statuses.add(found["status"])
    assert statuses >= {Status.PASS, Status.FAIL, Status.UNKNOWN}


@pytest.mark.slow
def test_no_key_lies_in_two_row_groups_of_the_stored_operations(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_TOGETHER", 500)
    store = make_run(tmp_path)
    judge(store)
    file = pq.ParquetFile(store.parquet_path / OPERATIONS_FILE)
    groups = [file.read_row_group(group).to_pylist() for group in range(file.num_row_groups)]
    keys = [{row["key"] for row in group} for group in groups]
    assert len(groups) > 2
    assert sum(map(len, keys)) == len(set().union(*keys))
    assert all(
        len(group) <= 500 or len(seen) == 1 for group, seen in zip(groups, keys, strict=True)
    )
    for group in groups:
        assert [row["index"] for row in group if row["key"] == group[0]["key"]] == sorted(
            row["index"] for row in group if row["key"] == group[0]["key"]
        )


@pytest.mark.slow
def test_any_reader_of_parquet_sees_of_which_run_each_row_is(tmp_path):
    stores = [make_run(tmp_path, run=f"r{n}", duration_s=6) for n in range(2)]
    for store in stores:
        judge(store)
    files = sorted(tmp_path.glob("*/*/history.parquet/operations.parquet"))
    rows = pq.ParquetDataset(files).read(["campaign", "run", "index"]).to_pylist()
    assert {(row["campaign"], row["run"]) for row in rows} == {
        ("synthetic", "r0"),
        ("synthetic", "r1"),
    }
    assert json.dumps(rows[0]["index"])

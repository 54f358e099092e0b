"""Histories in columns: there and back again, from files, and what is not well formed."""

import json
from dataclasses import asdict, replace
from random import Random

import numpy as np
import pytest

from checkers import HistoryError, load_history, pair
from checkers.history import INFINITY_NS, Event, EventType
from checkers.history.files import load_columns
from porcupine_py.columns import from_operations
from results.store.tables import RunName, operations_table
from tests.checkers.histories import FAIL, FIRST_WORLDS, INFO, op, random_history, read, write
from tests.checkers.linearizability.test_corpus_verdicts import JUDGED, expected, folder  # noqa: F401  (fixture)

pytestmark = pytest.mark.usefixtures("small_files_by_arrow_too")


def several(seed, kind):
    """Operations of two keys, one process each, with every field set somewhere."""
    rnd = Random(seed)
    operations = []
    for key in ("a", None):
        some, _ = random_history(rnd, kind, size_max=6)
        operations += [
            replace(
                o,
                index=len(operations) + i,
                process=len(operations) + i,
                key=key,
                node=rnd.choice([None, "n1"]),
                offset=rnd.choice([None, 7]),
                end_index=rnd.choice([None, 99]),
            )
            for i, o in enumerate(some)
        ]
    return operations


@pytest.mark.parametrize("kind", FIRST_WORLDS)
def test_operations_become_columns_and_come_back(kind):
    for seed in range(40):
        operations = several(seed, kind)
        columns = from_operations(operations)
        assert columns.operations() == sorted(operations, key=lambda o: (o.invoke_ns, o.index))
        again = from_operations(columns.operations())
        assert again.operations() == columns.operations()


def test_equal_values_have_one_code_and_different_ones_do_not():
    operations = [write(i, v, i, i) for i, v in enumerate([1, "1", True, 1, [1], [1], None])]
    codes = from_operations(operations).input.tolist()
    assert (codes[0], codes[4], codes[6]) == (codes[3], codes[5], 0)
    assert len(set(codes)) == 5


def test_columns_split_by_key_in_order_of_invocation():
    operations = [write(i, i, i, i, key="ab"[i % 2]) for i in range(9)]
    parts = from_operations(operations).parts()
    assert [[o.index for o in part] for part in parts] == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]
    assert [part.operation(0).key for part in parts] == ["a", "b"]


def events_of(operations):
    """The events of operations, in order of time, with indexes."""
    loose = []
    for o in operations:
        loose.append(
            (
                o.invoke_ns,
                0,
                Event(0, o.invoke_ns, o.process, EventType.INVOKE, o.f, o.key, o.input),
            )
        )
        if o.type is not INFO or o.index % 2:
            end = 50 if o.complete_ns == INFINITY_NS else o.complete_ns
            loose.append(
                (end, 1, Event(0, end, o.process, o.type, o.f, None, o.output, o.error, "n1", 3))
            )
    loose.sort(key=lambda item: item[:2])
    nemesis = Event(0, 60, "nemesis", EventType.INFO, "heal", value=["x"])
    events = [*(event for *_, event in loose), nemesis]
    return [replace(event, index=i) for i, event in enumerate(events)]


def journal(events):
    lines = ({k: v for k, v in asdict(event).items() if v is not None} for event in events)
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIRST_WORLDS)
def test_a_journal_read_into_columns_is_what_pairing_makes_of_it(kind, tmp_path):
    for seed in range(25):
        operations = [
            o if o.invoke_ns >= 0 else replace(o, invoke_ns=0) for o in several(seed, kind)
        ]
        events = events_of(operations)
        path = tmp_path / "history.jsonl"
        path.write_text(journal(events))
        paired = pair(load_history(path))
        assert load_columns(path).operations() == paired
        from checkers.history.column_files import from_table  # noqa: PLC0415

        assert (
            from_table(operations_table(RunName("campaign", "run"), paired)).operations() == paired
        )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"index":0,"time_ns":1,"process":1,"type":"ok","f":"read"}\n', "without an invocation"),
        ('{"index":0,"time_ns":1,"process":1,"type":"invoke","f":"read"}\n{"ind', "cut off"),
        ('{"index":0,"time_ns":1,"process":1,"type":"invoke","f":"w","value":007}\n', "not whole"),
        ('{"index":0,"time_ns":1,"process":1,"type":"invoke","f":"w","value":5x}\n', "not whole"),
        (
            '{"index":0,"time_ns":-1,"process":1,"type":"invoke","f":"read"}\n',
            "has a time before the run began",
        ),
        (
            (
                '{"index":0,"time_ns":1,"process":1,"type":"invoke","f":"read"}\n'
                '{"index":1,"time_ns":2,"process":1,"type":"info","f":"read"}\n'
                '{"index":2,"time_ns":3,"process":1,"type":"invoke","f":"read"}\n'
            ),
            "used again after it ended in info",
        ),
        (
            (
                '{"index":0,"time_ns":1,"process":1,"type":"invoke","f":"read"}\n'
                '{"index":1,"time_ns":2,"process":1,"type":"ok","f":"write"}\n'
            ),
            "not what it invoked",
        ),
    ],
)
def test_a_damaged_journal_is_reported_as_by_the_plain_reader(lines, message, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(lines)
    with pytest.raises(HistoryError, match=message):
        load_columns(path)


TRICKY = [
    "x",
    "5",
    "\x01",
    "\x015",
    'a"value":1,',
    "null",
    "[1,2]",
    {"value": 5},
    [[1]],
    1.5,
    True,
    [1, None],
]


@pytest.mark.parametrize("value", TRICKY, ids=repr)
def test_texts_that_look_like_numbers_stay_texts(value, tmp_path):
    events = events_of([write(0, value, 0, 1), write(1, 5, 2, 3), read(2, value, 4, 5, error=None)])
    path = tmp_path / "history.jsonl"
    path.write_text(journal(events))
    assert [o.input for o in load_columns(path)] == [value, 5, None]
    assert load_columns(path).operations() == pair(load_history(path))


def test_the_corpus_becomes_columns(folder):  # noqa: F811
    for name in JUDGED[::10]:
        path = folder / expected()[name]["file"]
        assert load_columns(path).operations() == pair(load_history(path))


def test_an_empty_history_has_no_rows():
    columns = from_operations([])
    assert (len(columns), columns.operations(), columns.parts()) == (0, [], [])
    assert np.all(columns.by_key()[1] == [0, 0])


def test_a_failed_operation_keeps_its_error():
    failed = op(0, "cas", (0, 1), input=[1, 2], type=FAIL, error="cas_mismatch")
    assert from_operations([failed]).operations() == [failed]

"""Files of three formats are read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import HistoryError, load_history, to_edn
from checkers.history import NEMESIS, Event, EventType
from checkers.history.edn import EdnSet, IndependentTuple, Keyword, read_all, write

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(VALUES)
def test_edn_gives_back_what_was_written(value):
    assert list(read_all(write(value))) == [value]


def test_edn_reads_what_jepsen_prints():
    text = '#jepsen.history.Op{:f :txn, :value [[:r 1 #{3}] #_ 7 nil] ; note\n :s "a\\u0041\\n"}'
    [form] = read_all(text)
    assert form == {"f": "txn", "value": [["r", 1, EdnSet([3])], None], "s": "aA\n"}
    assert isinstance(form["f"], Keyword)


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text",
    ["[1", "]", "{:a}", "{:a 1 :a 2}", '"open', "#=(exit)", "[1}", ":", nested(102), "1.2.3"],
)
def test_edn_refuses_what_is_not_data(text):
    with pytest.raises(HistoryError, match="line 1: EDN"):
        list(read_all(text))


def test_edn_is_read_as_deep_as_it_may_be_nested():
    assert len(list(read_all(nested(101)))) == 1


@pytest.mark.parametrize(
    ("text", "is_tuple"),
    [
        ("#jepsen.independent/tuple [1 2]", True),
        ("#jepsen.independent/tuple [1 2 3]", False),
        ("#of.another/tuple [1 2]", False),
        ("[1 2]", False),
    ],
)
def test_only_a_tuple_of_jepsens_own_is_a_key_and_its_value(text, is_tuple):
    [form] = read_all(text)
    assert isinstance(form, IndependentTuple) is is_tuple


def events(value):
    yield Event(0, 5, NEMESIS, EventType.INVOKE, "kill", None, {"phase": "inject"})
    yield Event(1, 6, 3, EventType.INVOKE, "write", "k", value)
    yield Event(2, 9, 3, EventType.INFO, "write", "k", value, "timed_out", "n1", 4, 2)


@pytest.mark.slow
@given(VALUES)
def test_a_history_survives_the_way_through_edn(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("edn") / "history.edn"
    path.write_text(to_edn(events(value)), encoding="utf-8")
    assert load_history(path) == list(events(value))


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(HistoryError, match="No such file"):
        load_history(tmp_path / "nowhere")

"""Whatever is in a history file: it is read and judged, or refused in one line with its name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import HistoryError, Status, check, load_history
from checkers.history.edn import read_all, write
from checkers.history.files import load_columns
from checkers.history.formats import load
from porcupine_py.values import freeze, show
from tests.mutations import HUGE, mutated

pytestmark = pytest.mark.usefixtures("small_files_by_arrow_too")

ROOT = Path(__file__).parents[3]
EDN = b"""{:index 0, :time 1, :process 0, :type :invoke, :f :write, :value 1}
{:index 1, :time 2, :process 0, :type :ok, :f :write, :value 1}
{:index 2, :time 3, :process 1, :type :invoke, :f :cas, :value [1 2.5M]}
{:index 3, :time 4, :process 1, :type :info, :f :cas, :value [1 1/2], :error "time\\u006fut"}
{:index 4, :time 5, :process :nemesis, :type :info, :f :kill, :value {:a #{1 2}}}
{:index 5, :time 6, :process 2, :type :invoke, :f :read, :value nil}
{:index 6, :time 7, :process 2, :type :ok, :f :read, :value 123N}
"""


def lines(name: str = "time_ns") -> bytes:
    rows = [
        {"index": 0, name: 1, "process": 0, "type": "invoke", "f": "write", "value": 1},
        {"index": 1, name: 2, "process": 0, "type": "ok", "f": "write", "value": 1},
        {"index": 2, name: 3, "process": 1, "type": "invoke", "f": "cas", "value": [1, 2]},
        {"index": 3, name: 4, "process": 1, "type": "fail", "f": "cas", "value": [1, 2]},
        {"index": 4, name: 5, "process": 2, "type": "invoke", "f": "read"},
        {"index": 5, name: 6, "process": 2, "type": "ok", "f": "read", "value": 1, "node": "n1"},
    ]
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("untrusted")


def refusal(read, path) -> str | None:
    """What is wrong with a file; None when it is read."""
    try:
        read(path)
    except HistoryError as error:
        line = str(error)
        assert line.startswith(str(path)), line
        assert "\n" not in line
        return line
    return None


def test_two_events_on_one_line_are_refused_by_both(folder):
    path = folder / "history"
    path.write_bytes(lines().replace(b"}\n{", b"}{", 1))
    for read in (load_history, load_columns):
        assert "line 1: not whole JSON" in refusal(read, path)


@pytest.mark.slow
@pytest.mark.parametrize("place", [b"null{", b"}null\n{", b"}null{"])
def test_a_null_outside_of_any_event_is_refused_and_ends_no_process(tmp_path, place):
    data = lines()
    data = b"null" + data if place == b"null{" else data.replace(b"}\n{", place, 1)
    path = tmp_path / "history"
    path.write_bytes(data)
    program = f"from checkers.history.files import load_columns; load_columns({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1, "a segmentation fault is -11"
    assert "HistoryError" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=mutated(EDN, lines(), lines("time")), independent=st.booleans())
def test_a_history_is_read_alike_both_ways_or_refused(folder, data, independent):
    path = folder / "history"
    path.write_bytes(data)
    plain = refusal(lambda p: load_history(p, independent=independent), path)
    columns = refusal(lambda p: load_columns(p, independent=independent), path)
    if plain is not None:
        assert columns == plain, "the fast way refuses what the slow way does, in its words"
    elif columns is None:
        history = load(path, independent=independent)
        assert load_history(path, independent=independent) == list(history.events)
        assert load_columns(path, independent=independent).operations() == history.operations


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=mutated(EDN, lines()), model=st.sampled_from(("register", "cas-register", "counter")))
def test_what_is_read_is_judged(folder, data, model):
    path = folder / "judged"
    path.write_bytes(data)
    try:
        result = check(path, model)
    except HistoryError:
        return
    assert result.status in set(Status)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_and_not_read(device):
    with pytest.raises(HistoryError, match="a device"):
        load_history(device)
    with pytest.raises(HistoryError, match="a device"):
        load_columns(device)


def test_a_text_that_is_not_utf_8_is_refused(folder):
    event = (
        b'{"index":0,"time_ns":1,"process":0,"type":"invoke","f":"write","value":1,"node":"n?"}\n'
    )
    path = folder / "history.jsonl"
    path.write_bytes(event.replace(b"?", b"\x80"))
    with pytest.raises(HistoryError, match="not UTF-8 text"):
        check(path, "register")


def history(tmp_path, value: str, suffix: str) -> object:
    """A register to which `value` is written, and from which it is read."""
    path = tmp_path / f"history.{suffix}"
    if suffix == "edn":
        line = "{{:process {0}, :type :{1}, :f :{2}, :value {3}}}\n"
        nothing = "nil"
    else:
        line = '{{"index":{4},"time_ns":{4},"process":{0},"type":"{1}","f":"{2}","value":{3}}}\n'
        nothing = "null"
    rows = ((0, "invoke", "write", value), (0, "ok", "write", value))
    rows += ((1, "invoke", "read", nothing), (1, "ok", "read", value))
    path.write_text("".join(line.format(*row, i) for i, row in enumerate(rows)))
    return path


@pytest.mark.parametrize("suffix", ["edn", "jsonl"])
@pytest.mark.parametrize("value", [str(2**63), str(-(10**600)), "1e300"])
def test_a_number_of_any_size_is_only_a_value_of_a_register(tmp_path, value, suffix):
    path = history(tmp_path, value, suffix)
    assert check(path, "register").status is Status.PASS
    path.write_text(path.read_text()[::-1].replace(value[::-1], "7", 1)[::-1])
    assert check(path, "register").status is Status.FAIL


def test_decimals_and_ratios_are_values_whatever_their_size(tmp_path):
    long = (f"{2**60}/3", "0.10000000000000000001M", "1e999", "##NaN", f"1e-{HUGE}M")
    for value in ("1.5M", "0.1M", "1/3", "-7/2", "123N", *long):
        assert check(history(tmp_path, value, "edn"), "register").status is Status.PASS
    assert list(read_all("1/3 2/6 0.1M 5N")) == [1 / 3, 1 / 3, 0.1, 5]


@pytest.mark.parametrize(
    ("value", "suffix", "why"),
    [
        (HUGE, "edn", "line 1: EDN has an integer of more than"),
        (HUGE, "jsonl", "line 1: an integer of more than"),
        (f"[0x{'f' * 5000}]", "edn", "line 1: EDN has an integer of more than"),
        (f"-0{'7' * 5000}", "edn", "line 1: EDN has an integer of more than"),
        ("1e999", "jsonl", "line 1: a number that is too large: '1e999'"),
        ("1/0", "edn", "line 1: EDN has a ratio to zero"),
        ('"\\ud800"', "edn", "line 1: EDN has half a surrogate pair"),
        ('"\\ud800"', "jsonl", "line 1: half a surrogate pair"),
        ('"\\uZZ"', "edn", "line 1: EDN has an unknown escape"),
        ("[" * 101 + "]" * 101, "jsonl", "line 1: nested more than 100 deep"),
        ("NaN", "jsonl", "line 1: NaN is no JSON value"),
        ("{1 2, 1N 3}", "edn", "line 1: EDN has a map with a key twice"),
    ],
)
def test_a_value_that_cannot_be_held_is_refused_with_its_line(tmp_path, value, suffix, why):
    path = history(tmp_path, value, suffix)
    for read in (load_history, load_columns):
        assert why in str(refusal(read, path))


@pytest.mark.parametrize("number", ["-1", str(2**63), HUGE, "true", "1.5", "null"])
@pytest.mark.parametrize("name", ["index", "time_ns", "process", "offset", "epoch"])
def test_a_number_that_no_column_holds_is_refused(tmp_path, name, number):
    if name in ("offset", "epoch") and number in ("-1", "null"):
        return  # what there is none of
    path = tmp_path / "history.jsonl"
    row = {"index": "0", "time_ns": "1", "process": "0", "type": '"invoke"', "f": '"read"'}
    row |= {name: number}
    path.write_text("{" + ",".join(f'"{key}":{value}' for key, value in row.items()) + "}\n")
    assert refusal(load_columns, path) is not None


def test_a_character_that_java_writes_as_two_is_one():
    assert list(read_all('"\\ud83d\\ude00"')) == ["\N{GRINNING FACE}"]


def test_the_limit_of_digits_is_the_interpreters_own(tmp_path):
    limit = sys.get_int_max_str_digits()
    path = history(tmp_path, "9" * (limit + 1), "edn")
    assert f"more than {limit} digits" in str(refusal(load_history, path))


@pytest.mark.parametrize("text", ["\\newline", "\\tab", "\\space", "\\u0007", "\\a", "\\("])
def test_a_character_is_shown_as_it_is_written(text):
    (character,) = read_all(text)
    assert [repr(character), show(freeze(character)), write(character)] == [text] * 3

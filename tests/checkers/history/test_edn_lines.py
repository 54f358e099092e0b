"""Flat lines of EDN are read as the plain reader reads them, or left to it."""

from random import Random

import pytest

from checkers.history import HistoryError, edn_lines
from checkers.history.edn_lines import NotPlainError, read_table
from checkers.history.files import load_columns, load_judged
from checkers.history.foreign import Reading
from checkers.history.formats import load

pytestmark = pytest.mark.usefixtures("small_files_by_arrow_too")

VALUES = ["nil", "7", "-3", ":a", '"a b"', '"7"', "[1 2]", "[nil :x]", "true", "0", '""']
TAG = "#jepsen.independent/tuple"


def random_lines(rnd, tagged):
    """A history of three clients and a nemesis in the order that Jepsen prints."""
    time, open_f, text = 0, {}, ""
    for index in range(rnd.randint(1, 40)):
        time += rnd.randint(-5, 50)
        client = rnd.randint(0, 3)
        value = rnd.choice(VALUES)
        if tagged:
            value = f"{TAG} [{rnd.choice(['1', ':k', chr(34) + 'k' + chr(34)])} {value}]"
        if client == 3:
            process, kind, f, value = ":nemesis", "info", "kill", '{"n1" :killed}'
        elif client in open_f:
            process, kind = client, rnd.choice(["ok", "ok", "fail"])
            f, value = open_f.pop(client)
        else:
            process, kind, f = client, "invoke", rnd.choice(["read", "write", "cas"])
            open_f[client] = f, value
        error = rnd.choice(["", ", :error :timeout", ', :error [:x "y"]', ", :error {:a 1}"])
        error = error if kind == "fail" else ""
        text += f"{{:index {index}, :time {max(time, 0)}, :process {process}, :type :{kind}, "
        text += f":f :{f}, :value {value}{error}}}\n"
    return text


def both(path, **options):
    """Return the operations by either reader; the fast one must have been the one it is."""
    with path.open("rb") as file:
        read_table(file, independent=options.get("independent", False))
    history = load(path, **options)
    columns = load_judged(path, Reading(options.get("independent", False), True, True))
    assert columns.notes == history.notes
    return columns.columns.operations(), history.operations


@pytest.mark.slow
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("block_bytes", [1 << 22, 300])
def test_both_readers_find_the_same_operations(tmp_path, monkeypatch, tagged, block_bytes):
    monkeypatch.setattr(edn_lines, "_CHUNK_BYTES", block_bytes)
    path = tmp_path / "history.edn"
    for case in range(12):
        path.write_text(random_lines(Random(f"{tagged}-{case}"), tagged))
        fast, plain = both(path)
        assert fast == plain


def test_records_are_read_as_maps(tmp_path):
    path = tmp_path / "history.edn"
    lines = random_lines(Random(7), tagged=True).splitlines()
    path.write_text("".join(f"#jepsen.history.Op{line}\n" for line in lines))
    fast, plain = both(path)
    assert fast == plain


def test_plain_pairs_are_keys_and_values_if_the_caller_says_so(tmp_path):
    path = tmp_path / "history.edn"
    rows = [("invoke", "[9 1]"), ("ok", "[9 1]"), ("invoke", "[8 nil]"), ("ok", "[8 nil]")]
    path.write_text(
        "".join(f"{{:process 0, :type :{k}, :f :write, :value {v}}}\n" for k, v in rows)
    )
    fast, plain = both(path, independent=True)
    assert fast == plain
    assert [(o.key, o.input) for o in fast] == [("9", 1), ("8", None)]


@pytest.mark.parametrize("key", ['#uuid "a"', '#inst "2020"', '#"a"', "#a #b 1", "#'a", "##Inf"])
def test_a_map_with_one_tagged_key_keeps_its_value(tmp_path, key):
    rows = [("invoke", "write", 5), ("ok", "write", 5), ("invoke", "read", 0), ("ok", "read", 6)]
    path = tmp_path / "history.edn"
    path.write_text(
        "".join(f"{{:process 0, :type :{k}, :f :{f}, :value {{{key} {v}}}}}\n" for k, f, v in rows)
    )
    fast, plain = both(path)
    assert fast == plain
    assert [*fast[1].output.values()] == [6]


LINE = "{:process 0, :type :invoke, :f :read, :value nil}\n"


@pytest.mark.parametrize(
    "text",
    [
        "[" + LINE + "]",
        "{:process 0,\n :type :invoke, :f :read, :value nil}\n",
        LINE.replace(":process 0", ":process :late"),
        LINE.replace(":value nil", ':value nil, :node "n1"'),
        LINE + "{:process :nemesis, :type :info, :f :read, :value nil}\n",
        LINE.replace("{", "{:index 2, ") + LINE.replace("{:process 0", "{:index 1, :process 1"),
    ],
)
def test_anything_else_is_left_to_the_plain_reader(tmp_path, text):
    path = tmp_path / "history.edn"
    path.write_text(text)
    with path.open("rb") as file, pytest.raises(NotPlainError):
        read_table(file, independent=False)
    assert load_columns(path).operations() == load(path).operations


@pytest.mark.parametrize("read", [load, load_columns])
def test_a_nul_byte_is_no_part_of_a_value_wherever_it_stands(tmp_path, read):
    begin = "{:process 0, :type :invoke, :f :write, :value 1}\n"
    path = tmp_path / "history.edn"
    path.write_text((begin + begin.replace("invoke", "ok")) * 99 + begin.replace("1}", "n\0}"))
    with pytest.raises(HistoryError, match="line 199: EDN cannot be read at"):
        read(path)

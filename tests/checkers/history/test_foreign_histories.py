"""Histories of Jepsen, Knossos and Elle are read as those tools read them."""

import pytest
from click.testing import CliRunner

from checkers import HistoryError, Status, check, check_by
from checkers.history import INFINITY_NS, EventType
from checkers.history.files import load_judged
from checkers.history.foreign import Reading, history_of
from checkers.history.formats import load
from harness.cli import main


@pytest.fixture
def written(tmp_path):
    """Write a text to a file, and return its path."""

    def write(text, encoding="utf-8"):
        path = tmp_path / "history.edn"
        path.write_text(text, encoding=encoding)
        return path

    return write


def events(*rows, **more):
    """EDN maps, one a line; each row is (process, type, f, value, other fields)."""
    text = ""
    for process, kind, f, value, *rest in rows:
        other = "".join(f", {field}" for field in rest)
        text += f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}{other}}}\n"
    return text


STALE = [
    *[(0, "invoke", "write", 1), (0, "ok", "write", 1)],
    *[(0, "invoke", "write", 2), (0, "ok", "write", 2)],
    *[(1, "invoke", "read", "nil"), (1, "ok", "read", 1)],
]
"""A read of a value that had been overwritten before it began."""


def status(path, model="register", **options):
    return check(path, model, **options).status


def test_order_is_that_of_the_file_and_not_of_the_times(written):
    times = [100, 90, 95, 20, 20, 20]
    rows = [(*row, f":time {time}") for row, time in zip(STALE, times, strict=True)]
    result = check(written(events(*rows)), "register")
    assert result.status is Status.FAIL
    assert result.statistics["notes"] == [
        "times go back 5 times, by up to 80 ns: ordered by index or position"
    ]


@pytest.mark.parametrize("time", ["0", "nil", "-1", "1.5", '"noon"'])
def test_equal_or_senseless_times_do_not_hide_a_violation(written, time):
    rows = [(*row, f":time {time}", f":index {i}") for i, row in enumerate(STALE)]
    assert status(written(events(*rows))) is Status.FAIL


def test_times_of_some_events_only_are_kept_for_people(written):
    rows = [(*row, f":time {1000 * i}") if i % 2 else row for i, row in enumerate(STALE)]
    history = load(written(events(*rows)))
    assert [event.time_ns for event in history.events] == [0, 1000, 1001, 3000, 3001, 5000]


def test_events_in_disorder_are_ordered_by_index(written):
    rows = [(*row, f":index {i}") for i, row in enumerate(STALE)]
    result = check(written(events(*rows[2:], *rows[:2])), "register")
    assert result.status is Status.FAIL
    assert "ordered by index" in result.statistics["notes"][0]


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize("index", ["-1", "nil", "3", "2.5", '"7"'])
def test_indexes_that_are_none_leave_the_order_of_the_file(written, index, padding):
    rows = [(*row, f":index {index}") for row in STALE]
    path = written(events(*rows) + padding)
    assert [event.index for event in load(path).events] == [0, 1, 2, 3, 4, 5]
    notes = check(path, "register").statistics.get("notes", [])
    assert [note.startswith("indexes are missing") for note in notes] == [True] * (index != "nil")


REFUSED = [
    *[(0, "invoke", "write", 1), (0, "ok", "write", 1)],
    *[(1, "invoke", "cas", "[1 2]"), (1, "fail", "cas", "[1 2]")],
]
"""A compare-and-set that failed, for whatever reason, though its value was there."""


def test_a_failed_operation_did_not_happen_and_shows_nothing_more(written):
    path = written(events(*REFUSED))
    assert status(path, "cas-register") is Status.PASS
    assert status(path, "cas-register", refusals=True) is Status.FAIL
    notes = check(path, "cas-register").statistics["notes"]
    assert notes == ["1 failed operations count as never done, and show nothing"]


def test_a_read_of_nil_is_unknown_unless_it_is_said_to_be_no_value(written):
    path = written(events(*STALE[:2], (1, "invoke", "read", "nil"), (1, "ok", "read", "nil")))
    assert status(path) is Status.PASS
    assert status(path, nil_reads=True) is Status.FAIL
    notes = check(path, "register").statistics["notes"]
    assert notes == ["1 reads of nil count as unknown, not as reads of no value"]


def test_the_initial_value_can_be_named(written):
    path = written(events((1, "invoke", "read", "nil"), (1, "ok", "read", 0)))
    for model in ("register", "cas-register"):
        assert status(path, model) is Status.FAIL
        assert status(path, model, initial=0) is Status.PASS
    with pytest.raises(ValueError, match="takes no initial value"):
        check(path, "mutex", initial=0)


@pytest.mark.parametrize("value", ["1.5", "null", "false", '"a"', "[1, 2]"])
@pytest.mark.parametrize("model", ["register", "cas-register"])
def test_the_initial_value_may_be_in_json(written, value, model):
    rows = ('"invoke", "value": null', f'"ok", "value": {value}')
    text = "".join(f'{{"process": 0, "f": "read", "type": {row}}}\n' for row in rows)
    command = ["check", str(written(text)), "--model", model, "--nil-reads", "--initial"]
    assert CliRunner().invoke(main, [*command, value]).exit_code == 0
    assert CliRunner().invoke(main, [*command, "2.5"]).exit_code == 1


def test_options_of_the_command_say_how_a_file_is_read(written):
    path = str(written(events((1, "invoke", "read", "nil"), (1, "ok", "read", "#{1 2}"))))
    run = CliRunner()
    wrong = run.invoke(main, ["check", path, "--initial", "[1 2]"])
    right = run.invoke(main, ["check", path, "--initial", "#{2 1}"])
    assert (wrong.exit_code, right.exit_code) == (1, 0), (wrong.output, right.output)
    assert run.invoke(main, ["check", path, "--initial", "[1"]).exit_code == 2
    seen = [(2, "invoke", "read", "nil"), (2, "ok", "read", 1)]
    cas = str(written(events(*REFUSED, *seen)))
    assert run.invoke(main, ["check", cas, "--model", "cas-register", "--refusals"]).exit_code == 1
    shown = run.invoke(main, ["check", cas, "--model", "cas-register"])
    assert shown.exit_code == 0
    assert "1 failed operations" in shown.output


def test_independent_keys_are_recognised_by_their_tag(written):
    def tagged(key, value):
        return f"#jepsen.independent/tuple [{key} {value}]"

    rows = [(0, kind, "write", tagged(9, 1)) for kind in ("invoke", "ok")]
    rows += [(1, "invoke", "read", tagged(8, "nil")), (1, "ok", "read", tagged(8, "nil"))]
    result = check(written(events(*rows)), "register", nil_reads=True)
    assert result.status is Status.PASS
    assert {o.key for o in load(written(events(*rows))).operations} == {"8", "9"}


@pytest.mark.parametrize("tag", ["#jepsen.independent/tuple ", ""])
def test_an_event_without_a_process_has_a_key_as_well(written, tag):
    rows = [(0, kind, "write", f"{tag}[9 1]") for kind in ("invoke", "ok")]
    path = written(events(*rows, ("nil", "ok", "read", f"{tag}[9 1]")))
    result = check(path, "register", independent=not tag)
    assert (result.status, result.key) == (Status.PASS, "9")


@pytest.mark.parametrize(
    ("written_value", "read_value", "equal"),
    [
        ("#{1 2}", "#{2 1}", True),
        ("#{1 2}", "[1 2]", False),
        ("(1 2)", "[1 2]", True),
        (":a", '"a"', False),
        (":a", "a", False),
        ("1", "1.0", False),
        ("1N", "1", True),
        ("1.0", "1.0M", False),
        ("1/2", "2/4", True),
        ("1/2", "0.5", False),
        ("0x10", "16", True),
        ("{:a 1}", "{:a 1}", True),
        (":nil", ":nil", True),
        ('#uuid "x"', '"x"', False),
        ('#uuid "AB"', '#uuid "ab"', True),
        ('#inst "2020-01-01T01:00:00+01:00"', '#inst "2020-01-01T00:00:00.000-00:00"', True),
        ('#inst "2020-01-01"', '#inst "2020-01-01T00:00:00.001Z"', False),
        ('#inst "x"', '#inst "x"', True),
        ('#inst "0001-01-01T00:00:00+14:00"', '#inst "0001-01-01T00:00:00+14:00"', True),
        ("[1 #{:a}]", '[1 #{"a"}]', False),
    ],
)
def test_values_are_equal_as_in_clojure(written, written_value, read_value, equal):
    rows = [(0, kind, "write", written_value) for kind in ("invoke", "ok")]
    rows += [(1, "invoke", "read", "nil"), (1, "ok", "read", read_value)]
    assert status(written(events(*rows))) is (Status.PASS if equal else Status.FAIL)


def test_what_the_nemesis_does_as_clients_do_is_said_and_not_judged(written):
    rows = [*STALE[:2], (":nemesis", "info", "write", 7), (":nemesis", "info", "kill", "nil")]
    result = check(written(events(*rows)), "register")
    assert result.status is Status.PASS
    assert result.statistics["notes"] == [
        "operations of the process nemesis are not judged, though clients do: 1 write"
    ]


def test_a_keyword_that_invokes_is_a_client_and_one_that_only_informs_is_not(written):
    rows = [*STALE[:4], (":late", "invoke", "read", "nil"), (":late", "ok", "read", 1)]
    rows += [(":clock", "info", "bump", 1)]
    history = load(written(events(*rows)))
    assert {o.process for o in history.operations} == {0, "late"}
    assert status(written(events(*rows))) is Status.FAIL


def test_a_process_that_comes_again_after_info_leaves_its_operation_open(written):
    rows = [(0, "invoke", "write", 1), (0, "info", "write", 1)]
    rows += [(0, "invoke", "read", "nil"), (0, "ok", "read", 1)]
    first, second = load(written(events(*rows))).operations
    assert (first.type, first.complete_ns) == (EventType.INFO, INFINITY_NS)
    assert first.process != second.process
    assert status(written(events(*rows))) is Status.PASS


def test_a_process_that_comes_again_needs_a_number(written):
    rows = [(INFINITY_NS - 1, kind, "write", 1) for kind in ("invoke", "info")]
    with pytest.raises(HistoryError, match="no number above"):
        check(written(events(*rows)), "register")


def test_a_completion_without_invocation_may_have_begun_at_any_time(written):
    rows = [(0, "ok", "read", 1), (1, "invoke", "write", 1), (1, "ok", "write", 1)]
    assert status(written(events(*rows))) is Status.FAIL, "it was done before the write began"
    assert status(written(events(*rows[1:], rows[0]))) is Status.PASS


def test_a_process_does_one_thing_after_another_also_without_invocations(written):
    rows = [(0, "ok", "write", 1), (0, "ok", "write", 2), (0, "ok", "read", 1)]
    assert status(written(events(*rows))) is Status.FAIL
    assert status(written(events(*rows[:2], (1, "ok", "read", 1)))) is Status.PASS
    late = [*STALE[:4], (1, "invoke", "write", 3), (1, "ok", "write", 3), (1, "ok", "read", 3)]
    assert check_by(written(events(*late)), "sessions").status is Status.PASS


def test_operations_without_f_or_process_are_transactions():
    history = history_of([{"type": "invoke"}, {"type": "ok", "value": [["r", "x", 1]]}])
    (operation,) = history.operations
    assert (operation.f, operation.type) == ("txn", EventType.OK)
    lonely, skipped = history.notes
    assert lonely.startswith("1 completions without an invocation")
    assert skipped == "1 invocations without a process are not judged"


ONE = "{:process 0, :type :invoke, :f :read, :value nil}"


@pytest.mark.parametrize(
    "text",
    [
        f"[{ONE}]",
        f"({ONE})",
        "#{" + ONE + "}",
        "\ufeff" + ONE,
        f", #_ {{:a 1}} {ONE}",
        f"; a note\n{ONE}",
        "[[0 :invoke :read nil]]",
        "[0 :invoke :read nil]",
        "0\t:invoke\t:read\tnil\n",
        "\ufeff0\t:invoke\t:read\tnil\n",
        "0\tinvoke\tread\tnil\n",
        '[{"process": 0, "type": "invoke", "f": "read", "value": null}]',
        ONE.replace("}", ', :error #error {:via [#object[Foo 0x1f "x"]]}}'),
        ONE.replace("}", ", :x ##NaN, :y #foo.Bar{:a 1}, :z #:a{:b 1}}"),
        ONE.replace("}", ', :x ^{:line 1} [1], :y #\'a/b, :z #"a\\d"}'),
        f"#jepsen.history.Op{ONE}",
        f"^{{:line 1}} {ONE}",
    ],
)
def test_every_form_of_one_event_is_read(written, text):
    (operation,) = load(written(text)).operations
    assert (operation.process, operation.f, operation.input) == (0, "read", None)


@pytest.mark.parametrize("text", ["#=(exit)", "#(inc %)", "{:type :ok", "[1 2]", "@x"])
def test_what_is_no_data_or_no_operation_is_refused(written, text):
    with pytest.raises(HistoryError):
        load(written(text))


def test_what_is_left_out_is_said_also_where_the_model_has_no_columns(written):
    file = load_judged(written(events(*REFUSED)), Reading())
    assert ([o.f for o in file.judged.operations()], len(file.notes)) == (["write"], 1)
    rows = [(0, kind, "acquire", "nil") for kind in ("invoke", "fail")]
    assert "failed" in check(written(events(*rows)), "mutex").statistics["notes"][0]

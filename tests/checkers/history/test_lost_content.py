"""No part of a foreign history is passed over in silence: it is judged, or there is no PASS."""

import pytest

from checkers import HistoryError, Status, check, check_by
from tests.command_line import kraftprobe

PASS, FAIL, UNKNOWN = Status.PASS, Status.FAIL, Status.UNKNOWN


def edn(*rows):
    """Operations one after another, each (process, f, value, result), ended by its type."""
    lines = []
    for process, f, value, result, *kind in rows:
        head = f"{{:process {process} :type "
        lines.append(f"{head}:invoke :f :{f} :value {value}}}")
        lines.append(f"{head}:{''.join(kind) or 'ok'} :f :{f} :value {result}}}")
    return "\n".join(lines)


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "history"
        path.write_bytes(text.encode())
        return path

    return write


GOOD = edn((0, "write", 1, 1), (1, "read", "nil", 1))
STALE = edn((0, "write", 1, 1), (0, "write", 2, 2), (1, "read", "nil", 1))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_comment_ends_with_its_line_whatever_ends_lines(written, newline):
    path = written(f"{GOOD}\n; once more\n{STALE}".replace("\n", newline))
    assert check(path, "register").status is FAIL


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_of_people_end_as_they_like(written, newline):
    rows = "0 invoke write 1\n0 ok write 1\n1 invoke read nil\n1 ok read 7\n"
    path = written(rows.replace(" ", "\t").replace("\n", newline))
    assert check(path, "register").status is FAIL


LOG = "INFO [2015-05-22 21:00:13,456] jepsen worker 0 - jepsen.util "
OPERATIONS = "".join(
    f"{LOG}{op}\n" for op in ("0 :invoke :write 1", "0 :ok :write 1", "1 :invoke :read nil")
)


@pytest.mark.parametrize(
    "line",
    [
        f"{LOG}\x1b[32m1 :ok :read 7\x1b[0m",
        f"{LOG}               1 :ok :read 7",
        f'{LOG}1 :ok "read" 7',
        f"{'x' * 500} {LOG}1 :ok :read 7",
        "1\t:ok\t:read\t7",
    ],
)
def test_an_operation_of_a_log_that_cannot_be_read_is_no_line_without_one(written, line):
    with pytest.raises(HistoryError, match="line 4: no operation"):
        check(written(OPERATIONS + line), "register")


def test_a_text_like_a_line_of_a_log_makes_no_log(written):
    rows = "0 :invoke :write 1\n0 :ok :write 1\n1 :invoke :read nil\n1 :ok :read 7\n"
    crashed = f'2 :invoke :read nil\n2 :info :read nil "{LOG}2 :info :read nil"\n'
    assert check(written((rows + crashed).replace(" :", "\t:")), "register").status is FAIL


def test_other_lines_of_a_log_are_counted(written):
    lines = f"{LOG}1 :ok :read 1\n{LOG}results {{:op {{:process 1, :type :ok, :f :read}}}}"
    result = check(written(OPERATIONS + lines), "register")
    assert (result.status, result.statistics["notes"]) == (
        PASS,
        ["1 lines of the log hold no operation"],
    )


def test_a_line_of_a_log_that_names_loggers_over_and_over_is_read_in_time(written):
    """Each name that was one more place to look from would make this hours."""
    line = "jepsen.util " * 80_000
    result = check(written(f"{OPERATIONS}{line}\n{LOG}1 :ok :read 1"), "register")
    assert result.status is PASS


SENT = (0, "send", "[[:send 0 1]]", "[[:send 0 [0 1]]]")
POLLED = (1, "poll", "[[:poll]]", "[[:poll {0 [[0 1]]}]]")


@pytest.mark.parametrize(
    "row",
    [
        (2, "poll", "nil", "[[:poll {0 [[0 7]]}]]"),
        (2, "poll", "[]", "[[:poll {0 [[0 7]]}]]"),
        (2, "read", "nil", "[[0 7]]"),
    ],
)
def test_an_answer_that_is_none_of_sends_and_polls_is_refused(written, row):
    with pytest.raises(HistoryError, match=r"event 4: .* is no completion"):
        check(written(edn(SENT, POLLED, row)), "log")


def test_what_consumers_do_beside_polls_is_counted(written):
    rows = (2, "assign", "[0]", "[0]"), (3, "crash", "nil", "nil", "info")
    result = check(written(edn(SENT, POLLED, *rows)), "log")
    assert result.status is PASS
    assert result.statistics["notes"][0] == (
        "neither sends nor polls, and not judged: 1 assign, 1 crash"
    )


def test_a_function_that_a_check_does_not_know_leaves_it_in_doubt(written):
    rows = [(0, "add", 1, 1), (1, "read", "nil", "#{1}"), (0, "remove", 1, 1)]
    result = check_by(written(edn(*rows)), "set-full")
    assert (result.status, result.anomalies[0]["kind"]) == (UNKNOWN, "unreadable")


def test_transactions_of_independent_keys_are_not_mixed(written):
    rows = [
        (0, "txn", f"{TUPLE} [:k [[:append :x 1]]]", f"{TUPLE} [:k [[:append :x 1]]]"),
        (1, "txn", f"{TUPLE} [:j [[:r :x nil]]]", f"{TUPLE} [:j [[:r :x [1]]]]"),
    ]
    assert check_by(written(edn(*rows)), "transactions").status is UNKNOWN


TUPLE = "#jepsen.independent/tuple"


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize("read", [1, 2])
def test_a_write_that_was_answered_with_another_value_is_refused(written, read, padding):
    path = written(edn((0, "write", 1, 2), (1, "read", "nil", read)) + padding)
    with pytest.raises(HistoryError, match="a write of 1 was answered with 2"):
        check(path, "register")


@pytest.mark.parametrize("answer", ["nil", 1])
def test_a_write_is_answered_with_its_value_or_with_nothing(written, answer):
    rows = (0, "write", 1, answer), (1, "read", "nil", 1)
    assert check(written(edn(*rows)), "register").status is PASS


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize("answer", ["false", "[1 3]"])
def test_a_cas_that_was_answered_with_something_else_is_refused(written, answer, padding):
    rows = (0, "write", 1, 1), (0, "cas", "[1 2]", answer), (1, "read", "nil", 1)
    with pytest.raises(HistoryError, match=r"a cas of \[1, 2\] was answered with"):
        check(written(edn(*rows) + padding), "cas-register")


@pytest.mark.parametrize("answer", ["nil", "true", "[1 2]"])
def test_a_cas_is_answered_with_its_pair_or_with_no_value_of_the_register(written, answer):
    rows = (0, "write", 1, 1), (0, "cas", "[1 2]", answer), (1, "read", "nil", 2)
    assert check(written(edn(*rows)), "cas-register").status is PASS


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize(
    ("model", "put", "take", "asked", "answered", "taken"),
    [
        ("queue", "enqueue", "dequeue", "nil", 2, 2),
        ("queue", "enqueue", "dequeue", "nil", "nil", "nil"),
        ("unordered-queue", "enqueue", "dequeue", "nil", "nil", "nil"),
        ("set", "add", "read", "nil", 2, "[2]"),
    ],
)
def test_what_goes_in_has_to_be_in_its_invocation(
    written, model, put, take, asked, answered, taken, padding
):
    rows = (0, put, asked, answered), (1, take, "nil", taken)
    with pytest.raises(HistoryError, match=f"{put} of nothing"):
        check(written(edn(*rows) + padding), model)


@pytest.mark.parametrize("offset", [-1, 2**63, 10**30])
def test_an_offset_that_no_log_has_is_refused(written, offset):
    ends = (0, "read", "nil", f"[[{offset} 7]]")
    for row in ((0, "append", 7, offset), (0, "read", offset, "[]"), ends):
        assert kraftprobe("check", written(edn(row)), "--model", "log").exit_code == 2


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize(("model", "f"), [("queue", "dequeue"), ("mutex", "acquire")])
def test_keys_of_what_is_not_read_are_seen_as_well(written, model, f, padding):
    put = "enqueue" if model == "queue" else f
    rows = (0, put, "[1 7]", "[1 7]"), (0, put, "[2 8]", "[2 8]"), (1, f, "[3 nil]", "[3 nil]")
    path = written(edn(*rows) + padding)
    with pytest.raises(HistoryError, match="give --independent"):
        check(path, model)
    assert check(path, model, independent=True).status is PASS


def test_nothing_may_be_appended_to_a_log_at_an_offset(written):
    rows = (0, "append", "nil", 3), (1, "read", "nil", "[[3 nil]]")
    assert check(written(edn(*rows)), "log").status is PASS


@pytest.mark.parametrize("padding", ["", " " * 70_000])
@pytest.mark.parametrize("got", [":ab", "ab", "[]", "{}"])
@pytest.mark.parametrize("before", [[], [(1, "get", "nil", '"ab"')]])
@pytest.mark.parametrize("again", [[], [(0, "put", '"ab"', '"ab"')]])
def test_a_string_is_no_keyword_and_nothing_else(written, before, got, again, padding):
    puts = [(0, "put", '"a"', '"a"'), (0, "append", '"b"', '"b"'), *again]
    path = written(edn(*puts, *before, (1, "get", "nil", got)) + padding)
    assert check(path, "kv").status is FAIL


@pytest.mark.parametrize(("put", "got"), [("5", "5"), ("a", "\\a"), ("[]", "[]"), ("1.0", "1.0")])
def test_a_string_is_not_what_is_written_like_it(written, put, got):
    path = written(edn((0, "put", f'"{put}"', "nil"), (1, "get", "nil", got)))
    assert check(path, "kv").status is FAIL


@pytest.mark.parametrize("value", [":a", "a", "\\a"])
@pytest.mark.parametrize("f", ["put", "append"])
def test_what_is_no_text_makes_no_string(written, f, value):
    path = written(edn((0, f, value, "nil"), (1, "get", "nil", '"a"')))
    with pytest.raises(HistoryError, match="is no text"):
        check(path, "kv")


def test_a_queue_of_nothing_is_refused(written):
    rows = (0, "enqueue", "nil", 2), (1, "dequeue", "nil", 2)
    with pytest.raises(HistoryError, match="enqueue of nothing"):
        check(written(edn(*rows)), "unordered-queue")


@pytest.mark.parametrize("padding", ["", " " * 70_000])
def test_a_list_that_was_read_as_a_set_has_no_order(written, padding):
    rows = (0, "append", 1, 1), (0, "append", 2, 2), (1, "read", "nil", "#{2 1}")
    with pytest.raises(HistoryError, match=r"a list is read as a list, not as #\{1 2\}"):
        check(written(edn(*rows) + padding), "list-append")


@pytest.mark.parametrize("read", ["#{1 2}", "#{2 1}"])
def test_a_transaction_that_read_a_list_as_a_set_leaves_it_in_doubt(written, read):
    appends = "[[:append :x 1] [:append :x 2]]"
    rows = (0, "txn", appends, appends), (1, "txn", "[[:r :x nil]]", f"[[:r :x {read}]]")
    result = check_by(written(edn(*rows)), "transactions")
    assert (result.status, result.summary.partition(": a list")[1]) == (UNKNOWN, ": a list")


def test_a_cas_of_a_set_has_no_first_value(written):
    rows = (0, "write", 1, 1), (0, "cas", "#{1 2}", "#{1 2}"), (1, "read", "nil", 2)
    with pytest.raises(HistoryError, match="a cas needs"):
        check(written(edn(*rows)), "cas-register")


def test_a_proof_does_not_take_the_place_of_its_history(written):
    path = written(GOOD)
    args = [
        "check",
        str(path),
        "--certificate",
        str(path.parent / ".." / path.parent.name / path.name),
    ]
    assert kraftprobe(*args).exit_code == 2
    assert path.read_text() == GOOD


def test_a_proof_does_not_take_the_place_of_a_link(written):
    path = written(GOOD)
    link = path.with_name("stdout")
    link.symlink_to("/dev/stdout")
    answer = kraftprobe("check", path, "--certificate", link)
    assert (answer.exit_code, link.is_symlink()) == (2, True)
    assert "a symbolic link, not a plain file" in answer.output


def test_a_client_with_a_name_that_only_crashed_is_no_nemesis(written):
    crashed = '{:process "c1" :type :info :f :write :value 7}'
    rows = edn((0, "write", 1, 1), (1, "read", "nil", 7))
    assert check(written(f"{crashed}\n{rows}"), "register").status is PASS


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("cas-register", "refusals=true"),
        ("register", 'functions=["write"]'),
        ("sessions", 'functions=["write"]'),
    ],
)
def test_a_file_is_judged_whole_whatever_a_plan_may_leave_to_others(written, model, option):
    args = ["check", str(written(STALE)), "--model", model, "--option", option]
    answer = kraftprobe(*args)
    assert answer.exit_code == 2
    assert "for plans alone" in answer.output


@pytest.mark.parametrize("f", ["txn", "transact"])
def test_transactions_that_only_write_observe_nothing(written, f):
    model = "transactions-rw-register"
    rows = [(0, f, "[[:w :x 1]]", "[[:w :x 1]]"), (1, f, "[[:r :x nil]]", "[[:r :x 1]]")]
    assert kraftprobe("check", written(edn(*rows[:1])), "--model", model).exit_code == 4
    assert kraftprobe("check", written(edn(*rows)), "--model", model).exit_code == 0


@pytest.mark.parametrize(
    ("model", "change", "level", "code"),
    [
        ("transactions-rw-register", "[:w :x 1]", "strict-serializable", 0),
        ("transactions-rw-register", "[:w :y 1]", "strict-serializable", 4),
        ("transactions-rw-register", "[:w :x 1]", "serializable", 4),
        ("transactions-list-append", "[:append :x 1]", "strict-serializable", 0),
    ],
)
def test_a_transaction_that_read_nothing_shows_that_it_was_before_a_write(
    written, model, change, level, code
):
    rows = [(0, "txn", "[[:r :x nil]]", "[[:r :x nil]]"), (1, "txn", f"[{change}]", f"[{change}]")]
    path = written(edn(*rows))
    assert kraftprobe("check", path, "--model", model, "--consistency", level).exit_code == code


@pytest.mark.parametrize(
    ("shown", "level", "code"),
    [("[]", "serializable", 4), ("[]", "strict-serializable", 1), ("[1]", "serializable", 0)],
)
def test_lists_that_are_always_empty_are_those_of_a_store_that_keeps_nothing(
    written, shown, level, code
):
    append = (0, "txn", "[[:append :x 1]]", "[[:append :x 1]]")
    path = written(edn(append, (1, "txn", "[[:r :x nil]]", f"[[:r :x {shown}]]")))
    options = ["--model", "transactions-list-append", "--consistency", level]
    assert kraftprobe("check", path, *options).exit_code == code


@pytest.mark.parametrize(("shown", "code"), [("nil", 4), ("1", 0)])
def test_sessions_that_read_nothing_are_those_of_a_store_that_keeps_nothing(written, shown, code):
    path = written(edn((0, "write", 1, 1), (1, "read", "nil", shown)))
    assert kraftprobe("check", path, "--model", "sessions", "--nil-reads").exit_code == code


@pytest.mark.parametrize("value", ["0", '""', "false", "[]"])
def test_a_value_without_a_key_is_refused_in_a_long_file_as_well(written, value):
    many = edn(*[(0, "write", f"[:k {i}]", f"[:k {i}]") for i in range(900)])
    path = written(f"{many}\n{edn((1, 'read', '[:k nil]', value))}")
    with pytest.raises(HistoryError, match=r"no \[key value\]"):
        check(path, "register", independent=True)


@pytest.mark.parametrize("model", ["set", "counter"])
def test_nothing_that_is_judged_is_no_pass(written, model):
    path = written(edn((0, "add", 1, 1, "fail")))
    assert check(path, model).status is Status.UNDER_EXERCISED

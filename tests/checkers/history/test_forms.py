"""One history is judged alike in every form that people have, or refused in one line."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import pytest

from checkers import HistoryError, Status, check
from checkers.history.formats import load

RIGHT = [
    *[(0, "invoke", "write", 1), (0, "ok", "write", 1)],
    *[(0, "invoke", "write", 2), (0, "fail", "write", 2)],
    *[(1, "invoke", "read", None), (1, "ok", "read", 1)],
]
STALE = [*RIGHT[:3], (0, "ok", "write", 2), *RIGHT[4:]]


def maps(rows, **more):
    names = ("process", "type", "f", "value")
    return [{**dict(zip(names, row, strict=True)), **more} for row in rows]


def lines(rows, **more):
    return "".join(json.dumps(event) + "\n" for event in maps(rows, **more))


def numbered(rows, **more):
    """Lines with fields that depend on their place."""
    events = [
        {**event, **{k: of(i) for k, of in more.items()}} for i, event in enumerate(maps(rows))
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


def edn(rows, of="{}", head="{{:", more=""):
    def shown(value):
        return "nil" if value is None else of.format(value)

    line = head + "process {}, :type :{}, :f :{}, :value {}" + more + "}}\n"
    return "".join(line.format(*row[:3], shown(row[3])) for row in rows)


def text(rows, line):
    shown = ((p, kind, f, "nil" if value is None else value) for p, kind, f, value in rows)
    return "".join(line.format(*row) + "\n" for row in shown)


CORE = "2021-07-28 13:24:30,000{GMT}\tINFO\t[jepsen test runner] jepsen.core: Test version 1\n"
NEMESIS = (
    "2021-07-28 13:24:32,044{GMT}\tINFO\t[nemesis] jepsen.util: :nemesis\t:info\t:start\tnil\n"
)
FORMS = {
    "lines": lines,
    "lines with CRLF": lambda rows: lines(rows).replace("\n", "\r\n"),
    "lines with commas": lambda rows: lines(rows).replace("}\n", "},\n"),
    "lines with a byte-order mark": lambda rows: "\ufeff" + lines(rows),
    "array": lambda rows: json.dumps(maps(rows)),
    "array over lines": lambda rows: json.dumps(maps(rows), indent=2),
    "objects over lines": lambda rows: "\n".join(json.dumps(m, indent=1) for m in maps(rows)),
    "arrays": lambda rows: json.dumps([list(row) for row in rows]),
    "an array a line": lambda rows: "\n".join(json.dumps(row) for row in rows),
    "object": lambda rows: json.dumps({"name": "x", "history": maps(rows)}),
    "EDN": edn,
    "EDN in a map": lambda rows: f"{{:name 1, :history [{edn(rows)}]}}",
    "EDN vectors": lambda rows: text(rows, "[{} :{} :{} {}]"),
    "EDN with text for keywords": lambda rows: text(
        rows, '{{"process" {} "type" "{}" "f" "{}" "value" {}}}'
    ),
    "records": lambda rows: edn(rows, head="#jepsen.history.Op{{:"),
    "gzip of EDN": lambda rows: gzip.compress(edn(rows).encode()),
    "gzip of lines": lambda rows: gzip.compress(lines(rows).encode()),
    "history.txt": lambda rows: text(rows, "{}\t:{}\t:{}\t{}"),
    "history.txt, padded": lambda rows: text(rows, "{}      \t:{}  \t:{}   \t{}"),
    "history.txt with blanks": lambda rows: text(rows, "{} :{}   :{} {}"),
    "old log": lambda rows: text(rows, "INFO  jepsen.util - {}\t:{}\t:{}\t{}"),
    "old log with blanks": lambda rows: text(rows, "INFO  jepsen.util - {}   :{} :{} {}"),
    "log with times": lambda rows: text(
        rows, "INFO [2015-05-22 21:00:13,456] jepsen worker 3 - jepsen.util {} :{} :{} {}"
    ),
    "jepsen.log": lambda rows: (
        CORE
        + "java.lang.Exception: no\n\tat a.b(c.clj:1)\n"
        + text(rows, "2021-07-28 13:24:32,044{{GMT}}\tINFO\t[w 0] jepsen.util: {}\t:{}\t:{}\t{}")
        + NEMESIS
    ),
    "indexes with gaps": lambda rows: numbered(rows, index=lambda i: 3 * i + 5),
    "indexes given twice": lambda rows: lines(rows, index=0),
    "indexes in EDN given twice": lambda rows: edn(rows, more=", :index 3"),
    "out of order, with indexes": lambda rows: "".join(
        reversed(numbered(rows, index=lambda i: i).splitlines(keepends=True))
    ),
    "times alone": lambda rows: numbered(rows, time=lambda i: 1000 * i),
    "times of floats": lambda rows: numbered(rows, time=lambda i: i / 1000),
    "times of texts": lambda rows: numbered(rows, time=lambda i: f"2020-01-01T00:00:0{i}Z"),
    "times that go back": lambda rows: numbered(rows, time=lambda i: 1000 - i),
    "more fields": lambda rows: lines(rows, node="n1", ip="1.2.3.4", more={"a": [1]}),
    "whole keys": lambda rows: lines(rows, key=7),
    "a nemesis": lambda rows: lines([("nemesis", "info", "kill", {"n1": 1}), *rows]),
    "clients with names": lambda rows: lines([(f"c{p}", *rest) for p, *rest in rows]),
    "colons in JSON": lambda rows: lines([(p, f":{k}", f":{f}", v) for p, k, f, v in rows]),
    "large values": lambda rows: lines([(*r[:3], r[3] and r[3] * 10**30) for r in rows]),
    "times of EDN": lambda rows: edn(rows, of='#inst "2020-01-0{}"'),
    "characters": lambda rows: edn(rows, of="\\{}"),
    "maps": lambda rows: edn(rows, of='{{:a 1, "a" {}}}'),
    "sets of vectors": lambda rows: edn(rows, of="#{{:a [{}]}}"),
    "tagged tuples": lambda rows: edn(
        [(*r[:3], r[3] or "nil") for r in rows], of="#jepsen.independent/tuple [:k {}]"
    ),
}


@pytest.fixture(params=["line by line", "by Arrow"])
def written(request, tmp_path, monkeypatch):
    """Write a history to a file, which is read either way, and return its path."""
    if request.param == "by Arrow":
        monkeypatch.setattr("checkers.history.files.SMALL_BYTES", -1)

    def write(content):
        path = tmp_path / "history"
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        )
        return path

    return write


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_alike(written, form):
    right = check(written(FORMS[form](RIGHT)), "register")
    assert right.status is Status.PASS
    assert any("1 failed operations" in note for note in right.statistics["notes"])
    assert check(written(FORMS[form](STALE)), "register").status is Status.FAIL


def packed(rows):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("history.edn", edn(rows))
    return archive.getvalue()


def tarred(rows):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        member = tarfile.TarInfo("history.edn")
        member.size = len(edn(rows))
        file.addfile(member, io.BytesIO(edn(rows).encode()))
    return archive.getvalue()


PORCUPINE = {"ClientId": 0, "Input": {"op": 1}, "Call": 0, "Output": {}, "Return": 10}
ONE = '{"index":0,"time_ns":0,"process":0,"type":"invoke","f":"read"}'
REFUSED = [
    (b"", "empty"),
    ("hello", "not a history: neither JSON, EDN nor lines"),
    (ONE.replace("invoke", "begin"), "line 1: type is 'begin'"),
    (ONE.replace('"f"', '"g"'), "line 1: unknown field 'g'"),
    (ONE.replace(':"read"', ":1"), "line 1: f is 1, not a text"),
    (ONE.replace('s":0', 's":1.5'), "line 1: process is 1.5, not a number from 0 on"),
    ("{:process 0, :type :ok, :f :read", "line 1: EDN ends inside the form"),
    ("{:process 0, :type :maybe, :f :read}", "form 1: type is :maybe"),
    ("[1 2]", "form 1: no operation"),
    (gzip.compress(edn(RIGHT).encode())[:-9], "not whole gzip"),
    (bz2.compress(edn(RIGHT).encode()), "bzcat"),
    (lzma.compress(edn(RIGHT).encode()), "xzcat"),
    (packed(RIGHT), "zip archive"),
    (tarred(RIGHT), "tar archive"),
    (b"JEPSEN\x00\x01", "give the history.edn"),
    (edn(RIGHT).encode("utf-16"), "UTF-16"),
    (edn(RIGHT).encode() + b"; caf\xe9", "not UTF-8"),
    (bytes(9000), "not UTF-8"),
    (json.dumps(maps(RIGHT))[:-1] + ",]", "line 1: not whole JSON"),
    (lines(RIGHT)[:-9], "line 6: not whole JSON"),
    ('[[0, "invoke", "read", null],\n[0, "ok", "read", null]\n}', "line 3: not whole JSON"),
    ('[["c", "invoke", "read", null],\n["c", "ok", "read", NaN]]', "line 1: NaN"),
    ('{"value":' * 50_000 + "1" + "}" * 50_000, "line 1: nested more than 100 deep"),
    ('{"value":' + "[" * 50_000 + "]" * 50_000 + "}", "line 1: nested more than 100 deep"),
    (lines(RIGHT).replace("\n", ""), "line 1: not whole JSON"),
    (lines(RIGHT).replace('"type"', '"f":"x","type"'), "line 1: key 'f'"),
    (lines(RIGHT[:1], error="\ud800"), "line 1: half a surrogate pair"),
    (lines([(0, "ok", "read", float("nan"))]), "line 1: NaN"),
    (lines([(0.5, "ok", "read", 1)]), "process is 0.5"),
    (lines([(-1, "ok", "read", 1)]), "process is -1"),
    (json.dumps([PORCUPINE]), "give two events for each"),
    (json.dumps(PORCUPINE) + "\n", "give two events for each"),
    ('{"valid?": true}', "not a history"),
    ("{:valid? true}", "form 1: no operation"),
    (text(RIGHT, "{} :{} :{} {}") + "what is this\n", "line 7: no operation"),
    ("0 :ok :read 1 2\n", "line 1: more than one value"),
    (edn([*RIGHT[:5], (1, "ok", "read", "[3 1]")]), "[version value]"),
    (edn([*RIGHT[:4], (1, "invoke", "read", "[nil nil]")]), "[version value]"),
    (edn([*RIGHT[:4], (1, "invoke", "read", "[7 nil]")]), "--independent"),
    (numbered(RIGHT, time_ns=lambda i: i, index=lambda i: i) + lines(RIGHT), "line 7"),
]


@pytest.mark.parametrize("model", ["register", "unordered-queue"])
@pytest.mark.parametrize(("content", "why"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_history_is_refused_in_one_line(written, content, why, model):
    path = written(content)
    with pytest.raises(HistoryError) as refusal:
        check(path, model)
    assert why in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("form", [lines, lambda rows: json.dumps(maps(rows)), edn])
def test_pairs_are_keys_and_values_in_every_form_if_the_caller_says_so(written, form):
    def pairs(rows):
        if form is edn:
            return [(*row, f"[7 {'nil' if value is None else value}]") for *row, value in rows]
        return [(*row, [7, value]) for *row, value in rows]

    result = check(written(form(pairs(RIGHT))), "register", independent=True)
    assert result.status is Status.PASS
    stale = check(written(form(pairs(STALE))), "register", independent=True)
    assert (stale.status, stale.key) == (Status.FAIL, "7")


def test_a_journal_says_itself_what_its_keys_are(written):
    path = written(numbered(RIGHT, time_ns=lambda i: i, index=lambda i: i))
    assert check(path, "register").status is Status.PASS
    with pytest.raises(HistoryError, match="--independent"):
        check(path, "register", independent=True)


@pytest.mark.parametrize(
    "keys",
    [
        ("7", '"7"', "7.0", "[7]"),
        (":x", '"x"', "x", "\\x", '":x"'),
        ("true", '"true"'),
        ("{:a 1}", '{"a" 1}', "{1 :a}", '{"1" :a}'),
        ("#{1 2}", "[1 2]", "{1 2}"),
        ("1/2", "0.5", "0.5M"),
        ('#uuid "x"', '{"#uuid" "x"}'),
    ],
)
def test_different_keys_are_different(written, keys):
    rows = [(0, kind, "write", f"[{key} 1]") for key in keys for kind in ("invoke", "ok")]
    history = load(written(edn(rows)), independent=True)
    assert len({operation.key for operation in history.operations}) == len(keys)


def test_equal_keys_are_one(written):
    keys = ["{:a 1, :b #{1 2}}", "{:b #{2 1} :a 1N}"]
    rows = [(0, kind, "write", f"[{key} 1]") for key in keys for kind in ("invoke", "ok")]
    history = load(written(edn(rows)), independent=True)
    assert len({operation.key for operation in history.operations}) == 1


SENT = [
    *[(0, "invoke", "send", "[[:send 1 5]]"), (0, "ok", "send", "[[:send 1 [0 5]]]")],
    *[(0, "invoke", "txn", "[[:send 1 6] [:poll]]"), (0, "info", "txn", "[[:send 1 6] [:poll]]")],
    *[(2, "invoke", "subscribe", "[1]"), (2, "ok", "subscribe", "[1]")],
]
POLLED = [(1, "invoke", "poll", "[[:poll]]"), (1, "ok", "poll", "[[:poll {1 [[0 5] [3 6]]}]]")]


def test_sends_and_polls_are_judged_as_a_log(written):
    result = check(written(edn(SENT + POLLED)), "log")
    assert result.status is Status.PASS
    assert "1 subscribe" in result.statistics["notes"][0]


@pytest.mark.parametrize(
    ("records", "kind"),
    [("[[0 5] [1 7]]", "phantom"), ("[[0 6] [1 5]]", "moved"), ("[[3 6] [0 5]]", "reordered-read")],
)
def test_a_poll_that_no_log_explains_is_found(written, records, kind):
    polled = [POLLED[0], (1, "ok", "poll", f"[[:poll {{1 {records}}}]]")]
    result = check(written(edn(SENT + polled)), "log")
    assert result.status is Status.FAIL
    assert result.anomalies[0]["kind"] == kind


def test_in_json_a_poll_names_its_keys_by_text(written):
    sent = [(0, "invoke", "send", [["send", 1, 5]]), (0, "ok", "send", [["send", 1, [0, 5]]])]
    polled = [(1, "invoke", "poll", [["poll"]]), (1, "ok", "poll", [["poll", {"1": [[0, 5]]}]])]
    assert check(written(lines(sent + polled)), "log").status is Status.PASS


@pytest.mark.parametrize(
    "reply", ["nil", "[]", "[[:send 2 [0 5]]]", "[[:send 1 [0 6]]]", "[[:poll {}]]", "[7]"]
)
def test_a_reply_that_is_not_of_its_sends_is_refused(written, reply):
    with pytest.raises(HistoryError, match="is no completion of"):
        check(written(edn([SENT[0], (0, "ok", "send", reply)])), "log")

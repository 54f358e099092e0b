"""The report says what was found, in one file, and takes nothing it shows for markup."""

import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from factory import NODES, SECOND, make_run

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, pair
from checkers.runs.faults import fault_spans, not_healed, phases, reigns
from checkers.verdict import CheckResult, Status
from results.judge.pipeline import judge
from results.report import packed
from results.report import page as report_page
from results.report.charts import bucket_s, over_time, percentiles, throughput
from results.report.page import as_script_data, render, write_report
from results.report.timeline import OPERATIONS_MAX, WIDTH, draw, operation_text
from results.store.files import StoreError
from results.store.model import RunResults
from results.store.tables import RunName

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028\u2029\x00",
    "</textarea></style></title>",
    "javascript:alert(1)",
    "x" * 100_000,
]


class Page(HTMLParser):
    """The elements and the text of a page, as a browser would find them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._skip = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._skip += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._skip:
            self.text.append(data)

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


def history_of(store):
    history = store.tables(RunName("campaign", store.folder.name))
    return history.events, history.operations


def page_of(store):
    results = judge(store)
    return render(results, store.plan(), *history_of(store), NODES)


def text_of(page):
    return re.sub(r"\s+", " ", " ".join(Page(page).text))


@pytest.fixture(scope="module")
def stale_page(tmp_path_factory):
    return page_of(make_run(tmp_path_factory.mktemp("runs"), stale_reads=1))


@pytest.fixture(scope="module")
def good_page(tmp_path_factory):
    return page_of(make_run(tmp_path_factory.mktemp("runs")))


@pytest.mark.slow
def test_the_verdict_comes_first(stale_page):
    body = text_of(stale_page[stale_page.index("<body>") :])
    assert body.split()[:3] == ["synthetic", "/", "20261121T010203Z-seed7"]
    header = body[: body.index("What happened")]
    assert "FAIL Stale read of k02" in header
    assert re.search(r'read "w[\d.]+" from n3 after "w[\d.]+" had replaced it', header)
    assert "linearizable, stale-read, key k02" in header
    assert "leader n3 (metadata epoch 4, from " in header
    assert "of n2 from 34.000 s to 42.050 s" in header
    assert "repeat kraftprobe run --campaign RUN/plan.json" in header
    assert Page(stale_page).tags("title")


@pytest.mark.slow
def test_a_good_run_says_so_and_names_every_check(good_page):
    body = text_of(good_page)
    assert "found nothing wrong" in body
    for name in ("linearizable", "durability", "log-agreement", "invariants", "exercised"):
        assert name in body
    assert "deliberately faulty" not in body
    assert "algorithm: zones" in body
    assert "4.3.0" in body


@pytest.mark.slow
def test_a_failed_run_begins_with_what_happened(stale_page, good_page):
    assert stale_page.index('<section id="story">') < stale_page.index('<section id="checks">')
    body = text_of(stale_page)
    assert "Violated : linearizable, stale-read" in body
    assert "answered read" in body
    assert '<section id="story">' not in good_page


@pytest.mark.slow
def test_a_story_is_escaped(tmp_path):
    store = make_run(tmp_path)
    anomaly = {"kind": "<i>k</i>", "explanation": "<script>alert(1)</script>", "at_ns": 30 * SECOND}
    check = CheckResult("linearizable", Status.FAIL, "it is wrong", anomalies=(anomaly,))
    results = replace(judge(store), status=Status.FAIL, checks=(check,))
    page = render(results, store.plan(), *history_of(store), NODES)
    assert '<section id="story">' in page
    assert "<script>alert" not in page
    assert "<i>k" not in page
    log = store.node_path("n1") / "stdout.log"
    log.write_text("1|ERROR|a.B|Lost 3 of <i>k</i>\n")
    page = render(results, store.plan(), *history_of(store), NODES, nodes_path=store.nodes_path)
    assert "Lost … of &lt;i&gt;k" in page
    assert "<i>k" not in page


@pytest.mark.slow
def test_of_a_long_run_the_page_says_what_it_does_not_hold(tmp_path, monkeypatch):
    store = make_run(tmp_path, duration_s=12)
    results = RunResults(Status.PASS, (), {"operations": 1}, "r", {}, {})
    count = len(pair(store.events()))
    whole = text_of(render(results, store.plan(), *history_of(store), NODES))
    assert "Chart and search have" not in whole
    monkeypatch.setattr(packed, "ROWS_MAX", 100)
    monkeypatch.setattr(packed, "DETAIL_MAX", 10)
    body = text_of(render(results, store.plan(), *history_of(store), NODES))
    assert f"Chart and search have 100 of {count:,} operations, those first" in body
    assert "here for 10 operations" in body


def test_what_took_effect_at_no_known_time_reaches_to_the_end_of_the_picture():
    """It has a completion behind every other: 292 years of nothing were drawn before it."""
    window = [
        {"index": 1, "process": 1, "f": "write", "input": "a", "output": "a", "type": "ok"},
        {"index": 2, "process": 2, "f": "read", "input": None, "output": "a", "type": "ok"},
    ]
    times = [(SECOND, OPEN_END_NS), (2 * SECOND, 3 * SECOND)]
    rows = [
        {**row, "invoke_ns": begin, "complete_ns": end}
        for row, (begin, end) in zip(window, times, strict=True)
    ]
    drawn = draw(rows)
    assert [bar.open for bar in drawn.bars] == [True, False]
    assert all(float(label.removesuffix(" s")) < 4 for _, label in drawn.ticks)


def test_times_below_a_picture_have_the_digits_of_their_step():
    row = {"index": 1, "process": 1, "f": "write", "input": "a", "output": "a", "type": "ok"}
    drawn = draw([{**row, "invoke_ns": 18_886_000_000, "complete_ns": 18_896_000_000}])
    labels = " ".join(label for _, label in drawn.ticks)
    assert labels == "18.8875 s 18.8900 s 18.8925 s 18.8950 s"


def test_the_violating_window_is_drawn_and_listed(stale_page):
    assert '<figure class="timeline' in stale_page
    assert "The operations as a table (4)" in text_of(stale_page)


@pytest.mark.slow
def test_the_operations_that_a_lost_write_names_are_drawn_as_well(tmp_path):
    page = page_of(make_run(tmp_path, lost_on="n1"))
    assert '<figure class="timeline' in page
    assert "w2.204" in text_of(page)


def test_faults_are_listed_with_what_was_measured(good_page):
    body = text_of(good_page)
    assert "kill n1 10.000 s 16.050 s yes yes 1.281 s" in body


def test_a_run_cut_short_says_so(tmp_path):
    store = make_run(tmp_path, duration_s=30, evidence=False)
    data = store.journal_path.read_bytes()
    store.journal_path.write_bytes(data[: len(data) // 2])
    body = text_of(page_of(store))
    assert "to its final reads" in body
    assert "torn line" in body


def test_an_empty_run_has_a_report(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    store.journal_path.write_bytes(b"")
    assert "UNDER-EXERCISED" in text_of(page_of(store)) or "UNKNOWN" in text_of(page_of(store))


def test_nothing_is_asked_for_from_anywhere(stale_page):
    page = Page(stale_page)
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            inside = ("data:", "#")
            assert attributes.get(name, "data:,").startswith(inside), (tag, attributes)
    (policy,) = [m["content"] for m in page.tags("meta") if m.get("http-equiv")]
    assert "default-src 'none'" in policy


def hostile_events(text):
    def event(index, **fields):
        values = {"time_ns": index * 10**6, "process": 0, "type": EventType.OK, "f": text}
        return Event(index=index, **{**values, **fields})

    injected = {
        "phase": "inject",
        "fault": text,
        "targets": [text],
        "verified": False,
        "detail": {"reason": text},
    }
    return [
        event(0, type=EventType.INVOKE, key=text, value=text, node=text),
        event(1, key=text, value={text: text}, node=text),
        event(2, process=text, type=EventType.INVOKE, value=text),
        event(3, process=text, type=EventType.INFO, error=text),
        event(4, process="nemesis", f="leader", value={"leader": text, "epoch": 1}),
        event(5, process="nemesis", type=EventType.INVOKE, value={"phase": "inject"}),
        event(6, process="nemesis", value=injected),
    ]


def hostile_results(text, events):
    operation = {
        "index": 0,
        "process": text,
        "f": text,
        "key": text,
        "input": text,
        "output": {text: text},
        "type": "ok",
        "invoke_ns": 1,
        "complete_ns": 2,
        "error": text,
        "node": text,
    }
    anomaly = {"kind": text, "explanation": text, text: text, "window": [operation]}
    check = CheckResult(
        text,
        Status.FAIL,
        text,
        key=text,
        algorithm=text,
        anomalies=(anomaly,),
        certificate={text: [text]},
        statistics={text: text, "allowed": [anomaly, text]},
    )
    return RunResults(Status.FAIL, (check,), {"operations": len(events)}, text, {}, {text: text})


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_text_is_shown_as_text(text):
    events = hostile_events(text)
    plan = {
        "campaign": text,
        "run": text,
        "seed": text,
        "mutant": text,
        "workload": text,
        "command": text,
        "versions": {text: text},
        "nodes": text,
        "checks": [],
    }
    page = Page(render(hostile_results(text, events), plan, events, pair(events), [text]))
    plain = Page(
        render(
            hostile_results("plain", hostile_events("plain")),
            {**plan, "mutant": "plain"},
            hostile_events("plain"),
            pair(hostile_events("plain")),
            ["plain"],
        )
    )
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
    assert sum(map(len, page.text)) < 200_000
    if "alert" in text or "7 * 7" in text:
        assert text in " ".join(page.text)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_data_in_a_script_cannot_end_it_and_stays_the_same(text):
    data = as_script_data({"a": [text]})
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data) == {"a": [text]}


@pytest.mark.slow
def test_a_page_holds_all_it_needs_in_less_than_two_hundred_kilobytes(tmp_path):
    store = make_run(tmp_path, stale_reads=1)
    write_report(store, judge(store))
    assert store.report_path.stat().st_size < 200_000


@pytest.mark.slow
def test_many_violations_have_tables_and_the_first_a_picture(tmp_path):
    store = make_run(tmp_path)
    indexes = [operation.index for operation in pair(store.events())]
    many = tuple(
        {"kind": "lost", "explanation": "it is gone", "operations": indexes[at : at + 3]}
        for at in range(30)
    )
    check = CheckResult("records", Status.FAIL, "30 are lost", anomalies=many)
    results = replace(judge(store), status=Status.FAIL, checks=(check,))
    page = render(results, store.plan(), *history_of(store), NODES)
    assert page.count('<figure class="timeline') == report_page._PICTURES_MAX < 30
    assert page.count("The operations as a table (3)") == report_page._ANOMALIES_MAX < 30
    assert "10 more like these" in page


def test_results_that_were_tampered_with_are_one_line_not_a_crash(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    check = CheckResult("statistics", Status.PASS, "", statistics={"latency_ms": {"read": 3}})
    results = RunResults(Status.PASS, (check,), {"operations": 1}, "r", {}, {})
    with pytest.raises(StoreError, match="no report can be"):
        write_report(store, results)
    assert not store.report_path.exists()


@pytest.mark.slow
def test_the_chart_of_a_whole_run_counts_every_operation(tmp_path):
    events = make_run(tmp_path).events()
    operations = pair(events)
    rates = throughput(operations, events, events[-1].time_ns)
    counted = sum(rate.sum() for rate in rates.values()) * bucket_s(events[-1].time_ns)
    assert counted == pytest.approx(len(operations))
    p50_ms, p99_ms = percentiles(operations, events[-1].time_ns)
    assert np.nanmax(p99_ms) >= np.nanmax(p50_ms)
    drawn = over_time(events, operations, NODES, reigns(events, events[-1].time_ns))
    assert drawn["lanes"] == ["n1", "n2", "n3", "kill", "pause", "partition"]
    assert [bar["text"] for bar in drawn["bars"]] == [
        *("epoch 1", "epoch 2", "epoch 4", "n1", "n3", "n2")
    ]
    assert len(drawn["p50_ms"]) == len(drawn["rates"]["ok"])


@pytest.mark.slow
def test_faults_leaders_and_phases_are_read_from_the_journal(tmp_path):
    events = make_run(tmp_path, duration_s=60).events()
    spans = fault_spans(events)
    assert [(s.fault, s.targets, s.verified, s.healed) for s in spans] == [
        ("kill", ("n1",), True, True),
        ("pause", ("n3",), True, True),
        ("partition", ("n2",), True, True),
    ]
    assert [(r.node, r.epoch) for r in reigns(events, 10**12)] == [("n1", 1), ("n2", 2), ("n3", 4)]
    assert reigns(events, 10**12)[-1].end_ns == 10**12
    names = [name for name, _ in phases(events)]
    assert names == ["start", "faults", "heal", "final-reads", "stop", "evidence"]


def test_a_fault_that_was_never_healed_stays_open_and_one_that_did_not_bite_says_why():
    events = hostile_events("pause")
    (span,) = fault_spans(events)
    assert (span.end_ns, span.verified, span.healed, span.detail) == (None, False, False, "pause")


def scripted(*acts):
    """What the nemesis of a simulated world journals: (s, fault, phase, targets, more)."""
    events = []
    for at_s, fault, phase, targets, more in acts:
        value = {"phase": phase, "fault": fault, "targets": targets, "verified": True, **more}
        for kind in (EventType.INVOKE, EventType.OK):
            events.append(Event(len(events), int(at_s * 10**9), NEMESIS, kind, fault, None, value))
    return events


def test_a_heal_ends_the_fault_at_the_nodes_that_it_names():
    spans = fault_spans(
        scripted(
            (2, "partition", "inject", ["n1"], {}),
            (3, "partition", "inject", ["n2"], {}),
            (4, "hold", "inject", ["n1", "n2"], {}),
            (5, "partition", "heal", ["n2"], {}),
            (6, "hold", "heal", ["n1", "n2"], {}),
            (7, "partition", "inject", ["n2"], {}),
            (8, "partition", "heal", ["n1"], {}),
        )
    )
    seconds = [(s.fault, s.begin_ns // 10**9, s.end_ns and s.end_ns // 10**9) for s in spans]
    assert seconds == [
        ("partition", 2, 8),
        ("partition", 3, 5),
        ("hold", 4, 6),
        ("partition", 7, None),
    ]


def test_a_fault_whose_heal_failed_goes_on_until_a_later_heal_is_measured():
    broken = [
        (2, "partition", "inject", ["n1"], {}),
        (4, "partition", "heal", ["n1"], {"verified": False, "detail": {"reason": "leaking"}}),
    ]
    (span,) = fault_spans(scripted(*broken))
    assert (span.end_ns, span.healed, span.heal_failed) == (None, False, True)
    assert span.detail == "leaking"
    (left,) = not_healed(scripted(*broken))
    assert "partition of n1" in left
    assert "leaking" in left
    again = scripted(*broken, (9, "partition", "heal", ["n1"], {}))
    (span,) = fault_spans(again)
    assert (span.end_ns, span.healed) == (9 * SECOND, True)
    assert not_healed(again) == []
    events = scripted(*broken, (20, "phase", "none", [], {}))
    (bar,) = over_time(events, [], [], [])["bars"]
    assert (bar["from"], bar["to"]) == (2, 20)


def test_a_long_name_in_the_chart_is_cut_as_a_label_is():
    drawn = over_time([], [], ["n" * 500], [])
    assert drawn["lanes"] == ["n" * 60 + "… (500 characters)"]


def test_a_fault_that_was_healed_before_it_was_measured_is_over():
    acts = [(2, "resign", "heal", ["n2"], {}), (2.1, "resign", "inject", ["n2"], {"over": True})]
    assert not_healed(scripted(*acts)) == []
    assert fault_spans(scripted(*acts))[0].healed


def test_a_fault_that_was_refused_and_its_heal_leave_the_others_as_they_are():
    refused = {"verified": False, "applied": False, "detail": {"reason": "n3: it is a voter"}}
    acts = (
        (1, "voters", "inject", [], refused),
        (2, "voters", "inject", [], {}),
        (3, "voters", "heal", [], {"applied": False}),
    )
    assert len(not_healed(scripted(*acts))) == 1
    events = scripted(*acts, (4, "voters", "heal", [], {}))
    assert [span.end_ns for span in fault_spans(events)] == [SECOND, 4 * SECOND]
    assert not_healed(events) == []


def operation(index, process, invoke_ns, complete_ns, **fields):
    values = {"f": "write", "key": "k", "input": f"w{index}", "output": None, "type": "ok"}
    return {
        "index": index,
        "process": process,
        "invoke_ns": invoke_ns,
        "complete_ns": complete_ns,
        **values,
        **fields,
    }


def test_a_window_is_drawn_inside_its_frame_a_row_for_each_process():
    window = [
        operation(0, 1, 100, 200),
        operation(1, 2, 150, 400),
        operation(2, 1, 300, 350),
        operation(3, 3, 320, INFINITY_NS, type="info"),
    ]
    picture = draw(window)
    assert [name for _, name in picture.rows] == ["1", "2", "3"]
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH for bar in picture.bars)
    assert [bar.open for bar in picture.bars].count(True) == 1
    in_time = sorted(picture.bars, key=lambda bar: bar.x)
    assert [bar.label for bar in in_time] == [
        'write "w0"',
        'write "w1"',
        'write "w2"',
        'write "w3": info',
    ]


def test_labels_of_one_process_do_not_cover_each_other():
    window = [operation(i, 1, i * 10, i * 10 + 5) for i in range(20)]
    picture = draw(window)
    spans = sorted(
        (bar.y, bar.label_x, bar.label_x + 7 * len(bar.label))
        for bar in picture.bars
        if bar.anchor == "start"
    )
    for (y, _, end), (other_y, start, _) in itertools.pairwise(spans):
        assert y != other_y or end <= start + 1


def test_a_large_window_is_cut_and_what_is_left_out_is_counted():
    picture = draw([operation(i, i, i, i + 1) for i in range(OPERATIONS_MAX + 5)])
    assert (len(picture.bars), picture.left_out) == (OPERATIONS_MAX, 5)


@pytest.mark.parametrize(
    "window",
    [
        [],
        [{}],
        [{"index": "x", "invoke_ns": None}],
        [{"invoke_ns": 5, "complete_ns": 2, "index": 0}],
    ],
)
def test_what_is_no_operation_is_not_drawn(window):
    assert draw(window) is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"f": "read", "input": None, "output": "a"}, 'read → "a"'),
        ({"f": "read", "input": None, "output": None}, "read → null"),
        ({"f": "write", "input": "a", "output": "a"}, 'write "a"'),
        ({"f": "cas", "input": ["a", "b"], "output": True}, 'cas ["a", "b"] → true'),
        (
            {"f": "write", "input": "a", "type": "info", "error": "timeout"},
            'write "a": info (timeout)',
        ),
    ],
)
def test_an_operation_is_described_in_a_few_words(fields, expected):
    assert operation_text({"type": "ok", **fields}) == expected


def test_an_anomaly_shows_no_raw_nanoseconds(tmp_path):
    store = make_run(tmp_path, duration_s=6)
    anomaly = {
        "kind": "fatal",
        "explanation": "n2 ended itself at 4.117770 s: OSError",
        "node": "n2",
        "t_ns": 841140339318,
        "at_ns": 4117769922,
    }
    check = CheckResult("log-agreement", Status.FAIL, "1 fatal", anomalies=(anomaly,))
    results = RunResults(Status.FAIL, (check,), {"operations": 1}, "r", {}, {})
    page = render(results, store.plan(), *history_of(store), store.node_names(store.plan()))
    assert "n2 ended itself at 4.117770 s" in page
    assert "<dt>node</dt><dd>n2</dd>" in page
    assert "841140339318" not in page
    assert "4117769922" not in page


def test_what_was_not_promised_is_shown_beside_a_pass_and_not_as_a_violation():
    note = {"kind": "allowed-loss", "explanation": "d0-3: 'w1.7' is gone", "producer": 1}
    check = CheckResult("log", Status.PASS, "kept", statistics={"allowed": [note], "records": 3})
    results = RunResults(Status.PASS, (check,), {"operations": 0}, "run", {}, {})
    plan = dict.fromkeys(("mutant", "campaign", "command", "seed", "versions"))
    page = render(results, plan | {"checks": []}, [], [], ["n1"])
    _, shown = page.split("Not promised, so no violation: 1 explained")
    assert "allowed-loss" in shown
    assert "is gone" in shown
    figures = shown.split("<summary>Figures</summary>")[1].split("</details>")[0]
    assert "records" in figures
    assert "allowed-loss" not in figures

"""Runs with files that were cut or changed: a good one never FAILs, a bad one never passes."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence import FINAL_READS, WORLD_CLOCK
from checkers.evidence.extent import extent_of
from checkers.history import NEMESIS, Event, EventType, HistoryError
from checkers.history.json_text import seal
from checkers.verdict import Status
from harness.plan.strands import step_name
from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.results.factory import CLOCK, NODES, SECOND, make_run

pytestmark = pytest.mark.slow

EVIDENCE = ["trace.jsonl", "evidence/log.jsonl", "evidence/quorum-state.json"]
FILES = [
    "history.jsonl",
    *(f"nodes/{node}/{name}" for node in NODES for name in [*EVIDENCE, "evidence/state.jsonl"]),
]
PLACES = st.floats(0, 1, exclude_max=True)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    store = make_run(tmp_path_factory.mktemp("good"), duration_s=6)
    assert judge(store).status is Status.PASS
    return store


@pytest.fixture(scope="module", params=[{"lost_on": "n2"}, {"late_flush": True}], ids=str)
def bad(request, tmp_path_factory):
    store = make_run(tmp_path_factory.mktemp("bad"), duration_s=6, **request.param)
    assert judge(store).status is Status.FAIL
    return store


def judged(store, change):
    """Judge a copy of a run that `change` was applied to; UNKNOWN where its journal is refused."""
    with TemporaryDirectory() as folder:
        copy = RunStore(Path(shutil.copytree(store.folder, Path(folder) / store.folder.name)))
        change(copy)
        try:
            return judge(copy, keep=False)  # the chain of digests would find any change
        except HistoryError:
            return None


def status_of(results):
    return Status.UNKNOWN if results is None else results.status


def files_named(results):
    """What is said of files of evidence that could not be used."""
    (files,) = [check for check in results.checks if check.checker == "evidence-files"]
    return [anomaly["explanation"] for anomaly in files.anomalies]


def cut(name, place):
    def change(store):
        path = store.folder / name
        data = path.read_bytes()
        path.write_bytes(data[: int(place * len(data))])

    return change


def cut_at_a_line(name, place):
    def change(store):
        path = store.folder / name
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: int(place * len(lines))]))

    return change


def flip(name, place, bit):
    def change(store):
        path = store.folder / name
        data = bytearray(path.read_bytes())
        if data:
            data[int(place * len(data))] ^= 1 << bit
        path.write_bytes(data)

    return change


def rewritten(path, edit):
    """Write the lines of a file anew, as what `edit` makes of them; each has its checksum."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line.pop("crc", None)
    path.write_bytes(b"".join(seal(json.dumps(line)) for line in edit(lines)))


def note(f, **values):
    def edit(events):
        for event in events:
            if event["f"] == f:
                event["value"] |= values
        return events

    return lambda store: rewritten(store.journal_path, edit)


CHANGES = st.one_of(
    st.builds(cut, st.sampled_from(FILES), PLACES),
    st.builds(cut_at_a_line, st.sampled_from(FILES), PLACES),
    st.builds(flip, st.sampled_from(FILES), PLACES, st.integers(0, 7)),
)


@settings(max_examples=15, deadline=None)
@given(changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_a_good_run_never_fails_whatever_is_cut_or_flipped(good, changes):
    results = judged(good, lambda store: [change(store) for change in changes])
    assert status_of(results) is not Status.FAIL, results.checks


@settings(max_examples=10, deadline=None)
@given(changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_a_bad_run_never_passes_whatever_is_cut_or_flipped(bad, changes):
    results = judged(bad, lambda store: [change(store) for change in changes])
    assert status_of(results) is not Status.PASS


@pytest.mark.parametrize(
    "change",
    [
        note("kill", entry=[0]),
        note("kill", detail={"took_ms": 10**400}),
        note("kill", detail={"may_end_node": True}, targets=7),
        note("evidence", problems=7),
    ],
)
def test_notes_that_no_harness_writes_are_no_internal_error(good, change):
    assert status_of(judged(good, change)) is not Status.FAIL


@pytest.mark.parametrize("node", NODES)
def test_a_trace_that_was_cut_at_a_line_is_named(good, node):
    results = judged(good, cut_at_a_line(f"nodes/{node}/trace.jsonl", 0.5))
    assert status_of(results) is Status.UNKNOWN
    (files,) = [check.summary for check in results.checks if check.checker == "evidence-files"]
    assert f"{node}/trace.jsonl: it has " in files


def test_a_commit_that_was_seen_too_early_is_found_though_a_trace_was_cut_later(tmp_path):
    store = make_run(tmp_path, duration_s=6, late_flush=True)
    assert status_of(judged(store, cut_at_a_line("nodes/n3/trace.jsonl", 0.9))) is Status.FAIL
    early = [cut_at_a_line(f"nodes/{node}/trace.jsonl", 0.1) for node in ("n1", "n3")]
    results = judged(store, lambda run: [change(run) for change in early])
    assert status_of(results) is Status.UNKNOWN


@settings(max_examples=15, deadline=None)
@given(place=PLACES, at_a_line=st.booleans())
def test_a_cut_journal_is_unknown(good, place, at_a_line):
    how = cut_at_a_line if at_a_line else cut
    results = judged(good, how("history.jsonl", 0.97 * place))
    assert status_of(results) is Status.UNKNOWN
    (summary,) = [check.summary for check in results.checks if check.checker == "journal"]
    assert "journal ends at" in summary or "the journal is empty" in summary


def test_an_empty_journal_is_unknown_in_one_line(good):
    results = judged(good, cut("history.jsonl", 0.0))
    assert status_of(results) is Status.UNKNOWN
    (summary,) = [check.summary for check in results.checks if check.checker == "journal"]
    assert summary == "the journal is empty, so nothing is known of the run"


def test_a_stale_read_before_the_cut_is_still_a_violation(tmp_path):
    store = make_run(tmp_path, duration_s=30, stale_reads=1)
    assert judge(store).status is Status.FAIL
    assert status_of(judged(store, cut("history.jsonl", 0.95))) is Status.FAIL


def final_phase_cut(store):
    """Cut the journal where the last operations begin: what nodes served at the end is stored."""
    lines = store.journal_path.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"final-reads"' in line)
    store.journal_path.write_bytes(b"".join(lines[:at]))


def test_an_acknowledged_write_that_is_gone_is_still_lost(tmp_path):
    results = judged(make_run(tmp_path, duration_s=6, lost_on="n2"), final_phase_cut)
    (durability,) = [check for check in results.checks if check.checker == "durability"]
    assert durability.status is Status.FAIL
    assert "has the older value" in durability.summary


def test_a_value_that_a_missing_operation_may_have_written_is_in_doubt(good):
    results = judged(good, cut("history.jsonl", 0.5))
    (durability,) = [check for check in results.checks if check.checker == "durability"]
    assert durability.status is Status.UNKNOWN
    assert "which nobody wrote" in durability.summary
    assert "the journal lacks" in durability.summary


def killed(fatal_s, reason, end_s=3.0, clock=CLOCK):
    """The harness is killed at `end_s`; n2 ends itself at `fatal_s`, for this reason."""

    def before_the_end(events):
        return [event for event in events if event["time_ns"] <= end_s * SECOND]

    def until_it_ends(lines):
        lines = [line for line in lines if line["t"] < fatal_s * SECOND]
        lines = [line | {"clock": clock} if line["e"] == "start" else line for line in lines]
        return [*lines, {"t": int(fatal_s * SECOND), "n": 0, "e": "fatal", "reason": reason}]

    def change(store):
        rewritten(store.journal_path, before_the_end)
        rewritten(store.node_path("n2") / "trace.jsonl", until_it_ends)

    return change


BROKEN = "AssertionError: a truncation below the high watermark"
TAKEN = "OSError: [Errno 107] Transport endpoint is not connected"


@pytest.mark.parametrize("reason", [BROKEN, TAKEN])
def test_what_a_node_does_after_its_harness_died_is_no_evidence(good, reason):
    results = judged(good, killed(4.0, reason))
    assert status_of(results) is Status.UNKNOWN
    assert reason not in json.dumps([check.summary for check in results.checks])


def test_an_invariant_that_broke_before_the_harness_died_is_evidence(good):
    assert status_of(judged(good, killed(2.9, BROKEN))) is Status.FAIL


def test_storage_that_failed_before_the_harness_died_is_in_doubt(good):
    """The fault that did it, or the disk that was full, may not have been journaled any more."""
    results = judged(good, killed(2.9, "OSError: [Errno 28] No space left on device"))
    assert status_of(results) is Status.UNKNOWN
    (found,) = [check for check in results.checks if check.checker == "log-agreement"]
    assert "n2 ended itself" in found.summary


def test_a_trace_by_another_clock_is_left_out_and_named(good):
    results = judged(good, killed(2.9, BROKEN, clock="another kernel"))
    assert status_of(results) is Status.UNKNOWN
    assert any("n2: its trace" in line for line in files_named(results))


def test_what_the_harness_could_not_collect_is_named_where_nothing_else_is_left(good):
    def change(store):
        note("evidence", problems=["n2: not collected"])(store)
        shutil.rmtree(store.folder / "nodes")

    results = judged(good, change)
    assert status_of(results) is Status.UNKNOWN
    assert "n2: not collected" in files_named(results)


def test_a_log_that_is_torn_below_what_was_flushed_is_named(good):
    def change(store):
        path = store.folder / "nodes/n2/evidence/quorum-state.json"
        state = json.loads(path.read_bytes())
        path.write_text(json.dumps({**state, "tornTailBytes": 7, "logEndOffset": 1}))

    results = judged(good, change)
    assert status_of(results) is Status.UNKNOWN
    assert any("7 bytes behind offset 1 are no batch" in line for line in files_named(results))


def journal(*notes):
    return [
        Event(number, number, NEMESIS, kind, f, value=value)
        for number, (f, kind, value) in enumerate(notes)
    ]


def test_the_extent_of_a_journal():
    start = ("phase", EventType.OK, {"name": "start", "clock": "boot", "origin_ns": 5})
    simulated = ("phase", EventType.OK, {**start[2], "clock": WORLD_CLOCK})
    reads = (FINAL_READS, EventType.OK, {"read": []})
    stop = ("phase", EventType.OK, {"name": "stop"})
    collected = ("evidence", EventType.OK, {"problems": []})
    explanations = [
        (extent.closed, extent.finished, extent.outlived)
        for extent in (
            extent_of(journal()),
            extent_of(journal(start)),
            extent_of(journal(start, stop)),
            extent_of(journal(simulated, stop)),
            extent_of(journal(start, reads)),
            extent_of(journal(start, reads, stop)),
            extent_of(journal(start, reads, stop, collected)),
        )
    ]
    assert explanations == [
        (False, False, True),
        (False, False, True),
        (True, False, True),
        (True, False, False),
        (False, False, True),
        (True, True, True),
        (True, True, False),
    ]


def test_a_fault_that_was_begun_is_pending_until_it_was_verified():
    begin = ("disk-error", EventType.INVOKE, {"phase": "inject", "entry": 0})
    failed = ("disk-error", EventType.INFO, {"phase": "inject", "entry": 0})
    undone = ("disk-error", EventType.OK, {"phase": "heal", "entry": 0})
    heal = ("disk-error", EventType.INVOKE, {"phase": "heal", "entry": 0})
    steps = [begin, failed, undone, failed, heal, undone]  # the second attempt follows the first
    pending = [extent_of(journal(*steps[: n + 1])).pending for n in range(len(steps))]
    assert pending == [True, False, True, False, False, False]


def test_a_step_of_a_script_is_pending_only_where_the_script_was_broken_off():
    """It is journaled when it has ended, healed or not, whatever an entry of the plan did."""
    begin = ("kill", EventType.INVOKE, {"phase": "inject", "entry": 0})
    done = ("kill", EventType.OK, {"phase": "inject", "entry": 0})
    step = [
        ("disk-error", EventType.OK, {"phase": p, "entry": step_name(0, 0)})
        for p in ("inject", "heal")
    ]
    stop = ("phase", EventType.OK, {"name": "stop"})
    found = [
        extent_of(journal(*notes)).pending
        for notes in (step, [*step, stop], [begin, *step, done, stop], [begin, *step, stop])
    ]
    assert found == [True, False, False, True]


def test_a_sweep_of_what_no_fault_accounts_for_leaves_nothing_pending():
    swept = ("sweep", EventType.OK, {"phase": "heal", "targets": ["n3"]})
    assert not extent_of(journal(swept)).pending

"""Every file of a run is digested when it is recorded, and the digests are chained."""

import json
import os

import pytest
from factory import NODES, make_run

from checkers.verdict import Status
from results.judge.pipeline import RECORDING, judge
from results.store.digests import FileDigest, Step, append, digest_of, read_chain
from results.store.files import StoreError


def stored(root, **options):
    return make_run(root, duration_s=20, rate_per_s=20, **options)


def statuses(results):
    return {check.checker: check.status for check in results.checks}


def test_the_plan_is_recorded_first_and_the_end_last(tmp_path):
    store = stored(tmp_path)
    lines = [json.loads(line) for line in store.digests_path.read_text().splitlines()]
    assert (lines[0]["step"], lines[0]["path"]) == ("recorded", "plan.json")
    assert (lines[-1]["step"], lines[-1]["path"]) == ("ended", None)
    recorded = {line["path"] for line in lines[:-1]}
    files = {p.relative_to(store.folder).as_posix() for p in store.folder.rglob("*") if p.is_file()}
    assert recorded == files - {"digests.jsonl"}
    assert len(recorded) == 2 + 5 * len(NODES)


@pytest.mark.slow
def test_each_judgement_appends_its_results_and_leaves_the_head(tmp_path):
    store = stored(tmp_path)
    before = read_chain(store.digests_path)
    first, second = judge(store), judge(store)
    after = read_chain(store.digests_path)
    assert first.recording.head == second.recording.head == before.head == after.head
    assert after.judged["results.json"] == digest_of(store.results_path)
    assert store.digests_path.read_text().count('"judged"') == 4


@pytest.mark.slow
def test_what_was_changed_after_it_was_recorded_cannot_pass(tmp_path):
    store = stored(tmp_path)
    assert judge(store).status is Status.PASS
    text = store.plan_path.read_text()
    store.plan_path.write_text(text.replace('"seed": 7', '"seed": 8', 1))
    results = judge(store)
    assert statuses(results)[RECORDING] is results.status is Status.UNKNOWN
    check = next(each for each in results.checks if each.checker == RECORDING)
    assert check.summary.endswith(" recorded")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.jsonl", "state.jsonl", "quorum-state.json"])
@pytest.mark.parametrize("how", ["removed", "added", "linked"])
def test_evidence_that_is_gone_new_or_a_link_cannot_pass(tmp_path, name, how):
    store = stored(tmp_path)
    path = store.evidence_path("n2") / name
    if how == "removed":
        path.unlink()
    elif how == "added":
        store.evidence_path("n4").mkdir(parents=True)
        (store.evidence_path("n4") / name).write_bytes(path.read_bytes())
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    assert statuses(judge(store))[RECORDING] is Status.UNKNOWN


@pytest.mark.slow
def test_a_killed_run_is_judged_and_said_not_to_have_ended(tmp_path):
    store = stored(tmp_path, ended=False)
    results = judge(store)
    assert RECORDING not in statuses(results)
    assert not results.recording.ended
    chain = read_chain(store.digests_path)
    assert not chain.ended
    found = [line for line in store.digests_path.read_text().splitlines() if '"found"' in line]
    assert len(found) == 1 + 5 * len(NODES)
    assert judge(store).recording.head == results.recording.head == chain.head


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 40, 150])
def test_a_torn_last_line_is_cut_off_by_the_next_that_writes(tmp_path, cut):
    store = stored(tmp_path)
    whole = read_chain(store.digests_path)
    judge(store)
    data = store.digests_path.read_bytes()
    store.digests_path.write_bytes(data[:-cut])
    assert read_chain(store.digests_path).head == whole.head
    judge(store)
    chain = read_chain(store.digests_path)
    assert chain.judged["results.json"] == digest_of(store.results_path)
    assert chain.whole_bytes == store.digests_path.stat().st_size


def lines_of(store):
    return store.digests_path.read_bytes().splitlines(keepends=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines[:3], lines[3].replace(b'"bytes":', b'"bytes":1'), *lines[4:]],
        lambda lines: [*lines[:3], b"{}\n", *lines[4:]],
        lambda lines: [*lines[:3], b"\xff\n", *lines[4:]],
        lambda lines: [],
    ],
)
def test_any_change_of_the_chain_breaks_it_in_one_line(tmp_path, damage):
    store = stored(tmp_path)
    store.digests_path.write_bytes(b"".join(damage(lines_of(store))))
    with pytest.raises(StoreError, match=r"digests\.jsonl[,:]") as caught:
        read_chain(store.digests_path)
    assert "\n" not in str(caught.value)
    assert statuses(judge(store))[RECORDING] is Status.UNKNOWN


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/plan.json", "nodes//x", "", "a/./b"])
def test_a_chain_never_leads_out_of_its_folder(tmp_path, path):
    chain = tmp_path / "digests.jsonl"
    append(chain, [(Step.RECORDED, "plan.json", FileDigest(1, "0"))], None)
    append(chain, [(Step.RECORDED, path, FileDigest(1, "0"))], read_chain(chain))
    with pytest.raises(StoreError, match="line 2: "):
        read_chain(chain)


def test_nothing_is_recorded_behind_the_end(tmp_path):
    store = stored(tmp_path)
    with pytest.raises(StoreError, match="its end already"):
        store.end_recording()
    chain = read_chain(store.digests_path)
    append(store.digests_path, [(Step.FOUND, "nodes/n9/x", FileDigest(0, "0"))], chain)
    with pytest.raises(StoreError, match="no such line"):
        read_chain(store.digests_path)


def test_only_a_regular_file_has_a_digest(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    assert digest_of(tmp_path / "file").size_bytes == 100
    for name in ("link", "pipe", ".", "absent"):
        assert digest_of(tmp_path / name) == FileDigest(None, None)

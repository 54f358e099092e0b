"""A verdict is taken from before only where nothing that it rests on is another."""

import json
import os
import shutil
from dataclasses import replace
from importlib import metadata

import pytest
from click.testing import CliRunner

from checkers.verdict import EXIT_CODES, Status
from harness import judged_before
from harness.cli import main
from harness.judged_before import JudgedBefore
from results.pipeline import judge
from results.store import RunStore
from tests.results.factory import make_run


@pytest.fixture(autouse=True)
def _memory_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A FAIL: its damage is one that would be worth hiding."""
    store = make_run(tmp_path_factory.mktemp("made"), duration_s=6, stale_reads=2)
    judge(store)
    store.report_path.write_text("what a person reads")
    return store.folder


@pytest.fixture
def run(made, tmp_path):
    """The same in a folder of its own, which was judged there."""
    return kept(made, tmp_path / "runs" / "factory" / "a")


def kept(made, folder):
    shutil.copytree(made, folder)
    memory = JudgedBefore()
    assert memory.recall(folder) is None
    memory.keep(folder, EXIT_CODES[RunStore(folder).read_results().status])
    return folder


def check(*arguments):
    result = CliRunner().invoke(main, ["check", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def test_check_judges_the_same_files_once_and_prints_the_same(made, run):
    fresh = check(run, "--fresh")
    new = run.with_name("b")
    shutil.copytree(made, new)
    both = check(run, new)
    assert (fresh.exit_code, both.exit_code) == (1, 1)
    assert both.stdout.splitlines()[0] == f"factory/a: {fresh.stdout.splitlines()[0]}"
    assert "1 judged now; 1 judged before by the same code from the same files" in both.stderr
    assert "judged before" not in fresh.stderr
    assert [check(run, form).stderr for form in ("--quiet", "--json")] == ["", ""]


def append(name, data=b"\n"):
    def change(folder):
        with (folder / name).open("ab") as file:
            file.write(data)

    return change


def forge_pass(folder):
    """Turn the FAIL into a PASS in the results, as somebody would who wants a release."""
    path = folder / "results.json"
    path.write_text(path.read_text().replace('"FAIL"', '"PASS"'))


def remove(name):
    return lambda folder: (folder / name).unlink()


def add_link(folder):
    (folder / "nodes" / "n1" / "more").symlink_to("/dev/null")


ALTERED = {
    "results": forge_pass,
    "a byte of the results": append("results.json"),
    "certificates": append("certificates.jsonl"),
    "report": append("report.html", b"<!-- PASS -->"),
    "no report": remove("report.html"),
    "table": append("history.parquet/operations.parquet"),
    "chain of digests": append("digests.jsonl"),
    "journal": append("history.jsonl"),
    "trace": append("nodes/n1/trace.jsonl"),
    "evidence": append("nodes/n1/evidence/log.jsonl"),
    "plan": append("plan.json"),
    "a new file": lambda folder: (folder / "nodes" / "n1" / "new").write_bytes(b""),
    "a link": add_link,
}


@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED.keys())
def test_whatever_is_altered_is_judged_again(run, change):
    assert JudgedBefore().recall(run) is not None
    change(run)
    assert JudgedBefore().recall(run) is None


def test_a_copy_elsewhere_is_judged(run):
    shutil.copytree(run, run.with_name("b"))
    assert JudgedBefore().recall(run.with_name("b")) is None


def test_a_signature_is_no_reason_to_judge_again(run):
    (run / "signature.json").write_text("{}")
    assert JudgedBefore().recall(run) is not None


def test_other_code_judges_again(run, monkeypatch):
    monkeypatch.setattr(judged_before, "code", lambda: "other")
    assert JudgedBefore().recall(run) is None


def test_another_setting_judges_again(run, monkeypatch):
    monkeypatch.setenv("KRAFTPROBE_COMPILED", "0")
    assert JudgedBefore().recall(run) is None


def test_another_package_is_other_code(monkeypatch):
    before = judged_before.code.__wrapped__()
    monkeypatch.setattr(metadata, "distributions", list)
    assert judged_before.code.__wrapped__() != before


def test_nothing_is_believed_where_a_package_adds_to_plans(run, monkeypatch):
    point = metadata.EntryPoint("mine", "mine:MINE", "kraftprobe.models")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints([point]))
    assert JudgedBefore().recall(run) is None


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_memory_that_others_can_write_is_not_believed(run, tmp_path, mode):
    memory = tmp_path / "state" / "kraftprobe" / "judged"
    memory.chmod(mode)
    assert JudgedBefore().recall(run) is None


def test_a_memory_of_another_user_is_not_believed(run, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert JudgedBefore().recall(run) is None


def test_an_unknown_is_judged_each_time(made, tmp_path):
    folder = tmp_path / "runs" / "factory" / "a"
    shutil.copytree(made, folder)
    store = RunStore(folder)
    results = store.read_results()
    unsure = replace(results.checks[0], status=Status.UNKNOWN)
    store.write_results(replace(results, checks=(*results.checks, unsure)))
    memory = JudgedBefore()
    memory.recall(folder)
    memory.keep(folder, 1)
    assert JudgedBefore().recall(folder) is None


def test_a_run_that_changed_while_it_was_judged_is_not_kept(run):
    append("history.jsonl", b" ")(run)
    memory = JudgedBefore()
    assert memory.recall(run) is None
    append("history.jsonl")(run)
    memory.keep(run, 1)
    assert JudgedBefore().recall(run) is None


def test_the_gate_takes_its_own_verdict_and_not_that_of_the_run(run):
    judged = []
    honest = RunStore(run).read_results()

    def recompute(store):
        judged.append(store)
        return honest

    def again():
        found = JudgedBefore().recomputed(RunStore(run), recompute)
        return [(check.checker, check.status) for check in found.checks]

    first = again()
    forge_pass(run)
    assert again() == first
    assert len(judged) == 1
    append("history.jsonl")(run)
    assert again() == first
    assert len(judged) == 2


def test_a_damaged_memory_costs_a_judgement_and_no_more(run, tmp_path):
    (entry,) = (tmp_path / "state" / "kraftprobe" / "judged").iterdir()
    document = json.loads(entry.read_text())
    for text in ("", "{}", json.dumps({**document, "outputs": None}), "[" * 10_000):
        entry.write_text(text)
        assert JudgedBefore().recall(run) is None

"""`kraftprobe runs`: the catalogue on the command line."""

import datetime as dt
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from harness.commands.prune import choose
from results.catalogue.rows import catalogue
from results.store.files import StoreError
from results.store.pruning import removal_of
from tests.command_line import kraftprobe
from tests.gate.bench import Bench

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture
def root(bench):
    folder = bench.folder()
    for kind in ("good", "bad", "other"):
        bench.copy(kind, folder)
    return folder.parent


def runs(*arguments, code=0):
    result = kraftprobe("runs", *arguments, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def names(folder):
    return sorted(path.name for path in folder.glob("*/*"))


@pytest.mark.slow
def test_list_shows_columns_json_or_folders_alone(root):
    table = runs("list", "--runs", root).stdout.splitlines()
    assert table[0].split() == [
        *("run", "workload", "system", "build", "backend", "nodes", "seed", "mutant", "ok"),
        "verdict",
    ]
    assert len(table) == 4
    rows = json.loads(runs("list", "--runs", root, "--json").stdout)
    assert {row["run"]: row["verdict"] for row in rows}["bad"] == "FAIL"
    quiet = runs("list", "--runs", root, "--verdict", "FAIL", "--quiet").stdout
    assert quiet == f"{root / 'synthetic' / 'bad'}\n"


def test_a_list_of_nothing_says_so(tmp_path):
    assert runs("list", "--runs", tmp_path).stdout == f"no runs in {tmp_path}\n"
    assert json.loads(runs("list", "--runs", tmp_path, "--json").stdout) == []


@pytest.mark.slow
def test_show_prints_figures_and_checks(root):
    text = runs("show", root / "synthetic" / "bad").stdout
    assert re.search(r"^verdict +FAIL$", text, re.MULTILINE)
    assert re.search(r"^FAIL +linearizable: 2 of 8 keys FAIL", text, re.MULTILINE)
    document = json.loads(runs("show", root / "synthetic" / "bad", "--json").stdout)
    assert document["build_names"] == ["0.1.0"]
    assert document["checks"][0]["checker"] == "linearizable"


def test_diff_shows_what_differs_and_nothing_else(root):
    bad, other = (root / "synthetic" / name for name in ("bad", "other"))
    unlike = json.loads(runs("diff", bad, other, "--json").stdout)
    assert unlike["plan.seed"] == [9, 8]
    assert unlike["verdict"] == ["FAIL", "PASS"]
    assert "plan.nodes" not in unlike
    assert re.search(r"^plan\.seed +9  →  8$", runs("diff", bad, other).stdout, re.MULTILINE)
    assert runs("diff", bad, bad).stdout == "nothing differs\n"


@pytest.mark.parametrize("command", [["show", "{x}"], ["diff", "{x}", "{x}"]])
def test_what_is_no_run_is_one_line(tmp_path, command):
    result = runs(*(part.format(x=tmp_path) for part in command), code=2)
    assert result.output == f"kraftprobe: {tmp_path}: this is not the folder of a run\n"


def prune(root, *options, code=0):
    return runs("prune", "--runs", root, *options, code=code)


def test_prune_removes_what_is_chosen_and_nothing_else(root):
    assert prune(root, "--verdict", "FAIL", "--yes").exit_code == 0
    assert names(root) == ["20261121T010203Z-seed7", "other"]
    assert prune(root, "--verdict", "FAIL", "--yes").stdout == "nothing to remove\n"
    prune(root, "--keep", 0, "--yes")
    assert not (root / "synthetic").exists()
    assert root.exists()


def test_prune_of_nothing_in_particular_is_refused(root):
    assert "say which runs" in prune(root, "--yes", code=2).output
    assert len(names(root)) == 3


def test_prune_removes_nothing_where_nobody_can_be_asked(root):
    assert "give --yes" in prune(root, "--keep", 0, code=2).output
    assert "give --yes" in prune(root, "--keep", 0, "--json", code=2).output
    assert len(names(root)) == 3


@pytest.mark.parametrize("command", ["check", "report"])
def test_a_folder_of_links_alone_holds_no_run_to_judge(root, tmp_path, command):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "run").symlink_to(root / "synthetic" / "other")
    result = kraftprobe(command, tmp_path / "links")
    assert result.exit_code == 2
    assert "is a link to a folder: not looked into" in result.stderr
    assert "there are no runs in it but what was not looked into" in result.stderr


def test_no_page_is_made_of_results_that_no_judging_stored(bench):
    store = bench.copy("bad", bench.folder())
    document = json.loads(store.results_path.read_text())
    document["status"] = "PASS"
    for check in document["checks"]:
        check["status"] = "PASS"
    store.results_path.write_text(json.dumps(document))
    refused = kraftprobe("report", store.folder)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is not what judging stored; judge the run again" in refused.stderr


def test_a_mark_of_a_batch_hides_no_run_and_a_batch_is_named(bench):
    folder = bench.folder()
    bad, _ = bench.copy("bad", folder), bench.copy("good", folder)
    (folder / "seeds").mkdir()
    for place in (bad.folder, folder / "seeds"):
        (place / "batch.json").write_text("{}")
    result = kraftprobe("check", "--quiet", folder)
    assert result.exit_code == 1, result.output
    assert f"{folder / 'seeds'}: a batch keeps no journals" in result.stderr


def test_prune_leaves_what_it_did_not_make(root, tmp_path):
    bad = root / "synthetic" / "bad"
    (bad / "notes.txt").write_text("mine")
    (bad / "nodes" / "n1" / "heap.hprof").write_text("mine")
    (bad / "mine").mkdir()
    (root / "synthetic" / "elsewhere").mkdir()
    (root / "synthetic" / "elsewhere" / "plan.json").write_text("{}")
    (root / "synthetic" / "link").symlink_to(root / "synthetic" / "other")
    result = prune(root, "--keep", 0, "--yes", "--json", code=2)
    document = json.loads(result.stdout)
    assert [Path(row["folder"]).name for row in document["removed"]] == [
        "20261121T010203Z-seed7",
        "bad",
        "other",
    ]
    assert len(document["refused"]) == 1  # the link leads to a run that is walked anyway
    assert len(document["left"]) == 2
    left = {path.relative_to(bad).as_posix() for path in bad.rglob("*")}
    assert left == {"notes.txt", "mine", "nodes", "nodes/n1", "nodes/n1/heap.hprof"}
    assert (root / "synthetic" / "elsewhere" / "plan.json").exists()
    assert (root / "synthetic" / "link").is_symlink()


def test_a_link_in_a_run_is_removed_and_what_it_points_to_is_not(root, tmp_path):
    (tmp_path / "kept").write_text("mine")
    report = root / "synthetic" / "bad" / "report.html"
    report.symlink_to(tmp_path / "kept")
    prune(root, "--verdict", "FAIL", "--yes")
    assert not report.is_symlink()
    assert (tmp_path / "kept").read_text() == "mine"


def test_a_run_whose_plan_was_changed_stays(root):
    plan = root / "synthetic" / "bad" / "plan.json"
    plan.write_text(plan.read_text() + " ")
    result = prune(root, "--verdict", "FAIL", "--yes", code=2)
    assert "plan.json is not" in result.stderr
    assert plan.exists()


@pytest.mark.slow
def test_a_run_that_may_go_on_stays_until_nothing_writes_it(bench):
    folder = bench.folder()
    store = bench.copy("killed", folder)
    store.journal_path.touch()
    result = prune(folder.parent, "--keep", 0, "--yes", code=2)
    assert "written a moment ago" in result.stderr
    for path in [*store.folder.rglob("*")]:
        os.utime(path, (0, 0))
    prune(folder.parent, "--keep", 0, "--yes")
    assert not folder.exists()


@pytest.mark.slow
def test_what_a_judgement_finds_in_a_run_that_was_killed_is_not_ours_for_that(bench):
    folder = bench.folder()
    store = bench.copy("killed", folder)
    (store.folder / "notes.txt").write_text("mine")
    (bench.copy("good", store.folder).folder).rename(store.folder / "good")
    kraftprobe("check", store.folder)
    assert {"notes.txt", "good/plan.json", "good/results.json"} <= {*removal_of(store).foreign}


@pytest.mark.slow
def test_a_run_that_is_about_to_be_judged_stays(bench):
    folder = bench.folder()
    store = bench.copy("good", folder)
    store.results_path.unlink()
    store.journal_path.touch()
    assert "not judged yet" in prune(folder.parent, "--keep", 0, "--yes", code=2).stderr


def test_age_and_number_choose_the_oldest(root):
    entries = catalogue(root)
    now = dt.datetime(2026, 11, 22, 1, 2, 3, tzinfo=dt.UTC)
    assert [e.row.run for e in choose(entries, 0.5, None, now)] == ["20261121T010203Z-seed7"]
    assert choose(entries, 2, None, now) == []
    # What has no date counts as the newest: it is never removed for its age.
    assert [e.row.run for e in choose(entries, None, 2, now)] == ["other"]


def test_a_folder_without_a_chain_is_no_run_to_remove(root):
    entry = catalogue(root)[0]
    entry.store.digests_path.unlink()
    with pytest.raises(StoreError, match="no such file"):
        removal_of(entry.store)


@pytest.mark.slow
def test_the_commands_of_the_page_work(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(root)
    (root / "quick").symlink_to(root / "synthetic")
    page = (DOCS / "runs.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines() if line]
    assert len(lines) >= 2
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "kraftprobe"
        expanded = [
            str(found)
            for part in arguments
            for found in (sorted(Path().glob(part)) if part.endswith("*") else [part])
        ]
        result = kraftprobe(*expanded)
        assert result.exit_code == 0, (line, result.output)

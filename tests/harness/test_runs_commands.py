"""`kraftprobe runs`: the catalogue on the command line."""

import json
import re
import shlex
from pathlib import Path

import pytest

from results.store.digests import read_chain
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


def test_what_is_no_run_is_one_line(tmp_path):
    result = runs("show", tmp_path, code=2)
    assert result.output == f"kraftprobe: {tmp_path}: this is not the folder of a run\n"


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


@pytest.mark.slow
def test_a_judgement_records_of_a_run_that_was_killed_what_it_reads_alone(bench):
    folder = bench.folder()
    store = bench.copy("killed", folder)
    (store.folder / "notes.txt").write_text("mine")
    (bench.copy("good", store.folder).folder).rename(store.folder / "good")
    kraftprobe("check", store.folder)
    assert not {"notes.txt", "good/plan.json", "good/results.json"} & {
        *read_chain(store.digests_path).files
    }


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

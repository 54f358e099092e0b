"""What a script reads: one document on stdout, or the one thing asked for, whatever the verdict.

The keys of each document are those of the table in docs/setup.md.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from checkers.verdict import EXIT_CODES, Status
from cluster.backends.base import ProcessIdentity
from cluster.backends.cleanup import Leftover
from cluster.node.log.batch.control import LeaderChange, encode_control
from cluster.node.log.batch.records import encode_batch
from cluster.node.log.metadata.snapshot import SnapshotEncoder, snapshot_name
from cluster.node.log.types import OffsetAndEpoch
from harness.cli import main
from harness.commands import kafka as kafka_command
from harness.commands import machine
from harness.commands import shrink as reproduce_command
from harness.sim.shrink.reproduce import Search

DOCS = Path(__file__).parents[2] / "docs" / "setup.md"
RUN_KEYS = ["run", "folder", "status", "verdict", "exit_code", "checks", "page"]


def documented():
    """The keys of each command's document: what is named before a semicolon."""
    found = {}
    for row in re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", DOCS.read_text(), re.MULTILINE):
        commands, keys = row
        plain = re.sub(r"\(.*?\)", "", keys).partition(";")[0]
        for command in re.findall(r"`(.*?)`", commands):
            found[command] = set(re.findall(r"`(\w+)`", plain))
    return found


KEYS = documented()


def kraftprobe(*arguments, code=0):
    """Return stdout; with --json or --quiet there is no progress, only what went wrong."""
    result = CliRunner().invoke(main, [str(part) for part in arguments], prog_name="kraftprobe")
    assert result.exit_code == code, result.output
    assert code == 2 or wrong(result) == []
    return result.stdout


def wrong(result):
    """Return what went wrong, but for what `cleanup` says of the machine and of others' runs."""
    elsewhere = re.compile("kraftprobe: (containers were not examined: |run .* of another folder)")
    return [line for line in result.stderr.splitlines() if not elsewhere.match(line)]


def document(*arguments, code=0):
    return json.loads(kraftprobe(*arguments, "--json", code=code))


PLAN = """\
campaign = "scripts"
backend = "sim"
nodes = 3
duration_s = 6
seed = 5
rate_per_s = 40.0
[[schedule]]
at_ms = 2000
steps = [{ kind = "partition", targets = "leader", for_ms = 1500 }]
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def failed(plan):
    """A stored run that fails: the document of it."""
    out = plan.parent / "failed"
    return document("sim", "--campaign", plan, "--mutant", "M15", "--out", out, code=1)


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "verdict"), [((), "PASS"), (("--mutant", "M15"), "FAIL")])
def test_a_simulated_run(plan, mutant, verdict):
    code = EXIT_CODES[Status(verdict)]
    found = document("sim", "--campaign", plan, *mutant, code=code)
    assert found.keys() == KEYS["sim --campaign"]
    assert (found["campaign"], found["seed"], found["verdict"]) == ("scripts", 5, verdict)
    assert (found["exit_code"], bool(found["violations"])) == (code, verdict == "FAIL")
    assert kraftprobe("sim", "--campaign", plan, *mutant, "--quiet", code=code) == f"{verdict}\n"


@pytest.mark.slow
def test_a_simulated_run_that_is_kept(failed, plan, tmp_path):
    assert list(failed) == RUN_KEYS
    assert (failed["verdict"], failed["folder"]) == ("FAIL", str(plan.parent / "failed"))
    quiet = kraftprobe("sim", "--campaign", plan, "--out", tmp_path / "kept", "--quiet")
    assert quiet == f"{tmp_path / 'kept' / 'report.html'}\n"


@pytest.mark.slow
def test_a_batch_of_seeds(tmp_path):
    batch = ("sim", "--seeds", "0..2", "--duration", "1", "--out", tmp_path / "batch")
    found = document(*batch, code=4)
    assert found.keys() == KEYS["sim --seeds"]
    assert (found["finished"], found["verdict"]) == (2, "UNDER-EXERCISED")
    assert found["too_little"]
    assert kraftprobe(*batch, "--quiet", code=4) == f"{tmp_path / 'batch' / 'summary.json'}\n"


@pytest.mark.slow
def test_from_a_failed_run_to_a_replayed_story(failed, tmp_path):
    run, small, smaller = failed["folder"], tmp_path / "small.json", tmp_path / "smaller.json"
    found = document("reproduce", run, "--time", "20", "--out", small)
    assert found.keys() == KEYS["reproduce"] | KEYS["shrink"]
    assert (found["found"], found["file"]) == (True, str(small))

    again = document("replay", small, code=1)
    assert again.keys() == KEYS["sim --seed"] | {"story"}
    assert again["violations"][0]["property"] == found["property"]
    assert again["story"][-1].startswith(f"VIOLATED {found['property']}: ")
    assert kraftprobe("replay", small, "--quiet", code=1) == "FAIL\n"

    shrunk = document("shrink", small, "--time", "1", "--out", smaller)
    assert shrunk.keys() == KEYS["shrink"]
    assert (shrunk["property"], shrunk["file"]) == (found["property"], str(smaller))
    quiet = kraftprobe("shrink", smaller, "--time", "1", "--out", smaller, "--quiet")
    assert quiet == f"{smaller}\n"


@pytest.mark.slow
def test_a_search_that_finds_nothing(failed, monkeypatch):
    monkeypatch.setattr(reproduce_command, "search", lambda *_: Search(tried=3))
    found = document("reproduce", failed["folder"], code=3)
    assert found.keys() == KEYS["reproduce"]
    assert (found["found"], found["worlds"]) == (False, 3)
    assert kraftprobe("reproduce", failed["folder"], "--quiet", code=3) == ""


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_a_plan_that_no_longer_violates_what_it_says_has_no_answer(plan, tmp_path, option):
    stored = tmp_path / "plan.toml"
    stored.write_text(PLAN.replace("[[", '[found]\nproperty = "election-safety"\n[[', 1))
    assert kraftprobe("replay", stored, option, code=2) == ""


@pytest.mark.slow
def test_reports_and_their_index(two_runs):
    found = document("report", two_runs)
    assert [each.keys() for each in found] == [KEYS["report"]] * 2
    pages = [str(two_runs / name / "report.html") for name in "ab"]
    assert [(each["run"], each["page"]) for each in found] == [*zip("ab", pages, strict=True)]
    assert kraftprobe("report", two_runs, "--quiet").splitlines() == pages
    page = str(two_runs.parent / "index.html")
    found = document("index", two_runs.parent)
    assert found.keys() == KEYS["index"]
    assert (found["page"], found["runs"]) == (page, 2)
    assert kraftprobe("index", two_runs.parent, "--quiet") == f"{page}\n"


@pytest.mark.slow
def test_one_of_several_reports_that_cannot_be_written(two_runs, tmp_path):
    runs = shutil.copytree(two_runs, tmp_path / "synthetic")
    (runs / "a" / "results.json").write_text("{")
    assert [each["run"] for each in document("report", runs, code=2)] == ["b"]


def test_a_release_of_kafka(tmp_path, monkeypatch):
    def fetch(version, repository, say):
        say(f"fetching {version} of {repository}")
        return tmp_path

    monkeypatch.setattr(kafka_command.kafka_fetch, "fetch", fetch)
    found = document("kafka", "fetch", "4.3.1")
    assert found.keys() == KEYS["kafka fetch"]
    assert found == {"version": "4.3.1", "home": str(tmp_path)}
    assert kraftprobe("kafka", "fetch", "4.3.1", "--quiet") == f"{tmp_path}\n"


def test_what_was_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert document("cleanup", "--runs", tmp_path) == []
    assert kraftprobe("cleanup", "--runs", tmp_path, "--quiet") == ""

    stubborn = Leftover("r1", ProcessIdentity(2**22 + 1, "x"), "sleep")
    trial = tmp_path / "trial"
    monkeypatch.setattr(machine, "find_leftovers", lambda *_: [stubborn])
    monkeypatch.setattr(machine, "abandoned_trials", lambda: [trial])
    monkeypatch.setattr(machine, "clean", list)
    result = CliRunner().invoke(main, ["cleanup", "--runs", str(tmp_path), "--json"])
    assert result.exit_code == 2
    assert wrong(result) == [f"kraftprobe: process {2**22 + 1} does not end"]
    process, folder = json.loads(result.stdout)
    assert process == {"kind": "process", "name": str(2**22 + 1), "run": "r1", "gone": False}
    assert folder == {"kind": "folder", "name": str(trial), "run": None, "gone": True}


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    change = encode_control(LeaderChange(1, (1, 2, 3), (1, 2)))
    for offset in (7, 8):
        batch = encode_batch(offset, 3, [change], 1_000, control=True)
        (folder / f"{offset:020d}.log").write_bytes(batch)
    return folder


def test_the_records_of_a_log(log, tmp_path):
    lines = [json.loads(line) for line in kraftprobe("log", "dump", log).splitlines()]
    assert [line["offset"] for line in lines] == [7, 8]
    assert document("log", "dump", log) == lines
    assert kraftprobe("log", "dump", log, "--quiet") == ""
    shutil.copytree(log, tmp_path / "other")
    assert document("log", "dump", tmp_path) == [
        {"log": str(tmp_path / name), **line} for name in ("log", "other") for line in lines
    ]


def test_a_damaged_log_is_a_whole_document_up_to_the_damage(log):
    path = log / f"{8:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert [record["offset"] for record in document("log", "dump", log, code=2)] == [7]
    assert kraftprobe("log", "dump", log, "--quiet", code=2) == ""
    assert kraftprobe("log", "dump", log / "absent", "--json", code=2) == ""


def test_the_records_of_a_snapshot(tmp_path):
    end = OffsetAndEpoch(20, 3)
    encoder, file = SnapshotEncoder(end, 5_000), tmp_path / snapshot_name(end)
    file.write_bytes(encoder.header() + encoder.footer())
    lines = [json.loads(line) for line in kraftprobe("snapshot", "dump", file).splitlines()]
    assert document("snapshot", "dump", file) == lines
    assert kraftprobe("snapshot", "dump", file, "--quiet") == ""
    assert kraftprobe("snapshot", "dump", tmp_path / "x", "--json", code=2) == ""


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("check", "x"),
        ("sim", "--seed", "1"),
        ("replay", "x"),
        ("shrink", "x"),
        ("reproduce", "x"),
        ("calibrate",),
        ("gate", "x"),
        ("report", "x"),
        ("index",),
        ("kafka", "fetch", "x"),
        ("image",),
        ("cleanup",),
        ("log", "dump", "x"),
        ("snapshot", "dump", "x"),
        ("runs", "list"),
    ],
)
def test_both_at_once_are_refused_before_anything_is_done(command):
    result = CliRunner().invoke(main, [*command, "--json", "--quiet"], prog_name="kraftprobe")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "kraftprobe: --json prints a document alone: it does not go with --quiet\n"
    )

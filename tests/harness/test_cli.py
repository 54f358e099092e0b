import asyncio
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from checkers.history import Event, EventType
from checkers.verdict import CheckResult, Status
from cluster.backends.base import Probe
from cluster.backends.local import local_backend
from cluster.backends.registry import BACKENDS
from harness.campaigns import campaign_names, load, read_document
from harness.cli import main
from harness.commands import judge as judge_commands
from harness.commands import options as command_options
from harness.commands import run as run_command
from harness.doctor import examination
from harness.doctor.fault_probes import Tried
from harness.errors import PlanError
from harness.plan.document import from_document
from harness.plan.stored_document import plan_document
from harness.run import run_to_verdict
from harness.run.recorder import Recorder
from harness.run.run_to_verdict import repeat_command
from nemeses.registry import FAULTS
from results.judge.session import Spark, SparkError
from results.store.journal import JournalWriter
from results.store.model import RunResults, system_shown
from results.store.run_store import RunStore
from tests.command_line import kraftprobe
from tests.harness.fake_cluster import FakeCluster
from tests.results.factory import DEFAULT_CHECKS
from workloads import register

HISTORY = Path(__file__).parents[1] / "data" / "histories" / "example.edn"


def one_line_on_stderr(result, *, exit_code=2):
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    # A busy machine takes long enough for steps to be shown.
    (line,) = (line for line in lines if not re.match(r" *\d+\.\d s \| ", line))
    assert "Traceback" not in line
    return line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "unknown command 'rnu'; did you mean 'run'?"),
        (["run", "--campaign", "smok"], "unknown campaign 'smok'; did you mean 'smoke'?"),
        (["run", "--campaign", "no/such.toml"], "no/such.toml: No such file or directory"),
        (["list", "faultz"], "'faultz' is not one of"),
        (["run", "--nodes", "many"], "Invalid value for '--nodes': 'many' is not a valid integer."),
        (["run", "--sead", "3"], "No such option '--sead'"),
        (["check", "no-such-run"], "no-such-run"),
        (["report", "no-such-run"], "no-such-run"),
        (["gate"], "Missing argument 'RUN...'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, message):
    assert message in one_line_on_stderr(kraftprobe(*arguments))


@pytest.mark.slow
def test_an_unwritable_run_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    line = one_line_on_stderr(kraftprobe("run", "--runs", tmp_path / "file" / "runs"))
    assert "cannot be made" in line


def test_a_folder_that_kafkas_log_dirs_would_read_as_two_is_refused_before_it_is_made(tmp_path):
    line = one_line_on_stderr(kraftprobe("run", "--runs", tmp_path / "a,b"))
    assert "log.dirs" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_is_no_utf_8_is_refused_before_it_is_made(tmp_path):
    line = one_line_on_stderr(kraftprobe("run", "--runs", tmp_path / os.fsdecode(b"\xfc")))
    assert "UTF-8" in line
    assert list(tmp_path.iterdir()) == []


def write_history(path, *, read):
    rows = [
        (0, "invoke", "write", "a"),
        (0, "ok", "write", "a"),
        (0, "invoke", "write", "b"),
        (0, "ok", "write", "b"),
        (1, "invoke", "read", None),
        (1, "ok", "read", read),
    ]
    with JournalWriter(path) as journal:
        for index, (process, type_, f, value) in enumerate(rows):
            journal.append(Event(index, index, process, EventType(type_), f, "k", value))
    return path


@pytest.mark.parametrize(("read", "exit_code", "verdict"), [("b", 0, "PASS"), ("a", 1, "FAIL")])
def test_check_of_a_file_ends_with_the_verdict_and_its_exit_code(
    tmp_path, read, exit_code, verdict
):
    result = kraftprobe("check", write_history(tmp_path / "h.jsonl", read=read))
    assert result.exit_code == exit_code
    assert result.stdout.splitlines()[-1].startswith(f"{verdict} h.jsonl")


def broken(*_, **__):
    raise ZeroDivisionError("oops\nand more")


def private(path):
    return path.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_bug_has_an_exit_code_of_its_own_and_a_private_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(run_to_verdict, "perform", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    line = one_line_on_stderr(kraftprobe("run"), exit_code=70)
    assert "ZeroDivisionError: oops and more" in line
    assert "please report it" in line
    (kept,) = (tmp_path / "state" / "kraftprobe").iterdir()
    assert str(kept) in line
    assert "ZeroDivisionError" in kept.read_text()
    assert private(kept)
    assert private(kept.parent)


@pytest.mark.slow
def test_without_a_home_the_traceback_is_in_a_new_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run_to_verdict, "perform", broken)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line = one_line_on_stderr(kraftprobe("run"), exit_code=70)
    (kept,) = tmp_path.glob("kraftprobe-*/internal-error-*.txt")
    assert str(kept) in line
    assert private(kept.parent)


def test_a_bug_in_a_run_leaves_its_traceback_in_the_run_folder(tmp_path, monkeypatch):
    faulty = FakeCluster()
    faulty.up = broken
    clusters = iter([FakeCluster(), faulty])  # the first is for probes
    monkeypatch.setattr(local_backend, "LocalBackend", lambda *_, **__: next(clusters))
    result = kraftprobe("run", "--runs", tmp_path)
    assert result.exit_code == 70, result.output
    (kept,) = tmp_path.glob("smoke/*/internal-error-*.txt")
    assert str(kept) in result.stderr.splitlines()[-1]
    assert private(kept)


def test_a_bug_of_a_client_is_no_fault_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(local_backend, "LocalBackend", lambda *_, **__: FakeCluster())
    monkeypatch.setattr(register.RegisterClient, "invoke", broken)
    result = kraftprobe("run", "--runs", tmp_path)
    assert result.exit_code == 70, result.output
    assert "the harness failed: process " in result.stderr.splitlines()[-1]
    (kept,) = tmp_path.glob("smoke/*/internal-error-*.txt")
    assert "ZeroDivisionError" in kept.read_text()


@pytest.mark.slow
def test_an_interrupt_ends_in_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_to_verdict, "perform", interrupted)
    line = one_line_on_stderr(kraftprobe("run"), exit_code=130)
    assert line == "kraftprobe: interrupted"


def options_of(command, path=()):
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from options_of(command.get_command(context, name), (*path, name))
        return
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{' '.join(path)} {option.opts[-1]}", option


def test_every_option_of_every_command_has_a_help():
    options = dict(options_of(main))
    assert len(options) > 30
    assert [name for name, option in options.items() if not option.help] == []


def test_the_defaults_that_help_names_are_those_that_hold():
    page = " ".join(kraftprobe("check", "--help").stdout.split())
    spec = judge_commands._file_check({})
    assert f"queue or counter. [default: {spec.options['model']}]" in page
    page = " ".join(kraftprobe("shrink", "--help").stdout.split())
    assert "[default: 300.0; 1<=x<=86400]" in page


@pytest.mark.parametrize(
    ("environment", "is_terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
    ],
)
def test_a_verdict_is_coloured_where_the_environment_allows(environment, is_terminal, coloured):
    unset = {"NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm"}
    arguments = ["check", str(HISTORY), "--model", "cas-register"]
    result = CliRunner(env={**unset, **environment}).invoke(main, arguments, color=is_terminal)
    assert "PASS" in result.stdout
    assert ("\x1b[" in result.stdout) == coloured


def test_help_goes_to_stdout_with_exit_code_0():
    result = kraftprobe("--help")
    assert result.exit_code == 0
    assert "gate" in result.stdout


@pytest.mark.parametrize("kind", ["workloads", "faults", "campaigns", "mutants"])
def test_list_prints_what_a_plan_can_name(kind):
    expected = {
        "workloads": "register",
        "faults": "partition",
        "campaigns": "smoke",
        "mutants": "M15",
    }
    result = kraftprobe("list", kind)
    assert result.exit_code == 0
    assert any(line.startswith(expected[kind]) for line in result.stdout.splitlines())


@pytest.mark.parametrize("kind", ["workloads", "faults", "campaigns", "mutants"])
def test_everything_that_is_listed_has_a_title_of_its_own(kind):
    lines = kraftprobe("list", kind).stdout.splitlines()
    titles = [line.partition(" ")[2].strip() for line in lines]
    assert [title for title in titles if "See " in title or len(title.split()) < 3] == []
    assert len(set(titles)) == len(titles)
    assert max(map(len, lines)) <= 130


def test_a_campaign_is_printed_as_it_is(tmp_path):
    copy = tmp_path / "mine.toml"
    copy.write_text(kraftprobe("campaign", "standard").stdout)
    assert read_document(copy) == load("standard")


@pytest.mark.parametrize("name", campaign_names())
def test_every_named_campaign_is_a_plan_that_gives_each_fault_its_turn(name):
    plan = from_document({**load(name), "seed": 1})
    assert plan.campaign == name
    steps = {step.kind for strand in plan.strands for step in strand.steps}
    played = {entry.fault for entry in plan.schedule} | {kind for kind in steps if kind in FAULTS}
    assert played == set(plan.faults)
    assert set(plan.expectations["faults"]) == set(plan.faults)


@pytest.mark.slow
def test_doctor_prints_its_findings_as_json():
    looked_at = ("local", "sim", "ssh")
    asked = [word for backend in looked_at for word in ("--backend", backend)]
    result = kraftprobe("doctor", "--json", *asked)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["can_run"]
    assert set(found["backends"]) == set(looked_at) < set(BACKENDS)
    for name in ("local", "sim"):
        assert found["backends"][name]["possible"]
    for backend in found["backends"].values():
        assert set(backend["faults"]) == set(FAULTS)
    abilities = found["backends"]["local"]["abilities"]
    assert set(abilities) == {"processes", "signals", "links"}
    assert "--inventory FILE" in found["backends"]["ssh"]["remedy"]
    for fault in ("kill", "pause", "restart", "partition"):
        assert found["backends"]["local"]["faults"][fault]["possible"]


def test_doctor_shows_every_fault_and_the_command_that_brings_what_is_missing(monkeypatch):
    missing = Probe(possible=False, reason="nft not found", remedy="apt install nftables")
    works = Probe(possible=True)
    faults = {name: missing if name == "partition" else works for name in FAULTS}
    monkeypatch.setattr(
        examination, "try_backend", lambda *_: Tried(works, {"links": missing}, faults)
    )
    result = kraftprobe("doctor", "--backend", "local")
    assert result.exit_code == 0
    rows = {row.split()[0]: row.split()[1:] for row in result.stdout.splitlines() if row.strip()}
    assert rows["ability"] == rows["fault"] == ["local"]
    assert list(rows).index("links") < list(rows).index("fault") < list(rows).index("kill")
    assert (rows["kill"], rows["partition"]) == (["yes"], ["NO"])
    last_line = "backend local: links, partition: nft not found (remedy: apt install nftables)"
    assert result.stdout.splitlines()[-1] == last_line


def test_doctor_shows_its_steps_but_where_a_document_is_asked_for(monkeypatch):
    def stepping(_plan, _kinds, steps):
        with steps.show(at_once=True):
            steps.step("probing")
        return Tried(Probe(possible=True, reason=""), {}, {})

    monkeypatch.setattr(examination, "try_backend", stepping)
    assert "probing" in kraftprobe("doctor", "--backend", "local").stderr
    assert kraftprobe("doctor", "--backend", "local", "--json").stderr == ""


def test_programs_of_the_administrator_are_found_with_the_path_of_a_user(monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin")))
    assert kraftprobe("list", "workloads").exit_code == 0
    assert os.get_exec_path() == ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]


def test_doctor_ends_in_2_where_no_campaign_can_run(monkeypatch):
    nowhere = Tried(Probe(possible=False, reason="no processes here"), {}, {})
    monkeypatch.setattr(examination, "try_backend", lambda *_: nowhere)
    result = kraftprobe("doctor", "--backend", "local")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-1] == "backend local: no processes here"


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """What other runs on this machine have at this moment, those of other tests, is not named."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("harness.commands.machine._elsewhere", lambda *_: [])


@pytest.mark.usefixtures("alone")
def test_cleanup_of_nothing_says_so(tmp_path):
    result = kraftprobe("cleanup", "--runs", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "nothing was left behind\n")


@pytest.mark.usefixtures("alone")
def test_cleanup_names_faults_with_heals_that_did_not_work(tmp_path):
    """From the journal where the harness was killed, and from what was judged where it was not."""
    store = RunStore.create(tmp_path, plan_document(from_document({}), "killed", ""))
    with store.journal_writer() as journal:
        recorder = Recorder(journal, lambda: 0.0)
        for fault, phase, verified in [
            ("kill", "inject", True),
            ("kill", "heal", True),
            ("loss", "inject", True),
            ("loss", "heal", False),
            ("pause", "inject", True),
        ]:
            detail = {} if verified else {"reason": "tc: no such device"}
            value = {"phase": phase, "targets": ["n2"], "verified": verified, "detail": detail}
            recorder.note(fault, value)
    sentence = "loss of n2 from 0 s was not healed: tc: no such device"
    judged = CheckResult(
        "earned",
        Status.UNKNOWN,
        sentence,
        anomalies=({"kind": "faults-healed", "explanation": sentence},),
    )
    for results in (None, judged):
        if results is not None:
            store.write_results(RunResults(Status.UNKNOWN, (results,), {}, store.name, {}, {}))
        result = kraftprobe("cleanup", "--runs", tmp_path)
        assert result.exit_code == 0
        # Before it stands what cannot be examined here, as a docker engine that is not started.
        assert result.stderr.splitlines()[-1] == f"kraftprobe: run {store.name}: {sentence}"


def test_the_command_that_repeats_a_run_names_its_seed():
    assert repeat_command(["--nodes", "3"], 7) == "kraftprobe run --nodes 3 --seed 7"
    assert repeat_command(["--seed", "7"], 7) == "kraftprobe run --seed 7"
    assert repeat_command(["--seed=7"], 7) == "kraftprobe run --seed=7"


def test_the_command_line_goes_over_the_campaign():
    document = run_command.compose(
        {"campaign": "smoke", "nodes": 5, "seed": 9, "faults": "kill", "duration_s": 20.0}
    )
    assert (document["nodes"], document["seed"], document["faults"]) == (5, 9, ["kill"])


EXPECTING = """
duration_s = 60
rate_per_s = 100
faults = ["kill", "delay"]
[expectations]
min_operations = 3000
leader_changes = 4
faults = ["kill", "delay"]
"""


@pytest.fixture
def expecting(tmp_path):
    path = tmp_path / "expecting.toml"
    path.write_text(EXPECTING)
    return str(path)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, (3000, 4, {"kill", "delay"})),
        ({"duration_s": 30.0}, (1500, 2, {"kill", "delay"})),
        ({"duration_s": 120.0, "rate_per_s": 50.0}, (3000, 8, {"kill", "delay"})),
        ({"rate_per_s": 10.0}, (300, 4, {"kill", "delay"})),
        ({"faults": "pause"}, (3000, 4, {"pause"})),
        ({"faults": "delay"}, (3000, 0, {"delay"})),
        ({"faults": "none"}, (3000, 0, set())),
        ({"nodes": 1, "faults": "kill"}, (3000, 0, {"kill"})),
        ({"workload": "set", "concurrency": 2}, (3000, 4, {"kill", "delay"})),
        ({"duration_s": 1.0, "rate_per_s": 0.5, "faults": "none"}, (50, 0, set())),
    ],
)
def test_options_rescale_what_a_plan_expects(expecting, asked, wanted):
    plan = from_document(run_command.compose({"campaign": expecting, "seed": 1, **asked}))
    found = plan.expectations
    assert (found["min_operations"], found["leader_changes"], set(found["faults"])) == wanted


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.0, -3.0, 1e300])
@pytest.mark.parametrize("key", ["duration_s", "rate_per_s"])
def test_lengths_that_cannot_be_are_refused_in_one_line(expecting, key, value):
    with pytest.raises(PlanError, match=f"{key} must be"):
        from_document(run_command.compose({"campaign": expecting, "seed": 1, key: value}))


def test_a_seed_is_drawn_where_none_is_given():
    seeds = {run_command.compose({"campaign": "smoke"})["seed"] for _ in range(5)}
    assert len(seeds) == 5


def test_a_run_whose_cluster_does_not_start_is_one_line_and_no_verdict(tmp_path, monkeypatch):
    clusters = iter([FakeCluster(), FakeCluster(fail_up=True)])  # the first is for probes
    monkeypatch.setattr(local_backend, "LocalBackend", lambda *_, **__: next(clusters))
    result = kraftprobe("run", "--runs", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "kraftprobe: port 9092 is taken"
    assert list(tmp_path.glob("smoke/*/plan.json"))


def test_a_run_stores_what_its_build_is_called(tmp_path, monkeypatch):
    clusters = iter([FakeCluster(), FakeCluster(fail_up=True)])  # the first is for probes
    monkeypatch.setattr(local_backend, "LocalBackend", lambda *_, **__: next(clusters))
    kraftprobe("run", "--runs", tmp_path, "--build", " rc1, commit 9f3c ")
    (path,) = tmp_path.glob("smoke/*/plan.json")
    plan = json.loads(path.read_text())
    assert plan["versions"]["build"] == "rc1, commit 9f3c"
    assert system_shown(plan).endswith(", build rc1, commit 9f3c")
    listed = kraftprobe("runs", "list", "--runs", tmp_path, "--build", "9f3c", "--quiet")
    assert listed.stdout == f"{path.parent}\n"


@pytest.mark.parametrize("text", ["", " ", ", ,,", "a\nb", "x" * 201])
def test_a_build_is_called_by_one_short_line(text):
    line = one_line_on_stderr(kraftprobe("run", "--build", text), exit_code=2)
    assert line.startswith("kraftprobe: --build")


@pytest.mark.slow
def test_spark_starts_when_no_node_runs_any_more(tmp_path, monkeypatch):
    cluster, seen = FakeCluster(), []

    def start(_spark):
        seen.append((cluster.downs, {state.name for state in cluster.states.values()}))
        raise SparkError("not here")

    monkeypatch.setattr(Spark, "start", start)
    monkeypatch.setattr(local_backend, "LocalBackend", lambda *_, **__: cluster)
    plan = tmp_path / "plan.toml"
    plan.write_text("duration_s = 1\nfaults = []\n")
    result = kraftprobe(
        *("run", "--campaign", plan, "--runs", tmp_path / "runs", "--spark-master", "local[*]")
    )
    assert result.stderr.endswith("kraftprobe: not here\n")
    assert result.exit_code == 2
    assert seen == [(1, {"DEAD"})]


def test_campaigns_can_run_without_a_jvm(monkeypatch):
    missing = Probe(possible=False, reason="no java found")
    monkeypatch.setattr(examination, "_jvm", lambda: missing)
    result = kraftprobe("doctor", "--json", "--backend", "sim")
    found = json.loads(result.stdout)
    assert not found["machine"]["a JVM for Spark"]["possible"]
    assert found["can_run"]
    assert result.exit_code == 0


def test_a_machine_without_a_temporary_folder_is_examined(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    found = examination.examine_machine()
    assert [probe.possible for probe in found.values()] == [True, False, False]
    assert found["a writable temporary folder"].remedy.startswith("set TMPDIR")


@pytest.fixture
def runs(two_runs, tmp_path):
    return shutil.copytree(two_runs, tmp_path / "synthetic")


@pytest.mark.slow
@pytest.mark.parametrize("as_campaign", [True, False])
def test_check_takes_many_runs_and_ends_with_the_code_of_the_worst(runs, as_campaign):
    result = kraftprobe("check", *([runs] if as_campaign else [runs / "a", runs / "b"]))
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    for name, verdict in (("a", "PASS"), ("b", "FAIL")):
        own = [line for line in lines if line.startswith(f"synthetic/{name}: ")]
        assert own[-1].startswith(f"synthetic/{name}: {verdict} {name}: ")
        assert len(own) == len(DEFAULT_CHECKS) + 2
        assert str(runs / name / "report.html") in lines
    assert len(lines) == 2 * (len(DEFAULT_CHECKS) + 2 + 1)


@pytest.mark.slow
def test_check_prints_for_scripts_what_run_prints(runs, tmp_path):
    path = write_history(tmp_path / "h.jsonl", read="a")
    lines = kraftprobe("check", runs, path, "--json").stdout.splitlines()
    good, bad, file = map(json.loads, lines)
    assert {name: good[name] for name in ("run", "folder", "verdict", "exit_code", "page")} == {
        "run": "a",
        "folder": str(runs / "a"),
        "verdict": "PASS",
        "exit_code": 0,
        "page": str(runs / "a" / "report.html"),
    }
    assert (bad["status"], bad["exit_code"]) == ("FAIL", 1)
    assert len(bad["checks"]) == len(DEFAULT_CHECKS) + 1
    assert (file["run"], file["folder"], file["page"]) == ("h.jsonl", None, None)
    again = kraftprobe("check", runs / "b", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (1, bad)
    quiet = kraftprobe("check", runs, path, "--quiet").stdout.splitlines()
    assert quiet == [
        *(str(runs / name / "report.html") for name in "ab"),
        f"{path}: {file['verdict']}",
    ]


@pytest.mark.slow
def test_a_run_that_cannot_be_judged_is_a_line_and_does_not_stop_the_others(runs):
    (runs / "a" / "plan.json").write_text("{")
    result = kraftprobe("check", runs / "a", runs / "b", runs.parent / "missing")
    assert result.exit_code == 1
    assert "synthetic/b: FAIL" in result.stdout
    first, second = result.stderr.splitlines()
    assert first.startswith("kraftprobe: synthetic/a: ")
    assert "plan.json" in first
    assert "missing" in second
    shutil.rmtree(runs / "b")
    assert kraftprobe("check", runs).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("before", [(), ("--certificate", "proof.json")])
def test_links_in_a_circle_are_one_line(tmp_path, before):
    (tmp_path / "circle").symlink_to("circle")
    line = one_line_on_stderr(kraftprobe("check", *before, tmp_path / "circle"))
    assert "Too many levels of symbolic links" in line


def test_a_run_that_is_meant_twice_is_judged_once(runs):
    result = kraftprobe("check", runs / "a", runs / "a" / ".", runs / "b" / ".." / "a")
    assert result.stdout.count("PASS a: ") == 1


@pytest.mark.slow
def test_report_takes_many_runs(runs):
    result = kraftprobe("report", runs)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [str(runs / name / "report.html") for name in "ab"]


@pytest.mark.parametrize("command", ["check", "report", "gate"])
def test_a_folder_without_runs_is_one_line(tmp_path, command):
    (tmp_path / "empty").mkdir()
    line = one_line_on_stderr(kraftprobe(command, tmp_path / "empty"))
    assert line == f"kraftprobe: {tmp_path / 'empty'}: there are no runs in it"


def test_gate_takes_a_campaign_and_the_working_folder(runs, monkeypatch):
    result = kraftprobe("gate", runs)
    assert result.exit_code == 1
    assert (
        result.stdout.splitlines()[-1] == "gate closed: 1 of 2 runs pass; under test: kraft 0.1.0"
    )
    monkeypatch.chdir(runs / "a")
    result = kraftprobe("gate", ".", "../a")
    assert result.exit_code == 0, result.output
    first, second, canary, last = result.stdout.splitlines()
    assert first.startswith("synthetic/a: PASS: ")
    assert second.endswith("(the same run as synthetic/a: counted once)")
    assert canary.startswith("canary: PASS: ")
    assert last == "gate open: 1 of 1 run passes; under test: kraft 0.1.0"


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("kraftprobe ga", {"gate"}),
        ("kraftprobe runs li", {"list"}),
        ("kraftprobe gate --pol", {"--policy"}),
        ("kraftprobe runs list --verdict UN", {"UNKNOWN", "UNDER-EXERCISED"}),
    ],
)
def test_a_shell_completes_commands_options_and_choices(words, completions):
    environment = {
        "_KRAFTPROBE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner(env=environment).invoke(main, [], prog_name="kraftprobe")
    found = {line.partition(",")[2] for line in result.stdout.splitlines()}
    assert found == completions


SHORT = ("run", "--backend", "sim", "--campaign", "quick", "--faults", "none", "--duration", "2")


@pytest.mark.slow
def test_a_run_for_scripts_prints_one_document_or_one_path(tmp_path):
    options = (*SHORT, "--seed", "7", "--no-report", "--runs", tmp_path)
    result = kraftprobe(*options, "--json")
    document = json.loads(result.stdout)
    assert "judging" not in result.stderr
    assert result.exit_code == document["exit_code"]
    stored = json.loads((Path(document["folder"]) / "results.json").read_text())
    assert (document["run"], document["verdict"]) == (stored["run"], stored["verdict"])
    assert [c["checker"] for c in document["checks"]] == [c["checker"] for c in stored["checks"]]
    result = kraftprobe(*options, "--quiet")
    assert "judging" not in result.stderr
    assert result.stdout.count("\n") == 1
    assert Path(result.stdout.strip()).name == "results.json"


def test_the_address_of_spark_connect_is_refused_in_one_line():
    line = one_line_on_stderr(kraftprobe("check", HISTORY, "--spark-master", "sc://here:15002"))
    assert "Spark Connect is not" in line
    assert "spark://host:7077" in line


@pytest.mark.parametrize("url", ["local[x]", "nonsense://x", "spark://host"])
def test_what_is_no_address_of_spark_is_refused_before_anything_runs(tmp_path, url):
    line = one_line_on_stderr(kraftprobe("run", "--runs", tmp_path, "--spark-master", url))
    assert f"--spark-master {url}: give local[2], spark://host:7077" in line
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "url", ["local", "local[*]", "local[2, 3]", "spark://a:7077,b:7077", "yarn"]
)
def test_an_address_of_spark_is_taken(url):
    assert command_options._MASTER.fullmatch(url)


@pytest.mark.parametrize("raised", [SystemExit(0), SystemExit(1), asyncio.CancelledError()])
def test_what_ends_a_program_is_an_internal_error_in_a_command(monkeypatch, tmp_path, raised):
    """As `sys.exit(0)` in a package's client would be: its exit code is no verdict."""

    def leave():
        raise raised

    command = click.Command("run", callback=leave)
    monkeypatch.setattr("harness.cli._Commands.get_command", lambda *_: command)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = kraftprobe("run")
    assert type(raised).__name__ in one_line_on_stderr(result, exit_code=70)

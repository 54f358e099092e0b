"""The templates for CI systems do what they say: their scripts are run as they stand there."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.command_line import kraftprobe
from tests.gate.bench import Bench

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("ci"))


@pytest.fixture
def place(bench, tmp_path):
    """A folder of a job: a run that passes, one that fails, a policy, and kraftprobe on its PATH."""
    for kind, name in (("good", "passes"), ("bad", "fails")):
        (tmp_path / name).symlink_to(bench.copy(kind).folder.parent)
    (tmp_path / "release.toml").write_text("version = 1\n[each]\noperations_min = 100\n")
    program = tmp_path / "bin" / "kraftprobe"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from harness.cli import main\nmain(prog_name='kraftprobe')\n"
    )
    program.chmod(0o755)
    return tmp_path


def shell(place, script, **variables):
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=place,
        env={"PATH": f"{place / 'bin'}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def github_script():
    text = (CI / "github" / "action.yml").read_text()
    block = re.search(r"^      run: \|\n((?:        .*\n)+)", text, re.MULTILINE)[1]
    return "\n".join(line.removeprefix("        ") for line in block.splitlines())


def gitlab_script():
    text = (CI / "gitlab" / "kraftprobe.gitlab-ci.yml").read_text()
    block = re.search(r"^  script:\n((?:    .*\n)+?)  artifacts:", text, re.MULTILINE)[1]
    lines = re.findall(r"^    - (.*)$", block, re.MULTILINE)
    return "\n".join(line.strip("'") for line in lines)


@pytest.mark.parametrize(("runs", "code"), [("passes", 0), ("passes fails", 1), ("absent", 2)])
def test_the_action_ends_as_the_gate_does(place, runs, code):
    ended, output = shell(
        place,
        github_script(),
        GITHUB_ACTION_PATH=str(CI / "github"),
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(place / "summary.md"),
        POLICY="release.toml",
        RUNS=runs,
    )
    assert ended == code, output
    if code != 2:
        assert ("::error title=Kraftprobe FAIL" in output) is (code == 1)
        assert (place / "summary.md").read_text().startswith("## Kraftprobe: gate ")
        assert ET.parse(place / "gate-junit.xml").getroot().tag == "testsuites"


@pytest.mark.parametrize(("runs", "code"), [("passes", 0), ("fails", 1)])
def test_the_template_of_gitlab_ends_as_the_gate_does(place, runs, code):
    ended, output = shell(
        place,
        gitlab_script(),
        KRAFTPROBE_HOME=str(ROOT),
        KRAFTPROBE_POLICY="release.toml",
        KRAFTPROBE_RUNS=runs,
    )
    assert ended == code, output
    assert "::error" not in output
    assert (place / "gate-junit.xml").exists()


def test_no_input_is_taken_for_a_command(place):
    ended, _ = shell(
        place,
        github_script(),
        GITHUB_ACTION_PATH=str(CI / "github"),
        POLICY="release.toml; touch hurt",
        RUNS="passes; touch hurt $(touch hurt) *",
    )
    assert ended == 2
    assert not (place / "hurt").exists()


def test_gate_sh_without_runs_is_usage(place):
    assert (CI / "gate.sh").stat().st_mode & stat.S_IXUSR
    assert shell(place, f"{CI / 'gate.sh'} release.toml") == (2, "usage: gate.sh POLICY RUN...\n")


KAFKA = str(CI / "kafka.sh")
RECORDER = """#!/bin/sh
echo "$*" >>asked
for last; do :; done
case "$*" in
*--repository*) echo "/cache/kafka/$last@0123abcd" ;;
*fetch*) echo "/cache/kafka/$last" ;;
*) exit "${ENDS:-0}" ;;
esac
"""


@pytest.fixture
def recorder(place):
    """A `kraftprobe` that notes what it is asked; of a fetch, prints a folder as the true one does."""
    (place / "bin" / "kraftprobe").write_text(RECORDER)
    return place


def asked(place):
    return [line.split() for line in (place / "asked").read_text().splitlines()]


@pytest.mark.parametrize(
    ("variables", "fetch", "build"),
    [
        ({"KAFKA_VERSION": "4.3.1"}, ["4.3.1"], ["--kafka-version", "4.3.1"]),
        (
            {"KAFKA_VERSION": "4.4.0", "KAFKA_REPOSITORY": "https://staging.example/7"},
            ["--repository", "https://staging.example/7", "4.4.0"],
            ["--kafka-version", "4.4.0@0123abcd"],
        ),
        ({"KAFKA_HOME": "build/kafka", "KAFKA_VERSION": ""}, None, ["--kafka-home", "build/kafka"]),
    ],
    ids=["release", "candidate", "folder"],
)
def test_each_kind_of_a_kafka_build_is_run_twice_beside_a_canary(recorder, variables, fetch, build):
    assert shell(recorder, f"{KAFKA} netns", **variables) == (0, "")
    commands = asked(recorder)
    if fetch is not None:
        assert commands.pop(0) == ["kafka", "fetch", "--quiet", *fetch]
    runs = [
        "run",
        "--system",
        "apache-kafka",
        "--campaign",
        "quick",
        "--backend",
        "netns",
        "--seed",
    ]
    canary = ["run", "--campaign", "quick", "--mutant", "M15"]
    assert commands == [[*runs, "7", *build], [*runs, "8", *build], canary]


@pytest.mark.parametrize("variables", [{"KAFKA_VERSION": "4.3.1"}, {"KAFKA_HOME": "build"}])
def test_what_the_script_asks_are_commands(recorder, variables):
    assert shell(recorder, f"{KAFKA} local", **variables) == (0, "")
    for words in asked(recorder):
        refused = kraftprobe(*words, "--help")  # unknown options come first
        assert refused.exit_code == 0, refused.output


def test_runs_that_find_something_leave_the_verdict_to_the_gate(recorder):
    assert shell(recorder, KAFKA, KAFKA_VERSION="4.3.1", ENDS="1") == (0, "")
    assert asked(recorder)[1][-2:] == ["--faults", "kill,pause"]


def test_runs_that_were_refused_are_no_evidence(recorder):
    assert shell(recorder, KAFKA, KAFKA_VERSION="4.3.1", ENDS="2")[0] != 0
    assert shell(recorder, KAFKA) == (2, "kafka.sh: set KAFKA_VERSION or KAFKA_HOME\n")


def test_the_policy_for_kafka_is_one_that_refuses_other_systems(place):
    code, output = shell(place, f"kraftprobe gate --policy {CI / 'kafka.toml'} passes")
    assert code == 3, output
    assert "apache-kafka" in output


def test_the_workflow_for_kafka_runs_the_script_and_the_gate_of_its_policy():
    document = yaml.safe_load((CI / "github" / "kafka.yml").read_text())
    job = document["jobs"]["gate"]
    inputs = document[True]["workflow_dispatch"]["inputs"]  # YAML reads "on" as true
    assert job["env"] == {f"KAFKA_{name.upper()}": f"${{{{ inputs.{name} }}}}" for name in inputs}
    steps = job["steps"]
    [script] = [step["run"] for step in steps if step.get("name") == "Runs"]
    assert "kraftprobe/ci/kafka.sh netns" in script
    assert "inputs." not in script
    [gate] = [step["with"] for step in steps if step.get("uses") == "./kraftprobe/ci/github"]
    assert gate == {"policy": "kraftprobe/ci/kafka.toml", "runs": "runs/quick"}


def test_the_job_of_gitlab_for_kafka_runs_the_script_before_the_gate_of_its_policy():
    job = yaml.safe_load((CI / "gitlab" / "kafka.gitlab-ci.yml").read_text())[".kraftprobe-kafka"]
    assert (job["extends"], job["before_script"][-1]) == (
        ".kraftprobe-gate",
        "kraftprobe/ci/kafka.sh local",
    )
    assert job["variables"]["KRAFTPROBE_POLICY"] == "kraftprobe/ci/kafka.toml"
    assert job["variables"]["KRAFTPROBE_RUNS"] == "runs/quick"

"""The templates for CI systems do what they say: their scripts are run as they stand there."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

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

"""docs/own-system.md, from a folder outside of this repository, and every kind of extension."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.verdict import Status
from results.store.run_store import RunStore
from tests.runs.command import until_decided

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/own-system.md").read_text()
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]

MORE = '''
from dataclasses import replace
from checkers.registry import CheckSpec, RunCheck
from checkers.verdict import CheckResult, Status
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.registry import BackendKind
from nemeses.processes.signals import Kill
import shared_cells


class Fell(Kill):
    """Kill by another name."""

    name = "fell"


class Elsewhere(LocalBackend):
    name = "elsewhere"


def create(asked):
    return Elsewhere(asked.system, asked.folder, asked.nodes, asked.run_id, needs=asked.needs)


def count(run, options, cancelled):
    wrong = len(run.operations) > options["most"]
    status = Status.FAIL if wrong else Status.PASS
    return CheckResult("few", status, f"{len(run.operations)} operations")


class Counted(shared_cells.Cells):
    def checks(self, *, reads_lag=False):
        return (*super().checks(), CheckSpec("few", {"most": 100}))


FAULT = Fell()
BACKEND = BackendKind("elsewhere", create)
CHECK = RunCheck("few", "run", count, {"most": int}, ("most",))
WORKLOAD = replace(
    shared_cells.WORKLOAD, name="counted", create=lambda options: Counted(**options, name="counted")
)
SYSTEM = replace(
    shared_cells.SYSTEM,
    name="more-cells",
    workloads=frozenset({"counted"}),
    backends=frozenset({"elsewhere"}),
)
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Make a folder that holds nothing but the installed example."""
    folder = tmp_path_factory.mktemp("outside")
    copy, install, *_ = COMMANDS
    assert copy.startswith("cp -r docs/own-system ")
    subprocess.run(["cp", "-r", ROOT / "docs/own-system", folder / "shared-cells"], check=True)
    words = shlex.split(install)
    assert words[:4] == [".venv/bin/python", "-m", "pip", "install"]
    target = ("--disable-pip-version-check", "--quiet", "--target", str(folder / "site"))
    done = subprocess.run(
        [sys.executable, *words[1:4], *target, *words[4:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and os.environ.get("CI") != "true":
        pytest.skip(f"pip cannot install the example here: {done.stderr.splitlines()[-1:]}")
    assert done.returncode == 0, done.stderr
    return folder


def perform(folder: Path, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    assert program == ".venv/bin/kraftprobe"
    main = (sys.executable, "-c", "from harness.cli import main; main()")
    return subprocess.run(
        [*main, *words, *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'site'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def judged(folder: Path) -> dict[str, Status]:
    results = RunStore(folder).read_results()
    return {check.checker: check.status for check in results.checks}


@pytest.mark.cluster
def test_the_page_finds_the_planted_bug_and_passes_the_sound_system(place: Path):
    listing, sound, buggy = COMMANDS[2:]
    assert "shared-cells " in perform(place, listing).stdout
    options = ("--seed", "1", "--rate", "20")  # a busy machine has no more
    done = until_decided(lambda n: perform(place, sound, *options, "--runs", f"sound/{n}"))
    assert done.returncode == 0, done.stdout + done.stderr
    run = max((place / "sound").glob("*/smoke/*"))
    assert judged(run) == dict.fromkeys(
        ("linearizable", "answers", "exercised", "statistics", "earned"), Status.PASS
    )
    assert perform(place, f".venv/bin/kraftprobe gate --judge-again {run}").returncode == 0

    done = perform(place, buggy, "--seed", "1", "--runs", "buggy")
    assert done.returncode == 1, done.stderr
    [run] = (place / "buggy/smoke").iterdir()
    assert judged(run)["linearizable"] is Status.FAIL
    assert "not linearizable" in (run / "report.html").read_text()


@pytest.mark.cluster
def test_a_package_adds_a_fault_a_checker_and_a_backend_too(place: Path):
    site = place / "site"
    (site / "more.py").write_text(MORE)
    info = site / "more-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 0.1\n")
    names = {"systems": "more-cells = more:SYSTEM", "workloads": "counted = more:WORKLOAD"}
    names |= {"faults": "fell = more:FAULT", "checkers": "few = more:CHECK"}
    names |= {"backends": "elsewhere = more:BACKEND"}
    rows = (f"[kraftprobe.{kind}]\n{point}\n" for kind, point in names.items())
    (info / "entry_points.txt").write_text("".join(rows))
    choice = "--system more-cells --workload counted --backend elsewhere --faults fell"
    refused = perform(place, f".venv/bin/kraftprobe run {choice}".replace("elsewhere", "local"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "more-cells runs on backend elsewhere" in refused.stderr
    command = f".venv/bin/kraftprobe run {choice} --duration 12 --rate 20 --seed 3 --runs more"
    done = perform(place, command)
    assert done.returncode == 1, done.stderr
    [run] = (place / "more/smoke").iterdir()
    checks = judged(run)
    assert checks.pop("few") is Status.FAIL
    assert set(checks.values()) == {Status.PASS}
    [few] = [c for c in RunStore(run).read_results().checks if c.checker == "few"]
    assert few.summary.endswith(" operations")
    again = perform(place, f".venv/bin/kraftprobe check {run}")
    assert again.returncode == 1, again.stderr


ENDS = '''
from dataclasses import replace
from cluster.backends.base import BackendError
from nemeses.processes.signals import Pause
import shared_cells

SOURCE = """
import os, runpy, sys, threading
threading.Timer(11, os._exit, [3]).start()
sys.argv = {argv!r}
runpy.run_path({argv[0]!r}, run_name="__main__")
"""


class Ending(shared_cells.SharedCells):
    """Nodes that end by themselves after 11 s."""

    def command(self, node):
        python, *argv = super().command(node)
        return (python, "-c", SOURCE.format(argv=argv))


class Stuck(Pause):
    """A pause that nobody can undo."""

    name = "stuck"

    async def heal(self, view, injection):
        raise BackendError("no such process group")


FAULT = Stuck()
SYSTEM = replace(shared_cells.SYSTEM, name="ending-cells", create=Ending)
'''


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("choice", "code", "reason"),
    [
        ("--system ending-cells --faults none --duration 13", 1, "though no fault ended it"),
        ("--system shared-cells --faults stuck --duration 9", 3, "no such process group"),
    ],
)
def test_nodes_that_end_and_faults_that_are_not_healed_are_no_pass(
    place: Path, choice: str, code: int, reason: str
):
    site = place / "site"
    (site / "ends.py").write_text(ENDS)
    info = site / "ends-0.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ends\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[kraftprobe.systems]\nending-cells = ends:SYSTEM\n[kraftprobe.faults]\nstuck = ends:FAULT\n"
    )
    folder = f"ends-{code}"
    command = f".venv/bin/kraftprobe run --workload shared-cells {choice} --seed 1 --runs {folder}"
    done = perform(place, command)
    assert done.returncode == code, done.stderr
    assert reason in done.stdout
    [run] = (place / folder / "smoke").iterdir()
    closed = perform(place, f".venv/bin/kraftprobe gate --allow-no-faults {run}")
    assert closed.returncode == code
    assert reason in closed.stdout

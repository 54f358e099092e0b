"""Every command of the README and some of docs, run as they stand there (some with shorter runs)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from tests.runs.command import until_decided

ROOT = Path(__file__).resolve().parents[2]
SHORTER = {
    # Linters not again: CI's `make test` begins with them.
    "make check": " -o lint PYTEST=tests/test_values.py",
    "make test": " -o lint PYTEST=tests/test_values.py",
    # On real nodes the next command does the same.
    "make run": " ARGS='--backend sim --duration 25 --seed 3 --runs {folder}/made'",
    "make find": " FOUND={folder}/find",
    # Mutants on real nodes: tests/runs/test_mutants_by_faults.py.
    ".venv/bin/kraftprobe run --mutant M15": " --backend sim --campaign quick --seed 11",
    ".venv/bin/kraftprobe run --campaign quick --seed 7": " --duration 25",
    ".venv/bin/kraftprobe run --backend docker --campaign quick": " --duration 25 --seed 7",
    ".venv/bin/python -m benchmarks.sim": " --runs 1 --repeats 1 --seconds 20",
    ".venv/bin/python -m benchmarks.broker": " --no-kafka --seconds 1 --warm-up 1 --repeats 1"
    " --log-mb 20 --recoveries 1",
}
OF_DOCS = """\
.venv/bin/kraftprobe run --backend docker --campaign quick
.venv/bin/kraftprobe run --backend sim --campaign quick --seed 7
.venv/bin/kraftprobe sim --seed 11
.venv/bin/kraftprobe runs list
.venv/bin/kraftprobe campaign standard > mine.toml
.venv/bin/kraftprobe check runs/quick/*
.venv/bin/kraftprobe report runs/quick/*
.venv/bin/kraftprobe cleanup
.venv/bin/kraftprobe doctor
.venv/bin/kraftprobe log dump runs/quick/*/nodes/n1
.venv/bin/kraftprobe list mutants
make check
make test
make find
.venv/bin/python -m benchmarks.broker
.venv/bin/python -m benchmarks.sim
"""
EXIT_CODES = {".venv/bin/kraftprobe run --mutant M15": 1}
BY_NIGHT = (
    ".venv/bin/kraftprobe run --backend docker",
    ".venv/bin/python -m benchmarks",
    "make find",
)
"""Containers are nodes of tests/runs and tests/conformance at every commit; a benchmark judges no
commit; stored findings are replayed at every commit."""
IN_CHECKOUT = ("make", ".venv/bin/python -m benchmarks")


def commands() -> list[str]:
    """All commands, in order, as later ones use what earlier ones made; those that fail come last."""
    blocks = re.findall(
        r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    lines = [line for kind, block in blocks if not kind for line in block.splitlines() if line]
    assert all(line.startswith(("make", ".venv/bin/")) for line in lines), lines
    return sorted([*lines, *OF_DOCS.splitlines()], key=EXIT_CODES.__contains__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a checkout, keeps its runs to itself, and holds one already."""
    folder = tmp_path_factory.mktemp("readme")
    for name in (".venv", "tests", "docs", "harness"):
        (folder / name).symlink_to(ROOT / name)
    earlier = [".venv/bin/kraftprobe", "run", "--campaign", "quick", "--backend", "sim"]
    subprocess.run([*earlier, "--seed", "1"], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=[pytest.mark.nightly] if line.startswith(BY_NIGHT) else [])
        for line in commands()
    ],
)
def test_readme_command(command: str, folder: Path):
    if not (ROOT / ".venv/bin/kraftprobe").exists():
        pytest.fail("the README's commands need .venv: run `make test`, not pytest alone")
    line = command + SHORTER.get(command, "").format(folder=folder)
    if "--backend docker" in command:
        try:
            engine.connect().close()
        except BackendError as error:
            pytest.skip(str(error))
    where = ROOT if command.startswith(IN_CHECKOUT) else folder

    def again(attempt: int) -> subprocess.CompletedProcess[str]:
        for undecided in list(folder.glob("runs/*/*")) if attempt else ():
            if undecided not in before:
                shutil.rmtree(undecided)  # or the gate would meet it
        return perform(line, where)

    before = {*folder.glob("runs/*/*")}
    done = until_decided(again)
    assert done.returncode == EXIT_CODES.get(command, 0), done.stdout[-3000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr


def perform(line: str, where: Path) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(
        ["bash", "-c", line],
        cwd=where,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=900)
        except subprocess.TimeoutExpired:
            # Not the shell alone: its program would go on, and keep its files.
            os.killpg(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=600)
    return subprocess.CompletedProcess(line, process.returncode, output, errors)


@pytest.mark.parametrize("name", re.findall(r"!\[.+\]\((.+)\)", (ROOT / "README.md").read_text()))
def test_a_picture_is_there(name: str):
    assert (ROOT / name).stat().st_size > 20_000

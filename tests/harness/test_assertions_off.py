"""Nothing runs with assertions turned off, since they state the invariants."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = "Kraftprobe's invariants are assertions: run without -O and PYTHONOPTIMIZE\n"
PROGRAMS = {
    "a node": ("-m", "cluster.node", "--config", "server.properties"),
    "the formatting of a node's folder": (
        "-m",
        "cluster.node.format",
        "--config",
        "server.properties",
    ),
    "the disk that fails on order": (
        "-m",
        "cluster.backends.machine.faultfs",
        "a",
        "b",
        "c",
        "posix",
    ),
    "the command line": ("-m", "harness.cli", "--help"),
    "the simulated world": ("-m", "harness.cli", "sim", "--seed", "11"),
    "the installed command": (
        str(Path(sys.executable).with_name("kraftprobe")),
        *("list", "mutants"),
    ),
}
LIBRARIES = {
    "the checkers": "import checkers",
    "one of their modules": "from checkers.history import pair",
    "a worker of Spark": "import results.judge.spark_jobs",
    "what clients do": "import workloads.registry",
}


def run(arguments: tuple[str, ...], optimized: str) -> subprocess.CompletedProcess[str]:
    option, environment = (
        ([], {"PYTHONOPTIMIZE": "1"}) if optimized == "PYTHONOPTIMIZE" else ([optimized], {})
    )
    return subprocess.run(
        [sys.executable, *option, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.mark.parametrize("optimized", ["-O", "PYTHONOPTIMIZE"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_runs_without_assertions(program, optimized):
    done = run(PROGRAMS[program], optimized)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", LINE)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_library_is_imported_without_assertions(library):
    done = run(("-c", LIBRARIES[library]), "-OO")
    assert done.returncode != 0
    assert done.stderr.endswith(LINE)


def test_what_is_started_in_a_node_s_place_is_isolated_or_looks_for_itself():
    """`-I` ignores PYTHONOPTIMIZE; what is started by `-m` imports `cluster`, which refuses."""
    starts = re.compile(
        r'(?:interpreter|executable|INTERPRETER|python)\)*,\s*(?:\*\()?(?:"-[PS]", )*"(-\w+)"'
    )
    options = {
        (path.name, option)
        for path in (ROOT / "cluster").rglob("*.py")
        for option in starts.findall(path.read_text())
    }
    assert {option for _, option in options} == {"-I", "-m"}
    assert {name for name, option in options if option == "-m"} == {
        "disks.py",
        "docker_hosts.py",
        "kafka_system.py",
        "kraft.py",
        "mixed.py",
        "netns_hosts.py",
        "preflight.py",
        "process.py",
        "ssh_hosts.py",
    }
    assert len(options) >= 9

"""A command imports no more than it needs, since each library costs a tenth of a second."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from checkers.history.formats import load_history, to_edn
from harness.cli import _COMMANDS, main
from results.store.journal import JournalWriter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import atexit, json, sys
from harness.cli import main
atexit.register(lambda: sys.stderr.write(json.dumps(sorted(sys.modules))))
main(sys.argv[1:], prog_name="kraftprobe")
"""


def modules_of(*arguments: str) -> tuple[int, set[str]]:
    """Run a program in its own process; returns its exit code and the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, set(json.loads(done.stderr[done.stderr.rindex("[") :]))


HEAVY = {"docker", "jinja2", "pandas", "paramiko", "py4j", "pydantic", "pyspark"}
OF_NODES = {"aiokafka", "cryptography", "kio"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []], ids=str)
def test_what_needs_no_library_imports_none(arguments):
    code, modules = modules_of(*arguments)
    assert code == (0 if arguments else 2)
    ours = {name.partition(".")[0] for name in modules}
    assert "click" in ours
    assert not ours & (HEAVY | OF_NODES | {"numpy", "pyarrow", "rich"})
    assert not ours & {"checkers", "nemeses", "results", "workloads"}


@pytest.mark.parametrize("form", ["edn", "journal"])
def test_judging_a_small_history_imports_nothing_of_nodes_reports_or_tables(tmp_path, form):
    events = load_history(ROOT / "tests/data/histories/example.edn")
    file = tmp_path / f"history.{form}"
    if form == "edn":
        file.write_text(to_edn(events))
    else:
        with JournalWriter(file) as journal:
            for event in events:
                journal.append(event)
    code, modules = modules_of("check", str(file), "--model", "cas-register")
    assert code == 0
    ours = {name.partition(".")[0] for name in modules}
    assert {"checkers", "numpy"} <= ours
    assert not ours & (HEAVY | OF_NODES | {"nemeses", "pyarrow", "workloads"})


PEAK = """
import atexit, sys
from pathlib import Path
from harness.cli import main
def peak():
    status = Path("/proc/self/status").read_text()
    print(next(line for line in status.splitlines() if "VmHWM" in line).split()[1], file=sys.stderr)
atexit.register(peak)
main(sys.argv[1:])
"""


def test_judging_a_small_history_takes_at_most_60_mb():
    file = ROOT / "tests/data/histories/example.edn"
    command = [sys.executable, "-c", PEAK, "check", str(file), "--model", "cas-register"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stderr) <= 60 * 1024


@pytest.mark.parametrize("kind", ["workloads", "faults", "campaigns", "mutants"])
def test_listing_what_a_plan_can_name_checks_no_plan(kind):
    code, modules = modules_of("list", kind)
    assert code == 0
    assert not {"pydantic", "harness.plan.plan"} & modules


ON_HOSTS = (
    *("cluster.node.process", "cluster.node.format", "cluster.mutants"),
    *("cluster.backends.agent.__main__", "cluster.backends.agent.serving"),
    "cluster.backends.machine.faultfs",
)


def test_what_runs_on_hosts_needs_no_library_for_documents():
    program = f"import sys, {', '.join(ON_HOSTS)}; print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, cwd=ROOT, text=True) == "False\n"


def test_every_command_is_where_the_table_says():
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name, name
    assert main.get_command(context, "chekc") is None


def test_every_command_is_in_the_table():
    modules = [path.stem for path in (ROOT / "harness/commands").glob("[a-z]*.py")]
    commands = [
        value
        for module in modules
        for value in vars(import_module(f"harness.commands.{module}")).values()
        if isinstance(value, click.Command)
    ]
    groups = [command for command in commands if isinstance(command, click.Group)]
    below = {id(command) for group in groups for command in group.commands.values()}
    found = {command.name for command in commands if id(command) not in below}
    assert found == set(_COMMANDS)


def test_a_run_imports_no_other_backends_libraries():
    code, modules = modules_of("run", "--backend", "nowhere")
    assert code == 2
    assert not {"docker", "paramiko", "cluster.backends.sim.world"} & modules


def test_a_refusal_imports_only_what_had_to_be_known_for_it():
    code, modules = modules_of("run", "--campaign", "nowhere")
    assert code == 2
    assert not {"pydantic", "numpy", "checkers", "rich", "nemeses.registry"} & modules
    code, modules = modules_of("run", "--nodes", "99")
    assert code == 2
    assert "harness.plan.plan" in modules
    run = {"harness.doctor.fault_probes", "harness.run.run_to_verdict", "results.store.run_store"}
    assert not {*run, "cluster.mutants", "cluster.node.assembly"} & modules


def test_too_few_open_files_are_refused_in_one_line():
    limited = ["/bin/sh", "-c", 'ulimit -n 40; exec "$@"', "sh"]
    command = [*limited, sys.executable, "-c", PROGRAM.replace("atexit.register", "str")]
    done = subprocess.run(
        [*command, "run", "--backend", "local"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "ulimit -n" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not bound the address space")
@pytest.mark.parametrize("mib", [60, 120, 300, 511])
def test_too_little_memory_is_refused_before_a_library_ends_the_process(mib):
    limited = ["/bin/sh", "-c", f'ulimit -v {mib << 10}; exec "$@"', "sh"]
    program = "import sys; sys.argv = ['kraftprobe', 'sim']; import harness"
    done = subprocess.run(
        [*limited, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{mib} MiB" in done.stderr


@pytest.mark.parametrize("program", ["cluster.node.process", "harness.commands.run"])
def test_a_node_and_its_harness_import_nothing_of_tests(program):
    code = f"import sys, {program}; print(sorted({{'hypothesis', 'pytest'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

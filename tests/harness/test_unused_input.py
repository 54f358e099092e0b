"""What is given is used, or refused in one line that names where it stands."""

import click
import pytest

from cluster.names import unknown
from harness.cli import _COMMANDS, main
from harness.commands.options import Command, Group
from tests.harness.test_cli import kraftprobe, one_line_on_stderr


def leaves(command, path=()):
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from leaves(command.get_command(click.Context(command), name), (*path, name))
    else:
        yield path, command


ALL = dict(leaves(main))


def test_every_command_reads_its_line_in_the_shared_way():
    assert {path[0] for path in ALL} == set(_COMMANDS)
    assert {type(command) for command in ALL.values()} == {Command}
    groups = [main.get_command(click.Context(main), path[0]) for path in ALL if len(path) > 1]
    assert {type(group) for group in groups} == {Group}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_no_option_is_given_twice_and_none_is_empty(path):
    arguments = [p for p in ALL[path].params if isinstance(p, click.Argument)]
    typed = ["x" for argument in arguments for _ in range(max(1, argument.nargs))]
    for option in ALL[path].params:
        if not isinstance(option, click.Option) or (option.is_flag and not option.secondary_opts):
            continue
        name = option.opts[0]
        value = [] if option.is_flag else [5]
        if not option.multiple:
            line = one_line_on_stderr(kraftprobe(*path, *typed, name, *value, name, *value))
            assert f"{name} is given twice" in line
        if not option.is_flag:
            assert name in one_line_on_stderr(kraftprobe(*path, *typed, name, ""))
            assert name in one_line_on_stderr(kraftprobe(*path, *typed, f"{name}= "))


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if command.params])
def test_no_argument_is_empty(path):
    arguments = [p for p in ALL[path].params if isinstance(p, click.Argument)]
    if arguments:
        typed = ["" for argument in arguments for _ in range(max(1, argument.nargs))]
        one_line_on_stderr(kraftprobe(*path, *typed))


KILL = '[[schedule]]\nat_s = 1\nfault = "kill"\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# nothing\n",
        'campaign = "x"\nabout = "y"\nversion = 1\n',
        "nodes = 3\nschedule = []\n",
        "nodes = 3\nfault = ['kill']\n",
        'faults = ["pause"]\n' + KILL,
        KILL.replace("at_s", "at"),
        KILL + "target = 'n1'\n",
        KILL + "parameters = { target = 'leader' }\n",
        KILL.replace("kill", "kil"),
        KILL.replace("1", "6000"),
        "nodes = 3\n[expectations]\nmin_operation = 1\n",
        "nodes = 3\n[workload_options]\nkey = 1\n",
        "nodes = 3\n[node_settings]\n'process.role' = 'broker'\n",
        "nodes = 3\n[security]\nprotocl = 'SSL'\n",
        "nodes = 3\n[world]\nlatency = 1\n",
        "nodes = 3\n[bounds]\nliveness = 1\n",
        "nodes = 3\n[schedule]\nquiet = [1, 2]\n",
        "nodes = 3\n[system_options]\nversion = '4.1.0'\n",
        "nodes = 3\n[[operations]]\nf = 'read'\nat = 1\n",
        "nodes = 3\n[[schedule]]\nat_s = 1\nsteps = []\n",
        "nodes = 3\n[[schedule]]\nsteps = [{ kind = 'kill', target = 'leader' }]\n",
        "nodes = 3\n[[schedule]]\nsteps = [{ kind = 'wait', until = { establishd = true } }]\n",
    ],
)
def test_a_plan_is_used_or_refused_by_its_name(tmp_path, text):
    path = tmp_path / "p.toml"
    path.write_text(text)
    for command in (
        ["run", "--runs", tmp_path / "r", "--campaign", path],
        ["sim", "--campaign", path],
        ["sim", "--out", tmp_path / "r", "--seeds", "0..2", "--campaign", path],
        ["replay", path],
        ["shrink", path],
    ):
        line = one_line_on_stderr(kraftprobe(*command))
        assert line.startswith(f"kraftprobe: {path}: ")
    assert not (tmp_path / "r").exists()


def test_a_plan_of_no_bytes_is_refused():
    assert "/dev/null: " in one_line_on_stderr(kraftprobe("run", "--campaign", "/dev/null"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--nodes", 99),
        ("--duration", 0),
        ("--duration", 3),
        ("--rate", -1),
        ("--concurrency", 0),
        ("--seed", -1),
        ("--faults", "kill,puase"),
        ("--faults", "kill,,pause"),
        ("--faults", ","),
        ("--faults", "none,kill"),
        ("--workload", "registr"),
        ("--system", "kafka"),
        ("--backend", "lokal"),
        ("--mutant", "M155"),
        ("--kafka-version", "4.1.0"),
        ("--image", "x"),
        ("--inventory", "x"),
        ("--system-option", "x"),
        ("--system-option", "x=1"),
    ],
)
def test_what_was_typed_is_named_as_it_was_typed(tmp_path, option, value):
    path = tmp_path / "p.toml"
    path.write_text("concurrency = 15\n")
    line = one_line_on_stderr(kraftprobe("run", "--campaign", path, option, value))
    assert option in line or "unknown workload" in line
    assert str(path) not in line


@pytest.mark.parametrize(
    "options",
    [
        ("--system-option", "a=1", "--system-option", "a=2"),
        ("--kafka-version", "4.1.0", "--system-option", "version=4.0.0"),
    ],
)
def test_an_option_of_the_system_is_given_once(options):
    assert "twice" in one_line_on_stderr(kraftprobe("run", *options))


@pytest.mark.parametrize("command", [["run", "--image", "x"], ["sim", "--system", "kraft"]])
def test_options_of_a_system_that_are_no_table_are_refused(tmp_path, command):
    path = tmp_path / "p.toml"
    path.write_text("system = 'kraft'\nsystem_options = 'abc'\n")
    line = one_line_on_stderr(kraftprobe(*command, "--campaign", path))
    assert line == f"kraftprobe: {path}: the plan's system_options must be a table, not 'abc'"


def test_an_inventory_is_refused_where_no_host_is_examined():
    line = one_line_on_stderr(kraftprobe("doctor", "--backend", "sim", "--inventory", "x"))
    assert "--inventory names the hosts of --backend ssh" in line


@pytest.mark.parametrize("option", [["--stop-at-first"], ["--spark-master", "local[2]"]])
def test_what_only_a_batch_can_use_is_refused_for_a_single_seed(option):
    assert option[0] in one_line_on_stderr(kraftprobe("sim", "--seed", "1", *option))


def test_kafka_means_apache_kafka():
    known = ("apache-kafka", "kraft", "mixed")
    assert "did you mean 'apache-kafka'?" in unknown("system", "kafka", known)
    assert "did you mean 'kraft'?" in unknown("system", "krafd", known)


@pytest.mark.parametrize(("name", "meant"), [("M9", "M09"), ("m9", "M09"), ("V1", "V01")])
def test_numbers_of_names_need_no_zeros(name, meant):
    assert f"did you mean {meant!r}?" in unknown("mutant", name, ("M09", "M19", "M29", "V01"))

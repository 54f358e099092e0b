"""What a harness leaves behind when it is killed with -9, and what cleans it up."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cluster.backends import cleanup
from cluster.backends.agent import cleaning
from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.cleanup import Leftover, abandoned_mounts, clean, find_leftovers
from cluster.backends.docker import engine
from cluster.backends.docker.leftovers import find_things
from cluster.backends.docker.process import inner_pid, wait_executed
from cluster.backends.machine import mounts
from cluster.backends.machine.faultfs.faults import _refuse_killed
from cluster.backends.machine.inside import clocks
from cluster.backends.machine.mounts import Mount
from cluster.backends.processes.labelled import kill_process, labelled_processes
from cluster.backends.processes.records import (
    HARNESS_LABEL,
    NAMESPACE_LABEL,
    PROCESSES_FILE,
    RecordedProcess,
    identify,
    labels,
    own_identity,
    own_place,
    pid_namespace,
    read_recorded,
    record_process,
    state_of,
)
from cluster.backends.ssh.inventory import HOSTS_FILE, inventory_of
from cluster.backends.ssh.leftovers import abandoned_hosts
from harness.commands import machine

pytestmark = pytest.mark.slow

OWN = f"of-{os.getpid()}"
"""Ends the name of a run that is looked for on the whole machine, where other tests have runs."""
HARNESS = Path(__file__).with_name("orphaning_harness.py")


@contextlib.contextmanager
def harness(runs: Path, run_id: str, *mode: str) -> Iterator[subprocess.Popen[str]]:
    folder = runs / "campaign" / run_id
    folder.mkdir(parents=True)
    command = [sys.executable, str(HARNESS), str(folder), run_id, *mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()
            process.wait()
            clean(find_leftovers(runs))


def nodes(runs: Path, run_id: str) -> list[ProcessIdentity]:
    recorded = read_recorded(runs / "campaign" / run_id)
    return [leftover.identity for leftover in recorded if leftover.role != "harness"]


def states(identities: list[ProcessIdentity]) -> set[NodeState]:
    return {state_of(identity) for identity in identities}


def test_a_killed_harness_leaves_nodes_and_cleanup_ends_them(tmp_path: Path):
    with harness(tmp_path, "r1") as process:
        process.kill()
        process.wait()
        left = nodes(tmp_path, "r1")
        assert states(left) == {NodeState.RUNNING, NodeState.PAUSED}
        found = find_leftovers(tmp_path)
        assert [(leftover.run_id, leftover.identity) for leftover in found] == [
            ("r1", identity) for identity in sorted(left, key=lambda identity: identity.pid)
        ]
        assert "fake_node.py" in found[0].command
        assert clean(found) == []
        assert states(left) == {NodeState.DEAD}
        assert find_leftovers(tmp_path) == []


def test_what_wrote_over_its_environment_is_found_by_its_group(tmp_path: Path):
    with harness(tmp_path, "r1", "titled") as process:
        process.kill()
        process.wait()
        shells = nodes(tmp_path, "r1")
        kill_process(shells[0])
        while state_of(shells[0]) is not NodeState.DEAD:
            time.sleep(0.01)
        left = {leftover.identity for leftover in find_leftovers(tmp_path)}
        assert len(left) == 5
        assert left >= set(shells[1:])
        assert clean(find_leftovers(tmp_path)) == []
        assert states(list(left)) == {NodeState.DEAD}


def test_a_living_campaign_is_not_touched_unless_it_is_named(tmp_path: Path):
    with harness(tmp_path, "dead") as dead, harness(tmp_path, "alive"):
        dead.kill()
        dead.wait()
        assert {leftover.run_id for leftover in find_leftovers(tmp_path)} == {"dead"}
        assert clean(find_leftovers(tmp_path)) == []
        assert states(nodes(tmp_path, "alive")) == {NodeState.RUNNING, NodeState.PAUSED}
        assert {leftover.run_id for leftover in find_leftovers(tmp_path, "alive")} == {"alive"}
        assert clean(find_leftovers(tmp_path, "alive")) == []
        assert states(nodes(tmp_path, "alive")) == {NodeState.DEAD}


def test_the_labels_alone_are_enough(tmp_path: Path):
    """A harness may die between a start and its line in the run folder."""
    run = f"r1-{OWN}"
    with harness(tmp_path, run) as process:
        process.kill()
        process.wait()
        left = nodes(tmp_path, run)
        (tmp_path / "campaign" / run / PROCESSES_FILE).unlink()
        found = [leftover for leftover in find_leftovers() if leftover.run_id == run]
        assert {leftover.identity for leftover in found} == set(left)
        assert clean(found) == []


def test_another_folder_of_runs_is_not_touched(tmp_path: Path):
    with harness(tmp_path / "a", "r1") as process:
        process.kill()
        process.wait()
        (tmp_path / "b").mkdir()
        assert find_leftovers(tmp_path / "b") == []
        for more in ([], ["--run", "r1"]):
            cleaned = CliRunner().invoke(machine.cleanup, ["--runs", str(tmp_path / "b"), *more])
            assert "nothing was left behind" not in cleaned.stdout
            assert f"kraftprobe cleanup --runs {tmp_path / 'a'} --run r1" in cleaned.stderr
        assert states(nodes(tmp_path / "a", "r1")) == {NodeState.RUNNING, NodeState.PAUSED}


SLEEP = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")
LABELLED = f"labelled-{OWN}"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **labels(LABELLED)}
    with subprocess.Popen(SLEEP, env=environment) as process:
        yield process
        process.kill()


def test_a_labelled_process_of_a_living_harness_is_none(sleeper: subprocess.Popen[bytes]):
    assert [leftover for leftover in find_leftovers() if leftover.run_id == LABELLED] == []
    named = find_leftovers(run_id=LABELLED)
    assert [leftover.identity.pid for leftover in named] == [sleeper.pid]


def test_a_pid_that_has_become_another_process_is_safe(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
):
    now = identify(sleeper.pid)
    before = ProcessIdentity(sleeper.pid, "some other time")
    record_process(tmp_path, RecordedProcess("r1", "harness", ProcessIdentity(2**22 + 1, "x")))
    record_process(tmp_path, RecordedProcess("r1", "n1", before))
    assert find_leftovers(tmp_path) == []
    assert clean([Leftover("r1", before, "")]) == []
    assert state_of(now) is NodeState.RUNNING


def test_a_recorded_process_is_found_without_its_labels(tmp_path: Path):
    with subprocess.Popen(SLEEP) as sleeper:
        identity = identify(sleeper.pid)
        record_process(tmp_path, RecordedProcess("r1", "harness", ProcessIdentity(2**22 + 1, "x")))
        record_process(tmp_path, RecordedProcess("r1", "n1", identity))
        assert [left.identity for left in find_leftovers(tmp_path)] == [identity]
        assert clean(find_leftovers(tmp_path)) == []
        assert sleeper.wait() == -9


@pytest.mark.parametrize("run", [None, "r1"])
def test_what_a_harness_elsewhere_recorded_names_no_process_here(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, run: str | None
):
    gone = ProcessIdentity(2**22 + 1, "x")
    for role, process in ("harness", gone), ("n1", identify(sleeper.pid)):
        record_process(tmp_path, RecordedProcess("r1", role, process, f"{own_place()}1"))
    assert find_leftovers(tmp_path, run) == []


@pytest.fixture
def oddly_named() -> Iterator[int]:
    """A process with a name that ends within a letter, as the kernel cuts long ones."""
    name = "open('/proc/self/comm', 'wb').write(b'\\xd0\\xbf\\xd0'); print(flush=True); input()"
    command = [sys.executable, "-I", "-S", "-c", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_process_may_have_any_name(oddly_named: int, sleeper: subprocess.Popen[bytes]):
    assert identify(oddly_named).pid == oddly_named
    assert sleeper.pid in {seen.identity.pid for seen in labelled_processes()}
    assert sleeper.pid in clocks._group(sleeper.pid)
    assert inner_pid(oddly_named) == oddly_named
    wait_executed(oddly_named)
    _refuse_killed(oddly_named)


TABLE = (
    b"60 29 8:1 / /media/caf\xe9\xc2\x85x rw - ext4 /dev/sda1 rw\n"
    b"61 29 0:50 / %s rw - fuse.kraftprobe kraftprobe#r1#%d:x#n1#%d rw\n"
)
"""Of mounts, one of which has a name in no UTF-8, with a character that ends lines in Python."""


def test_the_mounts_of_a_harness_elsewhere_are_not_left(tmp_path: Path, monkeypatch):
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "_TABLE", table)
    for namespace, left in (pid_namespace(), ["r1"]), (pid_namespace() + 1, []):
        table.write_bytes(TABLE % (b"/runs/data", 2**22 + 1, namespace))
        assert [mount.run_id for mount in abandoned_mounts()] == left
        assert [mount.run_id for mount in abandoned_mounts(run_id="r1")] == ["r1"]


def test_a_host_is_rid_of_mounts_by_a_user_without_privilege(tmp_path: Path, monkeypatch):
    table, asked = tmp_path / "mountinfo", []
    table.write_bytes(TABLE % (bytes(tmp_path / "r1/data"), 1, 1))

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command[0])
        if command[0] == "fusermount3":
            table.write_bytes(b"")
        return SimpleNamespace(stdout="")

    monkeypatch.setattr(cleaning, "TABLE", table)
    monkeypatch.setattr(cleaning, "unfilter", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("subprocess.run", run)
    cleaning.clean(str(tmp_path / "r1"), f"cleaned-{OWN}")
    assert asked == ["umount", "fusermount3"]


def test_a_run_folder_of_an_unknown_harness_is_touched_only_by_name(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
):
    record_process(tmp_path, RecordedProcess("r1", "n1", identify(sleeper.pid)))
    assert find_leftovers(tmp_path) == []
    assert [leftover.identity.pid for leftover in find_leftovers(tmp_path, "r1")] == [sleeper.pid]


def test_lines_that_are_not_whole_are_left_out(tmp_path: Path):
    record_process(tmp_path, RecordedProcess("r1", "harness", own_identity()))
    with (tmp_path / PROCESSES_FILE).open("a") as file:
        file.write("null\n[1]\n" + json.dumps({"run": "r1", "pid": "x"}) + '\n{"run": "r')
    assert list(read_recorded(tmp_path)) == [RecordedProcess("r1", "harness", own_identity())]


@pytest.fixture
def leaning(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """A node and, started before it, a process that it depends on; their run's harness is dead."""
    run = f"leaning-{OWN}"
    dead = {HARNESS_LABEL: f"{2**22 + 1}:long ago"}
    record_process(tmp_path, RecordedProcess(run, "harness", ProcessIdentity(2**22 + 1, "x")))
    support = {**os.environ, **labels(run, support=True), **dead}
    node = {**os.environ, **labels(run), **dead}
    with subprocess.Popen(SLEEP, env=support) as below, subprocess.Popen(SLEEP, env=node) as above:
        yield above, below
        above.kill()
        below.kill()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The pids that are killed, in their order, and whether the node was dead by then."""
    order: list[tuple[int, bool]] = []
    kill = cleanup.kill_process

    def watched(identity: ProcessIdentity) -> None:
        order.append((identity.pid, all(state_of(killed) is NodeState.DEAD for killed in seen)))
        seen.append(identity)
        kill(identity)

    seen: list[ProcessIdentity] = []
    monkeypatch.setattr(cleanup, "kill_process", watched)
    return order


def test_a_node_is_dead_before_what_it_depends_on_is_ended(leaning, killed, tmp_path: Path):
    node, support = leaning
    assert clean(reversed(find_leftovers(tmp_path))) == []
    assert killed == [(node.pid, True), (support.pid, True)]


def test_cleanup_takes_containers_then_mounts_then_what_serves_them_once_nodes_are_dead(
    leaning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    node, support = (identify(process.pid) for process in leaning)
    mount = Mount(f"leaning-{OWN}", ProcessIdentity(2**22 + 1, "x"), "n1", tmp_path / "data", 1)
    order = []

    def noted(what: str, answer: object) -> Callable[..., object]:
        def act(*_: object, **__: object) -> object:
            order.append((what, state_of(node), state_of(support)))
            return answer

        return act

    monkeypatch.setattr(machine, "abandoned_mounts", lambda *_: [mount])
    monkeypatch.setattr(machine, "heal", noted("heal", None))
    monkeypatch.setattr(machine, "_clean_containers", noted("containers", (1, 0)))
    monkeypatch.setattr(machine, "unmount", noted("unmount", True))
    done = CliRunner().invoke(machine.cleanup, ["--runs", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert order == [
        ("heal", NodeState.RUNNING, NodeState.RUNNING),
        ("containers", NodeState.DEAD, NodeState.RUNNING),
        ("unmount", NodeState.DEAD, NodeState.RUNNING),
    ]
    assert state_of(support) is NodeState.DEAD


def test_a_harness_of_another_namespace_is_not_taken_for_dead(leaning, tmp_path: Path):
    node, _ = leaning
    elsewhere = {
        **os.environ,
        **labels(f"elsewhere-{OWN}"),
        HARNESS_LABEL: f"{2**22 + 1}:long ago",
        NAMESPACE_LABEL: "1",
    }
    with subprocess.Popen(SLEEP, env=elsewhere) as other:
        pids = {leftover.identity.pid for leftover in find_leftovers()}
        other.kill()
    assert node.pid in pids
    assert other.pid not in pids


class Engine:
    """A docker engine with one container, of these labels."""

    def __init__(self, marks: dict[str, str]) -> None:
        self.api = SimpleNamespace(
            containers=lambda **_: [{"Labels": marks, "Names": ["/left"], "Id": "1"}],
            networks=lambda **_: [],
        )


def places(tmp_path: Path, run: str, place: str) -> list[str]:
    """What of a run with a dead harness is left, in the docker engine and on ssh hosts."""
    harness = ProcessIdentity(2**22 + 1, "long ago")
    folder = tmp_path / "campaign" / run
    folder.mkdir(parents=True)
    record_process(folder, RecordedProcess(run, "harness", harness, place))
    hosts = inventory_of({"hosts": [{"address": "192.0.2.1"}]}, tmp_path)
    (folder / HOSTS_FILE).write_text(json.dumps(hosts.to_json()))
    marks = engine.marks(run) | {engine.HARNESS_LABEL: f"{harness.pid}:{harness.started}"}
    client = Engine(marks | {engine.PLACE_LABEL: place})
    named = [*find_things(client, None, run), *abandoned_hosts(tmp_path, run)]
    assert len(named) == 2, "what is named is removed in any case"
    unnamed = [*find_things(client), *abandoned_hosts(tmp_path)]
    return [type(left).__name__ for left in unnamed if left.run_id == run]


def test_what_a_harness_elsewhere_uses_is_not_left(tmp_path: Path):
    """Another container, or a machine that has the same folder, may run it: it cannot be seen."""
    assert places(tmp_path, "here", own_place()) == ["LeftThing", "AbandonedHost"]
    assert places(tmp_path, "contained", f"{own_place()}1") == []
    assert places(tmp_path, "other-machine", f"1{own_place()}") == []


def test_what_another_cleanup_takes_meanwhile_is_not_left(tmp_path: Path, monkeypatch):
    (tmp_path / HOSTS_FILE).symlink_to(tmp_path / "gone")
    assert list(abandoned_hosts(tmp_path, tmp_path.name)) == []
    trial = tmp_path / f"kraftprobe-trial-{pid_namespace()}-{2**22 + 1}-x-y"

    def take(_: ProcessIdentity) -> NodeState:
        trial.rmdir()
        return NodeState.DEAD

    trial.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cleanup, "state_of", take)
    assert cleanup.abandoned_trials() == []


def test_a_harness_that_a_user_may_not_see_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)  # as of another user's where /proc has hidepid
    assert places(tmp_path, "hidden", own_place()) == []


def test_all_means_the_runs_of_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is ended: other tests on this machine have runs as well."""
    asked = []

    def found(where: Path | None, *_: object, **__: object) -> list[object]:
        asked.append(where)
        return []

    for name in ("find_leftovers", "abandoned_mounts", "_clean_containers"):
        monkeypatch.setattr(machine, name, found)
    for more, where in (["--all"], None), ([], tmp_path):
        asked.clear()
        CliRunner().invoke(machine.cleanup, ["--runs", str(tmp_path), *more])
        assert asked[:3] == [where] * 3


def test_the_hosts_of_a_run_that_was_made_nowhere_are_not_reached(tmp_path: Path):
    """A folder from elsewhere may name any host, and what to run there with this user's keys."""
    assert places(tmp_path, "made-here", own_place()) == ["LeftThing", "AbandonedHost"]
    record = tmp_path / "campaign" / "made-here" / PROCESSES_FILE
    record.write_text('{"run": "made-here", "role": "harness", "pid": 4194305, "started": "x"}\n')
    assert list(abandoned_hosts(tmp_path)) == []
    record.unlink()
    assert list(abandoned_hosts(tmp_path)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_what_another_user_stored_names_none_of_our_processes_or_hosts(tmp_path: Path):
    places(tmp_path, "shared", own_place())
    folder = tmp_path / "campaign" / "shared"
    with subprocess.Popen(SLEEP) as ours:
        record_process(folder, RecordedProcess("shared", "n1", identify(ours.pid)))
        assert [left.identity.pid for left in find_leftovers(tmp_path)] == [ours.pid]
        for name in (PROCESSES_FILE, HOSTS_FILE):
            os.chown(folder / name, 65534, 65534)
        assert find_leftovers(tmp_path) == []
        assert list(abandoned_hosts(tmp_path)) == list(abandoned_hosts(tmp_path, "shared")) == []
        ours.kill()

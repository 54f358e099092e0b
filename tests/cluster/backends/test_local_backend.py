"""Backend local with fake nodes: real processes, real signals, real links."""

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_system import FakeSystem, frame
from hosted_nodes import (
    all_gone,
    cancel_up,
    fail_up,
    has_every_ability,
    live_die_pause_and_stop,
    meets_all_that_a_command_started,
    nodes_of,
)
from waiting import eventually, works

from cluster.backends.base import BackendError, Death, NodeState
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.machine.equip import local_machines
from cluster.backends.processes import records
from cluster.backends.processes.records import last_lines
from tests.play import play
from tests.running import running

pytestmark = pytest.mark.slow


async def ask(endpoint, payload: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(frame(payload))
    try:
        return (await reader.read(65536))[4:]
    finally:
        writer.close()


async def ask_listener(backend: LocalBackend, node: str, payload: bytes, listener: str) -> bytes:
    return await ask(backend.endpoint(node, listener), payload)


def test_nodes_live_die_pause_and_stop_as_anywhere(with_cluster):
    with_cluster(partial(live_die_pause_and_stop, ask=ask_listener))


@play("with_cluster")
async def test_a_link_to_a_paused_node_works_once_it_is_resumed(backend: LocalBackend):
    await backend.pause("n2")
    assert not (await backend.measure_link(("n1", "n2"), 0.1)).works
    await backend.resume("n2")
    assert await works(backend, ("n1", "n2"))


@play("with_cluster")
async def test_nodes_reach_each_other_through_their_routes(backend: LocalBackend):
    routes = [backend.route("n1", "n2", listener) for listener in ("CONTROLLER", "CLIENT")]
    for route in routes:
        assert await ask(route, b"hi") == b"hi"
    placement = backend._placement("n1")
    assert [placement.routes[0], placement.broker_routes[0]] == routes
    assert await works(backend, ("n1", "n2"))
    await backend.cut_links([("n1", "n2")])
    assert backend.links_cut() == {("n1", "n2")}
    assert (await backend.measure_link(("n1", "n2"), 0.1)).silent
    assert await works(backend, ("n2", "n1"))
    await backend.restore_links([("n1", "n2")])
    assert await works(backend, ("n1", "n2"))


@play("with_cluster")
async def test_what_cannot_be_is_refused(backend: LocalBackend):
    with pytest.raises(BackendError, match=r"n1 cannot start: .* running"):
        await backend.start("n1")
    await backend.pause("n1")
    with pytest.raises(BackendError, match=r"n1 cannot stop .* paused"):
        await backend.stop("n1")
    await backend.kill("n1")
    with pytest.raises(BackendError, match="n1 is dead: no SIGSTOP"):
        await backend.pause("n1")


@play("with_cluster")
async def test_a_death_is_reported_where_others_processes_may_not_be_looked_at(
    backend: LocalBackend, *, monkeypatch: pytest.MonkeyPatch
):
    own = {os.getpid(), *[(await backend.process(node)).pid for node in backend.nodes]}

    def open_own(path, *args, **more):
        """Open as where /proc is mounted with hidepid=noaccess."""
        found = re.match("/proc/([0-9]+)/", str(path))
        if found is not None and int(found[1]) not in own:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return open(path, *args, **more)  # noqa: PTH123  (stands for it)

    monkeypatch.setattr("cluster.backends.agent.processes.open", open_own, raising=False)
    await ask(backend.endpoint("n2"), b"exit7")
    await eventually(backend.unexpected_deaths)
    assert backend.unexpected_deaths() == (Death("n2", 0, 7, ("asked to exit",)),)


@play("with_cluster")
async def test_deaths_are_listed_oldest_first_so_that_news_is_at_the_end(backend: LocalBackend):
    for dead, node in enumerate(("n3", "n1", "n2"), start=1):
        await ask(backend.endpoint(node), b"exit1")
        await eventually(lambda dead=dead: len(backend.unexpected_deaths()) == dead)
        assert backend.unexpected_deaths()[-1].node == node


@play("with_cluster")
async def test_a_node_that_another_program_kills_is_reported(backend: LocalBackend):
    process = await backend.process("n1")
    os.kill(process.pid, 9)
    await eventually(backend.unexpected_deaths)
    assert backend.unexpected_deaths() == (Death("n1", 0, -9, ()),)


def test_a_node_that_does_not_start_is_reported_and_nothing_is_left(tmp_path: Path):
    backend = LocalBackend(FakeSystem("fail"), tmp_path, 3, "run-1")
    fail_up(backend, r"n1 ended with 1 .*: this node does not")
    assert all_gone(nodes_of(tmp_path))


def test_a_node_that_does_not_start_on_a_full_disk_names_the_disk(tmp_path: Path, monkeypatch):
    """It may have written nothing at all, since it could not."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    backend = LocalBackend(FakeSystem("fail"), tmp_path, 3, "run-1")
    fail_up(backend, f"the disk of {tmp_path} is full")


@pytest.mark.parametrize("command", [None, (), "true", ("true", 5), ("true", "a\0b")], ids=ascii)
def test_a_command_that_is_none_is_one_clear_error(tmp_path: Path, command):
    class Odd(FakeSystem):
        def command(self, node):
            return command

    backend = LocalBackend(Odd(), tmp_path, 1, "run-1")
    fail_up(backend, f"a node's command is {re.escape(ascii(command))}, not some texts")


@pytest.mark.parametrize(("method", "what"), [("files", "files"), ("environment", "variables")])
@pytest.mark.parametrize("answer", [None, {"a": b"b"}, {"a": 1}, ["a"]], ids=ascii)
def test_what_is_no_texts_by_name_is_one_clear_error(
    tmp_path: Path, monkeypatch, method, what, answer
):
    monkeypatch.setattr(FakeSystem, method, lambda *_: answer)
    backend = LocalBackend(FakeSystem(), tmp_path, 1, "run-1")
    fail_up(backend, f"a node's {what} are {re.escape(ascii(answer))}, not texts by name")


def test_an_unwritable_run_folder_is_one_clear_error(tmp_path: Path):
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    backend = LocalBackend(FakeSystem(), blocked, 1, "run-1")
    fail_up(backend, r"cannot start the cluster: .*a-file")


def test_down_ends_running_paused_and_unresponsive_nodes_and_can_be_called_again(tmp_path: Path):
    async def body() -> list[int]:
        system = FakeSystem("deaf")
        system.stop_timeout_s = 0.2
        backend = LocalBackend(system, tmp_path, 3, "run-1")
        await backend.up()
        await backend.pause("n1")
        await backend.kill("n2")
        pids = nodes_of(tmp_path)
        assert len(pids) == 3
        await backend.down()
        await backend.down()
        with pytest.raises(BackendError, match="the cluster is down"):
            await backend.start("n1")
        return pids

    assert all_gone(asyncio.run(body()))


@play(asyncio.run)
async def test_a_node_that_does_not_end_is_killed(*, tmp_path):
    system = FakeSystem("deaf")
    system.stop_timeout_s = 0.2
    backend = LocalBackend(system, tmp_path, 1, "run-1")
    await backend.up()
    try:
        with pytest.raises(BackendError, match=r"n1 did not end within 0\.2 s"):
            await backend.stop("n1")
        assert await backend.state("n1") is NodeState.DEAD
        assert backend.unexpected_deaths() == ()
    finally:
        await backend.down()


@play(asyncio.run)
async def test_down_lets_a_paused_node_end_gracefully(*, tmp_path):
    backend = LocalBackend(FakeSystem(), tmp_path, 1, "run-1")
    await backend.up()
    await backend.pause("n1")
    await backend.down()
    assert backend._incarnations["n1"][0].exit_code == 0


def test_down_before_up_does_nothing(tmp_path: Path):
    asyncio.run(LocalBackend(FakeSystem(), tmp_path, 3, "run-1").down())
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_up_leaves_nothing(tmp_path: Path):
    cancel_up(LocalBackend(FakeSystem(), tmp_path, 3, "run-1"), lambda: nodes_of(tmp_path))
    assert all_gone(nodes_of(tmp_path))


@play(asyncio.run)
async def test_a_node_that_does_not_answer_is_reported_with_the_address_that_was_asked(*, tmp_path):
    system = FakeSystem()
    system.ping = b"\0"  # not a whole request: no answer comes
    system.ready_timeout_s = 1.0
    backend = LocalBackend(system, tmp_path, 1, "run-1")
    try:
        with pytest.raises(BackendError) as refused:
            await backend.up()
    finally:
        await backend.down()
    asked = {backend.endpoint("n1", at).port for at in system.ready_listeners}
    found = re.search(r"n1 did not answer at 127\.\d+\.\d+\.\d+:(\d+) within", str(refused.value))
    assert found is not None, refused.value
    assert int(found[1]) in asked


@play(asyncio.run)
async def test_a_node_that_is_never_ready_is_reported_with_who_asked(*, tmp_path):
    async def ready(connect, ports):
        return False

    system = FakeSystem()
    system.ready, system.ready_timeout_s = ready, 1.0
    backend = LocalBackend(system, tmp_path, 1, "run-1")
    with pytest.raises(BackendError, match="n1 did not answer its system's `ready` within 1 s"):
        await backend.up()
    await backend.down()


@play(asyncio.run)
async def test_a_cancelled_down_kills_at_once(*, tmp_path):
    system = FakeSystem("deaf")
    system.stop_timeout_s = 600.0
    backend = LocalBackend(system, tmp_path, 2, "run-1")
    await backend.up()
    task = asyncio.create_task(backend.down())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [await backend.state(node) for node in backend.nodes] == [NodeState.DEAD] * 2
    await backend.down()


@play(asyncio.run)
async def test_what_surrounds_nodes_is_released_though_an_interruption_met_another(*, tmp_path):
    released = []

    class Around:
        async def prepare(self, _node):
            return {}

        async def relax(self):
            """Nothing keeps a node from its end."""

        async def release(self):
            released.append(self)
            if len(released) == 1:
                await asyncio.sleep(600)

    backend, around = LocalBackend(FakeSystem(), tmp_path, 1, "run-1"), [Around(), Around()]
    for each in around:
        backend.surround(each)
    await backend.up()
    task = asyncio.create_task(backend.down())
    await eventually(lambda: released)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert released == around


@play(asyncio.run)
async def test_two_clusters_at_once_do_not_meet(*, tmp_path):
    first, others = (
        LocalBackend(FakeSystem(), tmp_path / name, 3, name) for name in ("one", "other")
    )
    try:
        await asyncio.gather(first.up(), others.up())
        await first.cut_links([("n1", "n2")])
        await first.kill("n3")
        assert await works(others, ("n1", "n2"))
        assert [await others.state(node) for node in others.nodes] == [NodeState.RUNNING] * 3
        await first.down()
        assert [await others.state(node) for node in others.nodes] == [NodeState.RUNNING] * 3
    finally:
        await first.down()
        await others.down()


@play("with_cluster", node_count=1)
async def test_no_program_gets_the_port_of_a_dead_node(backend: LocalBackend):
    port = backend.endpoint("n1").port
    await backend.kill("n1")
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await backend.start("n1")


@play("with_cluster")
async def test_every_ability_works_on_this_machine(backend: LocalBackend):
    await has_every_ability(backend)
    assert backend.links_cut() == frozenset()


class HalfSystem(FakeSystem):
    """Nodes that listen for clients alone, and answer there once they have a quorum."""

    ready_listeners = ("CONTROLLER",)

    def listeners(self, node_id):
        return ("CLIENT",)

    def files(self, node):
        config = {"listeners": [(node.client.host, node.client.port)], "mode": self.mode}
        return {"config.json": json.dumps(config)}


@play(asyncio.run)
async def test_a_node_is_waited_for_where_it_listens_and_later_only_where_no_quorum_is_needed(
    *, tmp_path
):
    backend = LocalBackend(HalfSystem(), tmp_path, 1, "run-1")
    answers = []
    own = backend._answers

    async def noted(endpoint):
        answers.append((endpoint == backend.endpoint("n1", "CLIENT"), await own(endpoint)))
        return answers[-1][1]

    backend._answers = noted
    async with running(backend):
        assert answers[-1] == (True, True)
        assert {client for client, _ in answers} == {True}
        answers.clear()
        await backend.kill("n1")
        await backend.start("n1")
        assert answers == [], "its quorum may be gone"


def test_the_last_lines_of_a_java_program_name_the_error_and_not_its_frames():
    frames = "".join(f"\tat org.apache.kafka.raft.A.b{i}(A.java:{i})\n" for i in range(40))
    said = f"1|INFO|x|going\n2|ERROR|x|Encountered fatal fault\nDiskError: full\n{frames}"
    said += f"Caused by: java.io.IOException: No space left on device\n{frames}\n"
    assert last_lines(said.encode())[-3:] == (
        "DiskError: full",
        "Caused by: java.io.IOException: No space left on device",
        "",
    )


class ElectingSystem(FakeSystem):
    """Nodes with a third port, which say at that whether they are up."""

    ports = ("ELECTION",)

    def files(self, node):
        own = node.ports["ELECTION"][node.node_id - 1]
        config = {"listeners": [(own.host, own.port)], "mode": self.mode}
        return {"config.json": json.dumps(config)}

    async def ready(self, connect, ports):
        (await connect(ports["ELECTION"])).close()
        return True


@play(asyncio.run)
async def test_a_system_asks_a_node_at_any_of_its_ports_whether_it_is_up(*, tmp_path):
    async with running(LocalBackend(ElectingSystem(), tmp_path, 2, "run-1")) as backend:
        ends = [backend._placement(node).ports["ELECTION"] for node in backend.nodes]
        assert ends[0] == ends[1]
        assert [end.node_id for end in ends[0]] == [1, 2]
        assert await ask(ends[0][1], b"hi") == b"hi"
        await backend.kill("n1")
        await backend.start("n1")
        assert await ask(ends[0][0], b"hi") == b"hi", "asked at every start"


@pytest.mark.parametrize("mode", ["wrapped", "titled"], ids=["", "over its own environment"])
def test_a_fault_of_a_node_meets_whatever_its_command_started(with_cluster, mode):
    with_cluster(partial(meets_all_that_a_command_started, ask=ask_listener), 1, mode)


@play("with_cluster", node_count=1, mode="escaped")
async def test_no_node_starts_where_what_outlived_its_kill_would_answer_for_it(
    backend: LocalBackend,
):
    await backend.kill("n1")
    with pytest.raises(BackendError, match=r"n1 cannot start: .* is in use"):
        await backend.start("n1")
    assert await backend.state("n1") is NodeState.DEAD


@pytest.mark.parametrize("mode", ["wrapped", "escaped"])
@play(asyncio.run)
async def test_a_run_leaves_nothing_that_its_nodes_started(*, tmp_path, mode):
    backend = LocalBackend(FakeSystem(mode), tmp_path, 2, f"run-{mode}-{os.getpid()}")
    await backend.up()
    assert labelled(backend.run_id)
    await backend.down()
    await eventually(lambda: not labelled(backend.run_id))


@play(asyncio.run)
async def test_a_run_leaves_no_helper_of_a_fault_though_an_interruption_met_its_end(*, tmp_path):
    class Around:
        async def prepare(self, _node):
            return {}

        async def relax(self):
            """Nothing keeps a node from its end."""

        async def release(self):
            raise asyncio.CancelledError

    backend = LocalBackend(FakeSystem(), tmp_path, 1, f"run-helped-{os.getpid()}")
    backend.surround(Around())
    await backend.up()
    helper = "setsid sleep 600 >/dev/null 2>&1 &"
    await local_machines(backend)["n1"].run(("sh", "-c", helper))
    with pytest.raises(asyncio.CancelledError):
        await backend.down()
    await eventually(lambda: not labelled(backend.run_id))


@play("with_cluster")
async def test_a_death_is_reported_where_no_descriptor_is_left(
    backend: LocalBackend, *, monkeypatch
):
    listing = os.listdir

    def refuse(path):
        if path == "/proc":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return listing(path)

    monkeypatch.setattr(os, "listdir", refuse)
    await ask(backend.endpoint("n2"), b"exit7")
    await eventually(backend.unexpected_deaths)
    assert [death.exit_code for death in backend.unexpected_deaths()] == [7]


@play("with_cluster", node_count=1)
async def test_no_signal_reaches_what_has_the_number_of_a_node_that_is_gone(
    backend: LocalBackend, *, monkeypatch
):
    sent, node = [], backend._incarnations["n1"][-1].process
    monkeypatch.setattr(records, "signal_group", lambda *to: sent.append(to))
    monkeypatch.setattr(node, "identity", replace(node.identity, started="before"))
    await node.send(signal.SIGKILL)
    assert sent == []


def labelled(run: str) -> list[Path]:
    """Return the processes of this machine that carry the label of a run."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"KRAFTPROBE_RUN={run}".encode() in environment.read_bytes().split(b"\0"):
                found.append(environment)
    return found

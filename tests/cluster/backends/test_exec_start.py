"""The engine answers before an exec's program runs: until then the process is runc."""

import asyncio
import signal
import subprocess
import threading
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from docker.errors import NotFound

from cluster.backends.docker import process
from cluster.backends.processes.lifecycle import Incarnation
from cluster.systems.plain import PlainSystem
from tests.play import play

pytestmark = pytest.mark.slow


def test_a_start_is_reported_once_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process, "_EXECUTE_TIMEOUT_S", 300.0)
    comm = tmp_path / "7" / "comm"
    comm.parent.mkdir()
    comm.write_text("runc:[2:INIT]\n")
    reported = threading.Event()

    def wait():
        process.wait_executed(7)
        reported.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not reported.wait(0.1)
    comm.write_text("sh\n")
    waiting.join(300)
    assert reported.is_set()


@pytest.fixture
def waits(monkeypatch):
    """A clock that only sleeping advances, and the sleeps."""
    slept = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(process, "time", clock)
    return slept


def test_a_process_that_is_gone_is_not_waited_for(tmp_path, monkeypatch, waits):
    monkeypatch.setattr(process, "_PROC", tmp_path)
    process.wait_executed(7)
    assert waits == []


def test_a_start_that_never_ends_is_given_up(tmp_path, monkeypatch, waits):
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process, "_EXECUTE_TIMEOUT_S", 5.0)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("runc:[2:INIT]\n")
    process.wait_executed(7)
    assert sum(waits) == pytest.approx(5.0, abs=0.2)


@play(asyncio.run)
async def test_an_end_that_a_busy_engine_has_not_noticed_is_no_crash(*, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_CODE_TIMEOUT_S", 0.0)
    seen = [{"Running": True, "ExitCode": None}] * 3 + [{"Running": False, "ExitCode": 0}]
    api = SimpleNamespace(exec_inspect=lambda _: seen.pop(0))
    client, host = SimpleNamespace(api=api), SimpleNamespace(node="n1")
    started = process.ExecProcess(client, "exec", 0, host, tmp_path / "out", "r1")
    assert await started.wait() == 0


@play(asyncio.run)
async def test_a_crash_is_no_kill_though_the_engine_forgot_its_exit_code(*, tmp_path):
    def forget(_):
        raise NotFound("no such exec")

    # Nobody notices before the kill.
    crashed = subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    client = SimpleNamespace(api=SimpleNamespace(exec_inspect=forget))
    host = SimpleNamespace(node="n1")
    started = process.ExecProcess(client, "exec", crashed.pid, host, tmp_path / "out", "r1")
    incarnation = Incarnation(started)
    crashed.communicate(b"")
    incarnation.kill_now()
    await incarnation.ended
    assert incarnation.ended_unasked


@play(asyncio.run)
async def test_a_plain_node_may_end_on_sigterm_as_jvms_and_shells_do():
    code = asyncio.get_running_loop().create_future()
    process = SimpleNamespace(wait=lambda: code, send=AsyncMock(), output_tail=AsyncMock())
    node = Incarnation(process, PlainSystem.stop_codes)
    await node.send(signal.SIGTERM)
    code.set_result(128 + signal.SIGTERM)
    await node.ended
    assert not node.ended_unasked

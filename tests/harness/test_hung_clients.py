"""Clients that do not return, fail at once or raise: the run ends in time, and says so."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import types
from dataclasses import replace

import pytest

import extensions
from checkers.history import EventType, pair
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.runs.answers import HUNG
from checkers.verdict import Status
from harness.errors import InternalError, PackageError, WrongAnswerError, internal_error
from harness.plan.stored_document import checks_for
from harness.plan.system_request import system_of, versions_of
from harness.run import world
from harness.run.interpreter import HarnessError
from harness.signals.interrupt import run_interruptible
from nemeses import at_once
from nemeses.at_once import CLOSE_BOUND_S, OutOfTimeError, in_time
from tests.harness.fake_cluster import FakeCluster
from tests.harness.test_broken_faults import deaf, for_ever
from tests.harness.test_run_phases import plan, play
from workloads import driven, register
from workloads.base import Completion
from workloads.register import RegisterClient
from workloads.registry import WORKLOADS

THE_PLAN = {"duration_s": 6, "faults": [], "workload_options": {"keys": 3}}
BOUND_S = world.HUNG_AFTER_MIN_S


def test_a_client_has_time_for_a_read_of_a_whole_set():
    assert world.HUNG_AFTER > driven.WHOLE


def answers(events, reads):
    del reads
    return run_check(CheckSpec("answers"), RunInput(events, pair(events)))


@pytest.mark.parametrize("hang", [for_ever, deaf])
def test_operations_that_never_return_end_as_info_with_new_clients(monkeypatch, hang):
    monkeypatch.setattr(RegisterClient, "invoke", hang)
    events, reads = play(plan(**THE_PLAN), FakeCluster())
    ended = [event for event in events if (event.error or "").startswith(HUNG)]
    assert len(ended) >= 15
    assert {event.type for event in ended} == {EventType.INFO}
    assert len({event.process for event in ended}) == len(ended)
    most_s = 6 + world.FINAL_BOUND_S + 2 * (BOUND_S + CLOSE_BOUND_S) + 30
    assert events[-1].time_ns / 1e9 < most_s
    result = answers(events, reads)
    assert result.statistics["clients_hung"] == len(ended)
    assert "no operation was answered" in result.summary
    assert any(str(len(ended)) in note for note in result.statistics["notes"])


def test_one_operation_that_never_returns_costs_its_process_alone(monkeypatch):
    true, hung = RegisterClient.invoke, []

    async def invoke(self, op):
        if not hung:
            hung.append(op)
            await for_ever()
        return await true(self, op)

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    events, reads = play(plan(**THE_PLAN), FakeCluster())
    assert sum((event.error or "").startswith(HUNG) for event in events) == 1
    assert sum(event.type is EventType.OK and event.f == "read" for event in events) > 50
    assert answers(events, reads).status is Status.PASS


@pytest.mark.parametrize("hang", [for_ever, deaf])
def test_clients_that_never_close_do_not_hold_up_a_run(monkeypatch, hang):
    monkeypatch.setattr(RegisterClient, "close", hang)
    events, _ = play(plan(**THE_PLAN), FakeCluster())
    assert events[-1].time_ns / 1e9 < 6 + 60


@pytest.mark.slow
def test_final_operations_that_fail_at_once_are_repeated_with_pauses(monkeypatch):
    async def invoke(_self, _op):
        return Completion(EventType.FAIL, error="no")

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    events, _ = play(plan(**THE_PLAN, rate_per_s=20), FakeCluster())
    begin = next(e.index for e in events if e.value == {"name": "final-reads"})
    assert 15 < sum(e.type is EventType.FAIL for e in events[begin:]) < 1000


def test_a_loop_ends_though_a_client_is_deaf(monkeypatch):
    monkeypatch.setattr(at_once, "CLOSE_BOUND_S", 0.01)

    async def main():
        await in_time(deaf(), 0.01)

    with pytest.raises(OutOfTimeError):
        run_interruptible(main(), lambda _: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_every_signal_that_ends_a_run_lets_it_end_cleanly(number):
    seen = []

    async def main():
        try:
            os.kill(os.getpid(), number)
            await for_ever()
        finally:
            seen.append("down")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(main(), seen.append)
    assert seen == [1, "down"]


def test_an_interrupt_before_the_command_line_is_one_line():
    script = "import sys; sys.argv = ['/x/kraftprobe']; import harness; raise KeyboardInterrupt"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.stderr == b"kraftprobe: interrupted\n"
    assert done.returncode in (-signal.SIGINT, 130)


SOURCE = """
async def invoke(self, op):
    return int("x")
"""


@pytest.fixture
def package(monkeypatch):
    module = types.ModuleType("their_client")
    exec(compile(SOURCE, "/their/client.py", "exec"), module.__dict__)
    monkeypatch.setitem(extensions._modules, "their_client", "theirs 1.2")
    return module


def test_an_exception_in_a_package_names_it_and_the_place(monkeypatch, package, tmp_path):
    monkeypatch.setattr(RegisterClient, "invoke", package.invoke)
    with pytest.raises(HarnessError) as caught:
        play(plan(**THE_PLAN), FakeCluster())
    error = internal_error(caught.value, tmp_path)
    assert type(error) is PackageError
    line = str(error)
    assert line.startswith("package theirs 1.2, /their/client.py line 3, in invoke: ")
    assert "ValueError" in line
    assert str(tmp_path) in line
    assert "please report it with" not in line


@pytest.mark.parametrize("act", ["invoke", "close"])
def test_a_client_that_exits_is_an_error_of_its_own(monkeypatch, act):
    async def leave(*_):
        sys.exit(0)

    monkeypatch.setattr(RegisterClient, act, leave)
    with pytest.raises((HarnessError, RuntimeError), match=r"it called sys\.exit\(0\)"):
        play(plan(**THE_PLAN), FakeCluster())


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Completion("ok"),
        Completion(EventType.OK, b"bytes"),
        Completion(EventType.OK, {1}),
        Completion(EventType.OK, float("nan")),
        Completion(EventType.OK, ["\ud800"]),
        Completion(EventType.INFO, error="\udcff"),
        Completion(EventType.INFO, error=OSError("no text")),
        Completion(EventType.OK, node=1),
        Completion(EventType.OK, offset="1"),
    ],
    ids=ascii,
)
def test_an_answer_that_is_no_completion_names_the_package(monkeypatch, package, tmp_path, answer):
    async def invoke(_self, _op):
        return answer

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    monkeypatch.setattr(RegisterClient, "__module__", "their_client")
    with pytest.raises(HarnessError) as caught:
        play(plan(**THE_PLAN), FakeCluster())
    error = internal_error(caught.value, tmp_path)
    assert type(error) is PackageError
    assert str(error).startswith("package theirs 1.2: ")
    assert f"their_client.RegisterClient answered {answer!a}"[:60] in str(error)


@pytest.mark.parametrize("answer", [None, 5, (5,)])
@pytest.mark.parametrize("name", ["create", "checks", "cells"])
def test_a_workload_that_is_none_names_the_package(monkeypatch, package, tmp_path, name, answer):
    def give(*_, **__):
        return answer

    made = plan(**THE_PLAN)
    give.__module__ = package.__name__
    kind = replace(WORKLOADS["register"], create=give)
    if name == "create":
        monkeypatch.setitem(WORKLOADS._own, "register", kind)
    else:
        monkeypatch.setattr(register.Register, name, give)
        monkeypatch.setattr(register.Register, "__module__", package.__name__)
    with pytest.raises(WrongAnswerError) as caught:
        checks_for(made)
    assert str(internal_error(caught.value, tmp_path)).startswith("package theirs 1.2: ")


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("create", lambda made: system_of(made, "run")),
        ("listeners", lambda made: made.nodes_at("CLIENT")),
        ("whole_traces", lambda made: made.whole_traces),
        ("versions", versions_of),
        ("cell", lambda made: made.make_workload()),
    ],
)
@pytest.mark.parametrize("answer", [None, ()])
def test_an_answer_of_a_system_that_is_none_names_the_package(
    monkeypatch, package, tmp_path, name, ask, answer
):
    def give(*_):
        return answer

    made = plan(**THE_PLAN)
    give.__module__ = package.__name__
    kind = replace(made.kind, **{name: give})
    monkeypatch.setattr("harness.plan.plan.system_named", lambda _: kind)
    with pytest.raises(WrongAnswerError) as caught:
        ask(made)
    assert str(internal_error(caught.value, tmp_path)).startswith("package theirs 1.2: ")


def test_an_answer_that_is_nested_too_deeply_is_one_of_its_client(monkeypatch):
    async def invoke(_self, _op):
        return Completion(EventType.OK, nested(100_000))

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    with pytest.raises(HarnessError, match="RegisterClient answered a Completion, which is none"):
        play(plan(**THE_PLAN), FakeCluster())


def test_an_exception_of_ours_is_still_reported_to_us(monkeypatch, tmp_path):
    async def invoke(_self, _op):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    with pytest.raises(HarnessError) as caught:
        play(plan(**THE_PLAN), FakeCluster())
    assert type(internal_error(caught.value, tmp_path)) is InternalError


@pytest.mark.slow
def test_an_error_at_the_moment_of_a_cancellation_is_not_printed_as_lost():
    lost = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))

        outer = []

        async def fail():
            outer[0].cancel()
            raise ValueError("oops")

        outer.append(asyncio.ensure_future(in_time(fail(), 10)))
        await asyncio.wait(outer)
        outer.clear()
        gc.collect()

    asyncio.run(main())
    assert lost == []


def test_a_backend_that_does_not_say_whether_a_node_runs_costs_its_final_read_alone(monkeypatch):
    true = FakeCluster.state

    async def state(self, node):
        return await (for_ever() if node == "n2" else true(self, node))

    monkeypatch.setattr(FakeCluster, "state", state)
    _, reads = play(plan(**THE_PLAN), FakeCluster())
    assert sorted(reads.reads) == ["n1", "n3"]
    assert reads.missing == {"n2": "its backend does not say whether it runs"}

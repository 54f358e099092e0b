"""Kafka's own clients, by a program that stands in for their JVM."""

import asyncio
import sys

import pytest

from checkers.history import EventType
from cluster.backends.terms import BackendError
from cluster.systems.kafka.kind import KIND
from cluster.systems.kinds import SettingError, SystemRequest
from harness.errors import PlanError
from harness.plan.document import from_document
from tests.workloads.group_brokers import GroupBrokers
from tests.workloads.test_log import context_of
from workloads.base import Op
from workloads.registry import workload_named

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
CONSUME, COMMIT = Op("consume"), Op("commit")

# The interpreter's path may have blanks, which no first line of a script can have.
PROGRAM = """#!/bin/sh
"exec" "{python}" "$0" "$@"
import os, sys
with open({pids!r}, "a") as file:
    print(os.getpid(), file=file)
answers = {answers!r}
print("ready", flush=True)
for line in sys.stdin:
    client, number, command, *rest = line.rstrip("\\n").split("\\t")
    with open({asked!r}, "a") as file:
        print(client, command, *rest, sep=",", file=file)
    if answers and command != "close":
        answer = answers.pop(0)
        if answer is None:
            continue
        if answer == "end":
            sys.exit(1)
        print(client, number, *answer, sep="\\t", flush=True)
"""


class Stage:
    """A program with its answers, and clients of a workload that ask it."""

    def __init__(self, folder, workload, *answers, **options):
        self.asked, self.pids, self.program = (folder / name for name in ("asked", "pids", "java"))
        self.program.write_text(
            PROGRAM.format(
                python=sys.executable,
                pids=str(self.pids),
                asked=str(self.asked),
                answers=list(answers),
            )
        )
        self.program.chmod(0o755)
        self.workload = workload_named(workload, {"client": "java", **options})

    def client(self, process=0, timeout_ms=120_000.0):
        command = (str(self.program), "-cp", "libs/*")
        given = {"process": process, "timeout_ms": timeout_ms, "java": lambda: command}
        return self.workload.client(context_of(GroupBrokers(), **given))

    def perform(self, *ops, once_ready=None, **context):
        """Let one client perform operations; returns the completions.

        `once_ready`: what another client has done before: a busy machine starts the program slowly.
        """

        async def main():
            clients = [self.client(**context)]
            try:
                if once_ready is not None:
                    clients.append(self.client(1))
                    await clients[1].invoke(once_ready)
                return [await clients[0].invoke(op) for op in ops]
            finally:
                for client in clients:
                    await client.close()

        return asyncio.run(main())

    def lines(self):
        return self.asked.read_text().splitlines()


def test_a_poll_says_what_is_new_of_the_assignment_and_what_was_read(tmp_path):
    member = ("m", "3", "")
    stage = Stage(
        tmp_path,
        "groups",
        ("ok", *member, "new", "g0-0,g0-1", "g0-1", "7", "a", "g0-1", "8", "b"),
        ("ok", *member, "", "g0-0,g0-1"),
    )
    first, second = (each.value for each in stage.perform(CONSUME, CONSUME))
    who = {"member": "m", "instance": None, "generation": 3}
    given = {"partitions": ["g0-0", "g0-1"], "committed": {}}
    assert first == {**who, **given, "records": {"g0-1": [[7, "a"], [8, "b"]]}}
    assert second == {**who, "records": {}}


@pytest.mark.parametrize(("kind", "error"), [(OK, None), (INFO, "CommitFailedException")])
def test_a_commit_names_its_offsets_whatever_became_of_it(tmp_path, kind, error):
    answer = (kind.value, error or "", "m", "3", "w2", "g0-0", "5", "g0-1", "0")
    (commit,) = Stage(tmp_path, "groups", answer).perform(COMMIT)
    assert (commit.type, commit.error) == (kind, error)
    assert commit.value["offsets"] == {"g0-0": 5, "g0-1": 0}
    assert commit.value["instance"] == "w2"


def test_a_send_is_known_by_its_offset(tmp_path):
    stage = Stage(tmp_path, "groups", ("ok", "g0-0", "12"), ("info", "TimeoutException"))
    first, second = stage.perform(Op("send", "g0-0", "a"), Op("send", "g0-0", "b"))
    assert (first.type, first.offset) == (OK, 12)
    assert (second.type, second.error) == (INFO, "TimeoutException")


def test_a_commit_without_a_member_fails(tmp_path):
    (commit,) = Stage(tmp_path, "groups", ("fail", "no-member")).perform(COMMIT)
    assert (commit.type, commit.error) == (FAIL, "no-member")


def test_without_an_answer_a_process_is_done(tmp_path):
    stage = Stage(tmp_path, "groups", ("fail", "x"), None)
    (poll,) = stage.perform(CONSUME, once_ready=COMMIT, timeout_ms=1500.0)
    assert (poll.type, poll.error) == (INFO, "timed-out")


def test_members_are_static_by_their_worker_and_the_protocol_is_the_option(tmp_path):
    stage = Stage(tmp_path, "groups", ("fail", "x"), client="java-consumer")
    stage.perform(CONSUME)
    assert stage.lines()[0] == "0.0,consume,g,g0,,consumer,2000,2000"
    assert stage.workload.checks()[0].options == {"protocol": "consumer"}


def txn(f):
    return Op(f, None, [["append", "t0-0", "1"], ["append", "t1-1", "2"]])


@pytest.mark.parametrize(
    ("f", "answer", "ended"),
    [
        ("txn", ("ok", ""), (OK, None)),
        ("txn", ("fail", "TimeoutException"), (FAIL, "TimeoutException")),
        ("txn", ("info", "TimeoutException"), (INFO, "TimeoutException")),
        ("txn", None, (INFO, "timed-out")),
        ("abort", ("fail", "aborted"), (FAIL, "aborted")),
        ("abort", None, (INFO, "timed-out")),
        ("zombie", ("ok", ""), (OK, None)),
        ("zombie", None, (INFO, "timed-out")),
    ],
)
def test_a_transaction_ends_as_is_answered_and_without_an_answer_with_its_process(
    tmp_path, f, answer, ended
):
    stage = Stage(tmp_path, "transactions", ("ok", ""), answer)
    bound = {"timeout_ms": 1500.0} if answer is None else {}
    (done,) = stage.perform(txn(f), once_ready=txn("txn"), **bound)
    assert (done.type, done.error) == ended
    assert f"0.0,transact,{f},w0,5000,t0-0,1,t1-1,2" in stage.lines()


def test_all_processes_share_one_jvm_which_ends_with_the_last(tmp_path):
    stage = Stage(tmp_path, "groups", ("fail", "x"), ("fail", "x"))

    async def main():
        clients = [stage.client(process) for process in (0, 1)]
        for client in clients:
            await client.invoke(CONSUME)
        for client in clients:
            await client.close()

    asyncio.run(main())
    (pid,) = stage.pids.read_text().split()
    assert stage.lines()[2:] == ["0.0,close", "0.1,close"]
    with pytest.raises(FileNotFoundError):
        open(f"/proc/{pid}/stat")  # noqa: PTH123, SIM115


def test_a_jvm_that_ends_ends_the_run_whoever_asks(tmp_path):
    stage = Stage(tmp_path, "groups", "end")

    async def main():
        client = stage.client()
        for _ in range(2):
            with pytest.raises(BackendError, match="own clients ended"):
                await asyncio.wait_for(client.invoke(CONSUME), 60.0)
        await client.close()

    asyncio.run(main())


def test_clients_in_java_are_refused_in_secured_runs():
    document = {
        "workload": "groups",
        "workload_options": {"client": "java"},
        "system": "apache-kafka",
        "system_options": {"version": "4.3.1"},
        "backend": "local",
        "security": {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"},
    }
    with pytest.raises(PlanError, match="clients in Java"):
        from_document(document)


def test_without_a_compiler_they_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match="javac of a JDK"):
        KIND.java(SystemRequest({}, {"version": "4.3.1"}))

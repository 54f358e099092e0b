import asyncio
import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from checkers.history import EventType
from cluster.backends.sim.loop import run
from harness.run.generators.flow import EachWorker, Of, Together
from harness.run.generators.timing import Rate
from harness.run.interpreter import HarnessError, Interpreter
from harness.run.recorder import Recorder
from results.store.journal import JournalWriter, read_journal
from tests.harness.world import Client, Journal, Limit, invocations, play
from workloads.base import Op


def endless():
    return Of(Op("op", None, number) for number in itertools.count())


def test_indexes_have_no_gaps_and_times_never_go_back():
    events, _ = play(Together(Limit(30, endless())), 4)
    assert [event.index for event in events] == list(range(60))
    assert all(a.time_ns <= b.time_ns for a, b in itertools.pairwise(events))


def test_a_process_never_has_two_operations_open():
    events, _ = play(Together(Limit(40, endless())), 4, latency_s=lambda op: 0.01 * (op.value % 5))
    open_ops = set()
    for event in events:
        if event.type is EventType.INVOKE:
            assert event.process not in open_ops
            open_ops.add(event.process)
        else:
            open_ops.remove(event.process)
    assert open_ops == set()


def test_a_process_that_ended_in_info_is_followed_by_a_new_one_with_a_new_client():
    def answer(op):
        return EventType.INFO if op.value in (0, 1) else EventType.OK

    events, clients = play(Together(Limit(3, endless())), 1, answer=answer)
    assert [event.process for event in invocations(events)] == [0, 1, 2]
    assert [client.process for client in clients] == [0, 1, 2]
    assert all(client.closed for client in clients)


def test_processes_of_different_workers_never_share_a_number():
    events, _ = play(Together(Limit(30, endless())), 4, answer=lambda _: EventType.INFO)
    processes = [event.process for event in invocations(events)]
    assert len(set(processes)) == len(processes) == 30


def test_an_exception_in_a_client_aborts_the_run_and_completes_nothing():
    def answer(op):
        if op.value == 3:
            raise ZeroDivisionError("oops")
        return EventType.OK

    journal = Journal()

    async def main():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        interpreter = Interpreter(
            Together(endless()), recorder, lambda w, p: Client(w, p, answer=answer), 2
        )
        with pytest.raises(HarnessError, match="ZeroDivisionError: oops"):
            await interpreter.run()

    run(main())
    failed = [event for event in journal.events if event.value == 3]
    assert [event.type for event in failed] == [EventType.INVOKE]


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SystemExit(0), r"it called sys.exit\(0\)"),
        (GeneratorExit(), "it raised GeneratorExit"),
        (BaseExceptionGroup("", [GeneratorExit()]), "it raised BaseExceptionGroup"),
        (asyncio.CancelledError(), "it was cancelled by itself"),
    ],
)
@pytest.mark.parametrize("bound_s", [None, 1.0])
def test_a_client_that_raises_what_is_no_error_aborts_the_run(raised, message, bound_s):
    def answer(op):
        raise raised

    async def main():
        recorder = Recorder(Journal(), asyncio.get_running_loop().time)
        make = lambda w, p: Client(w, p, answer=answer)  # noqa: E731
        with pytest.raises(HarnessError, match=message):
            await Interpreter(Together(endless()), recorder, make, 2, bound_s).run()

    run(main())


@pytest.mark.parametrize("raised", [SystemExit(0), GeneratorExit(), asyncio.CancelledError()])
def test_so_does_one_that_raises_it_where_it_is_made(raised):
    def make(worker, process):
        raise raised

    async def main():
        recorder = Recorder(Journal(), asyncio.get_running_loop().time)
        with pytest.raises(HarnessError, match=r"RuntimeError: it (called|raised|was)"):
            await Interpreter(Together(endless()), recorder, make, 2).run()

    run(main())


def test_a_journal_that_cannot_be_written_is_a_harness_error():
    class Full(Journal):
        def append(self, event):
            if event.index == 5:
                raise OSError(28, "No space left on device")
            super().append(event)

    async def main():
        recorder = Recorder(Full(), asyncio.get_running_loop().time)
        interpreter = Interpreter(Together(endless()), recorder, Client, 2)
        with pytest.raises(HarnessError, match="No space left") as caught:
            await interpreter.run()
        assert isinstance(caught.value.__cause__, OSError)

    run(main())


def test_cancelling_leaves_open_operations_open():
    journal = Journal()

    async def main():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        make = lambda w, p: Client(w, p, latency_s=100)  # noqa: E731
        task = asyncio.ensure_future(Interpreter(Together(endless()), recorder, make, 3).run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert [event.type for event in journal.events] == [EventType.INVOKE] * 3


def test_a_further_generator_goes_on_with_the_same_processes():
    journal = Journal()

    async def main():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        make = lambda w, p: Client(w, p, answer=lambda _: EventType.INFO)  # noqa: E731
        interpreter = Interpreter(Together(Limit(1, endless())), recorder, make, 1)
        await interpreter.run()
        await interpreter.run(Together(Limit(1, endless())))

    run(main())
    assert [event.process for event in invocations(journal.events)] == [0, 1]


def stream(seed):
    def of_worker(worker):
        random = Random(f"{seed}/operations/{worker}")
        return Of(Op("op", None, random.randrange(10**6)) for _ in itertools.count())

    return Together(Limit(200, Rate(100, EachWorker(of_worker), Random(f"{seed}/rate"))))


def by_worker(events, concurrency):
    return {
        worker: [e.value for e in invocations(events) if e.process % concurrency == worker]
        for worker in range(concurrency)
    }


def test_the_operations_of_each_worker_do_not_depend_on_timing():
    quick, _ = play(stream(7), 3, latency_s=0.001)
    slow, _ = play(stream(7), 3, latency_s=lambda op: 0.001 * (op.value % 200))
    for one, other in zip(by_worker(quick, 3).values(), by_worker(slow, 3).values(), strict=True):
        shared = min(len(one), len(other))
        assert shared > 20
        assert one[:shared] == other[:shared]


def test_one_seed_gives_one_history_in_virtual_time():
    assert play(stream(7))[0] == play(stream(7))[0]
    assert play(stream(7))[0] != play(stream(8))[0]


_KILLED = """
import asyncio, sys, itertools
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.harness.world import Client
from harness.run.generators.flow import Of
from harness.run.generators.flow import Together
from harness.run.interpreter import Interpreter
from harness.run.recorder import Recorder
from results.store.journal import JournalWriter
from workloads.base import Op

async def main():
    with JournalWriter(Path(sys.argv[1])) as journal:
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        ops = Together(Of(Op("op", "k", n) for n in itertools.count()))
        make = lambda w, p: Client(w, p, latency_s=0.0)
        await Interpreter(ops, recorder, make, 3).run()

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_journal_of_a_killed_interpreter_is_whole_but_for_its_last_line(tmp_path):
    path = tmp_path / "history.jsonl"
    script = _KILLED.format(root=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", script, str(path)])
    while not (path.exists() and path.stat().st_size > 20_000):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    events, dropped_bytes = read_journal(path)
    assert len(events) > 100
    assert dropped_bytes < 200
    assert [event.index for event in events] == list(range(len(events)))
    with pytest.raises(FileExistsError):
        JournalWriter(path)

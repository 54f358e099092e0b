"""A cluster-less world for the interpreter: a journal in memory, clients that only take time."""

import asyncio
from dataclasses import dataclass, field

from checkers.history import EventType
from cluster.backends.sim.loop import run
from harness.run.generators.base import Done, Inside, Next
from harness.run.interpreter import Interpreter
from harness.run.recorder import Recorder
from workloads.base import Completion


class Journal:
    def __init__(self):
        self.events = []

    def append(self, event):
        self.events.append(event)


@dataclass
class Client:
    """Answers every operation after `latency_s`, as `answer(op)` says."""

    worker: object
    process: object
    latency_s: object = 0.01
    answer: object = lambda op: EventType.OK
    closed: bool = False
    seen: list = field(default_factory=list)

    async def invoke(self, op):
        self.seen.append(op)
        await asyncio.sleep(self.latency_s(op) if callable(self.latency_s) else self.latency_s)
        answer = self.answer(op)
        return answer if isinstance(answer, Completion) else Completion(answer, op.value)

    async def close(self):
        assert not self.closed
        self.closed = True


def play(generator, concurrency=3, **client):
    """Run a generator in virtual time; the events, and the clients that acted."""
    journal, clients = Journal(), []

    def make(worker, process):
        clients.append(Client(worker, process, **client))
        return clients[-1]

    async def main():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        interpreter = Interpreter(generator, recorder, make, concurrency)
        await interpreter.run()
        await interpreter.close()

    run(main())
    return journal.events, clients


def invocations(events):
    return [event for event in events if event.type is EventType.INVOKE]


def times_s(events):
    return [event.time_ns / 1e9 for event in invocations(events)]


class Limit(Inside):
    """At most `count` operations, over all workers; then done."""

    def __init__(self, count, inner):
        super().__init__(inner)
        self._left = count

    def op(self, context):
        if self._left == 0:
            return Done()
        answer = super().op(context)
        self._left -= isinstance(answer, Next)
        return answer

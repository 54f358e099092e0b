"""The nemesis: the process that injects and heals faults, as the plan's schedule says.

It is a worker like the others (`harness.run.interpreter`), with operations of its own:

- `f` is the fault's name, the value {"phase": "inject", "fault", "parameters", "entry"}. The
  completion's value is what the fault measured (`nemeses.base.Injection.value`); it is `ok` when
  the fault was verified to bite and `info` when it was not.
- the same with phase "heal", for the same entry of the schedule.

A fault that is refused when it is due (its target is dead, there is no leader), or that has no
effect, is undone and tried again: with the alternatives of its schedule entry, or without any with
the same parameters, `AGAIN` times. The injection and heal of each failed attempt are journaled as
such; the operation's completion holds the last attempt. No attempt begins after `RETRIES_S`.

A kind of fault that has not taken effect by the end of the schedule, whatever was tried, gets turns
of its own then, while clients go on (`later_ops`): a system that did not answer for a while, as one
whose leader waits for its clock, would else make a whole run worthless for one unlucky moment. Only
entries with alternatives are meant, which are all drawn ones: a scripted fault means its moment.

A fault never raises into the schedule (`nemeses.drive`). The judgement of the history decides
whether enough faults took effect: a kind that never did leaves the run UNDER-EXERCISED.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from checkers.history import EventType
from checkers.runs.exercised import MISSING
from cluster.backends.base import Backend
from cluster.client.caller import Caller, CallFailed, Peer, metadata_of
from harness.plan.schedule import Entry, steps
from harness.run.observer import ASK_TIMEOUT_MS, Observer
from nemeses import drive
from nemeses.base import Injection, View
from workloads.base import Completion, Op

RETRY_AFTER_S = 0.7
"""Pause before another attempt: an election, or a node's start, may be over by then."""
AGAIN = 4
"""How often an entry without alternatives is tried again; together they outlast an election."""
RETRIES_S = 10.0
"""No attempt begins later than this after the first one."""
QUIET_S = 2.0
"""Quiet time before each turn after the schedule, in which the quorum can recover."""

Note = Callable[[str, Mapping[str, Any], EventType], object]
"""Journals an attempt: fault, value, type; `Recorder.note`."""


class RunView:
    """The view of a run that faults act through (`nemeses.base.View`)."""

    bound_s = 240.0
    """Bound on each injection, measurement and heal. The faults here wait in bounded time by
    themselves: most for seconds, and at the longest for a node's end and start, of which a Kafka
    broker may take 60 s and 180 s before they count as failed (`System.stop_timeout_s`,
    `ready_timeout_s`); it takes some 5 s and 10 s, so ten times that is well within this bound."""

    def __init__(
        self,
        backend: Backend,
        observer: Observer,
        client: Caller,
        random: Random,
        active: list[Injection],
    ) -> None:
        """`active`: shared by the views of one run."""
        self._client = client
        self.backend = backend
        self.random = random
        self.active = active
        self._observer = observer

    @property
    def controllers(self) -> tuple[str, ...]:
        return self._observer.nodes

    async def leader(self) -> str | None:
        """Ask all controllers for the leader."""
        leadership = await self._observer.ask()
        return None if leadership is None else leadership.leader

    async def partition_leader(self) -> str | None:
        """Ask the nodes for the metadata of all topics."""
        return await partition_leader(self.backend, self._client)


async def partition_leader(backend: Backend, client: Caller) -> str | None:
    """Find the node that leads most topic partitions; the first of several.

    Asks one node after the other for the metadata of all topics until the answer names a leader;
    None when no answer does. The answer may be stale, as any client's metadata may.
    """
    for asked in backend.nodes:
        try:
            peer = Peer(backend.endpoint(asked, "CLIENT"), ASK_TIMEOUT_MS)
            leads = await client.ask(peer, metadata_of(None), _leads)
        except CallFailed:
            continue
        known = [node for node in backend.nodes if leads[node]]
        if known:
            return max(known, key=lambda node: leads[node])
    return None


def _leads(metadata: Any) -> Counter[str]:
    """Count the partitions that each node leads."""
    return Counter(
        f"n{partition.leader_id}"
        for topic in metadata.topics
        for partition in topic.partitions or ()
    )


class NemesisClient:
    """Performs the nemesis's operations."""

    def __init__(self, view: View, schedule: Sequence[Entry], note: Note) -> None:
        self._view = view
        self._schedule = tuple(schedule)
        self._note = note
        self._open: dict[int, Injection] = {}
        self._tried: set[int] = set()
        """Entries of which the time came."""
        self._not_before_s: dict[int, float] = {}
        """Entry -> earliest time of its heal, for faults that took effect at a later attempt."""
        self._bites: Counter[str] = Counter()
        """Kind -> injections that took effect, or showed a violation."""

    def timed_ops(self) -> list[tuple[float, Op]]:
        """List the schedule as operations with their times in seconds."""
        turns = steps(self._schedule)
        return [(at_s, self._op(number, verb)) for at_s, verb, number in turns]

    def open_heals(self) -> Iterator[Op]:
        """Yield the heals of open injections in `drive.heal_order`, as of the first `next`."""
        entries = {id(injection): entry for entry, injection in self._open.items()}
        for injection in drive.heal_order(list(self._open.values())):
            yield self._op(entries[id(injection)], "heal")

    def lacking(self) -> list[int]:
        """List the first entry of each kind that has not taken effect and may be tried later."""
        first: dict[str, int] = {}
        for number, entry in enumerate(self._schedule):
            if entry.alternatives and self._bites[entry.fault] == 0:
                first.setdefault(entry.fault, number)
        return list(first.values())

    def later_ops(self, limit_s: float) -> Iterator[tuple[float, Op]]:
        """Yield turns of the kinds that are lacking, each as (pause before it in seconds, op).

        What is open is healed first. Then each kind is injected and healed in turn until none is
        lacking; no turn but the first begins later than `limit_s` after the call. Each operation is
        computed when it is asked for, after the one before it was performed.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + limit_s
        for heal in self.open_heals():
            yield 0.0, heal
        turns = 0
        while lacking := self.lacking():
            for number in lacking:
                if turns > 0 and loop.time() > end_s:
                    return
                turns += 1
                yield QUIET_S, self._op(number, "inject")
                if number in self._open:
                    yield self._schedule[number].for_s, self._op(number, "heal")

    async def invoke(self, op: Op) -> Completion:
        """Inject or heal one entry of the schedule."""
        entry = op.value["entry"]
        for started in await drive.start_ended(self._view):
            type_ = EventType.OK if started.verified else EventType.INFO
            self._note(started.fault, started.value("heal"), type_)
        if op.value["phase"] == "inject":
            self._tried.add(entry)
            injection = await self._inject(entry)
            if injection.applied:
                self._open[entry] = injection
            self._bites[op.f] += injection.verified or _violates(injection)
            return _completion(injection, "inject", entry)
        opened = self._open.get(entry)
        if opened is None:
            detail = {"reason": "there was nothing to heal"}
            nothing = Injection(op.f, {}, (), verified=True, detail=detail)
            return _completion(nothing, "heal", entry)
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._not_before_s.pop(entry, now_s) - now_s))
        healed = await drive.heal(self._view, opened)
        if healed.detail.get("ended_early") and opened.verified:
            self._bites[op.f] -= 1  # as `checkers.runs.exercised` counts it
        if healed.verified:
            del self._open[entry]
        return _completion(healed, "heal", entry)

    async def _inject(self, number: int) -> Injection:
        """Inject an entry of the schedule, or an alternative; returns the last attempt."""
        loop = asyncio.get_running_loop()
        entry, begun_s = self._schedule[number], loop.time()
        injection = await drive.inject(self._view, entry.fault, entry.parameters)
        for parameters in entry.alternatives or (entry.parameters,) * AGAIN:
            if injection.verified or _violates(injection) or loop.time() - begun_s > RETRIES_S:
                break
            healed = await drive.heal(self._view, injection)
            if not healed.verified:
                break
            for phase, outcome in (("inject", injection), ("heal", healed)):
                done = _completion(outcome, phase, number)
                self._note(entry.fault, done.value, done.type)
            await asyncio.sleep(RETRY_AFTER_S)
            injection = await drive.inject(self._view, entry.fault, parameters)
            # A fault of a later attempt must not be healed at once because its time is over.
            self._not_before_s[number] = loop.time() + entry.for_s / 2
        return injection

    def note_missing(self) -> None:
        """Journal the entries of which the time never came; a script wants its faults."""
        for number, entry in enumerate(self._schedule):
            if number not in self._tried:
                value = {"place": f"fault {number + 1}", "kind": entry.fault}
                wanted = {} if entry.alternatives else {"wanted": True}
                self._note(MISSING, {**value, **wanted}, EventType.INFO)

    async def close(self) -> None:
        """Hold nothing: `drive.heal_all` heals what is still injected."""

    def _op(self, number: int, phase: str) -> Op:
        entry = self._schedule[number]
        value = {"phase": phase, "fault": entry.fault, "entry": number}
        if phase == "inject":
            value["parameters"] = dict(entry.parameters)
        return Op(entry.fault, None, value)


def _violates(injection: Injection) -> bool:
    """Whether the injection showed a violation by the node: that is evidence, and not retried."""
    return bool(injection.detail.get("violations"))


def _completion(injection: Injection, phase: str, entry: int) -> Completion:
    type_ = EventType.OK if injection.verified else EventType.INFO
    error = None if injection.verified else str(injection.detail.get("reason", "not verified"))
    return Completion(type_, {**injection.value(phase), "entry": entry}, error)

"""The nemesis: the process that injects and heals faults, as the plan's schedule says.

It is a worker like the others (`harness.interpreter`), with operations of its own:

- `f` is the fault's name, the value {"phase": "inject", "fault", "parameters", "entry"}. The
  completion's value is what the fault measured (`nemeses.base.Injection.value`); it is `ok` when
  the fault was verified to bite and `info` when it was not.
- the same with phase "heal", for the same entry of the schedule.

A fault never raises into the schedule (`nemeses.drive`). Whether enough of them bit is judged
later, from the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from checkers.history import EventType
from cluster.backends.base import Backend
from harness.observer import Observer
from harness.partition_leader import AnyClient, partition_leader
from harness.schedule import Entry, steps
from nemeses import drive
from nemeses.base import Injection
from workloads.base import Completion, Op


class RunView:
    """What faults see of the run (`nemeses.base.View`)."""

    def __init__(
        self, backend: Backend, observer: Observer, client: AnyClient, random: Random
    ) -> None:
        self._client = client
        self.backend = backend
        self.random = random
        self.active: list[Injection] = []
        self._observer = observer

    async def leader(self) -> str | None:
        """Ask all nodes who leads."""
        leadership = await self._observer.ask()
        return None if leadership is None else leadership.leader

    async def partition_leader(self) -> str | None:
        """Ask the nodes for the metadata of all topics."""
        return await partition_leader(self.backend, self._client)


class NemesisClient:
    """Performs the nemesis's operations."""

    def __init__(self, view: RunView, schedule: Sequence[Entry]) -> None:
        self._view = view
        self._schedule = tuple(schedule)
        self._open: dict[int, Injection] = {}

    def timed_ops(self) -> list[tuple[float, Op]]:
        """List the schedule as operations with their times in seconds."""
        return [(step.at_s, self._op(step.entry, step.verb)) for step in steps(self._schedule)]

    def open_heals(self) -> Iterator[Op]:
        """Heal what is not healed in `drive.heal_order`; looked up when the first is asked for."""
        entries = {id(injection): entry for entry, injection in self._open.items()}
        for injection in drive.heal_order(list(self._open.values())):
            yield self._op(entries[id(injection)], "heal")

    async def invoke(self, op: Op) -> Completion:
        """Inject or heal one entry of the schedule."""
        entry = op.value["entry"]
        if op.value["phase"] == "inject":
            injection = await drive.inject(self._view, op.f, op.value["parameters"])
            if injection.applied:
                self._open[entry] = injection
            return _completion(injection, "inject", entry)
        opened = self._open.get(entry)
        if opened is None:
            value = {"phase": "heal", "fault": op.f, "entry": entry, "targets": []}
            value |= {"verified": True, "detail": {"reason": "there was nothing to heal"}}
            return Completion(EventType.OK, value)
        healed = await drive.heal(self._view, opened)
        if healed.verified:
            del self._open[entry]
        return _completion(healed, "heal", entry)

    async def close(self) -> None:
        """Nothing is held: what is still injected is healed by `drive.heal_all`."""

    def _op(self, number: int, phase: str) -> Op:
        entry = self._schedule[number]
        value = {"phase": phase, "fault": entry.fault, "entry": number}
        if phase == "inject":
            value["parameters"] = dict(entry.parameters)
        return Op(entry.fault, None, value)


def _completion(injection: Injection, phase: str, entry: int) -> Completion:
    type_ = EventType.OK if injection.verified else EventType.INFO
    error = None if injection.verified else str(injection.detail.get("reason", "not verified"))
    return Completion(type_, {**injection.value(phase), "entry": entry}, error)

"""The world of a run: what its phases know of the nodes, and how long they wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol

from checkers.history import EventType
from checkers.runs import answers
from cluster.backends.base import Backend
from cluster.client.admin_client import Client
from cluster.node.ports import Clock, Endpoint
from harness.plan.plan import Plan
from harness.run.nemesis import RunView
from harness.run.observer import Observer, describing, in_bound
from harness.run.recorder import Recorder
from harness.run.strands.player import Player
from harness.run.strands.progress import LoopTimers, Timers
from harness.run.trace_tail import Followed, TraceTail
from nemeses import drive
from nemeses.base import Injection, View
from workloads.base import LeaderTracker

HUNG_AFTER = 12
"""Time-outs of an operation after which a client that has not returned is replaced (a read of a
whole set may take `workloads.driven.WHOLE` of them) ..."""
HUNG_AFTER_MIN_S = 10.0
"""... at the earliest after so long: a loop that is starved of processor time is slow itself."""
FIRST_BOUND_S = 120.0
"""Bound on each of: the first leader, the operations of the set-up. Nodes that are up may still
have to find each other, and a fault that comes earlier hits a cluster that is not there yet:
members of RabbitMQ take 40 s on a busy machine, and one whose peer is killed meanwhile ends."""
FINAL_BOUND_S = 30.0
"""Bound on each of: the last operations after the heal, the final reads."""
ACTED_WITHIN_MS = 1_000.0
"""How long the injection of a fault may delay its strand."""
HEAL_BOUND_S = 20.0
"""How long healing may take when a run is aborted."""


class World(Protocol):
    """Real nodes (`RealWorld`) or a drawn simulated world (`harness.sim.play`)."""

    tracker: LeaderTracker
    """The supposed leader."""
    over: asyncio.Event
    """Set by what ends the phases early; real nodes never set it."""
    first_bound_s: float
    """Bound on each of: the first leader, the operations of the set-up."""
    bound_s: float
    """Bound on each of: the last operations, the sentinel, the final reads."""
    operation_bound_s: float | None
    """Bound on an operation of a client; None: the simulated world cannot hang."""
    acted_within_ms: float
    """How long the injection of a fault may delay its strand."""
    is_scripted: bool
    """Whether a player and scripted clients take part."""

    @property
    def backend(self) -> Backend:
        """Where the nodes run."""

    @property
    def observer(self) -> Observer:
        """Knows the leader."""

    @property
    def timers(self) -> Timers:
        """The time of the run."""

    def view(self, random: Random) -> View:
        """Make a view for faults; all views share their list of active injections."""

    def standings(self) -> Followed:
        """Make the standings that strands follow."""

    def attach(self, player: Player) -> None:
        """Take notice of the player, before the nodes start."""

    def note_violation(self, name: str, explanation: str, place: str) -> None:
        """Record the violation of a property, at a place of the script."""

    def not_live(self, what: str) -> None:
        """Take notice that the quorum was not live within one of the bounds."""

    def final_reads_bound_s(self, healed_s: float) -> float:
        """Return the bound on the sentinel and on the final reads; `healed_s`: time of the heal."""

    async def up(self) -> None:
        """Start the nodes. Raises BackendError."""

    async def is_led(self) -> bool:
        """Whether there is a leader."""

    async def down(self, *, healed: bool) -> None:
        """Take the nodes down, after a heal unless the phases have healed."""


def note_wrong_answer(recorder: Recorder, endpoint: Endpoint, what: str) -> None:
    """Journal that a node answered what its protocol does not allow."""
    value = {"node": f"n{endpoint.node_id}", "explanation": what}
    recorder.note(answers.WRONG_ANSWER, value, EventType.INFO)


class RealWorld:
    """The world of a backend whose nodes are known by what they answer and write."""

    acted_within_ms = ACTED_WITHIN_MS
    first_bound_s = FIRST_BOUND_S
    bound_s = FINAL_BOUND_S

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        recorder: Recorder,
        clock: Clock,
        standings: Callable[[], Followed] | None,
    ) -> None:
        self.backend = backend
        self.tracker = LeaderTracker(plan.nodes_at("CONTROLLER"))
        self.timers = LoopTimers(asyncio.get_running_loop())
        self.over = asyncio.Event()
        self.operation_bound_s: float | None = max(
            HUNG_AFTER_MIN_S, HUNG_AFTER * plan.operation_timeout_ms / 1000.0
        )
        self.is_scripted = plan.is_scripted
        self._plan = plan
        self._recorder = recorder
        self._standings = standings
        self._active: list[Injection] = []
        # A connection answers in order: the observer must not wait behind another client's request.
        self._networks = (backend.client_network(), backend.client_network())
        watcher, self._client = (
            Client(network, clock, on_wrong_answer=partial(note_wrong_answer, recorder))
            for network in self._networks
        )
        own = plan.kind.ask_leader
        ask = in_bound(own) if own is not None else None
        if plan.kind.can_describe:
            ask = describing(watcher)
        self.observer = Observer(backend, ask, recorder, self.tracker, plan.kind.leader_at)

    def view(self, random: Random) -> RunView:
        return RunView(self.backend, self.observer, self._client, random, self._active)

    def standings(self) -> Followed:
        if self._standings is not None:
            return self._standings()
        return TraceTail(self.backend, self._plan.kind.layout)

    def attach(self, player: Player) -> None:
        """Do nothing: the observer journals deaths, and the checks judge them."""

    def note_violation(self, name: str, explanation: str, place: str) -> None:
        value = {"property": name, "explanation": explanation, "causes": [place]}
        self._recorder.note("violation", value, EventType.INFO)

    def not_live(self, what: str) -> None:
        """Do nothing: the history shows it to the checks."""

    def final_reads_bound_s(self, healed_s: float) -> float:  # noqa: ARG002  (contract)
        """Return the whole bound: a starved machine takes nothing from the time of the reads."""
        return self.bound_s

    async def up(self) -> None:
        await self.backend.up()

    async def is_led(self) -> bool:
        """Whether a node names a leader."""
        return await self.observer.ask() is not None

    async def down(self, *, healed: bool) -> None:
        """See `World.down`. A cancellation meanwhile kills the nodes without healing."""
        try:
            if not healed:
                # A fault that is not healed in time ends with the cluster.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEAL_BOUND_S):
                        await drive.heal_all(self.view(Random(f"{self._plan.seed}/heal")))
        except asyncio.CancelledError:
            for node in self.backend.nodes:
                await self.backend.kill(node)
            raise
        finally:
            for network in self._networks:
                network.close()
            await self.backend.down()

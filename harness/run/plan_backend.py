"""Makes the backend of a plan, with real or virtual time.

The simulated world has a time of its own, so it is made here and not by its kind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path
from typing import Any

from checkers.evidence import WORLD_CLOCK
from cluster.backends.base import Backend
from cluster.backends.registry import BACKENDS, SIM, BackendRequest
from cluster.backends.sim.incarnation import Incarnation
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.world import SimWorld
from cluster.backends.terms import Need
from cluster.mutants import apply_mutant
from cluster.node.ports import Clock
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.trace import clock_name
from cluster.systems.base import System
from cluster.values import valueclass
from harness.plan.plan import Plan, fault_kinds
from harness.plan.system_request import request_of
from harness.run.trace_tail import Followed
from harness.signals.interrupt import interruptible, run_interruptible
from nemeses.registry import needs_of

Work = Callable[[], Coroutine[Any, Any, None]]
Say = Callable[[str], None]


@valueclass
class Place:
    """A backend, and the clock and loop of its run."""

    backend: Backend
    make_clock: Callable[[], Clock]
    """Called on the run's own loop."""
    standings: Callable[[], Followed] | None
    """See `harness.run.phases.Run`."""
    clock_name: str
    """Name of the loop's clock, as traces name theirs."""
    run: Callable[[Work, Callable[[int], None]], None]
    """Run the work to its end on a loop of real or virtual time; the callback gets the number of
    signals at each signal. Raises KeyboardInterrupt once the work has ended after a signal."""


@contextlib.contextmanager
def place_of(
    plan: Plan, system: System, run_folder: Path, say: Say, *, needs: Collection[Need] | None = None
) -> Iterator[Place]:
    """Prepare the backend that the plan names; nothing is started yet.

    `say` gets a line before each slow step. `needs`: surroundings of the nodes; None: those that
    the plan's faults need.
    """
    if plan.backend == SIM.name:
        with _simulation(plan, run_folder) as place:
            yield place
    else:
        asked = BackendRequest(
            system,
            run_folder,
            plan.nodes,
            needs_of([*plan.faults, *fault_kinds(plan)]) if needs is None else frozenset(needs),
            plan.inventory,
            say,
        )
        yield Place(
            BACKENDS[plan.backend].create(asked),
            lambda: LoopClock(asyncio.get_running_loop()),
            None,
            clock_name(),
            lambda work, on_signal: run_interruptible(work(), on_signal),
        )


def world_of(plan: Plan, run_id: str, scheduler: Scheduler) -> SimWorld:
    """Make a plan's simulated world, in which nothing runs yet. Raises SettingError."""
    from cluster.backends.sim.programs import program_of  # noqa: PLC0415

    return SimWorld(
        plan.nodes,
        plan.seed,
        settings=plan.world,
        node_settings=plan.node_settings,
        run_id=run_id,
        mutant=plan.mutant,
        scheduler=scheduler,
        program=program_of(plan.system, request_of(plan)),
    )


@contextlib.contextmanager
def _simulation(plan: Plan, run_folder: Path) -> Iterator[Place]:
    """One process holds all nodes, so a mutant is applied for as long as the run lasts."""
    from cluster.backends.sim import loop  # noqa: PLC0415
    from cluster.backends.sim.sim_backend import SimBackend  # noqa: PLC0415

    scheduler = Scheduler()
    backend = SimBackend(world_of(plan, run_folder.name, scheduler), run_folder)

    def run(work: Work, on_signal: Callable[[int], None]) -> None:
        try:
            with interruptible():
                loop.run(work(), scheduler)
        except KeyboardInterrupt:
            on_signal(1)
            raise

    with contextlib.ExitStack() as stack:
        if plan.mutant is not None:
            stack.enter_context(apply_mutant(plan.mutant))
        yield Place(backend, lambda: backend.clock, lambda: Watch(backend.world), WORLD_CLOCK, run)


Noted = tuple[float, int, str, dict[str, Any]]
"""(world's ms, incarnation, event, fields)"""

_EVERYDAY = frozenset({"fetch", "flush", "commit", "read", "start"})


class Watch(Followed):
    """Follows the nodes' trace events, each at the instruction that writes it."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world.names)
        self.world = world
        self.noted: dict[str, list[Noted]] = {name: [] for name in world.names}
        """Node -> its trace events except the everyday ones."""
        world.on_start.append(lambda process: self.note_start(process.name))
        world.on_end.append(lambda process: self.note_end(process.name))
        world.observe(self._on_event)

    async def follow(self) -> None:
        """Do nothing: the world calls the observers."""

    def _on_event(self, process: Incarnation, event: str, fields: dict[str, Any]) -> None:
        if event not in _EVERYDAY:
            now_ms = self.world.scheduler.now_ms
            self.noted[process.name].append((now_ms, process.incarnation, event, fields))
        self.take_event(process.name, event, fields)

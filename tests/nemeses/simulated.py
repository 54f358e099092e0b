"""A simulated cluster under test, and a view of it that reads the leader from the world."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from checkers.invariants.watcher import Watcher
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.sim_backend import SimBackend
from cluster.backends.sim.world import SimWorld
from harness.sim.sights.world import watch
from nemeses.base import Injection, View
from nemeses.drive import inject
from tests.views import StubView


class WorldView(StubView):
    """What faults see of a simulated world; the leader is read, as the swarm does."""

    async def leader(self) -> str | None:
        led = {
            node.process.node.raft.leader_and_epoch.epoch: name
            for name, node in self.backend.world.nodes.items()
            if node.process is not None
            and node.process.alive
            and node.process.node is not None
            and node.process.node.raft.leader_and_epoch.leader_id == node.node_id
        }
        return led[max(led)] if led else None


def in_world(
    body: Callable[[WorldView], Awaitable[None]],
    nodes: int = 3,
    settings: SimSettings | None = None,
    node_settings: Mapping[str, int] | None = None,
    view: Callable[[SimBackend], WorldView] = WorldView,
) -> Watcher:
    """Run a test's body on a view of a quorum that has elected its leader."""
    scheduler = Scheduler()
    world = SimWorld(
        nodes, 3, run_id="test", settings=settings, node_settings=node_settings, scheduler=scheduler
    )
    backend = SimBackend(world)
    monitor = watch(backend.world)

    async def whole() -> None:
        await backend.up()
        await asyncio.sleep(3)
        await body(view(backend))
        await backend.down()

    loop.run(whole(), scheduler)
    assert monitor.violations == []
    return monitor


def begun(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Step a coroutine once by hand, as from within a node's event; its result, if it ended."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    return None


async def frozen(view: View, fault: str, parameters: Mapping[str, Any]) -> Injection:
    """Inject a fault, in which no time may pass and nothing may be scheduled or drawn in the world.

    What the fault itself must schedule (a clock that ticks, a node that ends) is not for this.
    """
    world = view.backend.world
    streams = {ends: link.stream.getstate() for ends, link in world.mesh._links.items()}
    at_ms, scheduled = world.scheduler.now_ms, world.scheduler._sequence
    injection = await inject(view, fault, parameters)
    assert (world.scheduler.now_ms, world.scheduler._sequence) == (at_ms, scheduled)
    after = {ends: link.stream.getstate() for ends, link in world.mesh._links.items()}
    assert after == streams
    return injection

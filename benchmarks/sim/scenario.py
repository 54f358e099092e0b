"""The reference scenario: a whole campaign with faults, in memory, the safety monitor on."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass, field

from benchmarks.node.load import processor_s
from checkers.history import Event
from cluster.backends.sim import loop
from cluster.backends.sim.kafka.jvm import jvm_of
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.backends.sim.world import SimWorld
from cluster.systems.kraft import NODE_SETTINGS
from harness.plan.document import from_document, in_simulation
from harness.run.phases import Run, conduct
from harness.run.recorder import Recorder
from harness.sim.runner import run_plan
from harness.sim.sights.world import watch

LINGER = "controller.quorum.append.linger.ms"
FAULTS = ("kill", "pause", "partition")


@dataclass(frozen=True, slots=True)
class Load:
    """What is varied."""

    nodes: int = 3
    clients: int = 5
    rate_per_s: float = 50.0
    duration_s: float = 120.0
    faults: tuple[str, ...] = FAULTS
    monitor: bool = True
    workload: str = "register"
    linger_ms: int = NODE_SETTINGS[LINGER]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    simulated_s: float
    cpu_s: float
    events: int
    operations: int
    leaders: int

    @property
    def speed(self) -> float:
        """Simulated seconds per CPU second."""
        return self.simulated_s / self.cpu_s

    @property
    def events_per_s(self) -> float:
        """Callbacks of the scheduler per CPU second."""
        return self.events / self.cpu_s


@dataclass(frozen=True, slots=True)
class KafkaMeasured:
    """One run of Kafka's raft module: processor time of this process and of the JVM."""

    simulated_s: float
    python_s: float
    jvm_s: float
    calls: int

    @property
    def speed(self) -> float:
        """Simulated seconds per CPU second of both."""
        return self.simulated_s / (self.python_s + self.jvm_s)


def simulate_kafka(release: str, load: Load, seed: int) -> KafkaMeasured:
    """Run the same load on a quorum of a release's raft module, judged by invariants and checks."""
    plan = in_simulation(
        {
            "campaign": "bench",
            "system": "kafka-raft",
            "system_options": {"version": release},
            "seed": seed,
            "nodes": load.nodes,
            "concurrency": load.clients,
            "rate_per_s": load.rate_per_s,
            "duration_s": load.duration_s,
            "faults": list(load.faults),
            "workload": "appends",
        }
    )
    jvm = jvm_of(release)
    gc.collect()
    python_s, jvm_s, calls = time.process_time(), processor_s(jvm.pid), jvm.calls
    result = run_plan(plan)
    python_s, jvm_s = time.process_time() - python_s, processor_s(jvm.pid) - jvm_s
    assert not result.violations, result.violations
    return KafkaMeasured(result.statistics["simulated_s"], python_s, jvm_s, jvm.calls - calls)


@dataclass(slots=True)
class _Journal:
    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        self.events.append(event)


def simulate(load: Load, seed: int) -> Measured:
    """Run once. A violated invariant or a node that died unasked is an error."""
    plan = from_document(
        {
            "seed": seed,
            "nodes": load.nodes,
            "concurrency": load.clients,
            "rate_per_s": load.rate_per_s,
            "duration_s": load.duration_s,
            "faults": list(load.faults),
            "workload": load.workload,
        }
    )
    scheduler = Scheduler()
    settings = {LINGER: load.linger_ms}
    world = SimWorld(load.nodes, seed, run_id="bench", node_settings=settings, scheduler=scheduler)
    backend = SimBackend(world)
    monitor = watch(backend.world) if load.monitor else None
    journal = _Journal()

    async def work() -> None:
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        await conduct(Run(plan, backend, recorder, backend.clock))

    gc.collect()
    began = time.process_time()
    loop.run(work(), scheduler)
    cpu_s = time.process_time() - began
    assert not backend.unexpected_deaths(), backend.unexpected_deaths()
    assert monitor is None or not monitor.violations, monitor.violations
    operations = sum(
        event.type.value == "ok" and event.process != "nemesis" for event in journal.events
    )
    leaders = sum(event.f == "leader" for event in journal.events)
    return Measured(scheduler.now_ms / 1000, cpu_s, scheduler.events, operations, leaders)

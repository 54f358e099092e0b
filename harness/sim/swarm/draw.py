"""The swarm: draws a plan from every seed, each with different features.

After *swarm testing* (Groce, Zhang, Eide, Chen, Regehr: ISSTA 2012): a seed first decides which
features it has at all (kinds of fault, shaped fragments, settings off their defaults), and only
then how they are used. Omitting features lets the others reach deep states: a run that loses half
of all messages never gets far enough to show the effect of a late message.

A plan is a function of its seed and of the cells that it is *steered* to (`Steer`), and holds all
draws: a stored plan replays after any change of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from random import Random
from typing import Any

from cluster.backends.sim.settings import SimSettings
from cluster.systems import kafka_raft
from cluster.systems.kraft import NODE_SETTINGS, REGISTRATION
from cluster.values import valueclass
from harness.errors import PlanError
from harness.plan.document import expectations_of
from harness.plan.plan import Bounds, Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.brokers import GROWING, with_administration, with_brokers
from harness.sim.swarm.disks import with_damage, with_power_losses
from harness.sim.swarm.fragments import FRAGMENTS
from harness.sim.swarm.kafka import of_kafka, settings_of
from harness.sim.swarm.leaders import with_stale_reads, with_starts
from harness.sim.swarm.logs import with_logs
from harness.sim.swarm.second_tries import with_second_tries
from harness.sim.swarm.steps import Draw, do, has, kill_parameters, strand
from harness.sim.swarm.topics import with_losses, with_topics
from harness.sim.swarm.voters import (
    with_cut_changes,
    with_one_voter,
    with_own_removals,
    with_pieces,
    with_snapshots,
    with_voters,
)
from nemeses.quorum.finalize import DONE_WITHIN_S, Finalize
from workloads import appends
from workloads.base import Role
from workloads.registry import workload_named

PLAIN = (
    "kill",
    "stop",
    "pause",
    "partition",
    "one-way",
    "loss",
    "duplicate",
    "delay",
    "hold",
    "disk-stall",
    "disk-slow",
    "disk-error",
    "timer-rate",
    "clock-jump",
    "bit-flip",
)
"""Plain faults of the swarm; `one-way` is a partition of one direction."""

MESSAGES = (
    *("VoteRequest", "VoteResponse"),
    *("BeginQuorumEpochRequest", "BeginQuorumEpochResponse"),
    *("EndQuorumEpochRequest", "EndQuorumEpochResponse"),
    *("FetchRequest", "FetchResponse"),
)
"""What plain faults hold; `with_pieces` holds what only snapshots need."""

APPENDS = appends.KIND.name
_ASKED_MIN = 300
"""Operations that a plan's rate comes to; a verdict needs 50 that were ok."""
_WAITS_MIN = 60
"""Operations that a plan's clients end, even if each waits for as long as it may."""
_WORKERS_MAX = 16
_WORKER = 999
"""Above the workers of any plan, so that no value is written twice."""
_EVENTS_MAX = 1_000_000
_EVENTS_PER_S_MAX = 30_000
"""Ten times the rate of the busiest quorum of the swarm."""


@valueclass
class Steer:
    """Empty cells (fault, role of its target, phase) that a plan should visit."""

    cells: tuple[tuple[str, str, str], ...] = ()


def draw(
    seed: int,
    *,
    mutant: str | None = None,
    duration_ms: float | None = None,
    steer: Steer | None = None,
    system: Mapping[str, Any] | None = None,
) -> Plan:
    """Draw the plan of a seed.

    `system`: name and options of what is run (`system`, `system_options` of a plan); None: this
    repository's node. Raises PlanError for a mutant of another.
    """
    raft: Mapping[str, str] | None = None
    if system is not None and system["system"] == kafka_raft.NAME:
        if mutant is not None:
            raise PlanError(f"mutant: system {kafka_raft.NAME} has no faulty variants")
        raft = system.get("system_options", {})
    random = Random(f"swarm/{seed}")
    nodes = random.choice((3,) * 11 + (5,) * 6 + (4, 4, 7))
    settings = _settings(random)
    if raft is not None:
        settings |= settings_of(seed)
    world = _world(random, settings)
    unit_ms = float(
        settings["controller.quorum.fetch.timeout.ms"]
        + 1.5 * settings["controller.quorum.election.timeout.ms"]
    )
    drawn_ms = unit_ms * random.uniform(15, 45)
    length_ms = round(drawn_ms) if duration_ms is None else duration_ms
    load = _load(random, unit_ms)
    if raft is not None:
        load = {**load, "workload": APPENDS, "workload_options": {}}
    strands = _strands(random, nodes, unit_ms, float(length_ms), steer or Steer())
    plain = Plan(
        campaign=f"swarm-{seed}",
        backend="sim",
        seed=seed,
        nodes=nodes,
        duration_s=length_ms / 1000.0,
        mutant=mutant,
        node_settings=settings,
        world=world,
        **load,
        faults=(),
        strands=strands,
        bounds=Bounds(
            liveness_ms=round(20_000 + 40 * unit_ms),
            events_max=_EVENTS_MAX + round(_EVENTS_PER_S_MAX * float(length_ms) / 1000.0),
        ),
    )
    changed = with_snapshots(with_voters(plain, unit_ms), unit_ms)
    if raft is None:
        removed = with_own_removals(with_one_voter(changed), unit_ms)
        cut = with_cut_changes(with_pieces(removed, unit_ms), unit_ms)
        damaged = with_damage(cut, unit_ms)
        busy = _with_load(_with_clients(damaged, unit_ms))
        started = with_starts(with_losses(with_topics(busy, unit_ms), unit_ms), unit_ms)
        read = with_stale_reads(with_administration(started, unit_ms), unit_ms)
        asked = with_second_tries(read, unit_ms)
    else:
        asked = of_kafka(changed, raft, unit_ms)
    every = _with_operations(asked)
    begun = tuple(each for each in every.strands if each.at_ms < every.duration_ms)
    drawn = replace(every, strands=begun)  # no plan may hold what begins behind its end
    return replace(drawn, expectations=expectations_of(drawn), bounds=_bounds(drawn))


def _bounds(plan: Plan) -> Bounds:
    """Return the plan's bounds; brokers get the time-out of what they asked the controller, too.

    An AlterPartition whose answer a cut lost is sent again after `controller.socket.timeout.ms`.
    No other is sent meanwhile, so nobody comes back into the ISR. A level that is asked for while
    no majority is there is waited for behind the plan's end, and before the heal.
    """
    bounds, settings = plan.bounds, plan.node_settings
    if has(plan, Finalize.name):
        more = round(_EVENTS_PER_S_MAX * DONE_WITHIN_S)
        bounds = replace(bounds, events_max=bounds.events_max + more)
    if not settings.get(REGISTRATION):
        return bounds
    more_ms = settings["controller.socket.timeout.ms"]
    return replace(bounds, liveness_ms=bounds.liveness_ms + more_ms)


def _with_clients(plan: Plan, unit_ms: float) -> Plan:
    """Draw clients of partitions' logs, clients of brokers, or neither."""
    of_logs = with_logs(plan, unit_ms)
    return (
        with_power_losses(of_logs, unit_ms) if of_logs is not plan else with_brokers(plan, unit_ms)
    )


def _with_load(plan: Plan) -> Plan:
    """Let clients ask enough for a verdict in a short world, though many of them only wait."""
    waits = plan.operation_timeout_ms / plan.duration_ms
    least_per_s = 0.0 if plan.workload in GROWING else round(_ASKED_MIN / plan.duration_s, 1)
    return replace(
        plan,
        rate_per_s=max(plan.rate_per_s, least_per_s),
        concurrency=max(plan.concurrency, min(_WORKERS_MAX, ceil(_WAITS_MIN * waits))),
    )


def _settings(random: Random) -> dict[str, int]:
    election_ms = random.choice((60, 100, 100, 150, 300, 1000))
    fetch_ms = round(election_ms * random.choice((0.5, 1, 1, 2)))
    settings = dict(NODE_SETTINGS)
    settings |= {
        "controller.quorum.election.timeout.ms": election_ms,
        "controller.quorum.election.backoff.max.ms": round(election_ms * random.choice((0.5, 1))),
        "controller.quorum.fetch.timeout.ms": max(30, fetch_ms),
        "controller.quorum.request.timeout.ms": max(20, round(fetch_ms * random.choice((0.3, 1)))),
        "controller.quorum.append.linger.ms": random.choice((0, 0, 5, 25)),
        "controller.quorum.retry.backoff.ms": random.choice((2, 5, 20)),
        "controller.quorum.fetch.max.bytes": random.choice((1, 1, 300, 4096, 8 << 20)),
        "metadata.log.segment.bytes": random.choice((1024, 4096, 1 << 20)),
        "metadata.max.idle.interval.ms": random.choice((0, 100, 500, 2000)),
        REGISTRATION: 0,
    }
    return settings


def _world(random: Random, settings: dict[str, int]) -> SimSettings:
    """Draw a world in which a quorum with these time-outs is live without faults."""
    quick_ms = min(
        settings["controller.quorum.election.timeout.ms"],
        settings["controller.quorum.fetch.timeout.ms"],
        settings["controller.quorum.request.timeout.ms"],
    )
    latency_ms = round(random.choice((0.01, 0.03, 0.08)) * quick_ms, 2)
    sync_ms = round(random.choice((0.005, 0.02, 0.08)) * quick_ms, 2)
    low = random.choice((0.1, 0.5))
    turn_ms = 2 * latency_ms + sync_ms
    if turn_ms > 0.2 * min(100, settings["metadata.max.idle.interval.ms"] or 100):
        # One batch for each round trip would be less than the leader itself appends when idle, and
        # followers would never catch up.
        settings["controller.quorum.fetch.max.bytes"] = 8 << 20
    return SimSettings(
        latency_ms=(round(low * latency_ms, 3), latency_ms),
        slow_probability=random.choice((0.0, 0.0, 0.001, 0.02)),
        slow_ms=(latency_ms, round(random.uniform(0.2, 3.0) * quick_ms, 1)),
        loss=random.choice((0.0, 0.0, 0.0, 0.002, 0.02)),
        duplication=random.choice((0.0, 0.0, 0.01, 0.1)),
        cut_keeps=random.choice((0.0, 0.3, 1.0)),
        sync_ms=(round(low * sync_ms, 3), sync_ms),
        slow_sync_probability=random.choice((0.0, 0.0, 0.01)),
        slow_sync_ms=(sync_ms, round(random.uniform(0.2, 2.0) * quick_ms, 1)),
        start_ms=(0.5, round(random.choice((1.0, 20.0, 60.0)), 1)),
        drift_ppm=random.choice((0.0, 100.0, 10_000.0)),
        skew_ms=random.choice((0.0, 50.0, 100_000.0)),
        power_loss=random.choice(("any", "any", "nothing")),
    )


def _load(random: Random, unit_ms: float) -> dict[str, Any]:
    name = random.choice(("register",) * 6 + ("topics",) * 3 + ("set",))
    options: dict[str, Any] = {}
    if name == "register":
        options = {"keys": random.choice((1, 3, 8)), "write_fraction": random.choice((0.3, 0.6))}
    elif name == "topics":
        options = {"names": random.choice((2, 6)), "partitions_max": random.choice((1, 3))}
    return {
        "workload": name,
        "workload_options": options,
        "concurrency": random.choice((3, 5, 8)),
        "rate_per_s": round(random.choice((5.0, 10.0, 20.0)) * min(4.0, 1000.0 / unit_ms), 1),
        "operation_timeout_ms": float(round(random.choice((0.5, 1.0, 3.0)) * unit_ms)),
    }


def _strands(
    random: Random, nodes: int, unit_ms: float, duration_ms: float, steer: Steer
) -> tuple[Strand, ...]:
    plain = _subset(random, PLAIN, random.choice((0.2, 0.4, 0.7)))
    shaped = _subset(random, tuple(FRAGMENTS), random.choice((0.2, 0.4, 0.8)))
    share = random.choice((0.0, 0.4, 0.7, 1.0)) if plain else 1.0
    gap_units = random.choice((0.5, 1.5, 3.0))
    maker = Draw(random, unit_ms, nodes)
    strands: list[Strand] = []
    at_ms = unit_ms * random.uniform(1.0, 2.5)
    asked = list(steer.cells)
    while at_ms < duration_ms - 0.5 * unit_ms:
        if asked:
            kind, role, phase = asked.pop(0)
            step = replace(
                _plain(random, kind, unit_ms, role),
                until=_MOMENT_OF.get(phase),
                within_ms=4 * unit_ms,
            )
            made = strand(at_ms, step)
        elif random.random() < share:
            made = strand(at_ms, *FRAGMENTS[random.choice(shaped)](maker))
        else:
            made = strand(at_ms, _plain(random, random.choice(plain), unit_ms, ""))
        strands.append(made)
        at_ms += unit_ms * (random.expovariate(1.0 / gap_units) + 0.5 * len(made.steps) ** 0.5)
        if random.random() < 0.15:
            strands.append(strand(at_ms, do("heal")))
            at_ms += unit_ms * random.uniform(0.5, 2.0)
    return tuple(strands)


def _subset(random: Random, names: Sequence[str], probability: float) -> tuple[str, ...]:
    """Draw a subset of features, at least one."""
    chosen = tuple(name for name in names if random.random() < probability)
    return chosen or (random.choice(names),)


def _with_operations(plan: Plan) -> Plan:
    """Let the clients of strands do what the workload's writers do, with values of their own.

    A step of a plan has one value: of sends, those of a single record.
    """
    workload = workload_named(plan.workload, plan.workload_options)
    random = Random(f"swarm/{plan.seed}/operations")
    operations = workload.operations(_WORKER, random, Role.WRITER)

    def of_workload(step: Step) -> Step:
        if step.kind != "op" or "f" in step.options:
            return step
        op = next(op for op in operations if not isinstance(op.value, list))
        return replace(step, options={"f": op.f, "key": op.key, "value": op.value})

    strands = (replace(each, steps=tuple(map(of_workload, each.steps))) for each in plan.strands)
    return replace(plan, strands=tuple(strands))


_MOMENT_OF = {
    "electing": Condition(event="state", where={"state": "Candidate"}),
    "establishing": Condition(event="epoch-start"),
    "catching-up": Condition(event="append", where={"role": "leader"}),
}
"""Phase -> the condition that starts it; a quorum is steady most of the time."""

_NODE_TARGETS = ("leader", "leader", "follower", "random", "random", "minority", "majority", "all")


def _plain(random: Random, kind: str, unit_ms: float, role: str) -> Step:
    """Draw a plain fault; `role` (leader or follower) if coverage steers to it, else empty."""
    target = random.choice(_NODE_TARGETS)
    target = role if role in ("leader", "follower") else target
    for_ms = round(unit_ms * random.choice((0.05, 0.3, 1.0, 2.5)) * random.uniform(0.5, 1.5), 1)
    options = _options(random, kind, unit_ms)
    if kind in ("partition", "one-way"):
        target, options = _partition(random, kind, target, forced=bool(role))
        kind = "partition"
    elif kind in ("loss", "duplicate", "delay"):
        target = "all"
    elif kind == "hold":
        target = ""
    elif kind in ("disk-error", "clock-jump", "bit-flip"):
        target = target if target in ("leader", "follower", "random") else "random"
    return Step(kind, targets=target, for_ms=for_ms, options=options)


def _options(random: Random, kind: str, unit_ms: float) -> dict[str, Any]:
    """Draw the parameters of a fault of nodes or links, beside its targets."""
    drawn: dict[str, Callable[[], dict[str, Any]]] = {
        "kill": lambda: kill_parameters(random.choice(("any", "nothing", "everything"))),
        "loss": lambda: {"percent": random.choice((10, 40))},
        "duplicate": lambda: {"percent": random.choice((20, 80))},
        "delay": lambda: dict.fromkeys(
            ("delay_ms", "jitter_ms"), round(random.choice((0.1, 0.5)) * unit_ms, 1) / 2
        ),
        "hold": lambda: {"types": random.choice(MESSAGES)},
        "disk-slow": lambda: {"delay_ms": round(unit_ms * random.uniform(0.02, 0.5), 1)},
        "timer-rate": lambda: {"rate": round(2 ** random.uniform(-3, 3), 2)},
        "clock-jump": lambda: {
            "jump_ms": round(random.choice((-1, 1)) * 10 ** random.uniform(1, 7))
        },
        "bit-flip": lambda: {"file": "quorum-state"},
    }
    return drawn[kind]() if kind in drawn else {}


def _partition(
    random: Random, kind: str, target: str, *, forced: bool
) -> tuple[str, dict[str, Any]]:
    if kind == "one-way":
        target = target if target in ("leader", "follower", "random") else "random"
        direction = random.choice(("incoming", "outgoing"))
        return target, {"shape": "isolate", "direction": direction}
    shapes = ("isolate", "isolate", "halves", "bridge", "majorities-ring")
    shape = "isolate" if forced else random.choice(shapes)
    if shape != "isolate":
        return "", {"shape": shape}
    return (target if target not in ("all", "majority") else "random"), {"shape": "isolate"}

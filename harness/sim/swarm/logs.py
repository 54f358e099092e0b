"""The swarm's draws of partitions' logs (see `harness.sim.swarm.draw`).

They use a stream of their own. A plan's brokers register then, and its clients, those of strands
too, send to replicated partitions and poll them while leaders move: with one replica or several,
acks of all, one or none, with retries and without. Time-outs of replication are of the scale of
the plan's others, so that its faults shrink an ISR and move a leader.

A kill spares what was written to a disk, and no disk is wiped or fails, as what a folder's failed
sync leaves is what a power loss does: Kafka's logs are not fsynced before an acknowledgement, and
what all replicas in sync lose at one time is lost. For the same reason a log is torn, or damaged
where it was not fsynced, in such plans only as have other replicas in sync and in which nothing
else ends a process: each of these ends is unclean, and where all replicas had one, the last leader
is elected with what it has left. An index is a hint, and may be damaged anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from checkers.runs.exercised import DEPOSING
from cluster.client.batches import CODECS
from cluster.systems.kraft import LOG_DIRS, REGISTRATION
from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.voters import cast
from workloads.data import log
from workloads.data.log_client import MOVE

_SHARE: Final = 0.35
"""Of the seeds beside every third, which has them: so a few seeds in a row show them, too."""
_SHAPED_SHARE: Final = 0.8
_LOSES_WRITTEN: Final = ("disk-wipe", "disk-error")
"""Faults that take from a disk what a kill spares."""


def with_logs(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's clients send to partitions and poll them, and how."""
    random = Random(f"swarm/{plan.seed}/log")
    if random.random() >= _SHARE and plan.seed % 3:
        return plan
    replicas = min(plan.nodes, random.choice((1, 2, 2, 3, 3, 3)))
    least = min(replicas, random.choice((1, 2, 2)))
    topics, partitions = random.choice(((1, 1), (1, 3), (2, 2)))
    options = {
        "topics": topics,
        "partitions": partitions,
        "replication_factor": replicas,
        "min_insync_replicas": least,
        "acks": random.choice(("all",) * 5 + ("1",) * 3 + ("0",)),
        "idempotence": random.choice((0, 1, 1)),
        "retries": (retries := random.choice((0, 2, 4))),
        "in_flight": _in_flight(plan.seed) if retries else 1,
        "compression": _compression(plan.seed),
        "batch": random.choice((1, 3, 8)),
        "send_fraction": random.choice((0.3, 0.5, 0.8)),
        "again_fraction": random.choice((0.1, 0.5)),
        "move_fraction": random.choice((0.0, 0.01, 0.05)),
    }

    def adapt(step: Step) -> Step:
        """Leave what a kill keeps to the world."""
        kept = {key: value for key, value in step.options.items() if key != "keep"}
        return replace(step, options=kept)

    settings = _settings(random, unit_ms)
    strands = [
        replace(strand, steps=tuple(adapt(step) for step in strand.steps))
        for strand in plan.strands
        if not any(step.kind in _LOSES_WRITTEN for step in strand.steps)
    ]
    if random.random() < _SHAPED_SHARE:
        strands += _behind(random, plan, settings, unit_ms, (topics, partitions))
    damage = random.choice(("torn", "index", "", ""))
    is_torn = damage == "torn" and least > 1
    if is_torn:
        strands = [strand for strand in strands if not ends_process(strand)]
        strands.append(_tear(random, plan, unit_ms))
    elif damage == "index" and settings["log.index.interval.bytes"] < _INDEX_BYTES_MAX:
        strands += _index_flips(random, plan, settings, unit_ms, (topics, partitions))
    strands += _directories(plan, settings, unit_ms, 0.0 if is_torn else _LOSS_SHARE)
    settings |= _patience(plan, unit_ms)
    timeout_ms = plan.operation_timeout_ms
    if options["retries"]:
        # A producer that retries outlasts the session of a leader that is lost.
        session_ms = settings["broker.session.timeout.ms"]
        timeout_ms = max(timeout_ms, 1.5 * session_ms)
    return replace(
        plan,
        node_settings={**plan.node_settings, **settings},
        world=replace(plan.world, power_loss="written"),
        workload=log.KIND.name,
        workload_options=options,
        operation_timeout_ms=timeout_ms,
        strands=tuple(strands),
    )


def _in_flight(seed: int) -> int:
    return Random(f"swarm/{seed}/in-flight").choice((1, 2, 3, 5))


def _compression(seed: int) -> str:
    codecs = ("none",) * len(CODECS) + (*CODECS,)
    return Random(f"swarm/{seed}/compression").choice(codecs)


def _behind(
    random: Random,
    plan: Plan,
    settings: Mapping[str, int],
    unit_ms: float,
    partitions: tuple[int, int],
) -> Iterator[Strand]:
    """Draw strands that leave a replica behind, beside the plan's others.

    `partitions`: how many topics there are, and partitions of each.
    """
    lag_ms = settings["replica.lag.time.max.ms"]
    out_ms = max(lag_ms, settings["broker.session.timeout.ms"])
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        # The follower of a partition that `other` leads, where that is moved first, and any other.
        leader = random.randrange(plan.nodes)
        other, one = (f"node:n{(leader + n) % plan.nodes + 1}" for n in (0, 1))
        steps = _move(random, leader, unit_ms, partitions) if random.random() < 0.5 else []
        shape = random.random()
        if shape < 0.2:
            steps.append(_slow(random, one, lag_ms, unit_ms))
        elif shape < 0.45:
            steps += _late_answer(random, other, lag_ms, out_ms, unit_ms)
        elif shape < 0.6:
            steps += _unheard(random, out_ms, unit_ms)
        else:
            steps += _left_behind(random, one, other, out_ms, unit_ms)
        yield Strand(round(at_ms, 1), tuple(steps))
        at_ms += out_ms + unit_ms * (3.0 + random.expovariate(0.3))


def _move(random: Random, leader: int, unit_ms: float, partitions: tuple[int, int]) -> list[Step]:
    """Let a node lead a partition; the second attempt finds a replica that the first one added."""
    topics, count = partitions
    key = f"d{random.randrange(topics)}-{random.randrange(count)}"
    options = {"f": MOVE, "key": key, "value": leader}
    wait_ms = round(unit_ms * random.uniform(0.5, 2.0), 1)
    again = Step("op", after_ms=wait_ms, options=options)
    return [Step("op", options=options), again, Step("wait", after_ms=round(0.5 * unit_ms, 1))]


def _left_behind(random: Random, one: str, other: str, out_ms: float, unit_ms: float) -> list[Step]:
    """A replica is away until the ISR has shrunk; as it returns, another one goes."""
    away = random.choice(("pause", "partition", "kill"))
    options = {"shape": "isolate"} if away == "partition" else {}
    lost = random.choice(("kill", "pause"))
    return [
        Step(away, targets=one, options=options),
        Step(
            lost,
            targets=other,
            after_ms=round(out_ms * random.uniform(0.5, 2.0), 1),
            for_ms=round(out_ms + unit_ms * random.uniform(0.5, 3.0), 1),
        ),
        Step(
            "heal",
            targets=one,
            after_ms=round(unit_ms * random.uniform(0.0, 0.5), 1),
            options={"fault": away},
        ),
    ]


def _slow(random: Random, node: str, lag_ms: float, unit_ms: float) -> Step:
    """A replica hears everything late, but not so late that it leaves the ISR."""
    options = {"direction": "incoming", "delay_ms": round(lag_ms * random.uniform(0.1, 0.5), 1)}
    span_ms = round(unit_ms * random.uniform(2.0, 6.0), 1)
    return Step("delay", targets=node, for_ms=span_ms, options=options)


def _late_answer(
    random: Random, node: str, lag_ms: float, out_ms: float, unit_ms: float
) -> list[Step]:
    """A leader hears late what its followers have long since, and is lost before it answers."""
    lost = random.choice(("kill", "pause"))
    slow_ms = unit_ms * random.uniform(0.3, 2.0)
    return [
        replace(_slow(random, node, lag_ms, unit_ms), for_ms=round(slow_ms + out_ms, 1)),
        Step(
            lost,
            targets=node,
            after_ms=round(slow_ms, 1),
            for_ms=round(out_ms + unit_ms * random.uniform(0.5, 3.0), 1),
        ),
    ]


def _unheard(random: Random, out_ms: float, unit_ms: float) -> list[Step]:
    """A leader does not hear that its follower was let into the ISR (KIP-497), and both are lost.

    First the leader, when its follower has stopped: so that one is elected which lacks the newest
    records.
    """
    moved = Condition(at="@B", event="replica-isr")
    return [
        cast(unit_ms, A="leader", B="follower", C="follower"),
        Step("pause", targets="@C"),
        Step(
            "partition",
            until=moved,
            within_ms=2 * out_ms,
            options={"shape": "links", "links": "@A>@B"},
        ),
        Step("heal", targets="@C", options={"fault": "pause"}),
        Step(
            "pause",
            targets="@C",
            until=replace(moved, at="@C"),
            within_ms=out_ms + unit_ms,
            after_ms=round(unit_ms * random.uniform(0.0, 0.1), 1),
        ),
        Step(
            "kill",
            targets="@B",
            after_ms=round(out_ms * random.uniform(0.2, 0.8), 1),
            for_ms=round(out_ms + unit_ms * random.uniform(1.0, 3.0), 1),
        ),
        Step("heal", targets="@C", options={"fault": "pause"}),
        Step("heal", options={"fault": "partition"}),
    ]


def ends_process(strand: Strand) -> bool:
    """Whether a fault of a strand ends a process, and not in order."""
    return any(step.kind in DEPOSING and step.kind not in _LIVES_ON for step in strand.steps)


_LIVES_ON: Final = ("stop", "pause", "partition", "resign", "voters")
"""Faults that depose a leader and end no process, or end it in order."""


def _tear(random: Random, plan: Plan, unit_ms: float) -> Strand:
    """A node dies, and the end of its longest log of a partition is torn, or a bit is flipped."""
    at_ms = plan.duration_ms * random.uniform(0.3, 0.8)
    is_flip = Random(f"swarm/{plan.seed}/flip").random() < _FLIP_SHARE
    step = Step(
        "bit-flip" if is_flip else "truncate-file",
        targets=f"node:n{random.randint(1, plan.nodes)}",
        for_ms=round(unit_ms * random.uniform(0.5, 2.0), 1),
        options={"file": "partition"},
    )
    return Strand(round(at_ms, 1), (step,))


def _index_flips(
    random: Random,
    plan: Plan,
    settings: Mapping[str, int],
    unit_ms: float,
    partitions: tuple[int, int],
) -> Iterator[Strand]:
    """Draw strands that damage an index, which is read when the node leads again."""
    at_ms = plan.duration_ms * random.uniform(0.4, 0.7)  # the logs have grown by then
    while at_ms < plan.duration_ms - unit_ms:
        number = random.randrange(plan.nodes)
        down_ms = round(unit_ms * random.uniform(0.2, 1.0), 1)
        target, options = f"node:n{number + 1}", {"file": "index"}
        back_ms = down_ms + settings["broker.session.timeout.ms"]
        steps = [
            Step("bit-flip", targets=target, for_ms=down_ms, options=options),
            Step("wait", after_ms=round(back_ms, 1)),
            *_move(random, number, unit_ms, partitions),
        ]
        yield Strand(round(at_ms, 1), tuple(steps))
        at_ms += back_ms + 6 * unit_ms


def _directories(
    plan: Plan, settings: dict[str, int], unit_ms: float, loss_share: float
) -> Iterator[Strand]:
    """Draw whether brokers have several log directories: replicas move, and one goes for a time.

    A broker that lost one has no mark of a clean shutdown there, so its next end is unclean.
    """
    random = Random(f"swarm/{plan.seed}/data-dirs")
    late = Random(f"swarm/{plan.seed}/late-dirs")
    if random.random() >= _DIRECTORIES_SHARE:
        return
    settings[LOG_DIRS] = random.choice((2, 3))
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        target = random.choice(("leader", "follower", "random"))
        step = Step("log-dir-move", targets=target)
        if random.random() < loss_share:
            gone_ms = round(unit_ms * random.uniform(1.0, 6.0), 1)
            step = Step("log-dir-loss", targets=target, for_ms=gone_ms)
            if late.random() < _AT_START_SHARE:
                yield _lose_at_start(late, plan, unit_ms, at_ms, step)
                at_ms += unit_ms * (2.0 + random.expovariate(0.3))
                continue
        elif loss_share and random.random() < _CUT_MOVE_SHARE:
            yield _cut_move(random, plan, unit_ms, at_ms)
            at_ms += unit_ms * (2.0 + random.expovariate(0.3))
            continue
        yield Strand(round(at_ms, 1), (step,))
        at_ms += unit_ms * (1.0 + random.expovariate(0.3))


def _cut_move(random: Random, plan: Plan, unit_ms: float, at_ms: float) -> Strand:
    """A broker dies as a replica takes over in another log directory, as the controller allows."""
    node = f"node:n{random.randint(1, plan.nodes)}"
    spans_ms = plan.world.latency_ms[1] + plan.world.sync_ms[1]
    steps = (
        Step("log-dir-move", targets=node),
        Step("wait", until=Condition(at=node, event="assign-replicas"), within_ms=2 * unit_ms),
        Step(
            "kill",
            targets=node,
            after_ms=round(random.uniform(0.0, 3.0) * spans_ms, 2),
            for_ms=round(unit_ms * random.uniform(0.1, 1.0), 1),
        ),
    )
    return Strand(round(at_ms, 1), steps)


def _lose_at_start(late: Random, plan: Plan, unit_ms: float, at_ms: float, loss: Step) -> Strand:
    """A log directory goes after its broker has registered, and before it has opened its logs."""
    node = f"node:n{late.randint(1, plan.nodes)}"
    down_ms = round(unit_ms * late.uniform(0.1, 0.5), 1)
    registered = Condition(at=node, event="broker-state", where={"state": "fenced"})
    steps = (
        Step("kill", targets=node, for_ms=down_ms),
        replace(loss, targets=node, until=registered, within_ms=2 * unit_ms),
    )
    return Strand(round(at_ms, 1), steps)


def _patience(plan: Plan, unit_ms: float) -> dict[str, int]:
    """Draw whether leaders ask a controller again within a fault, and so ask it twice."""
    random = Random(f"swarm/{plan.seed}/patience")
    if random.random() >= _IMPATIENT_SHARE:
        return {}
    return {"controller.socket.timeout.ms": max(1, round(unit_ms * random.choice((0.2, 0.5, 2.0))))}


_FLIP_SHARE: Final = 0.5
_IMPATIENT_SHARE: Final = 0.6
_DIRECTORIES_SHARE: Final = 0.4
_LOSS_SHARE: Final = 0.25
_CUT_MOVE_SHARE: Final = 0.4
_AT_START_SHARE: Final = 0.4

_INDEX_BYTES_MAX: Final = 1_000
"""With more bytes between two entries, the index of a short run has too few to be misled by."""


def _settings(random: Random, unit_ms: float) -> dict[str, int]:
    session_ms = round(unit_ms * random.choice((0.5, 1.0, 3.0)))
    return {
        REGISTRATION: 1,
        "metadata.max.retention.bytes": 100 << 20,  # what a replica owes is read from the whole log
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * random.choice((0.1, 0.3)))),
        "replica.lag.time.max.ms": max(1, round(unit_ms * random.choice((0.3, 1.0, 3.0)))),
        "replica.fetch.wait.max.ms": max(1, round(unit_ms * random.choice((0.05, 0.2)))),
        "replica.fetch.backoff.ms": max(1, round(unit_ms * random.choice((0.05, 0.2)))),
        "replica.socket.timeout.ms": max(1, round(unit_ms * random.choice((0.5, 2.0)))),
        "replica.fetch.max.bytes": random.choice((1, 300, 1 << 20)),
        "log.index.interval.bytes": random.choice((100, 4096)),
    }

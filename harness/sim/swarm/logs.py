"""The swarm's draws of partitions' logs (see `harness.sim.swarm.draw`).

A plan's brokers register then, and its clients, those of strands too, send to replicated partitions
and poll them while leaders move: with one replica or several, acks of all, one or none, with
retries and without. Time-outs of replication are of the scale of the plan's others, so that its
faults shrink an ISR and move a leader.

A kill spares what was written to a disk, and no disk is wiped or fails, as what a folder's failed
sync leaves is what a power loss does: Kafka's logs are not fsynced before an acknowledgement, and
what all replicas in sync lose at one time is lost. For the same reason a log is torn, or damaged
where it was not fsynced, in such plans only as have other replicas in sync and in which nothing
else ends a process: each of these ends is unclean, also a stop in order before the broker has
registered (KIP-966), and where all replicas had one, the last leader is elected with what it has
left. An index is a hint, and may be damaged anywhere.
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
from harness.sim.swarm.brokers import session_settings
from harness.sim.swarm.steps import Draw, cast, cut_off, do, heal, strand, stream
from workloads.data import log
from workloads.data.log_client import MOVE

_SHARE: Final = 0.35
"""Of the seeds beside every third, which has them: so a few seeds in a row show them, too."""
_SHAPED_SHARE: Final = 0.8
_LOSES_WRITTEN: Final = ("disk-wipe", "disk-error")
"""Faults that take from a disk what a kill spares."""


def with_logs(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's clients send to partitions and poll them, and how."""
    draw = stream(plan, "log", unit_ms)
    random = draw.random
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
        "in_flight": _own(plan, "in-flight").choice((1, 2, 3, 5)) if retries else 1,
        "compression": _own(plan, "compression").choice(("none",) * len(CODECS) + (*CODECS,)),
        "batch": random.choice((1, 3, 8)),
        "send_fraction": random.choice((0.3, 0.5, 0.8)),
        "again_fraction": random.choice((0.1, 0.5)),
        "move_fraction": random.choice((0.0, 0.01, 0.05)),
    }

    def adapt(step: Step) -> Step:
        """Leave what a kill keeps to the world."""
        kept = {key: value for key, value in step.options.items() if key != "keep"}
        return replace(step, options=kept)

    settings = _settings(plan, draw)
    strands = [
        replace(each, steps=tuple(adapt(step) for step in each.steps))
        for each in plan.strands
        if not any(step.kind in _LOSES_WRITTEN for step in each.steps)
    ]
    if random.random() < _SHAPED_SHARE:
        strands += _behind(draw, plan, settings, (topics, partitions))
    damage = random.choice(("torn", "index", "", ""))
    is_torn = damage == "torn" and least > 1
    if is_torn:
        strands = [each for each in strands if not ends_process(each)]
        strands.append(_tear(draw, plan))
    elif damage == "index" and settings["log.index.interval.bytes"] < _INDEX_BYTES_MAX:
        strands += _index_flips(draw, plan, settings, (topics, partitions))
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


def _own(plan: Plan, name: str) -> Random:
    return Random(f"swarm/{plan.seed}/{name}")


def _behind(
    draw: Draw, plan: Plan, settings: Mapping[str, int], partitions: tuple[int, int]
) -> Iterator[Strand]:
    """Draw strands that leave a replica behind, beside the plan's others.

    `partitions`: how many topics there are, and partitions of each.
    """
    random, unit_ms = draw.random, draw.unit_ms
    lag_ms = settings["replica.lag.time.max.ms"]
    out_ms = max(lag_ms, settings["broker.session.timeout.ms"])
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        # The follower of a partition that `other` leads, where that is moved first, and any other.
        leader = random.randrange(plan.nodes)
        other, one = (f"node:n{(leader + n) % plan.nodes + 1}" for n in (0, 1))
        steps = _move(draw, leader, partitions) if random.random() < 0.5 else []
        shape = random.random()
        if shape < 0.2:
            steps.append(_slow(draw, one, lag_ms))
        elif shape < 0.45:
            steps += _late_answer(draw, other, lag_ms, out_ms)
        elif shape < 0.6:
            steps += _unheard(draw, out_ms)
        else:
            steps += _left_behind(draw, one, other, out_ms)
        yield strand(at_ms, *steps)
        at_ms += out_ms + unit_ms * (3.0 + random.expovariate(0.3))


def _move(draw: Draw, leader: int, partitions: tuple[int, int]) -> list[Step]:
    """Let a node lead a partition; the second attempt finds a replica that the first one added."""
    topics, count = partitions
    key = f"d{draw.random.randrange(topics)}-{draw.random.randrange(count)}"
    move = do("op", f=MOVE, key=key, value=leader)
    again = replace(move, after_ms=draw.span(0.5, 2.0))
    return [move, again, do("wait", after_ms=round(0.5 * draw.unit_ms, 1))]


def _left_behind(draw: Draw, one: str, other: str, out_ms: float) -> list[Step]:
    """A replica is away until the ISR has shrunk; as it returns, another one goes."""
    away = draw.random.choice(("pause", "partition", "kill"))
    lost = draw.random.choice(("kill", "pause"))
    after_ms = round(out_ms * draw.random.uniform(0.5, 2.0), 1)
    return [
        cut_off(one) if away == "partition" else do(away, one),
        do(lost, other, after_ms, for_ms=draw.span(0.5, 3.0, out_ms)),
        heal(away, one, draw.span(0.0, 0.5)),
    ]


def _slow(draw: Draw, node: str, lag_ms: float) -> Step:
    """A replica hears everything late, but not so late that it leaves the ISR."""
    delay_ms = round(lag_ms * draw.random.uniform(0.1, 0.5), 1)
    return do("delay", node, for_ms=draw.span(2.0, 6.0), direction="incoming", delay_ms=delay_ms)


def _late_answer(draw: Draw, node: str, lag_ms: float, out_ms: float) -> list[Step]:
    """A leader hears late what its followers have long since, and is lost before it answers."""
    lost = draw.random.choice(("kill", "pause"))
    slow_ms = draw.unit_ms * draw.random.uniform(0.3, 2.0)
    return [
        replace(_slow(draw, node, lag_ms), for_ms=round(slow_ms + out_ms, 1)),
        do(lost, node, round(slow_ms, 1), for_ms=draw.span(0.5, 3.0, out_ms)),
    ]


def _unheard(draw: Draw, out_ms: float) -> list[Step]:
    """A leader does not hear that its follower was let into the ISR (KIP-497), and both are lost.

    First the leader, when its follower has stopped: so that one is elected which lacks the newest
    records.
    """
    unit_ms, random = draw.unit_ms, draw.random
    moved = Condition(at="@B", event="replica-isr")
    again = replace(moved, at="@C")
    stops_ms, dies_ms = draw.span(0.0, 0.1), round(out_ms * random.uniform(0.2, 0.8), 1)
    return [
        cast(unit_ms, A="leader", B="follower", C="follower"),
        do("pause", "@C"),
        do("partition", until=moved, within_ms=2 * out_ms, shape="links", links="@A>@B"),
        heal("pause", "@C"),
        do("pause", "@C", stops_ms, until=again, within_ms=out_ms + unit_ms),
        do("kill", "@B", dies_ms, for_ms=draw.span(1.0, 3.0, out_ms)),
        heal("pause", "@C"),
        heal("partition"),
    ]


def ends_process(strand: Strand) -> bool:
    """Whether a fault of a strand ends a process, in order or not."""
    return any(step.kind in DEPOSING and step.kind not in _LIVES_ON for step in strand.steps)


_LIVES_ON: Final = ("pause", "partition", "resign", "voters")
"""Faults that depose a leader and end no process."""


def _tear(draw: Draw, plan: Plan) -> Strand:
    """A node dies, and the end of its longest log of a partition is torn, or a bit is flipped."""
    at_ms = plan.duration_ms * draw.random.uniform(0.3, 0.8)
    is_flip = _own(plan, "flip").random() < _FLIP_SHARE
    kind = "bit-flip" if is_flip else "truncate-file"
    return strand(at_ms, do(kind, draw.node(), for_ms=draw.span(0.5, 2.0), file="partition"))


def _index_flips(
    draw: Draw, plan: Plan, settings: Mapping[str, int], partitions: tuple[int, int]
) -> Iterator[Strand]:
    """Draw strands that damage an index, which is read when the node leads again."""
    at_ms = plan.duration_ms * draw.random.uniform(0.4, 0.7)  # the logs have grown by then
    while at_ms < plan.duration_ms - draw.unit_ms:
        number = draw.random.randrange(plan.nodes)
        down_ms = draw.span(0.2, 1.0)
        back_ms = down_ms + settings["broker.session.timeout.ms"]
        flip = do("bit-flip", f"node:n{number + 1}", for_ms=down_ms, file="index")
        wait = do("wait", after_ms=round(back_ms, 1))
        yield strand(at_ms, flip, wait, *_move(draw, number, partitions))
        at_ms += back_ms + 6 * draw.unit_ms


def _directories(
    plan: Plan, settings: dict[str, int], unit_ms: float, loss_share: float
) -> Iterator[Strand]:
    """Draw whether brokers have several log directories: replicas move, and one goes for a time.

    A broker that lost one has no mark of a clean shutdown there, so its next end is unclean.
    """
    draw = stream(plan, "data-dirs", unit_ms)
    random, late = draw.random, stream(plan, "late-dirs", unit_ms)
    again = stream(plan, "moved-again", unit_ms)
    if random.random() >= _DIRECTORIES_SHARE:
        return
    settings[LOG_DIRS] = random.choice((2, 3))
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        target = random.choice(("leader", "follower", "random"))
        step = do("log-dir-move", target)
        if random.random() < loss_share:
            step = do("log-dir-loss", target, for_ms=draw.span(1.0, 6.0))
            if late.chance(_AT_START_SHARE):
                yield _lose_at_start(late, at_ms, step)
                at_ms += unit_ms * (2.0 + random.expovariate(0.3))
                continue
        elif loss_share and random.random() < _CUT_MOVE_SHARE:
            yield _cut_move(draw, plan, at_ms)
            at_ms += unit_ms * (2.0 + random.expovariate(0.3))
            continue
        is_hindered = step.kind == "log-dir-move" and again.chance(_HINDERED_SHARE)
        yield strand(at_ms, *(_hindered_move(again) if is_hindered else [step]))
        at_ms += unit_ms * (1.0 + random.expovariate(0.3))


def _hindered_move(again: Draw) -> list[Step]:
    """A replica moves whose broker's disk stalls, or which hears of no other, and goes back.

    A leader that hears of no other appends what it has to cut, also of the copy.
    """
    node, for_ms = again.node(), again.span(0.5, 3.0)
    stall = do("disk-stall", node, for_ms=for_ms)
    hindrance = stall if again.chance(0.5) else cut_off(node, for_ms=for_ms)
    moves = (do("log-dir-move", node, again.span(0.0, 0.4)) for _ in range(3))
    return [hindrance, *moves]


def _cut_move(draw: Draw, plan: Plan, at_ms: float) -> Strand:
    """A broker dies as a replica takes over in another log directory, as the controller allows."""
    node = draw.node()
    spans_ms = plan.world.latency_ms[1] + plan.world.sync_ms[1]
    allows = Condition(at=node, event="assign-replicas")
    after_ms = round(draw.random.uniform(0.0, 3.0) * spans_ms, 2)
    return strand(
        at_ms,
        do("log-dir-move", node),
        do("wait", until=allows, within_ms=2 * draw.unit_ms),
        *[do("op")] * 3,  # the log that it copies goes on
        do("kill", node, after_ms, for_ms=draw.span(0.1, 1.0)),
    )


def _lose_at_start(late: Draw, at_ms: float, loss: Step) -> Strand:
    """A log directory goes after its broker has registered, and before it has opened its logs."""
    node = late.node()
    registered = Condition(at=node, event="broker-state", where={"state": "fenced"})
    return strand(
        at_ms,
        do("kill", node, for_ms=late.span(0.1, 0.5)),
        replace(loss, targets=node, until=registered, within_ms=2 * late.unit_ms),
    )


def _patience(plan: Plan, unit_ms: float) -> dict[str, int]:
    """Draw whether leaders ask a controller again within a fault, and so ask it twice."""
    draw = stream(plan, "patience", unit_ms)
    if not draw.chance(_IMPATIENT_SHARE):
        return {}
    return {"controller.socket.timeout.ms": draw.whole_ms(0.2, 0.5, 2.0)}


_FLIP_SHARE: Final = 0.5
_IMPATIENT_SHARE: Final = 0.6
_DIRECTORIES_SHARE: Final = 0.4
_LOSS_SHARE: Final = 0.25
_CUT_MOVE_SHARE: Final = 0.4
_HINDERED_SHARE: Final = 0.5
_AT_START_SHARE: Final = 0.4

_INDEX_BYTES_MAX: Final = 1_000
"""With more bytes between two entries, the index of a short run has too few to be misled by."""


def _settings(plan: Plan, draw: Draw) -> dict[str, int]:
    random = draw.random
    return {
        REGISTRATION: 1,
        "metadata.max.retention.bytes": 100 << 20,  # what a replica owes is read from the whole log
        **session_settings(plan, draw),
        "replica.lag.time.max.ms": draw.whole_ms(0.3, 1.0, 3.0),
        "replica.fetch.wait.max.ms": draw.whole_ms(0.05, 0.2),
        "replica.fetch.backoff.ms": draw.whole_ms(0.05, 0.2),
        "replica.socket.timeout.ms": draw.whole_ms(0.5, 2.0),
        "replica.fetch.max.bytes": random.choice((1, 300, 1 << 20)),
        "log.index.interval.bytes": random.choice((100, 4096)),
    }

"""The swarm's draws of voter changes and of snapshots (see `harness.sim.swarm.draw`).

About two seeds of five have voters in the log: up to two more nodes, an early upgrade of
kraft.version, and then voters that are added, removed and wiped beside the seed's other faults. Two
in five of these begin with a single voter, as a node that was formatted standalone does (KIP-853),
and grow. Shaped strands repeat the schedules of known bugs of reconfiguration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from cluster.systems.kraft import NODE_SETTINGS
from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step
from harness.sim.swarm.brokers import GROWING
from harness.sim.swarm.steps import Draw, cast, cut_off, do, has, heal, strand, stream

VOTER_CHANGE = "voter-change"
_ONE_VOTER_SHARE = 0.4
_OWN_REMOVAL_SHARE = 0.5
_PIECES_SHARE = 0.4
_CUT_SHARE = 0.7
_SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
_IDLE_BYTES = 80
"""Of a NoOpRecord with its batch."""
_OPERATION_BYTES = 64
"""What an operation of a growing workload adds to a snapshot, at most."""


def with_voters(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's voters change, and how."""
    draw = stream(plan, "voters", unit_ms)
    random = draw.random
    if random.random() >= 0.4:
        return plan
    observers = random.choice((0, 1, 1, 2))
    draw = replace(draw, nodes=plan.nodes + observers)
    strands = list(plan.strands)
    at_ms = draw.span(0.0, 0.5)
    strands.append(strand(at_ms, do("voters", change="upgrade")))
    # The upgrade needs every voter's endpoints (UpdateRaftVoter): two fetch time-outs.
    fetch_ms = float(plan.node_settings["controller.quorum.fetch.timeout.ms"])
    at_ms += 2.5 * fetch_ms + unit_ms * random.uniform(0.5, 2.0)
    while at_ms < plan.duration_ms - 0.5 * unit_ms:
        if random.random() < 0.35:
            make = random.choice(_SHAPED)
            strands.append(strand(at_ms, *make(draw)))
            at_ms += unit_ms * 4
        else:
            strands.append(strand(at_ms, _plain(draw)))
        at_ms += unit_ms * (0.3 + random.expovariate(0.5))
    world = replace(plan.world, observers=observers)
    return replace(plan, nodes=draw.nodes, world=world, strands=tuple(strands))


def with_one_voter(plan: Plan) -> Plan:
    """Draw whether a plan whose voters change begins with one, and all other nodes observe."""
    draw = stream(plan, "one-voter", 0.0)
    if not has(plan, "voters") or not draw.chance(_ONE_VOTER_SHARE):
        return plan
    return replace(plan, world=replace(plan.world, observers=plan.nodes - 1))


def with_own_removals(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether leaders remove themselves while half of the voters are away.

    The others are a majority with the leader, and none without it: nothing may be committed, and
    the leader must resign for want of a quorum (KAFKA-16530, KAFKA-16531).
    """
    draw = stream(plan, "own-removal", unit_ms)
    voters = plan.nodes - plan.world.observers
    if not has(plan, "voters") or voters < 3 or not draw.chance(_OWN_REMOVAL_SHARE):
        return plan
    away = [f"F{number}" for number in range(voters // 2)]
    strands = list(plan.strands)
    at_ms = unit_ms * draw.random.uniform(4.0, 8.0)
    while at_ms < plan.duration_ms - 3 * unit_ms:
        span_ms = draw.span(2.0, 4.0)
        steps = (
            cast(unit_ms, A="leader", **dict.fromkeys(away, "follower")),
            cut_off(",".join(f"@{name}" for name in away), for_ms=span_ms),
            do("voters", "@A", change="remove"),
            *(do("op", "@A", round(0.1 * unit_ms, 1)) for _ in range(2)),
            do("voters", "@A", 2 * span_ms, change="add"),
        )
        strands.append(strand(at_ms, *steps))
        at_ms += span_ms + unit_ms * draw.random.uniform(6.0, 12.0)
    return replace(plan, strands=tuple(strands))


def with_snapshots(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether nodes snapshot and clean their logs often, and faults that force snapshots."""
    draw = stream(plan, "snapshots", unit_ms)
    random = draw.random
    if random.random() >= 0.4:
        return plan
    settings = {
        **plan.node_settings,
        _SNAPSHOT_BYTES: random.choice((200, 1_000, 5_000)),
        "metadata.log.segment.bytes": random.choice((1024, 1024, 4096)),
        "metadata.max.retention.bytes": random.choice((0, 2_000, 100 << 20)),
        # A snapshot must not be cleaned before a follower can have loaded all its pieces.
        "kraftprobe.log.clean.interval.ms": round(unit_ms * random.choice((2.0, 4.0, 10.0))),
        "controller.quorum.fetch.snapshot.max.bytes": random.choice((3_000, 20_000, 1 << 20)),
    }
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(1.0, 4.0)
    while at_ms < plan.duration_ms:
        word = random.choice(("leader", "follower", "random", "all"))
        steps = [do("snapshot", word)]
        if random.random() < 0.4:
            keep = draw.keep("any", "nothing")
            moment = Condition(at="@S", event=random.choice(("snapshot", "flush", "hw")))
            down_ms = draw.span(0.05, 1.0)
            steps = [
                do("cast", names={"S": word if word != "all" else "random"}),
                do("snapshot", "@S"),
                do("kill", "@S", for_ms=down_ms, until=moment, within_ms=unit_ms, **keep),
            ]
        strands.append(strand(at_ms, *steps))
        at_ms += unit_ms * (1.0 + random.expovariate(0.3))
    return replace(plan, node_settings=settings, strands=tuple(strands))


def with_cut_changes(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether nodes that are cut off with a change of voters snapshot and clean their logs.

    A log may then begin at the very change that is truncated when they hear of the others again.
    """
    draw = stream(plan, "cut-changes", unit_ms)
    is_cut = [any(map(_waits_for_change, each.steps)) for each in plan.strands]
    if not _snapshots_often(plan) or not any(is_cut) or not draw.chance(_CUT_SHARE):
        return plan

    def cut(step: Step) -> tuple[Step, ...]:
        if not _waits_for_change(step):
            return () if step.kind == "kill" else (step,)
        return replace(step, for_ms=draw.span(2.0, 5.0)), do("snapshot", step.targets)

    strands = [
        replace(each, steps=tuple(made for step in each.steps for made in cut(step)))
        if cuts
        else each
        for each, cuts in zip(plan.strands, is_cut, strict=True)
    ]
    settings = {
        **plan.node_settings,
        "metadata.max.retention.bytes": 0,
        "kraftprobe.log.clean.interval.ms": round(2 * unit_ms),
    }
    return replace(plan, node_settings=settings, strands=tuple(strands))


def _waits_for_change(step: Step) -> bool:
    return step.kind == "partition" and step.until is not None and step.until.event == VOTER_CHANGE


def _snapshots_often(plan: Plan) -> bool:
    return bool(plan.node_settings[_SNAPSHOT_BYTES] < NODE_SETTINGS[_SNAPSHOT_BYTES])


def with_pieces(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's snapshots go in many small pieces, which faults delay and lose.

    A newer snapshot may overtake a download, and another leader may have none of its id. Once all
    is quiet, no more of them may come than one node can load: else it never has one.
    """
    draw = stream(plan, "pieces", unit_ms)
    random = draw.random
    if not _snapshots_often(plan) or random.random() >= _PIECES_SHARE:
        return plan
    piece_bytes = max(random.choice((300, 500)), _least_piece(plan))
    settings = {
        **plan.node_settings,
        "controller.quorum.fetch.snapshot.max.bytes": piece_bytes,
        "kraftprobe.log.clean.interval.ms": round(10 * unit_ms),
    }
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        kind = random.choice(("FetchSnapshotRequest", "FetchSnapshotResponse"))
        held_ms, then = draw.span(0.2, 2.0), random.choice(("deliver", "drop"))
        hold = do("hold", for_ms=held_ms, types=kind, then=then)
        snapshot = do("snapshot", "leader", round(unit_ms * random.random(), 1))
        strands.append(strand(at_ms, hold, snapshot))
        at_ms += unit_ms * (2.0 + random.expovariate(0.2))
    return replace(plan, node_settings=settings, strands=tuple(strands))


def _least_piece(plan: Plan) -> int:
    """Bytes of a piece with which a snapshot is loaded before idle records make the next one."""
    idle_ms = plan.node_settings["metadata.max.idle.interval.ms"]
    if plan.workload not in GROWING or not idle_ms:
        return 0
    quiet_ms: float = plan.node_settings[_SNAPSHOT_BYTES] / _IDLE_BYTES * idle_ms
    grown = plan.rate_per_s * plan.duration_s * _OPERATION_BYTES
    return ceil(grown * 2 * plan.world.latency_ms[1] / quiet_ms)


_WORDS = ("leader", "follower", "follower", "random", "random")


def _plain(draw: Draw) -> Step:
    """Draw a single change of voters."""
    kind = draw.random.choice(("add", "add", "remove", "remove", "wipe", "resign"))
    word = draw.random.choice((*_WORDS, f"node:n{draw.nodes}"))
    if kind == "resign":
        return do("resign", "leader")
    if kind == "wipe":
        back_ms = round(draw.unit_ms * draw.random.choice((0.02, 0.3, 1.0)), 1)
        repair_ms = round(draw.unit_ms * draw.random.choice((0.5, 3.0, 8.0)), 1)
        return do("disk-wipe", word, for_ms=repair_ms, back_ms=back_ms)
    return do("voters", word, change=kind)


def _half(draw: Draw) -> list[Step]:
    """A voter is changed, and cut off together with the leader when the change is appended."""
    appended = Condition(at="@A", event=VOTER_CHANGE)
    steps = [
        cast(draw.unit_ms, D=f"node:n{draw.nodes}", A="leader"),
        do("voters", "@D", change=draw.random.choice(("add", "add", "remove"))),
        cut_off("@A,@D", until=appended, within_ms=2 * draw.unit_ms, for_ms=draw.span(0.5, 3.0)),
    ]
    if draw.chance(0.5):
        after_ms, for_ms = draw.span(0.1, 1.0), draw.span(0.5, 2.0)
        steps.append(do("kill", "@A", after_ms, for_ms=for_ms, **draw.keep("any", "nothing")))
    return steps


def _ongaro(draw: Draw) -> list[Step]:
    """A change that only its leader has, then another by the next leader (Ongaro's bug of 2015)."""
    begun = Condition(at="all", event="epoch-start", epoch="later")
    names = {"B": "leader", "D": "follower"}
    return [
        cast(draw.unit_ms, E=f"node:n{draw.nodes}", A="leader"),
        cut_off("@A,@E", for_ms=draw.span(1.5, 4.0)),
        do("voters", "@E", change="add"),
        do("cast", until=begun, within_ms=3 * draw.unit_ms, names=names),
        do("voters", "@A", change="remove"),
        do("partition", for_ms=draw.span(0.5, 2), shape="links", links="@B-@D"),
    ]


def _wipe(draw: Draw) -> list[Step]:
    """A record is on two voters only; one of them is wiped, and the other goes down."""
    unit_ms, wait_ms = draw.unit_ms, draw.span(0.3, 1.0)
    back_ms = round(0.02 * unit_ms, 1)
    asked_ms = round(0.1 * unit_ms, 1)  # the leader is asked whether B can be replaced
    return [
        cast(unit_ms, A="leader", B="follower", C="follower"),
        cut_off("@C"),
        do("disk-wipe", "@B", wait_ms, for_ms=round(5 * unit_ms, 1), back_ms=back_ms),
        do("kill", "@A", asked_ms, for_ms=draw.span(2.0, 4.0), keep="nothing"),
        heal("partition", "@C"),
    ]


_SHAPED: tuple[Callable[[Draw], list[Step]], ...] = (_half, _ongaro, _wipe)

"""The swarm's draws of voter changes and of snapshots (see `harness.sim.swarm.draw`).

All use streams of their own, so that the other draws of a seed do not depend on them. About two
seeds of five have voters in the log: up to two more nodes, an early upgrade of kraft.version, and
then voters that are added, removed and wiped beside the seed's other faults. Two in five of these
begin with a single voter, as a node that was formatted standalone does (KIP-853), and grow.
Shaped strands repeat the schedules of known bugs of reconfiguration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from random import Random

from cluster.systems.kraft import NODE_SETTINGS
from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.brokers import GROWING
from harness.sim.swarm.fragments import kill_parameters

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
    random = Random(f"swarm/{plan.seed}/voters")
    if random.random() >= 0.4:
        return plan
    observers = random.choice((0, 1, 1, 2))
    nodes = plan.nodes + observers
    strands = list(plan.strands)
    at_ms = round(unit_ms * random.uniform(0.0, 0.5), 1)
    strands.append(Strand(at_ms, (Step("voters", options={"change": "upgrade"}),)))
    # The upgrade needs every voter's endpoints (UpdateRaftVoter): two fetch time-outs.
    fetch_ms = float(plan.node_settings["controller.quorum.fetch.timeout.ms"])
    at_ms += 2.5 * fetch_ms + unit_ms * random.uniform(0.5, 2.0)
    while at_ms < plan.duration_ms - 0.5 * unit_ms:
        if random.random() < 0.35:
            make = random.choice(_SHAPED)
            strands.append(Strand(round(at_ms, 1), tuple(make(random, unit_ms, nodes))))
            at_ms += unit_ms * 4
        else:
            strands.append(Strand(round(at_ms, 1), (_plain(random, unit_ms, nodes),)))
        at_ms += unit_ms * (0.3 + random.expovariate(0.5))
    return replace(
        plan, nodes=nodes, world=replace(plan.world, observers=observers), strands=tuple(strands)
    )


def with_one_voter(plan: Plan) -> Plan:
    """Draw whether a plan whose voters change begins with one, and all other nodes observe."""
    random = Random(f"swarm/{plan.seed}/one-voter")
    if not _changes_voters(plan) or random.random() >= _ONE_VOTER_SHARE:
        return plan
    return replace(plan, world=replace(plan.world, observers=plan.nodes - 1))


def with_own_removals(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether leaders remove themselves while half of the voters are away.

    The others are a majority with the leader, and none without it: nothing may be committed, and
    the leader must resign for want of a quorum (KAFKA-16530, KAFKA-16531).
    """
    random = Random(f"swarm/{plan.seed}/own-removal")
    voters = plan.nodes - plan.world.observers
    if not _changes_voters(plan) or voters < 3 or random.random() >= _OWN_REMOVAL_SHARE:
        return plan
    away = [f"F{number}" for number in range(voters // 2)]
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(4.0, 8.0)
    while at_ms < plan.duration_ms - 3 * unit_ms:
        span_ms = round(unit_ms * random.uniform(2.0, 4.0), 1)
        cut = Step(
            "partition",
            targets=",".join(f"@{name}" for name in away),
            for_ms=span_ms,
            options={"shape": "isolate"},
        )
        steps = (
            cast(unit_ms, A="leader", **dict.fromkeys(away, "follower")),
            cut,
            Step("voters", targets="@A", options={"change": "remove"}),
            *(Step("op", targets="@A", after_ms=round(0.1 * unit_ms, 1)) for _ in range(2)),
            Step("voters", targets="@A", after_ms=2 * span_ms, options={"change": "add"}),
        )
        strands.append(Strand(round(at_ms, 1), steps))
        at_ms += span_ms + unit_ms * random.uniform(6.0, 12.0)
    return replace(plan, strands=tuple(strands))


def _changes_voters(plan: Plan) -> bool:
    return any(step.kind == "voters" for strand in plan.strands for step in strand.steps)


def with_snapshots(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether nodes snapshot and clean their logs often, and faults that force snapshots."""
    random = Random(f"swarm/{plan.seed}/snapshots")
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
        steps = [Step("snapshot", targets=word)]
        if random.random() < 0.4:
            steps = [Step("cast", options={"names": {"S": word if word != "all" else "random"}})]
            steps.append(Step("snapshot", targets="@S"))
            keep = random.choice(("any", "nothing"))
            moment = Condition(at="@S", event=random.choice(("snapshot", "flush", "hw")))
            down_ms = round(unit_ms * random.uniform(0.05, 1.0), 1)
            steps.append(
                Step(
                    "kill",
                    targets="@S",
                    for_ms=down_ms,
                    until=moment,
                    within_ms=unit_ms,
                    options=kill_parameters(keep),
                )
            )
        strands.append(Strand(round(at_ms, 1), tuple(steps)))
        at_ms += unit_ms * (1.0 + random.expovariate(0.3))
    return replace(plan, node_settings=settings, strands=tuple(strands))


def with_cut_changes(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether nodes that are cut off with a change of voters snapshot and clean their logs.

    A log may then begin at the very change that is truncated when they hear of the others again.
    """
    random = Random(f"swarm/{plan.seed}/cut-changes")
    is_cut = [any(map(_waits_for_change, strand.steps)) for strand in plan.strands]
    if not _snapshots_often(plan) or not any(is_cut) or random.random() >= _CUT_SHARE:
        return plan

    def cut(step: Step) -> tuple[Step, ...]:
        if not _waits_for_change(step):
            return () if step.kind == "kill" else (step,)
        longer = replace(step, for_ms=round(unit_ms * random.uniform(2.0, 5.0), 1))
        return longer, Step("snapshot", targets=step.targets)

    strands = [
        replace(strand, steps=tuple(made for step in strand.steps for made in cut(step)))
        if cuts
        else strand
        for strand, cuts in zip(plan.strands, is_cut, strict=True)
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
    random = Random(f"swarm/{plan.seed}/pieces")
    if not _snapshots_often(plan) or random.random() >= _PIECES_SHARE:
        return plan
    settings = {
        **plan.node_settings,
        "controller.quorum.fetch.snapshot.max.bytes": max(
            random.choice((300, 500)), _least_piece(plan)
        ),
        "kraftprobe.log.clean.interval.ms": round(10 * unit_ms),
    }
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        kind = random.choice(("FetchSnapshotRequest", "FetchSnapshotResponse"))
        steps = (
            Step(
                "hold",
                for_ms=round(unit_ms * random.uniform(0.2, 2.0), 1),
                options={"types": kind, "then": random.choice(("deliver", "drop"))},
            ),
            Step("snapshot", targets="leader", after_ms=round(unit_ms * random.random(), 1)),
        )
        strands.append(Strand(round(at_ms, 1), steps))
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


def _plain(random: Random, unit_ms: float, nodes: int) -> Step:
    """Draw a single change of voters."""
    kind = random.choice(("add", "add", "remove", "remove", "wipe", "resign"))
    word = random.choice((*_WORDS, f"node:n{nodes}"))
    if kind == "resign":
        return Step("resign", targets="leader")
    if kind == "wipe":
        back_ms = round(unit_ms * random.choice((0.02, 0.3, 1.0)), 1)
        repair_ms = round(unit_ms * random.choice((0.5, 3.0, 8.0)), 1)
        return Step("disk-wipe", targets=word, for_ms=repair_ms, options={"back_ms": back_ms})
    return Step("voters", targets=word, options={"change": kind})


def cast(unit_ms: float, **names: str) -> Step:
    """Name nodes once there is a leader."""
    until = Condition(established=True)
    return Step("cast", until=until, within_ms=4 * unit_ms, options={"names": names})


def _half(random: Random, unit_ms: float, nodes: int) -> list[Step]:
    """A voter is changed, and cut off together with the leader when the change is appended."""
    steps = [
        cast(unit_ms, D=f"node:n{nodes}", A="leader"),
        Step("voters", targets="@D", options={"change": random.choice(("add", "add", "remove"))}),
        Step(
            "partition",
            targets="@A,@D",
            until=Condition(at="@A", event=VOTER_CHANGE),
            within_ms=2 * unit_ms,
            for_ms=round(unit_ms * random.uniform(0.5, 3.0), 1),
            options={"shape": "isolate"},
        ),
    ]
    if random.random() < 0.5:
        steps.append(
            Step(
                "kill",
                targets="@A",
                after_ms=round(unit_ms * random.uniform(0.1, 1.0), 1),
                for_ms=round(unit_ms * random.uniform(0.5, 2.0), 1),
                options=kill_parameters(random.choice(("any", "nothing"))),
            )
        )
    return steps


def _ongaro(random: Random, unit_ms: float, nodes: int) -> list[Step]:
    """A change that only its leader has, then another by the next leader (Ongaro's bug of 2015)."""
    return [
        cast(unit_ms, E=f"node:n{nodes}", A="leader"),
        Step(
            "partition",
            targets="@A,@E",
            for_ms=round(unit_ms * random.uniform(1.5, 4.0), 1),
            options={"shape": "isolate"},
        ),
        Step("voters", targets="@E", options={"change": "add"}),
        Step(
            "cast",
            until=Condition(at="all", event="epoch-start", epoch="later"),
            within_ms=3 * unit_ms,
            options={"names": {"B": "leader", "D": "follower"}},
        ),
        Step("voters", targets="@A", options={"change": "remove"}),
        Step(
            "partition",
            for_ms=round(unit_ms * random.uniform(0.5, 2), 1),
            options={"shape": "links", "links": "@B-@D"},
        ),
    ]


def _wipe(random: Random, unit_ms: float, nodes: int) -> list[Step]:
    """A record is on two voters only; one of them is wiped, and the other goes down."""
    del nodes
    span = round(unit_ms * random.uniform(0.3, 1.0), 1)
    return [
        cast(unit_ms, A="leader", B="follower", C="follower"),
        Step("partition", targets="@C", options={"shape": "isolate"}),
        Step(
            "disk-wipe",
            targets="@B",
            after_ms=span,
            for_ms=round(5 * unit_ms, 1),
            options={"back_ms": round(0.02 * unit_ms, 1)},
        ),
        Step(
            "kill",
            targets="@A",
            after_ms=round(0.1 * unit_ms, 1),  # the leader is asked whether B can be replaced
            for_ms=round(unit_ms * random.uniform(2.0, 4.0), 1),
            options={"keep": "nothing"},
        ),
        Step("heal", targets="@C", options={"fault": "partition"}),
    ]


_SHAPED: tuple[Callable[[Random, float, int], list[Step]], ...] = (_half, _ongaro, _wipe)

"""The swarm's draws for Kafka's raft module (see `harness.sim.swarm.draw`).

They turn a plan of this repository's node into one of Kafka's: its settings, without the faults
that it cannot be put under.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from cluster.systems import kafka_raft
from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.steps import ESTABLISHED, Draw, cast, cut_off, do, has, strand, stream
from harness.sim.swarm.voters import VOTER_CHANGE

_OWN_SHARE: Final = 0.3
"""Share of seeds with the settings that Kafka has by itself."""
_DYNAMIC_SHARE: Final = 0.5
"""Share of seeds whose voters are in the log, beside those in which they change."""


_LOST_SHARE: Final = 0.25
"""Share of seeds with voters in the log that end with the loss of a leader, for good."""
_RIVALS_SHARE: Final = 0.5
_CALM_UNITS: Final = 10.0
"""After the other strands, before that: none of them may act any more."""
_ELECTION_UNITS: Final = 40.0
"""Two units are more than an election timeout, of which some twenty may then be lost to rivals."""


def settings_of(seed: int) -> Mapping[str, int]:
    """Draw the time-outs of a seed.

    Without new records a leader keeps a Fetch for 500 ms (`KafkaRaftClient.MAX_FETCH_WAIT_MS`), so
    that voters with shorter time-outs for Fetch and requests lose every leader.
    """
    random = Random(f"swarm/{seed}/kafka-settings")
    if random.random() < _OWN_SHARE:
        return kafka_raft.SETTINGS
    election_ms = random.choice((100, 300, 1000))
    return {
        "controller.quorum.election.timeout.ms": election_ms,
        "controller.quorum.election.backoff.max.ms": round(election_ms * random.choice((0.5, 1))),
        "controller.quorum.fetch.timeout.ms": random.choice((700, 1000, 2000)),
        "controller.quorum.append.linger.ms": random.choice((0, 0, 5, 25)),
        kafka_raft.REQUEST_TIMEOUT: random.choice((700, 1000, 2000)),
        "controller.quorum.retry.backoff.ms": random.choice((2, 5, 20)),
    }


def of_kafka(plan: Plan, options: Mapping[str, str], unit_ms: float) -> Plan:
    """Make a drawn plan one of Kafka's raft module, of the release in `options`."""
    draw = stream(plan, "kafka", unit_ms)
    plan = _with_lost_leader(_with_rival_changes(plan, unit_ms), draw)
    drawn: dict[str, Any] = {
        key: plan.node_settings[key]
        for key, default in kafka_raft.SETTINGS.items()
        if plan.node_settings[key] != default
    } | _log_settings(plan)
    plan = replace(plan, strands=tuple(map(_adapt, filter(_fits, plan.strands))))
    quorum = kafka_raft.STATIC
    if has(plan, "voters") or draw.chance(_DYNAMIC_SHARE):
        quorum = kafka_raft.DYNAMIC
    return replace(
        plan,
        system=kafka_raft.NAME,
        system_options={kafka_raft.QUORUM: quorum, **_mix(plan, options)},
        node_settings=drawn,
        # TCP repeats nothing, and Kafka relies on that.
        world=replace(plan.world, duplication=0.0),
    )


def _log_settings(plan: Plan) -> dict[str, int]:
    """Draw what is kept beside snapshots, and in which pieces they are sent, where there are many.

    Not how long segments are: Kafka appends what one Fetch brought, up to 8 MB, to one segment, and
    takes no shorter ones for that reason.
    """
    if not has(plan, "snapshot"):
        return {}
    random = Random(f"swarm/{plan.seed}/kafka-log")
    return {
        "metadata.max.retention.bytes": random.choice((0, 0, 2_000, 100 << 20)),
        "controller.quorum.fetch.snapshot.max.bytes": random.choice((100, 400, 1 << 20)),
    }


def _with_lost_leader(plan: Plan, draw: Draw) -> Plan:
    """Draw whether all is healed in the end and a leader then dies for good, amid a change.

    Only a strand that must be over by then stays, and none that changes voters: three voters of
    four, or two of three, are left, and they must elect a leader.
    """
    unit_ms, random = draw.unit_ms, draw.random
    observers = plan.world.observers
    if not observers or plan.nodes - observers < 3 or random.random() >= _LOST_SHARE:
        return plan
    at_ms = round(plan.duration_ms + _CALM_UNITS * unit_ms, 1)
    kept = tuple(
        each
        for each in plan.strands
        if _end_ms(each) < at_ms and all(step.kind != "voters" for step in each.steps)
    )
    within_ms = round(_ELECTION_UNITS * unit_ms, 1)
    moment = random.choice((None, Condition(at="@B", event=random.choice(("voters", "append")))))
    kill_ms = round(unit_ms * random.choice((0.0, 0.1)) * random.random(), 1)
    steps = (
        do("heal"),
        do(
            "cast",
            after_ms=round(2 * unit_ms, 1),
            until=ESTABLISHED,
            within_ms=within_ms,
            strict=True,
            names={"A": "leader", "B": "follower"},
        ),
        do("voters", f"node:n{plan.nodes}", change="add"),
        do("kill", "@A", kill_ms, until=moment, within_ms=round(2 * unit_ms, 1)),
        do(
            "expect",
            within_ms=within_ms,
            that={"established": True, "epoch": "later"},
            property="liveness",
        ),
    )
    end_ms = at_ms + 2.2 * within_ms
    return replace(plan, duration_s=end_ms / 1000.0, strands=(*kept, Strand(at_ms, steps)))


def _with_rival_changes(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether two changes of voters are asked for at once, or one of a leader that is new.

    The leader must refuse: a change that another one, or its own epoch's start, is not committed
    before may be one of two by majorities that do not meet (Ongaro 2015).
    """
    draw = stream(plan, "rival-changes", unit_ms)
    random = draw.random
    if not has(plan, "voters") or random.random() >= _RIVALS_SHARE:
        return plan
    voters = plan.nodes - plan.world.observers
    away = [f"F{number}" for number in range(voters - voters // 2)]
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(2.0, 5.0)
    while at_ms < plan.duration_ms - unit_ms:
        for_ms, until = draw.span(0.5, 1.5), ESTABLISHED
        first = do("voters", f"node:n{plan.nodes}", change=random.choice(("add", "remove")))
        begins = (
            cast(unit_ms, A="leader", **dict.fromkeys(away, "follower")),
            cut_off(",".join(f"@{name}" for name in away), for_ms=for_ms),
        )
        if random.random() < 0.5:
            until = Condition(event="epoch-start")
            ended = do("kill", "leader", for_ms=for_ms)
            begins = (ended, cut_off("leader", for_ms=for_ms, until=until))
        second = do("voters", "follower", change="remove")
        later = (replace(step, until=until, within_ms=4 * unit_ms) for step in (first, second))
        strands += [strand(at_ms, *begins), *(strand(at_ms, step) for step in later)]
        at_ms += unit_ms * (4.0 + random.expovariate(0.3))
    return replace(plan, strands=tuple(strands))


def _end_ms(strand: Strand) -> float:
    """When a strand and its faults are over at the latest."""
    waits_ms = sum(step.after_ms + (step.within_ms if step.until else 0) for step in strand.steps)
    return strand.at_ms + waits_ms + max(step.for_ms or 0.0 for step in strand.steps)


def _mix(plan: Plan, options: Mapping[str, str]) -> Mapping[str, str]:
    """Draw which node has which of several releases, each of them as often as can be."""
    runs = options.get(kafka_raft.VERSION, "").split(",")
    if len(runs) == 1:
        return options
    drawn = [runs[number % len(runs)] for number in range(plan.nodes)]
    Random(f"swarm/{plan.seed}/releases").shuffle(drawn)
    return {**options, kafka_raft.VERSION: ",".join(drawn)}


def _adapt(strand: Strand) -> Strand:
    """Wait for what Kafka's nodes trace of a change of voters: that it is in the log."""

    def adapt(step: Step) -> Step:
        if step.until is None or step.until.event != VOTER_CHANGE:
            return step
        return replace(step, until=replace(step.until, event="voters"))

    return replace(strand, steps=tuple(map(adapt, strand.steps)))


def _fits(strand: Strand) -> bool:
    return all(
        step.kind in kafka_raft.FAULTS or not is_fault(step.kind) or step.kind == "one-way"
        for step in strand.steps
    )

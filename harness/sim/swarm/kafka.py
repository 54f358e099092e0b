"""The swarm's draws for Kafka's raft module (see `harness.sim.swarm.draw`).

They turn a plan of this repository's node into one of Kafka's: its settings, without the faults
that it cannot be put under. Like the other draws of their own they use a stream of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from cluster.systems import kafka_raft
from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.strands import Step, Strand

_OWN_SHARE: Final = 0.3
"""Share of seeds with the settings that Kafka has by itself."""
_DYNAMIC_SHARE: Final = 0.5
"""Share of seeds whose voters are in the log, beside those in which they change."""


def of_kafka(plan: Plan, options: Mapping[str, str]) -> Plan:
    """Make a drawn plan one of Kafka's raft module, of the release in `options`."""
    random = Random(f"swarm/{plan.seed}/kafka")
    strands = tuple(_adapt(strand) for strand in plan.strands if _fits(strand))
    changes = any(step.kind == "voters" for strand in strands for step in strand.steps)
    drawn: dict[str, Any] = {
        key: plan.node_settings[key] for key in kafka_raft.SETTINGS if key in plan.node_settings
    }
    if random.random() < _OWN_SHARE:
        drawn = {}
    quorum = kafka_raft.STATIC
    if changes or random.random() < _DYNAMIC_SHARE:
        quorum = kafka_raft.DYNAMIC
    return replace(
        plan,
        system=kafka_raft.NAME,
        system_options={kafka_raft.QUORUM: quorum, **_mix(plan, options)},
        node_settings=drawn,
        # TCP repeats nothing, and Kafka relies on that.
        world=replace(plan.world, duplication=0.0),
        strands=strands,
    )


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
    return replace(strand, steps=tuple(_adapt_step(step) for step in strand.steps))


def _adapt_step(step: Step) -> Step:
    until = step.until
    if until is None or until.event != "voter-change":
        return step
    return replace(step, until=replace(until, event="voters"))


def _fits(strand: Strand) -> bool:
    return all(
        step.kind in kafka_raft.FAULTS or not is_fault(step.kind) or step.kind == "one-way"
        for step in strand.steps
    )

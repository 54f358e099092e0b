"""What nodes of the simulated world run, by the system that a plan names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.backends.sim.world import Program, SimWorld
from cluster.systems import kafka_raft
from cluster.systems.kinds import SystemRequest


def program_of(system: str, request: SystemRequest) -> Callable[[SimWorld], Program] | None:
    """Return what makes the program of a system; None: this repository's own node."""
    if system != kafka_raft.NAME:
        return None
    options: Mapping[str, Any] = request.options
    runs = kafka_raft.runs_of(request)

    def make(world: SimWorld) -> Program:
        # No other world needs it.
        from cluster.backends.sim.kafka.program import KafkaProgram  # noqa: PLC0415

        is_dynamic = options.get(kafka_raft.QUORUM, kafka_raft.STATIC) == kafka_raft.DYNAMIC
        return KafkaProgram(world, runs, request.node_settings, is_dynamic=is_dynamic)

    return make

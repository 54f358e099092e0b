"""What a node of Kafka's raft did becomes what the invariants know of its log."""

import pytest

from cluster.backends.sim.programs import program_of
from cluster.backends.sim.world import SimWorld
from harness.plan.system_request import request_of
from tests.harness.sim.kafka_runs import plan_of
from tests.kafka_release import VERSION, raft_jars


@pytest.fixture
def process():
    raft_jars(VERSION)
    request = request_of(plan_of(VERSION, 1))
    world = SimWorld(3, 1, program=program_of("kafka-raft", request))
    process = world.program.process(world.nodes["n1"])
    process._disk_replica.open(process._jvm, process._disk)
    process._disk_replica.append((0, 3, 1, 7), process._disk)
    process._disk_replica.append((3, 9, 1, 8), process._disk)
    return process


@pytest.mark.parametrize(
    ("epoch", "left"),
    [
        (1, [(0, 3, 1, 7), (3, 9, 1, 8)]),  # its own segments were deleted
        (2, []),  # fetched: what it had behind was never committed
    ],
)
def test_a_snapshot_of_a_later_epoch_takes_the_place_of_a_longer_log(process, epoch, left):
    replica = process._disk_replica
    replica.note_snapshot(5, epoch, 0, process._disk)
    process._on_log_start(5)
    assert (replica.batches(0), replica.start_offset) == (left, 5)

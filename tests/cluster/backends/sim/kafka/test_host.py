"""What a node of Kafka's raft did becomes what the invariants know of its log."""

import pytest

from cluster.backends.sim.programs import program_of
from cluster.backends.sim.world import SimWorld
from harness.plan.system_request import request_of
from tests.harness.sim.kafka_runs import plan_of
from tests.kafka_release import VERSION, raft_jars


@pytest.fixture
def world():
    raft_jars(VERSION)
    return SimWorld(3, 1, program=program_of("kafka-raft", request_of(plan_of(VERSION, 1))))


@pytest.fixture
def process(world):
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


def test_a_leader_whose_clock_is_set_back_goes_on_answering_fetches(world):
    """Kafka times them by the monotonic clock."""
    for name in world.names:
        world.start(name)

    def claims():
        return [
            name for name, node in world.nodes.items() for line in node.trace if line[2] == "claim"
        ]

    assert world.scheduler.run_until(claims, 20_000)
    world.scheduler.run_for(2_000)
    (leader,) = claims()
    world.nodes[leader].clock.step_wall(-60_000.0)
    world.scheduler.run_for(20_000)

    assert claims() == [leader]

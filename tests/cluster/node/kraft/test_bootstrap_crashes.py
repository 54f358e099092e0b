"""The restart matrix of a quorum's beginning: formatting with first voters, and their first log.

Power fails at every operation that a disk is asked for, one after the other. What is formatted then
has its voters, what is not is formatted by the next attempt; and a quorum that began is one.
"""

import random
import uuid

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.config import parse_config
from cluster.node.format import write_folder
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.kraft.quorum.quorum_state_store import write_bootstrap
from cluster.node.log.metadata.snapshot import BOOTSTRAP_ID, parse_snapshot, snapshot_name
from cluster.node.meta_properties import FILE_NAME, MetaPropertiesError, identify
from cluster.node.ports import Endpoint
from tests.cluster.node.kraft.dynamic import voter_ids
from tests.cluster.node.kraft.test_snapshots import PowerCut, agrees
from tests.cluster.node.kraft.world import DIRECTORY, World, listeners_of
from tests.cluster.node.log.log_helpers import KEEPS, crash_everywhere

CHECKPOINT = f"__cluster_metadata-0/{snapshot_name(BOOTSTRAP_ID)}"
CONFIG = parse_config(
    "process.roles=controller\nnode.id=1\ncluster.id=c\nlisteners=CONTROLLER://h:1\n"
    "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=h:1\n"
    "metadata.log.dir=/nowhere\n",
    "test",
)
OWN = uuid.UUID(int=2_001)


def voter_set(*keys):
    return VoterSet(
        Voter(key, Endpoint(key.id, "n", 9000 + key.id), listeners=listeners_of(key.id))
        for key in keys
    )


VOTERS = voter_set(ReplicaKey(1, OWN), ReplicaKey(2, uuid.UUID(int=2_002)))


def format_(disk, steps, voters=VOTERS):
    done = []
    write_folder(disk, CONFIG, OWN, voters, 7, done.append)
    steps.run()
    return done


def version_and_voters(disk):
    version, voters = parse_snapshot("x", BOOTSTRAP_ID, disk.read(CHECKPOINT)).control
    return version.kraft_version, VoterSet.from_record(voters, "CONTROLLER").ids


@KEEPS
def test_a_folder_that_is_formatted_has_its_first_voters_whenever_the_power_fails(keep):
    unformatted = formatted = 0

    def attempt(operation, stop_on):
        nonlocal unformatted, formatted
        steps = Scheduler()
        disk = MemoryDisk(steps.call_later)
        stop_on(disk)
        done = format_(disk, steps)
        disk.on_operation = None
        disk.power_on()
        assert not done or disk.exists(FILE_NAME), f"operation {operation}: answered too early"
        if disk.exists(FILE_NAME):
            formatted += 1
        else:
            unformatted += 1
            assert format_(disk, steps) == [OWN], f"operation {operation}: not formatted anew"
        assert version_and_voters(disk) == (1, (1, 2)), f"operation {operation}"
        found = []
        identify({"": disk}, "c", 1, random.Random(9), found.append)
        assert found == [{"": OWN}]

    assert crash_everywhere(keep, attempt) > 8
    assert unformatted > 4
    assert formatted > 0


@pytest.mark.parametrize("voters", [None, VOTERS])
def test_a_folder_with_anything_else_in_it_is_not_formatted(voters):
    steps = Scheduler()
    disk = MemoryDisk(steps.call_later)
    disk.make_directory("__cluster_metadata-0")
    disk.write("__cluster_metadata-0/quorum-state", b"{}")
    with pytest.raises(MetaPropertiesError, match="is not empty"):
        format_(disk, steps, voters)


def test_what_an_interruption_left_is_no_observers_folder():
    """It would start as a voter although it was formatted as an observer."""
    steps = Scheduler()
    disk = MemoryDisk(steps.call_later)
    write_bootstrap(disk, "__cluster_metadata-0", VOTERS, 7, lambda error: None)
    steps.run()
    with pytest.raises(MetaPropertiesError, match="is not empty"):
        format_(disk, steps, voters=None)
    other = voter_set(ReplicaKey(1, OWN))
    assert format_(disk, steps, other) == [OWN]
    assert version_and_voters(disk) == (1, (1,))


class PowerLostError(Exception):
    """The power failed while the node started: its process is gone in the middle."""


class CutAtStart(PowerCut):
    starting = False

    def __call__(self):
        was_done = self.done
        super().__call__()
        if self.starting and self.done and not was_done:
            raise PowerLostError


def start_until_cut(node, cut):
    node.disk.on_operation, cut.starting = cut, True
    try:
        node.start()
    except PowerLostError:
        node.client = None
        node.world.network.handlers.pop(node.node_id, None)
    cut.starting = False


def begun(operation, keep, *, alone):
    """A quorum that starts from its checkpoints, with a power cut at one node's n-th operation."""
    world = World(1 if alone else 3)
    world.dynamic = True
    voters = voter_set(*(ReplicaKey(i, node.directory_id) for i, node in world.nodes.items()))
    world.voters = VoterSet(())
    for node in world.nodes.values():
        write_bootstrap(node.disk, DIRECTORY, voters, 0, lambda error: None)
    world.settle(100)
    victim = world.nodes[1]
    cut = CutAtStart(victim, operation, keep)
    start_until_cut(victim, cut)
    for node in world.nodes.values():
        if node is not victim:
            node.start()
    world.settle(10)  # until the first state is durable
    if not (cut.done or alone):
        world.stand(victim)
    return world, victim, cut


@pytest.mark.slow
@KEEPS
@pytest.mark.parametrize("alone", [True, False])
def test_power_may_fail_at_every_operation_of_a_quorums_beginning(keep, alone):
    """The victim stands first, so that it puts the voters into the log in most of the attempts."""
    operation, cut_happened, led = 0, True, 0
    while cut_happened:
        world, victim, cut = begun(operation, keep, alone=alone)
        acknowledged = []
        for number in range(3):
            if world.leader() is None:
                world.scheduler.run_until(lambda world=world: world.leader() is not None, 3_000)
            leader = world.leader()
            if leader is None or leader.state.high_watermark is None:
                world.settle(200)
                continue
            value = f"v{number}"
            offset = world.append(leader, value)
            if world.scheduler.run_until(
                lambda leader=leader, offset=offset: (
                    leader.client is not None and leader.listener.next_offset > offset
                ),
                2_000,
            ):
                acknowledged.append(value)
        cut_happened = cut.done
        led += victim.events("epoch-start") != []
        victim.disk.on_operation = None
        if cut_happened:
            victim.disk.power_on()
            victim.start()
        leader = world.elect()
        world.commit(leader, "after")
        for node in world.nodes.values():
            assert agrees(world, node, leader), f"operation {operation}"
            assert voter_ids(node) == tuple(world.nodes), f"operation {operation}"
            assert node.log.control.voters_offset >= 0, "in the log, not in the checkpoint alone"
        values = [value.decode() for _, value in leader.listener.values]
        assert [value for value in values if value in acknowledged] == acknowledged
        assert values[-1] == "after"
        operation += 1
        assert operation < 400, "it never ends"
    assert operation > 10
    assert led > 3

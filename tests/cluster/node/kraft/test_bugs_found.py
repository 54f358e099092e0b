"""Schedules that once broke the core, by docs/bugs-found.md."""

from cluster.node.kraft.quorum.states import Unattached
from tests.cluster.node.kraft.test_requests import ask, begin, vote
from tests.cluster.node.kraft.world import World


def test_a_replica_that_may_not_fetch_yet_does_not_spin():
    world = World().start()
    node = world.elect()
    node.disk.sync_ms = 300.0
    for value in ("a", "b"):  # the second waits for a flush that comes behind the next epoch's file
        world.append(node, value)
        world.settle(50)
    epoch = node.state.epoch + 1
    request = vote(epoch, 9, voter_id=-1, last_offset_epoch=0, pre_vote=True)
    node.client.handle(request, lambda _: None)
    assert world.scheduler.run_until(lambda: node.state.epoch == epoch, 2_000)
    assert isinstance(node.state, Unattached)
    assert node.log.durable_end_offset < node.log.end_offset
    for _ in range(2_000):
        world.scheduler.step()
        if node.log.durable_end_offset == node.log.end_offset:
            return
    raise AssertionError("no time passes")


def test_a_candidate_that_lost_and_followed_is_a_follower_after_its_restart():
    world = World(election_timeout_ms=300).start()
    leader = world.elect()
    node = next(n for n in world.nodes.values() if n is not leader)
    world.commit(leader, "a")
    world.network.isolate(node.node_id, world.ids)
    epoch = leader.state.epoch + 1
    # It stands in the epoch that another of the two others wins.
    ask(world, node, vote(epoch - 1, 9, voter_id=-1, last_offset_epoch=0, pre_vote=True))
    node.client._submit(node.client._core.become_prospective)
    node.client._submit(node.client._core.become_candidate)
    assert world.scheduler.run_until(lambda: node.state.name == "Candidate", 1_000)
    assert node.state.epoch == epoch
    ask(world, node, begin(epoch, leader.node_id, voter_id=-1))
    assert (node.state.name, node.state.voted_key.id) == ("Follower", node.node_id)
    node.crash("nothing")
    node.start()
    world.settle(50)
    assert (node.state.name, node.state.leader_id) == ("Follower", leader.node_id)

from cluster.node.kraft.types import LeaderAndEpoch
from tests.cluster.node.kraft.world import World


def test_three_nodes_elect_one_leader_and_commit():
    world = World().start()
    leader = world.elect()
    world.commit(leader, "a", "b")
    world.settle()
    assert len(world.leaders()) == 1
    for node in world.nodes.values():
        assert [v for _, v in node.listener.values] == [b"a", b"b"]


def test_a_single_voter_elects_itself():
    world = World(count=1).start()
    leader = world.elect()
    world.commit(leader, "x")
    assert leader.listener.leaders[-1] == LeaderAndEpoch(1, leader.state.epoch)


def test_killed_leader_is_replaced_and_nothing_committed_is_lost():
    world = World().start()
    first = world.elect()
    world.commit(first, "kept")
    first.crash()
    second = world.elect()
    assert second is not first
    world.commit(second, "more")
    first.start()
    world.settle()
    assert [v for _, v in first.listener.values] == [b"kept", b"more"]


def test_isolated_leader_resigns_and_its_tail_is_truncated():
    world = World().start()
    old = world.elect()
    world.network.isolate(old.node_id, world.ids)
    world.append(old, "lost")
    world.settle(5_000)
    assert old not in world.leaders()
    new = world.leader()
    assert new is not None
    world.commit(new, "won")
    world.network.heal()
    world.settle(5_000)
    assert [v for _, v in old.listener.values] == [b"won"]

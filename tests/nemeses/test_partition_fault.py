"""Partitions on a cluster of fake nodes: cut, measured, restored, composed."""

import pytest
from waiting import works

from cluster.backends.base import BackendError
from nemeses.drive import heal, inject
from nemeses.links.partition import DIRECTIONS, SHAPES
from nemeses.registry import FAULTS
from tests.play import play
from tests.views import bite, mend, refusal

pytestmark = pytest.mark.slow

PARTITION = FAULTS["partition"]


@pytest.mark.parametrize("option", PARTITION.options(("n1", "n2", "n3")), ids=str)
@play("with_view")
async def test_every_shape_bites_and_heals(view, *, option):
    cut = await bite(view, "partition", option)
    assert view.backend.links_cut() == set(cut.links) != set()
    assert (cut.detail["leaking"], cut.detail["broken"], cut.detail["unmeasured"]) == ([], [], [])
    await mend(view, cut)
    assert view.backend.links_cut() == frozenset()
    await mend(view, cut)  # once more: a heal is idempotent


def test_the_options_are_all_shapes_and_directions():
    options = PARTITION.options(("n1", "n2", "n3"))
    assert {option["shape"] for option in options} == set(SHAPES) - {"links"}
    assert {option.get("direction") for option in options} == {
        None, "outgoing", "incoming", *DIRECTIONS["one-way"],
    }  # fmt: skip
    few = {option["shape"] for option in PARTITION.options(("n1", "n2"))}
    assert few == set(SHAPES) - {"bridge", "majorities-ring", "links"}


@play("with_view")
async def test_shapes_around_the_leader_cut_the_leader(view):
    async def links(**parameters: str) -> set[tuple[str, str]]:
        cut = await inject(view, "partition", parameters)
        await heal(view, cut)
        return set(cut.links)

    out, into = {("n2", "n1"), ("n2", "n3")}, {("n1", "n2"), ("n3", "n2")}
    assert await links(shape="isolate", targets="leader") == out | into
    assert await links(shape="isolate", targets="leader", direction="outgoing") == out
    assert await links(shape="isolate", targets="leader", direction="incoming") == into
    one = await links(shape="one-way", direction="leader-to-follower")
    assert len(one) == 1
    assert one < out
    view.leads = None
    reason = await refusal(view, "partition", {"shape": "isolate", "targets": "leader"})
    assert reason == "no leader is known"


@play("with_view")
async def test_targets_are_isolated_together(view):
    cut = await bite(view, "partition", {"shape": "isolate", "targets": "leader,node:n1"})
    assert cut.targets == ("n2", "n1")
    assert view.backend.links_cut() == {(a, b) for a, b in CROSSING} | {(b, a) for a, b in CROSSING}
    reason = await refusal(view, "partition", {"targets": "leader,followers"})
    assert reason == "no node is left on the other side"


CROSSING = [("n1", "n3"), ("n2", "n3")]


@play("with_view")
async def test_links_are_cut_as_they_are_named(view):
    cut = await bite(view, "partition", {"shape": "links", "links": "n1>n2,n2-n3"})
    assert cut.targets == ("n1", "n2", "n3")
    assert view.backend.links_cut() == {("n1", "n2"), ("n2", "n3"), ("n3", "n2")}
    await mend(view, cut)
    assert view.backend.links_cut() == frozenset()


@play("with_view")
async def test_a_cut_that_leaks_is_not_verified(view):
    cut_links = view.backend.cut_links

    async def forget_one(links) -> None:
        await cut_links(sorted(links)[1:])

    view.backend.cut_links = forget_one
    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    assert cut.applied
    assert not cut.verified
    assert cut.detail["leaking"] == ["n1->n2"]
    assert "bytes pass n1->n2" in cut.detail["reason"]


@play("with_hosts_view")
async def test_a_cut_that_others_end_is_reported_at_its_heal(view):
    cut = await bite(view, "partition", {"shape": "isolate", "targets": "leader"})
    await view.backend.hosts["n1"].run(("nft", "flush", "ruleset"))
    healed = await mend(view, cut)
    assert healed.detail["ended_early"] == ["bytes pass n2->n1"]
    again = await bite(view, "partition", {"shape": "isolate", "targets": "leader"})
    assert "ended_early" not in (await mend(view, again)).detail


@play("with_view")
async def test_a_cut_that_cannot_be_measured_at_its_heal_is_healed(view):
    cut = await bite(view, "partition", {"shape": "isolate", "targets": "leader"})
    state = view.backend.state

    async def unreachable(node) -> None:
        view.backend.state = state
        raise BackendError(f"{node} cannot be reached")

    view.backend.state = unreachable
    await mend(view, cut)
    assert view.backend.links_cut() == frozenset()


@play("with_view")
async def test_a_restore_that_does_not_restore_is_not_verified(view):
    async def nothing(links) -> None:
        """Pretend."""

    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    restore, view.backend.restore_links = view.backend.restore_links, nothing
    with pytest.MonkeyPatch.context() as patience:
        patience.setattr("nemeses.links.partition.WORKS_TIMEOUT_S", 0.1)
        failed = await heal(view, cut)
    assert not failed.verified
    assert "n2->n1 is still cut" in failed.detail["reason"]
    assert view.active == [cut]
    view.backend.restore_links = restore
    await mend(view, cut)


@play("with_view")
async def test_partitions_overlap_and_each_heal_leaves_the_others_alone(view):
    leader = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    out = await inject(
        view, "partition", {"shape": "isolate", "targets": "leader", "direction": "outgoing"}
    )
    assert set(out.links) < set(leader.links)
    first = await mend(view, leader)
    assert first.detail["left_to_others"] == ["n2->n1", "n2->n3"]
    assert view.backend.links_cut() == set(out.links)
    await mend(view, out)
    assert view.backend.links_cut() == frozenset()


@play("with_view")
async def test_equal_partitions_are_distinguished(view):
    partitions = [
        await inject(view, "partition", {"shape": "isolate", "targets": "leader"}) for _ in range(2)
    ]
    await heal(view, partitions[0])
    assert view.backend.links_cut() == set(partitions[1].links)
    await heal(view, partitions[1])
    assert view.backend.links_cut() == frozenset()


@play("with_view")
async def test_a_partition_heals_while_a_node_is_dead(view):
    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    killed = await inject(view, "kill", {"targets": "node:n1"})
    healed = await mend(view, cut)
    assert healed.detail["unmeasured"] == ["n1->n2", "n2->n1"]
    assert view.backend.links_cut() == frozenset()
    await mend(view, killed)
    assert await works(view.backend, ("n1", "n2"))


@play("with_view")
async def test_a_cut_between_nodes_that_do_not_run_is_not_verified(view):
    await inject(view, "pause", {"targets": "leader"})
    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    assert cut.applied
    assert not cut.verified
    assert "no cut link" in cut.detail["reason"]


@play("with_view")
async def test_the_cut_holds_for_a_node_that_is_restarted_behind_it(view):
    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    await inject(view, "restart", {"targets": "leader"})
    assert (await PARTITION.verify(view, cut)).verified


@play("with_view", node_count=4)
async def test_sides_are_of_voters_and_any_node_can_be_isolated(view):
    view.controllers = ("n1", "n2", "n3")

    async def ends(**parameters: str) -> set[str]:
        cut = await inject(view, "partition", parameters)
        await heal(view, cut)
        return {end for link in cut.links for end in link}

    for shape in ("halves", "bridge", "majorities-ring"):
        assert await ends(shape=shape) <= {"n1", "n2", "n3"}
    assert await ends(shape="one-way", direction="leader-to-follower") <= {"n1", "n2", "n3"}
    assert await ends(shape="isolate", targets="leader") == {"n1", "n2", "n3", "n4"}
    assert await ends(shape="isolate", targets="node:n4") == {"n1", "n2", "n3", "n4"}
    view.controllers = ("n1", "n2")
    refused = await inject(view, "partition", {"shape": "bridge"})
    reason = "2 voters are too few for bridge"
    assert (refused.applied, refused.detail["reason"]) == (False, reason)

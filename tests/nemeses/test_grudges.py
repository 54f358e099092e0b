"""Partition shapes by their properties, for every cluster size that anybody would run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemeses.links import grudges


def named(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(1, count + 1))


def shuffled(least: int, most: int = 15) -> st.SearchStrategy[tuple[str, ...]]:
    return st.integers(least, most).flatmap(lambda count: st.permutations(named(count)).map(tuple))


def is_symmetric(cut: frozenset[tuple[str, str]]) -> bool:
    return all((b, a) in cut for a, b in cut)


def majority(nodes: tuple[str, ...]) -> int:
    return len(nodes) // 2 + 1


def seen_by(nodes: tuple[str, ...], cut: frozenset[tuple[str, str]], node: str) -> frozenset[str]:
    """The nodes that a node can exchange requests with, itself included."""
    return frozenset(n for n in nodes if (node, n) not in cut and (n, node) not in cut)


@given(shuffled(2))
def test_no_shape_cuts_a_node_from_itself_or_names_an_unknown_node(nodes):
    shapes = [
        *(grudges.isolate(nodes, nodes[:1], way) for way in ("both", "outgoing", "incoming")),
        grudges.halves(nodes),
    ]
    if len(nodes) >= 3:
        shapes += [grudges.bridge(nodes), grudges.majorities_ring(nodes)]
    for cut in shapes:
        assert cut
        assert all(a != b and a in nodes and b in nodes for a, b in cut)


@pytest.mark.parametrize("isolated", [1, 2])
@given(nodes=shuffled(3))
def test_isolated_nodes_see_each_other_and_none_of_the_rest(isolated, nodes):
    inside, outside = nodes[:isolated], nodes[isolated:]
    cut = grudges.isolate(nodes, inside)
    assert is_symmetric(cut)
    for group in (inside, outside):
        assert all(seen_by(nodes, cut, node) == set(group) for node in group)


@given(shuffled(2))
def test_halves_see_themselves_and_at_most_one_is_a_majority(nodes):
    cut = grudges.halves(nodes)
    assert is_symmetric(cut)
    middle = len(nodes) // 2
    for half in (set(nodes[:middle]), set(nodes[middle:])):
        assert all(seen_by(nodes, cut, node) == half for node in half)
    assert (len(nodes) - middle >= majority(nodes)) == (len(nodes) % 2 == 1)


@given(shuffled(3))
def test_a_bridge_has_one_node_that_sees_all_between_halves_that_do_not_see_each_other(nodes):
    cut = grudges.bridge(nodes)
    assert is_symmetric(cut)
    middle = nodes[len(nodes) // 2]
    assert seen_by(nodes, cut, middle) == set(nodes)
    left, right = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 + 1 :]
    assert abs(len(left) - len(right)) <= 1
    for half in (left, right):
        assert all(seen_by(nodes, cut, node) == {*half, middle} for node in half)


@given(shuffled(3))
def test_on_a_ring_every_node_sees_a_majority_and_no_two_see_the_same(nodes):
    cut = grudges.majorities_ring(nodes)
    assert is_symmetric(cut)
    seen = [seen_by(nodes, cut, node) for node in nodes]
    assert all(len(visible) >= majority(nodes) for visible in seen)
    assert len(set(seen)) == len(nodes)


@given(shuffled(4))
def test_on_a_ring_of_four_or_more_every_node_misses_equally_many(nodes):
    cut = grudges.majorities_ring(nodes)
    sizes = {len(seen_by(nodes, cut, node)) for node in nodes}
    assert len(sizes) == 1
    assert sizes.pop() < len(nodes)


def test_a_ring_of_five_lets_each_see_its_two_neighbours():
    nodes = named(5)
    cut = grudges.majorities_ring(nodes)
    assert seen_by(nodes, cut, "n1") == {"n5", "n1", "n2"}
    assert seen_by(nodes, cut, "n4") == {"n3", "n4", "n5"}


def test_a_ring_of_three_degenerates_to_the_bridge():
    assert grudges.majorities_ring(named(3)) == {("n1", "n3"), ("n3", "n1")}


@given(shuffled(2))
def test_outgoing_and_incoming_cut_one_direction_only(nodes):
    out = grudges.isolate(nodes, nodes[:1], "outgoing")
    into = grudges.isolate(nodes, nodes[:1], "incoming")
    assert out == {(nodes[0], other) for other in nodes[1:]}
    assert into == {(other, nodes[0]) for other in nodes[1:]}
    assert out | into == grudges.isolate(nodes, nodes[:1])

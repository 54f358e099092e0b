"""Mechanical mutants: what is changed, that it is taken back, and that ids name places."""

from collections import Counter

import pytest

from cluster.mutants import UnknownMutantError, apply_mutant, find
from cluster.mutants.mechanical import LAYERS, OPERATORS, layer_of, mark_count, sample, sites
from cluster.node.controller.configs import definitions
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.ports import Endpoint

MAJORITY = "X:kraft.quorum.control_state:VoterSet.__init__"


@pytest.mark.slow
def test_every_layer_has_places_and_each_has_its_own_id():
    places = sites()
    assert {site.layer for site in places} == set(LAYERS)
    assert len({site.id for site in places}) == len(places) > 5000
    counts = Counter(site.operator for site in places)
    assert counts.keys() == OPERATORS.keys()
    assert min(counts.values()) > 50


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_place_is_changed_while_its_mutant_is_applied(operator):
    places = [site for site in sites() if site.operator == operator]
    for site in places[:: len(places) // 3]:
        (patch,) = find(site.id).patches
        before = patch.owner.__code__
        with apply_mutant(site.id):
            assert patch.owner.__code__ is not before
            assert patch.owner.__code__.co_freevars == before.co_freevars
        assert patch.owner.__code__ is before


@pytest.mark.parametrize(("operator", "majority"), [("sum:0", 1), ("number:0", 2), ("number:1", 4)])
def test_what_runs_is_the_change_and_that_is_counted(operator, majority):
    voters = [Voter(ReplicaKey(n), Endpoint(n, "localhost", 9093)) for n in (1, 2, 3, 4, 5)]
    before = mark_count()
    assert (VoterSet(voters).majority, mark_count()) == (3, before)
    with apply_mutant(f"{MAJORITY}:{operator}"):
        assert (VoterSet(voters).majority, mark_count()) == (majority, before + 1)
    assert (VoterSet(voters).majority, mark_count()) == (3, before + 1)


def test_what_other_code_has_computed_is_forgotten():
    """Worlds of one seed ask the same of a cache, for each mutant and for the true node."""
    name = min(definitions.PER_BROKER)
    assert definitions.is_of_one_broker(name)
    with apply_mutant("X:controller.configs.definitions:is_of_one_broker:connector:0"):
        assert not definitions.is_of_one_broker(name)
    assert definitions.is_of_one_broker(name)


def test_a_sample_is_drawn_from_all_layers_by_its_seed():
    drawn = sample(4, 7)
    assert Counter(site.layer for site in drawn) == dict.fromkeys(LAYERS, 4)
    assert drawn == sample(4, 7) != sample(4, 8)
    assert len({(site.module, site.function) for site in drawn}) == len(drawn)


@pytest.mark.parametrize(
    "mutant_id",
    [
        *("X:", "X:kraft.core", f"{MAJORITY}:sum:99", f"{MAJORITY}:sum:-1", f"{MAJORITY}:magic:0"),
        *("X:kraft.nowhere:f:sum:0", "X:security.tls:f:sum:0", "X:kraft.../../os:f:sum:0"),
    ],
)
def test_no_other_id_is_a_place(mutant_id):
    with pytest.raises(UnknownMutantError, match="no place"):
        find(mutant_id)


def test_modules_of_the_node_lie_in_layers_and_others_do_not():
    assert layer_of("cluster.node.log.data.data_log") == "log"
    assert layer_of("cluster.node.runtime.clock") == layer_of("asyncio.tasks") == "other"

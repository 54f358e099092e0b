"""A real run of which something was altered is never judged PASS again."""

import pytest

from benchmarks import page
from checkers.verdict import Status
from harness.policy.document import Policy
from harness.policy.gate import gate_folder, rules_of
from tests.alterations.alterations import ALTERATIONS, CASES, RAP
from tests.alterations.gated import complaints
from tests.alterations.runs import copy_of, read_text, table, unpack


def cases():
    """Every alteration of each run that it may be done to; of one run in turn for every commit."""
    for number, alteration in enumerate(ALTERATIONS):
        for at, name in enumerate(alteration.runs):
            by_night = at != number % len(alteration.runs)
            marks = [pytest.mark.nightly] if by_night else []
            yield pytest.param(alteration, name, id=f"{alteration.name}, {name}", marks=marks)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {name: unpack(name, tmp_path_factory.mktemp("runs") / name) for name in RAP}


@pytest.mark.slow
@pytest.mark.parametrize(("alteration", "name"), list(cases()))
def test_judging_and_the_gate_give_an_altered_run_the_verdict_that_it_deserves(
    runs, tmp_path, alteration, name
):
    """Every fifteenth is judged by the gate itself as well, from a stored PASS that was forged."""
    by_gate = CASES.index((alteration, name)) % 15 == 0
    assert complaints(copy_of(runs[name], tmp_path), alteration, judged_by_gate=by_gate) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", RAP)
def test_a_run_as_it_was_passes(runs, tmp_path, name):
    results = copy_of(runs[name], tmp_path).judged()
    assert results.status is Status.PASS, read_text(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", RAP)
def test_the_gate_opens_for_a_run_as_it_was_and_judges_it_the_same(runs, name):
    for judge_again in (False, True):
        entry = gate_folder(runs[name].folder, rules_of(Policy(judge_again=judge_again)))
        assert entry.status is Status.PASS, entry.line


def test_alterations_have_names_of_their_own_and_are_many():
    assert len({alteration.name for alteration in ALTERATIONS}) == len(ALTERATIONS) >= 80
    assert all(alteration.status is not Status.PASS for alteration in ALTERATIONS)


def test_the_page_of_results_has_the_table_of_the_bench():
    assert page.section("alterations").strip() == "\n".join(table(ALTERATIONS))

"""A figure is worse beyond noise only where chance alone would hardly make it so."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.verdict import Status
from results.catalogue import comparison
from results.catalogue.comparison import compare, rank_sum_p

FEW = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def brute_force_p(xs, ys):
    """Share of all ways to choose so many of the values with as large a sum of mid-ranks."""
    values = [*xs, *ys]
    ranks = [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]
    chosen = [sum(some) for some in combinations(ranks, len(xs))]
    return sum(total >= sum(ranks[: len(xs)]) for total in chosen) / len(chosen)


@pytest.mark.slow
@given(FEW, FEW)
def test_the_probability_is_that_of_counting_every_choice(xs, ys):
    assert rank_sum_p(xs, ys) == pytest.approx(brute_force_p(xs, ys))


@pytest.mark.parametrize("shift", [0, 3, 7])
def test_many_runs_are_approximated_well(monkeypatch, shift):
    xs, ys = [7 * n % 31 + shift for n in range(25)], [11 * n % 31 for n in range(25)]
    exact = rank_sum_p(xs, ys)
    monkeypatch.setattr(comparison, "EXACT_MAX", 10)
    assert rank_sum_p(xs, ys) == pytest.approx(exact, abs=0.005)


def test_equal_figures_are_no_sign_of_anything(monkeypatch):
    assert rank_sum_p([2.0] * 4, [2.0] * 4) == 1
    monkeypatch.setattr(comparison, "EXACT_MAX", 0)
    assert rank_sum_p([2.0] * 4, [2.0] * 4) == 1


def test_the_least_probability_is_that_of_complete_separation():
    found = compare([5, 6, 7], [1, 2, 3], higher_is_worse=True)
    assert found.p == found.p_min == pytest.approx(1 / 20)
    assert found.p_min <= 0.05
    assert found.status(0.04, 0.1, higher_is_worse=True) is Status.UNKNOWN


def test_what_is_far_worse_in_all_runs_is_a_regression():
    found = compare([20, 21, 22, 23], [10, 11, 12, 13], higher_is_worse=True)
    assert found.ratio == pytest.approx(1.87, abs=0.01)
    assert found.status(0.05, 0.1, higher_is_worse=True) is Status.FAIL


def test_a_certain_shift_below_the_tolerance_is_none():
    new, old = [103, 104, 105, 106], [100, 101, 102, 102.5]
    found = compare(new, old, higher_is_worse=True)
    assert found.p == found.p_min
    assert found.status(0.05, 0.1, higher_is_worse=True) is not Status.FAIL
    assert found.status(0.05, 0.01, higher_is_worse=True) is Status.FAIL


def test_of_a_throughput_less_is_worse():
    worse = compare([50, 51, 52, 53], [100, 101, 102, 103], higher_is_worse=False)
    assert worse.status(0.05, 0.1, higher_is_worse=False) is Status.FAIL
    better = compare([100, 101, 102, 103], [50, 51, 52, 53], higher_is_worse=False)
    assert better.status(0.05, 0.1, higher_is_worse=False) is not Status.FAIL


def test_figures_of_nothing_have_a_ratio():
    assert compare([0.0], [0.0], higher_is_worse=True).ratio == 1

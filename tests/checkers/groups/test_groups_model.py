"""Histories of a model of a group are PASS, and with one fault FAIL."""

from random import Random

import pytest

from checkers import Status
from checkers.groups import check
from checkers.registry import RunInput
from tests.checkers.groups.group_model import Group

SEEDS = range(40)


def judged(model):
    result = check(RunInput([], model.run()), {})
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


@pytest.fixture(scope="module")
def right():
    """Return the models without a fault, and what is said of their histories."""
    models = [Group(Random(seed)) for seed in SEEDS]
    return [(model, check(RunInput([], model.run()), {})) for model in models]


def test_right_histories_are_never_wrong(right):
    for seed, (_, result) in zip(SEEDS, right, strict=True):
        assert result.status in (Status.PASS, Status.UNDER_EXERCISED), seed
        assert result.anomalies == (), seed


def test_the_models_histories_have_what_is_allowed(right):
    fenced = indeterminate = lower = 0
    for model, result in right:
        fenced += result.statistics["zombies_refused"] > 0
        indeterminate += result.statistics["indeterminate"] > 0
        lower += any(
            [offset for offset, _ in each] != sorted(offset for offset, _ in each)
            for each in model.acknowledged.values()
        )
    assert min(fenced, indeterminate) > len(SEEDS) / 4
    assert lower


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("lost", "lost-commit"),
        ("phantom", "lost-commit"),
        ("fenced", "fenced-commit"),
        ("two-owners", "two-owners"),
        ("generation-back", "generation-back"),
        ("skipped", "skipped"),
    ],
)
def test_a_fault_is_found(fault, expected):
    found = planted = 0
    for seed in SEEDS:
        model = Group(Random(seed), fault)
        status, kinds = judged(model)
        planted += model.planted
        found += status is Status.FAIL and expected in kinds
        assert model.planted or status is not Status.FAIL, seed
    assert planted > 5
    assert found >= 0.8 * planted

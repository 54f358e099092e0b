"""Histories of a model of Kafka are PASS, and with a fault in one transaction FAIL."""

from collections import Counter
from random import Random

import pytest

from checkers import Status
from checkers.registry import RunInput
from checkers.transactions.atomic_appends import check
from tests.checkers.transactions.moments import changed, why_impossible
from tests.checkers.transactions.partitions_model import Partitions

SEEDS = range(60)


def judged(model):
    result = check(RunInput([], model.run()), {})
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


def test_right_histories_are_never_wrong():
    for seed in SEEDS:
        status, kinds = judged(Partitions(Random(seed)))
        assert (status, kinds) in ((Status.PASS, set()), (Status.UNDER_EXERCISED, set())), seed


def test_the_models_histories_have_what_is_allowed():
    committed = fenced = 0
    for seed in SEEDS:
        model = Partitions(Random(seed))
        statistics = check(RunInput([], model.run()), {}).statistics
        committed += statistics["committed"] > 2
        fenced += statistics["fenced"] > 0
    assert committed > len(SEEDS) / 2
    assert fenced > len(SEEDS) / 4


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("torn", "torn-transaction"),
        ("lost", "lost-transaction"),
        ("aborted-read", "aborted-read"),
        ("zombie", "zombie-commit"),
        ("duplicate", "duplicate"),
        ("skipped", "skipped incompatible-order"),
        ("reordered", "incompatible-order"),
    ],
)
def test_a_fault_in_one_transaction_is_found(fault, expected):
    found = 0
    for seed in SEEDS:
        model = Partitions(Random(seed), fault)
        status, kinds = judged(model)
        if not model.planted:
            continue
        found += 1
        assert status is Status.FAIL, (seed, fault)
        assert kinds & set(expected.split()), (seed, kinds)
    assert found > 5


def test_what_no_moments_explain_and_nothing_else_is_wrong():
    found = Counter()
    for seed in range(400):
        random = Random(seed)
        operations = Partitions(random).run(random.randint(2, 4), random.randint(2, 9))
        changes = random.randint(0, 3)
        for _ in range(changes):
            operations = changed(random, operations)
        why = why_impossible(operations)
        assert changes or why is None, seed
        status = check(RunInput([], operations), {}).status
        assert (status is Status.FAIL) == (why is not None), (seed, why)
        assert status is not Status.UNKNOWN, seed
        found[why] += 1
    assert len(found) == 7

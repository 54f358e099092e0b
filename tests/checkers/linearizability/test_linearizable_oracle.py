"""Every algorithm against brute force, on thousands of small histories with indeterminate operations."""

from random import Random

import pytest

from checkers.linearizability.linearizable import judge
from checkers.verdict import Status
from porcupine_py.models import model_named
from tests.checkers.histories import FIRST_WORLDS, random_history, verify
from tests.checkers.linearizability.oracle import is_linearizable
from tests.night import drawn

ALGORITHMS = [(kind, "wgl") for kind in FIRST_WORLDS] + [("unique-register", "zones")]


def judged(rnd: Random, kind: str, algorithm: str) -> tuple[Status, bool]:
    """Judge one random history; returns the verdict and the truth."""
    operations, right = random_history(rnd, kind, size_max=rnd.randint(1, 7))
    name = kind.removeprefix("unique-")
    truth = is_linearizable(operations, name)
    assert truth or not right, "the generator and the oracle disagree"
    result = judge(operations, model_named(name), algorithm=algorithm)
    assert result.algorithm == algorithm
    assert (result.status is Status.PASS) == truth, (result.summary, operations)
    assert result.status in (Status.PASS, Status.FAIL), result.summary
    assert verify(operations, model_named(name), result) is None
    return result.status, right


@pytest.mark.slow
@drawn(500, 20_000)
@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS)
def test_the_verdict_is_that_of_brute_force(kind, algorithm, cases):
    seen = [judged(Random(f"{kind}-{case}"), kind, algorithm)[0] for case in cases]
    share = seen.count(Status.FAIL) / len(cases)
    assert 0.1 < share < 0.9, "the histories must be of both sorts to test anything"

"""Every model against brute force; `python -m tests.checkers.differential` does a million."""

import pytest

from tests.checkers.differential import judged, kinds

HISTORIES = 20_000


@pytest.mark.slow
@pytest.mark.parametrize("place", kinds(), ids=" ".join)
def test_no_history_is_judged_otherwise_than_by_brute_force(place):
    complaints, truths = judged(-(-HISTORIES // len(kinds())), 0, place)
    assert complaints == []
    assert min(truths["PASS"], truths["FAIL"]) > 5, "only one verdict tests nothing"

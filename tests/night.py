"""How many cases a test draws: few for every commit, many and other ones for each night."""

from __future__ import annotations

import os

import pytest

SEED = int(os.environ.get("NIGHTLY_SEED", "1"))


def drawn(few: int, many: int) -> pytest.MarkDecorator:
    """Numbers of cases, as `cases`: the same few for every commit, and `many` of this night's own."""
    first = SEED * 1_000_000
    of_the_night = range(first, first + many)
    return pytest.mark.parametrize(
        "cases",
        [
            pytest.param(range(few), id="few"),
            pytest.param(of_the_night, id="many", marks=pytest.mark.nightly),
        ],
    )

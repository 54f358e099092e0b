"""Values do not change: mypy proves it, so it must see every form of the decorator."""

import dataclasses

import pytest
from mypy import api

from cluster.values import valueclass, whole_number

PROGRAM = """
from cluster.values import valueclass

@valueclass
class Plain:
    x: int

@valueclass(kw_only=True, order=True)
class Ordered:
    x: int = 0
    y: int

plain, ordered = Plain(1), Ordered(y=2)
assert ordered < Ordered(y=3)
"""


@valueclass(order=True)
class Pair:
    x: int
    y: int = 2


def test_a_value_has_slots_equality_order_and_a_hash():
    assert Pair(1) == Pair(1, 2)
    assert Pair(1) < Pair(1, 3)
    assert {Pair(1): "found"}[Pair(1, 2)] == "found"
    assert dataclasses.replace(Pair(1), y=5) == Pair(1, 5)
    assert not hasattr(Pair(1), "__dict__")


@pytest.mark.slow
def test_mypy_refuses_to_change_a_value(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + "plain.x = 2\nordered.y = 3\nPlain()\n")
    command = ["--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    errors = [line.lower() for line in api.run(command)[0].splitlines()[:-1]]
    assert len(errors) == 3, errors
    assert all("read-only" in error for error in errors[:2]), errors
    assert "missing" in errors[2], errors


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1_000", " 1", "1.0", "\u0661", "\u00b2", "9" * 5000]
)
def test_what_is_no_whole_number_is_none(text):
    assert whole_number(text) is None


@pytest.mark.parametrize("number", [0, 7, 2**31, 2**63 - 1])
def test_a_whole_number_is_read(number):
    assert whole_number(str(number)) == number

"""Errors whose message suffices as a report: one line, exit code 2."""

import importlib

import pytest

from harness.errors import _EXPECTED, UsageError, one_line


@pytest.mark.parametrize("place", sorted(_EXPECTED))
def test_an_expected_error_is_named_by_the_module_that_defines_it(place):
    """It is compared with the class of what was raised, which is never imported for that."""
    module, _, name = place.partition(":")
    assert getattr(importlib.import_module(module), name).__module__ == module


def test_a_message_gives_a_terminal_no_escape_sequence():
    assert one_line(UsageError("no \x1b[2J folder\u202e")) == "no  [2J folder "

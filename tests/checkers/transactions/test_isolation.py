"""Transactions against brute force; `python -m tests.checkers.transactions.isolation` does 200,000."""

import pytest

from checkers.transactions import list_append, rw_register
from tests.checkers.transactions.isolation import judged, main


@pytest.mark.slow
def test_no_history_is_judged_otherwise_than_by_brute_force():
    complaints, kinds = judged(0, 3_000)
    assert complaints == []
    for model in ("list-append", "rw-register"):
        assert min(kinds[f"{model} PASS"], kinds[f"{model} FAIL"]) > 200


@pytest.mark.slow
def test_anti_dependencies_to_what_nobody_read_that_are_missing_are_noticed(monkeypatch):
    monkeypatch.setattr(list_append, "_unread", lambda *_: [])
    assert judged(0, 200)[0]


@pytest.mark.slow
def test_reads_of_transactions_in_part_that_are_overlooked_are_noticed(monkeypatch):
    monkeypatch.setattr(rw_register, "_atomic", lambda *_: ([], []))
    assert judged(0, 400)[0]


def test_the_command_prints_the_figures():
    lines = list(main(["--histories", "20", "--processes", "1"]))
    assert lines[-1] == "20 histories: 0 disagreements"

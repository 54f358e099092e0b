"""Each small history of `tests/data/cases` gets its one right verdict from the command line."""

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from tests.command_line import kraftprobe

CASES = Path(__file__).parents[1] / "data" / "cases"
LISTS = ("--model", "transactions-list-append")
KEYS = ("--consistency", "serializable", "--option", "linearizable-keys=true")
PASS, FAIL, REFUSED, UNKNOWN, UNDER = 0, 1, 2, 3, 4


def level(name):
    return (*LISTS, "--consistency", name)


RIGHT = [
    ("a1-failed-cas.jsonl", ("--model", "cas-register"), {PASS}),
    ("a1-failed-cas.json", ("--model", "cas-register"), {PASS}),
    ("a2-two-keys.jsonl", ("--independent",), {PASS}),
    ("a2-two-keys.json", ("--independent",), {PASS}),
    ("b1-reply-drops-append.edn", LISTS, {FAIL, REFUSED}),
    ("b4-reply-nil.edn", LISTS, {REFUSED, UNKNOWN}),
    ("c1-stale-list-read.edn", (*LISTS, *KEYS), {FAIL, REFUSED}),
    ("d1-fractured-read.edn", level("read-atomic"), {FAIL}),
    ("e2-lost-4-of-5.edn", ("--model", "counter"), {FAIL}),
    ("f1-nothing-read.edn", (), {UNDER}),
    ("f2-all-failed-but-one.edn", LISTS, {UNDER}),
    ("g1-info-repeats-its-argument.jsonl", ("--model", "log"), {PASS}),
    ("k1-no-invocation.edn", (), {PASS}),
    ("l1-spaces.txt", ("--model", "cas-register"), {FAIL}),
    ("t1-half-of-a-crashed-commit.edn", LISTS, {FAIL}),
    ("t1-half-of-a-crashed-commit.edn", level("snapshot-isolation"), {FAIL}),
    ("t2-own-order.edn", LISTS, {FAIL}),
    ("t2-own-order.edn", level("read-uncommitted"), {FAIL}),
    ("t3-element-twice.edn", LISTS, {FAIL}),
    ("t3-element-twice.edn", level("read-uncommitted"), {FAIL}),
    ("t4-nonrepeatable.edn", level("read-committed"), {PASS}),
    ("t4-nonrepeatable.edn", level("repeatable-read"), {FAIL}),
    ("v1-keyword-is-no-text.edn", (), {FAIL}),
]
ALIKE = ["a1-failed-cas.jsonl", "a4-no-time.jsonl", "a5-clock-back.jsonl", "a6-bom.jsonl"]


def check(path, *options):
    """Return the exit code and the lines of `check`, which are no traceback."""
    done = kraftprobe("check", path, *options)
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if done.exit_code == REFUSED:
        assert len(done.output.splitlines()) == 1, done.output
    return done.exit_code, done.output


def test_no_case_is_left_out():
    files = {path.name for path in CASES.iterdir()}
    assert files == {name for name, *_ in RIGHT} | set(ALIKE)


@pytest.mark.parametrize(("name", "options", "codes"), RIGHT)
def test_the_verdict_is_the_right_one(name, options, codes):
    code, output = check(CASES / name, *options)
    assert code in codes, output


def test_what_was_not_taken_at_face_value_is_in_the_verdict():
    _, output = check(CASES / "k1-no-invocation.edn")
    assert "1 completions without an invocation" in output


@pytest.mark.parametrize("name", ALIKE)
def test_lines_are_read_as_the_same_history_in_an_array(tmp_path, name):
    text = (CASES / name).read_text("utf-8-sig")
    array = tmp_path / name
    array.write_text(json.dumps([json.loads(line) for line in text.splitlines()]))
    code, output = check(CASES / name)
    assert code != REFUSED, output
    assert (code, output) == check(array)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_file(pack):
    content = (CASES / "a1-failed-cas.jsonl").read_bytes()
    command = ["check", "-", "--model", "cas-register"]
    done = CliRunner().invoke(main, command, input=pack(content))
    assert done.exit_code == PASS, done.output


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code, output = check(tmp_path / "pipe")
    assert code == REFUSED
    assert "standard input" in output


def test_an_error_names_what_was_read_for_what(tmp_path):
    history = tmp_path / "history.json"
    sends = [[["send", 1, 5]], [["send", 1, [0, 5]]]]
    events = [
        {"process": 0, "type": kind, "f": "send", "value": value}
        for kind, value in zip(("invoke", "ok"), sends, strict=True)
    ]
    history.write_text(json.dumps(events))
    code, output = check(history)
    assert code == REFUSED
    assert "model log" in output

"""Certificates: written for each key, accepted as they are, refused once anything is changed."""

import ast
import inspect
import json
from pathlib import Path

import pytest

from checkers.history.files import load_judged
from checkers.history.foreign import Reading
from checkers.linearizability.certificates import certificate_lines, verify_lines
from checkers.registry import CheckSpec, RunInput, check_keys, find_check
from porcupine_py.models import model_named
from porcupine_py.search import certificate, walk
from tests.checkers.histories import read, write
from tests.command_line import kraftprobe

EXAMPLE = Path(__file__).parents[2] / "data" / "histories" / "example.edn"
GOOD = [write(0, 1, 0, 1, key="a"), read(1, 1, 2, 3, key="a"), write(2, 5, 0, 9, key="b")]
BAD = [write(3, 1, 10, 11, key="c"), write(4, 2, 12, 13, key="c"), read(5, 1, 14, 15, key="c")]
REGISTER = model_named("register")


def lines(operations, model="register"):
    spec = CheckSpec("linearizable", {"model": model})
    return list(certificate_lines(check_keys(find_check(spec), spec, RunInput([], operations))))


def test_every_key_has_a_line_and_every_line_is_accepted():
    stored = lines([*BAD, *GOOD])
    assert [json.loads(line)["key"] for line in stored] == ["a", "b", "c"]
    assert [json.loads(line)["status"] for line in stored] == ["PASS", "PASS", "FAIL"]
    assert verify_lines(stored, [*BAD, *GOOD], REGISTER) == []


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (0, {"linearization": [1, 0]}),
        (0, {"linearization": [0]}),
        (0, {"linearization": [0, 1, 1]}),
        (0, {"window": [0, 1], "from_ns": None, "horizon_ns": None}),
        (2, {"window": [3, 5], "from_ns": None, "horizon_ns": None}),
        (2, {"window": [4, 5], "from_ns": None, "horizon_ns": None}),
        (2, {"linearization": [3, 4, 5]}),
        (1, None),
    ],
)
def test_a_changed_certificate_is_refused(line, change):
    stored = lines([*GOOD, *BAD])
    changed = json.loads(stored[line]) | {"certificate": change}
    stored[line] = json.dumps(changed)
    problems = verify_lines(stored, [*GOOD, *BAD], REGISTER)
    assert len(problems) == 1
    assert problems[0].startswith(f"line {line + 1}")


def test_a_turned_verdict_is_refused():
    stored = [line.replace("PASS", "FAIL") for line in lines(GOOD)]
    assert len(verify_lines(stored, GOOD, REGISTER)) == 2


def test_a_key_without_a_certificate_is_reported():
    assert verify_lines(lines(GOOD)[:1], GOOD, REGISTER) == ["key 'b': there is no certificate"]


def test_what_is_no_certificate_is_reported_in_one_line():
    problems = verify_lines(["{", "[]", '{"check": "linearizable"}'], [], REGISTER)
    assert len(problems) == 3


@pytest.mark.parametrize(("part", "lines_max"), [(certificate, 70), (walk, 110)])
def test_both_parts_of_the_verifier_are_small(part, lines_max):
    tree = ast.parse(inspect.getsource(part))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant):
                node.body = body[1:] or [ast.Pass()]
    text = ast.unparse(tree)
    assert len([line for line in text.splitlines() if line.strip()]) < lines_max
    assert "wgl" not in text
    assert "zones" not in text


def test_the_example_of_the_readme_passes_and_stores_its_proof(tmp_path):
    out = tmp_path / "proof.jsonl"
    arguments = ["check", str(EXAMPLE), "--model", "cas-register", "--certificate", str(out)]
    result = kraftprobe(*arguments, "--option", "time-limit-s=9")
    assert result.exit_code == 0, result.output
    assert "PASS" in result.output
    operations = load_judged(EXAMPLE, Reading()).judged.operations()
    assert verify_lines(out.read_text().splitlines(), operations, model_named("cas-register")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "cas-regster"], "did you mean 'cas-register'?"),
        (["--option", "algorithm=guess"], "unknown algorithm guess"),
        (["--option", "memory-limit-mb=0"], "memory_limit_mb must be above 0"),
        (["--model", "sessions", "--option", "algorithm=wgl"], "no option 'algorithm'"),
        (["--model", "set-fulll"], "did you mean 'set-full'?"),
        (["--model", "transactions-rw-registr"], "did you mean 'transactions-rw-register'?"),
        (["--model", "kafka"], "known: broker, cas-register"),
    ],
)
def test_a_senseless_option_is_one_line(arguments, message):
    result = kraftprobe("check", EXAMPLE, *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_transactions_are_checked_from_a_file(tmp_path):
    history = tmp_path / "history.edn"
    history.write_text(
        '{:process 0, :type :invoke, :f :txn, :value [[:append "x" 1] [:r "y" nil]]}\n'
        '{:process 1, :type :invoke, :f :txn, :value [[:append "y" 1] [:r "x" nil]]}\n'
        '{:process 0, :type :ok, :f :txn, :value [[:append "x" 1] [:r "y" []]]}\n'
        '{:process 1, :type :ok, :f :txn, :value [[:append "y" 1] [:r "x" []]]}\n'
    )
    result = kraftprobe("check", history, "--model", "transactions-list-append")
    assert result.exit_code == 1
    assert "G2" in result.output


def test_sessions_are_checked_from_a_file(tmp_path):
    history = tmp_path / "history.jsonl"
    events = [
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
        (1, "invoke", "read", None),
        (1, "ok", "read", None),
    ]
    fields = [
        {"index": i, "time_ns": i, "process": p, "type": t, "f": f, "value": v}
        for i, (p, t, f, v) in enumerate(events)
    ]
    history.write_text("".join(json.dumps(event) + "\n" for event in fields))
    result = kraftprobe("check", history, "--model", "sessions")
    assert result.exit_code == 1
    assert "at the beginning" in " ".join(result.output.split())

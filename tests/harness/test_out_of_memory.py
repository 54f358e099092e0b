"""Memory that runs out: one line and exit code 70, from a handler that imports nothing."""

import importlib
import subprocess
import sys

import pytest

from harness import errors
from harness.errors import is_expected, is_out_of_memory

_BROKEN = """
import builtins, sys
from harness.cli import main
sys.argv = ["kraftprobe", "run", "--runs", sys.argv[1], "--faults", "none"]
from harness.run import run_to_verdict
from harness.run.interpreter import HarnessError

def fails(*_, **__):
    real = builtins.__import__
    def nothing(name, *rest, **more):
        if name not in sys.modules:
            raise MemoryError
        return real(name, *rest, **more)
    builtins.__import__ = nothing
    {raised}

{place} = fails
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "raised"),
    [
        ("run_to_verdict.perform", "raise MemoryError"),
        *(
            pytest.param(place, raised, marks=pytest.mark.slow)
            for place, raised in (
                ("run_to_verdict.run_cluster", "raise MemoryError"),
                ("run_to_verdict.judge_and_report", "raise MemoryError"),
                ("run_to_verdict.perform", "raise HarnessError('x') from MemoryError()"),
                ("run_to_verdict.perform", "raise ExceptionGroup('x', [MemoryError()])"),
                ("run_to_verdict.own_arguments", "raise ZeroDivisionError"),
            )
        ),
    ],
)
def test_it_ends_in_one_line_and_exit_code_70(tmp_path, place, raised):
    script = _BROKEN.format(place=place, raised=raised)
    if place.endswith("judge_and_report"):
        script = script.replace("main()", "run_to_verdict.run_cluster = lambda *_: None\nmain()")
    ended = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "runs"],
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert ended.returncode == 70, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("kraftprobe: ")


def test_a_handler_that_fails_itself_ends_with_70(monkeypatch, capfd):
    from harness import cli  # noqa: PLC0415

    def fails(_):
        raise MemoryError

    monkeypatch.setattr(cli, "_report_of", fails)
    assert cli._report(MemoryError(), None) == 70
    assert capfd.readouterr().err.count("\n") == 1


def test_expected_errors_are_named_as_they_are():
    for name in errors._EXPECTED:
        module, _, kind = name.partition(":")
        error = getattr(importlib.import_module(module), kind)
        assert is_expected(error("x"))


def test_memory_is_seen_through_causes():
    assert not is_out_of_memory(ValueError())
    assert not is_out_of_memory(ImportError("no module named x"))
    assert is_out_of_memory(ImportError("x.so.26: failed to map segment from shared object"))
    assert not is_expected(MemoryError())

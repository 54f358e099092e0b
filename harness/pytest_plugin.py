"""A campaign as a test, for teams that live in pytest: the fixture `kraftprobe_run` and its marker.

    @pytest.mark.kraftprobe(campaign="quick", backend="sim", seed=7)
    def test_the_quorum_keeps_its_promises(kraftprobe_run):
        assert kraftprobe_run.figures["leader_changes"] >= 1

A session loads it by its name: `pytest -p harness.pytest_plugin`, or in conftest.py
`pytest_plugins = ["harness.pytest_plugin"]`.

The marker's arguments are the options of `kraftprobe run` (`_` for `-`; True for a flag). The test
fails at its setup unless the verdict is `expect`, PASS if not given: of a mutant, which must be
found, `expect="FAIL"`. The run is kept in the test's tmp_path, or below `--kraftprobe-runs DIR`, so
that `kraftprobe gate` can be asked about all runs of a session.

The campaign runs in a process of its own: an interrupt ends its nodes as it does on a command line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_MARKER = "kraftprobe"
_PROGRAM = "import sys; from harness.cli import main; main(sys.argv[1:], prog_name='kraftprobe')"


@dataclass(frozen=True)
class KraftprobeRun:
    """A run that came to a verdict."""

    folder: Path
    verdict: str
    """PASS, FAIL, UNKNOWN or UNDER-EXERCISED."""
    results: Mapping[str, Any]
    """results.json (results.store.model)."""

    @property
    def figures(self) -> Mapping[str, Any]:
        """What was tried: the statistics of the check `exercised`."""
        return next(
            (c["statistics"] for c in self.results["checks"] if c["checker"] == "exercised"), {}
        )

    @property
    def report(self) -> Path:
        """The page that shows the run."""
        return self.folder / "report.html"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a session keep its runs."""
    parser.getgroup("kraftprobe").addoption(
        "--kraftprobe-runs",
        type=Path,
        metavar="DIR",
        help="keep the runs of kraftprobe there (default: in each test's tmp_path)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(**options): a campaign, with the options of `kraftprobe run`"
    )


@pytest.fixture
def kraftprobe_run(request: pytest.FixtureRequest, tmp_path: Path) -> KraftprobeRun:
    """Run the campaign of the test's marker; fails the test unless its verdict is as expected."""
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None or marker.args:
        raise pytest.UsageError(
            f"{request.node.nodeid}: kraftprobe_run needs @pytest.mark.{_MARKER} with the options "
            "of `kraftprobe run` by name"
        )
    options = dict(marker.kwargs)
    expected = str(options.pop("expect", "PASS"))
    runs = request.config.getoption("--kraftprobe-runs") or tmp_path / "runs"
    done = subprocess.run(  # noqa: S603  (this very program)
        [sys.executable, "-c", _PROGRAM, "run", *_arguments(options), "--runs", str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    run = _find_run(done)
    if run is None:
        pytest.fail(f"kraftprobe ended with exit code {done.returncode}: {_last(done.stderr)}")
    if run.verdict != expected:
        lines = [line for line in done.stdout.splitlines() if not line.startswith("  PASS")]
        said = "\n".join(lines)
        pytest.fail(
            f"kraftprobe says {run.verdict}, expected was {expected}\n{said}", pytrace=False
        )
    return run


def _arguments(options: Mapping[str, Any]) -> list[str]:
    """Return options as a command line has them."""
    found = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        else:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            found.append(f"{option}={text}")
    return found


def _find_run(done: subprocess.CompletedProcess[str]) -> KraftprobeRun | None:
    """Find the run that a command's last line names; None where it came to no verdict."""
    from checkers.verdict import EXIT_CODES  # noqa: PLC0415  (not for sessions without a campaign)
    from results.store.files import read_json_object  # noqa: PLC0415

    if done.returncode not in EXIT_CODES.values():
        return None
    folder = Path(_last(done.stdout)).parent
    results = read_json_object(folder / "results.json")
    return KraftprobeRun(folder, str(results["status"]), results)


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]

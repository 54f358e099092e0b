"""A campaign is a test: it passes as the campaign does, and says what was wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from results.catalogue.rows import catalogue

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def session(folder, body, *options):
    """Run pytest on a file of its own, with the plugin; returns exit code and output."""
    (folder / "test_it.py").write_text(f"import pytest\n{body}")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
            *("-p", "harness.pytest_plugin", *options, "test_it.py"),
        ],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "250"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_guides_example_opens_the_gate_for_the_pass_and_its_fail_closes_it(tmp_path):
    page = (ROOT / "docs" / "gate.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert 'mutant="M15", expect="FAIL"' in example
    kept = tmp_path / "kept"
    # The second run is shorter here, and on the simulator, which takes no nodes of the machine.
    short = 'mutant="M15", backend="sim", seed=7, faults="partition", duration=8,'
    simulated = example.replace('mutant="M15",', short)
    code, output = session(tmp_path, simulated, "--kraftprobe-runs", kept)
    assert code == 0, output
    by_mutant = {entry.row.mutant: entry for entry in catalogue(kept)}
    assert {name: entry.row.verdict for name, entry in by_mutant.items()} == {
        None: "PASS",
        "M15": "FAIL",
    }
    assert all(entry.store.report_path.exists() for entry in by_mutant.values())
    exits = [
        CliRunner().invoke(main, ["gate", str(folder)]).exit_code
        for folder in (by_mutant[None].store.folder, by_mutant["M15"].store.folder, kept)
    ]
    assert exits == [0, 1, 1]


def test_another_verdict_than_the_expected_fails_the_test(tmp_path):
    body = """
@pytest.mark.kraftprobe(backend="sim", campaign="quick", seed=7, faults="none", duration=2,
                        expect="FAIL", no_report=True)
def test_mutant(kraftprobe_run): assert kraftprobe_run
"""
    code, output = session(tmp_path, body)
    assert code == 1
    assert "PASS, expected was FAIL" in output


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "@pytest.mark.kraftprobe(campaign='quik')\ndef test_it(kraftprobe_run): ...",
            "kraftprobe ended with exit code 2: kraftprobe: quik: unknown campaign 'quik'",
        ),
        (
            "@pytest.mark.kraftprobe(sede=7)\ndef test_it(kraftprobe_run): ...",
            "kraftprobe ended with exit code 2: kraftprobe: No such option '--sede'",
        ),
        ("def test_it(kraftprobe_run): ...", "kraftprobe_run needs @pytest.mark.kraftprobe"),
        (
            "@pytest.mark.kraftprobe('quick')\ndef test_it(kraftprobe_run): ...",
            "with the options of `kraftprobe run` by name",
        ),
    ],
)
def test_a_marker_that_cannot_be_run_says_why(tmp_path, body, reason):
    code, output = session(tmp_path, body)
    assert code == 1
    assert reason in output.replace("\n", " ")

"""A campaign is a test: it passes as the campaign does, and says what was wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
QUICK = 'backend="sim", campaign="quick", seed=7'


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


def test_a_campaign_that_passes_is_a_test_that_passes_and_its_run_is_kept(tmp_path):
    body = f"""
@pytest.mark.kraftprobe({QUICK})
def test_quorum(kraftprobe_run):
    assert kraftprobe_run.verdict == "PASS"
    assert kraftprobe_run.figures["ok"] > 100
    assert kraftprobe_run.report.exists()
"""
    code, output = session(tmp_path, body, "--kraftprobe-runs", tmp_path / "kept")
    assert code == 0, output
    assert [*(tmp_path / "kept" / "quick").iterdir()]


def test_another_verdict_than_the_expected_fails_the_test(tmp_path):
    body = """
@pytest.mark.kraftprobe(backend="sim", campaign="quick", seed=7, faults="none", duration=2,
                        expect="FAIL", no_report=True)
def test_mutant(kraftprobe_run): assert kraftprobe_run
"""
    code, output = session(tmp_path, body)
    assert code == 1
    assert "kraftprobe says PASS, expected was FAIL" in output


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

"""Every module: its syntax and its imports are those of each Python that is promised."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]
PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.mark.slow
def test_every_module_is_imported_without_a_warning():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in paths
        if path.stem not in {"__init__", "__main__"}
    ]
    assert len(names) > 500
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

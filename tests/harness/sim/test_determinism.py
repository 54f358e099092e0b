"""The same seed is the same run, byte for byte, whatever the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(seed, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.harness.sim.one_run", str(seed)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_processes_with_other_hash_seeds_run_the_same_run_and_another_seed_another():
    first = run(11, hash_seed=1)
    assert first.count("\n") == 5, "a journal, three nodes, the number of events"
    assert run(11, hash_seed=2) == first
    assert run(12, hash_seed=1) != first

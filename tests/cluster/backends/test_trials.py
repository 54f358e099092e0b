"""Folders of trials go with the trial, or with `cleanup` when their harness was killed."""

import subprocess
import sys

import pytest

from cluster.backends.cleanup import abandoned_trials, remove_trial, trial_folder

pytestmark = pytest.mark.slow

_KILLED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from cluster.backends.cleanup import trial_folder
with trial_folder() as folder:
    (folder / "file").write_text("x")
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_trial_takes_its_folder_along(temporary):
    with trial_folder() as folder:
        assert folder.is_dir()
        assert abandoned_trials() == []
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_harness_is_found_and_removed(temporary):
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(temporary)], check=False)
    assert killed.returncode == -9
    (folder,) = abandoned_trials()
    assert (folder / "file").exists()
    assert remove_trial(folder)
    assert list(temporary.iterdir()) == []


def test_no_other_folder_is_taken_for_an_abandoned_trial(temporary):
    subprocess.run([sys.executable, "-c", _KILLED, str(temporary)], check=False)
    (theirs,) = abandoned_trials()
    name = theirs.name
    theirs.rename(temporary / "kept")
    (temporary / name).symlink_to(temporary / "kept")
    (temporary / "kraftprobe-trial-mine").mkdir()
    (temporary / f"kraftprobe-trial-1{name.removeprefix('kraftprobe-trial-')}").mkdir()
    assert abandoned_trials() == []

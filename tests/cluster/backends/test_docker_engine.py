"""What a user reads where the docker engine is missing or refuses; needs no engine."""

import asyncio
import socket
import threading
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import docker
import pytest
from docker.errors import APIError, ImageNotFound, NotFound
from requests.exceptions import ConnectionError as RequestsConnectionError

from cluster.backends.base import BackendError
from cluster.backends.dependencies import PACKAGE, requirements
from cluster.backends.docker import engine, leftovers
from cluster.backends.docker.docker_hosts import DockerProvider
from cluster.backends.docker.image import ensure_image
from cluster.backends.docker.network import routed_networks
from cluster.backends.hosts import all_of
from tests.play import play

pytestmark = pytest.mark.slow


def test_a_missing_engine_is_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(BackendError, match=r"no docker engine .* docker.io"):
        engine.connect()


def test_a_dead_engines_socket_is_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/dead.sock")
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


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A socket for an engine that is watched closely."""
    path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    monkeypatch.setattr(engine, "_WATCH_EVERY_S", 0.01)
    return path


def test_an_engine_that_dies_is_noticed(quick: Path):
    async def body() -> str:
        asked = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nOK")
            writer.close()
            asked.set()

        server = await asyncio.start_unix_server(answer, quick)
        watch = asyncio.create_task(engine.until_gone())
        await asked.wait()
        assert not watch.done()
        server.close()
        return await asyncio.wait_for(watch, 300)

    assert asyncio.run(body()) == f"{quick}: Connection refused"


def test_an_engine_that_hangs_is_noticed(quick: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "_TIMEOUT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(quick))
        silent.listen(8)
        gone = asyncio.run(asyncio.wait_for(engine.until_gone(), 300))
    assert gone == f"{quick}: no answer for 0.2 s"


def test_a_call_that_the_engine_does_not_live_through_names_it(quick: Path):
    def call() -> None:
        raise RequestsConnectionError("('Connection aborted.', RemoteDisconnected(...))")

    with pytest.raises(engine.EngineGoneError) as refused:
        asyncio.run(engine.in_thread(call))
    assert str(refused.value) == (
        f"the docker engine is gone: {quick} does not answer; "
        "start it (sudo systemctl start docker)"
    )


@play(asyncio.run)
async def test_who_is_cancelled_waits_for_what_the_engine_is_making():
    making, go_on, made = threading.Event(), threading.Event(), []

    def make() -> None:
        making.set()
        go_on.wait()
        made.append("network")

    caller = asyncio.ensure_future(engine.in_thread(make))
    await asyncio.to_thread(making.wait)
    caller.cancel()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert made == ["network"]


@play(asyncio.run)
async def test_what_is_made_beside_a_failure_is_waited_for():
    made = []

    async def make(name: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if name == "n1":
            raise BackendError("no room")
        made.append(name)

    with pytest.raises(BackendError, match="no room"):
        await all_of((make("n1", 0), make("n2", 0.05)))
    assert made == ["n2"]


def test_a_lost_engine_is_one_line_with_what_is_left_and_what_to_do(quick: Path, tmp_path: Path):
    run = tmp_path / "runs" / "campaign" / "r1"
    line = asyncio.run(DockerProvider(run, "r1").wait_until_lost())
    assert line.startswith(f"the docker engine is gone: {quick}: No such file")
    assert f"kraftprobe cleanup --runs {tmp_path}/runs" in line
    assert line.endswith(f"kraftprobe check {run}")
    assert "check" not in asyncio.run(DockerProvider(run, "trial-1").wait_until_lost())


def test_a_rootless_engine_is_refused():
    version = {"Version": "26.1", "ApiVersion": "1.45", "Os": "linux"}
    assert "rootless" in engine.unfit(version, ["name=seccomp,profile=default", "name=rootless"])
    assert engine.unfit(version, ["name=seccomp,profile=default"]) == ""


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ({"Version": "20.10.24", "ApiVersion": "1.41", "Os": "linux"}, ""),
        ({"Version": "29.0", "ApiVersion": "1.52", "Os": "linux"}, ""),
        ({"Version": "18.09", "ApiVersion": "1.39", "Os": "linux"}, "18.09 is too old"),
        ({"Version": "20.10.24", "ApiVersion": "1.41", "Os": "windows"}, "Linux containers"),
    ],
)
def test_an_engine_is_judged_by_its_version(version: dict[str, str], message: str):
    assert message in engine.unfit(version)
    assert bool(engine.unfit(version)) == bool(message)


def test_a_full_disk_is_one_line_with_what_to_do():
    error = APIError("500", explanation="write /var/lib/docker/x:\n no space left on device")
    line = engine.reason(error)
    assert "make room" in line
    assert "\n" not in line


def test_a_base_that_cannot_be_had_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch):
    def missing(_: str) -> None:
        raise ImageNotFound("no such image")

    def no_registry(_: str) -> None:
        raise APIError("500", explanation="pull access denied for nonsense")

    images = SimpleNamespace(get=missing, pull=no_registry)
    client = SimpleNamespace(images=images, api=SimpleNamespace(timeout=30))
    monkeypatch.setenv("KRAFTPROBE_DOCKER_BASE", "nonsense:1")
    messages: list[str] = []
    with pytest.raises(BackendError) as refused:
        asyncio.run(ensure_image(client, messages.append))
    line = str(refused.value)
    assert line.startswith("KRAFTPROBE_DOCKER_BASE names the image 'nonsense:1', which the docker")
    assert "pull access denied" in line
    assert messages == ["asking the registry for nonsense:1 (KRAFTPROBE_DOCKER_BASE)"]
    assert client.api.timeout == 30


def test_subnets_avoid_every_route_of_the_machine_but_the_default():
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    assert routed_networks(table) == [IPv4Network("172.17.0.0/16")]


def test_the_image_holds_what_the_node_imports_and_not_what_the_harness_does():
    found = requirements()
    assert {"kio", "aiokafka", "crc32c", "click"} <= set(found)
    assert not {"docker", "pyspark", "rich"} & set(found)
    assert (PACKAGE / "node" / "process.py").exists()


class BusyEngine:
    """Refuses each removal as often as it was told, then obeys; what is gone is not found."""

    def __init__(self, refusals: dict[str, int]) -> None:
        self.api = self
        self._refusals = refusals

    def remove_container(self, name: str, *, force: bool, v: bool) -> None:
        assert force
        assert v
        self.remove_network(name)

    def remove_network(self, name: str) -> None:
        if name not in self._refusals:
            raise NotFound(name)
        if self._refusals[name]:
            self._refusals[name] -= 1
            raise APIError(f"{name} is busy")
        del self._refusals[name]


@pytest.mark.parametrize(("patience_s", "left"), [(20.0, []), (0.0, ["c1", "n1"])])
def test_what_the_engine_holds_for_a_moment_is_removed_all_the_same(
    patience_s: float, left: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leftovers, "_GONE_TIMEOUT_S", patience_s)
    monkeypatch.setattr(leftovers, "_POLL_S", 0.001)
    things = [
        leftovers.LeftThing("r1", kind, name, name)
        for kind, name in (("container", "c1"), ("container", "gone"), ("network", "n1"))
    ]
    busy = cast("docker.DockerClient", BusyEngine({"c1": 3, "n1": 3}))
    assert [thing.name for thing in leftovers.remove_things(busy, things)] == left

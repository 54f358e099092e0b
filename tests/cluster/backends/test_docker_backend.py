"""Backend docker with fake nodes: real containers on a network of their own."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker_cluster import docker_backend
from hosted_nodes import (
    ask,
    cancel_up,
    fail_up,
    has_every_ability,
    live_die_pause_and_stop,
    meets_all_that_a_command_started,
    run_up,
)
from waiting import eventually, works

from cluster.backends.abilities import ClockSetting, DiskFault
from cluster.backends.base import BackendError
from cluster.backends.cleanup import find_leftovers
from cluster.backends.docker import engine
from cluster.backends.docker.image import IMAGE_LABEL, ensure_image
from cluster.backends.docker.leftovers import find_things
from cluster.backends.hosted import HostedBackend
from cluster.backends.machine.mounts import mounts
from tests.play import play
from tests.running import running

pytestmark = pytest.mark.slow

HARNESS = Path(__file__).with_name("docker_cluster.py")
NET_ADMIN = 1 << 12
OF_ANY_CONTAINER = 0xA80425FB
"""The engine's usual capabilities."""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    """An engine with the image; skipped where there is none."""
    try:
        client = engine.connect()
    except BackendError as error:
        pytest.skip(str(error))
    asyncio.run(ensure_image(client, print))
    yield client
    client.close()


@pytest.fixture
def run_id() -> str:
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def with_containers(client: docker.DockerClient, tmp_path: Path, run_id: str):
    def run(
        body: Callable[[HostedBackend], Awaitable[None]], node_count: int = 2, mode: str = ""
    ) -> None:
        run_up(docker_backend(tmp_path, node_count, run_id, mode), body)
        assert find_things(client, None, run_id) == []

    return run


@play("with_containers")
async def test_nodes_live_die_pause_and_stop_as_anywhere(backend: HostedBackend):
    inner = await backend.hosts["n1"].pid()
    done = await backend.hosts["n1"].run(("cat", f"/proc/{inner}/cmdline"))
    assert b"fake_node.py" in done.stdout
    await live_die_pause_and_stop(backend)
    assert [await host.pid() for host in backend.hosts.values()] == [None, None]


@play("with_containers", 1, "wrapped")
async def test_a_fault_of_a_node_meets_whatever_its_command_started(backend: HostedBackend):
    await meets_all_that_a_command_started(backend)


@play("with_containers", node_count=1)
async def test_the_exit_code_of_a_signal_from_outside_is_reported_as_waitpid_does(
    backend: HostedBackend,
):
    inner = await backend.hosts["n1"].pid()
    assert (await backend.hosts["n1"].run(("kill", "-9", str(inner)))).exit_code == 0
    await eventually(backend.unexpected_deaths)
    assert [death.exit_code for death in backend.unexpected_deaths()] == [-9]


@play("with_containers")
async def test_a_cut_link_is_silent_in_its_own_direction_and_the_harness_passes(
    backend: HostedBackend,
):
    link, back = ("n1", "n2"), ("n2", "n1")
    assert await works(backend, link), "containers of one network reach each other"
    await backend.cut_links([link])
    assert (await backend.measure_link(link, 0.2)).silent
    assert await works(backend, back)
    await backend.cut_links([back])
    assert await ask(backend, "n2", b"hi") == b"hi"
    await backend.restore_links([link, back])
    assert await works(backend, link)


@pytest.mark.skipif(
    not os.access("/dev/fuse", os.R_OK | os.W_OK),
    reason="no access to /dev/fuse: sudo chmod 666 /dev/fuse",
)
def test_clocks_disks_and_limits_of_a_node_in_a_container(
    client: docker.DockerClient, tmp_path: Path, run_id: str
):
    async def body() -> None:
        backend = docker_backend(tmp_path, 1, run_id, needs=("clocks", "disks"))
        async with running(backend):
            abilities = backend.abilities()
            clocks, disks, limits = abilities.clocks, abilities.disks, abilities.limits
            assert clocks is not None
            assert limits is not None
            await clocks.set("n1", ClockSetting(offset_ms=60_000))
            seen = await clocks.measure("n1")
            assert abs(seen.wall_offset_ms - 60_000) < 1000
            assert abs(seen.monotonic_offset_ms) < 100
            await limits.set("n1", "descriptors", 99)
            assert (await limits.measure("n1", "descriptors")).soft == 99
            assert disks is not None
            data = str(backend.hosts["n1"].folder / "data")
            await disks.set("n1", DiskFault.FULL, {})
            own = backend.provider.hosts["n1"].as_node
            full = await own.run(("sh", "-c", f"echo much >{data}/file"))
            assert b"No space left on device" in full.stderr
            await disks.clear("n1", DiskFault.FULL)
            await clocks.set("n1", ClockSetting(rate=11.0))
            await backend.kill("n1")
            await backend.start("n1")
            readings = []
            for _ in range(2):
                readings.append((await clocks.measure("n1")).wall_offset_ms)
                await asyncio.sleep(0.2)
            assert readings[0] > 1000, "it went on from where it was"
            assert readings[1] > readings[0] + 1000, "and drifts on"

    asyncio.run(body())
    assert find_things(client, None, run_id) == []
    assert [mount for mount in mounts() if mount.run_id == run_id] == []


@play("with_containers", node_count=1)
async def test_a_container_may_filter_packets_and_not_set_the_clock(backend: HostedBackend):
    host = backend.hosts["n1"]
    status = (await host.run(("cat", "/proc/self/status"))).stdout.decode()
    bounding = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    assert int(bounding.split()[1], 16) == OF_ANY_CONTAINER | NET_ADMIN
    done = await host.run(("date", "-s", "2020-01-01"))
    assert done.exit_code != 0
    assert b"not permitted" in done.stderr


@play("with_containers", node_count=1)
async def test_commands_run_beside_each_other_and_end_in_time(backend: HostedBackend):
    host = backend.hosts["n1"]
    slow = asyncio.create_task(host.run(("sleep", "60"), timeout_s=1.0))
    done = await host.run(("cat",), stdin=b"through a pipe")
    assert (done.exit_code, done.stdout) == (0, b"through a pipe")
    assert (await host.run(("sh", "-c", "echo no >&2; exit 3"))).exit_code == 3
    with pytest.raises(BackendError, match="n1: sleep 60: no end within 1 s"):
        await slow
    with pytest.raises(BackendError, match="n1: nonsense: "):
        await host.run(("nonsense",))
    assert b"sleep\x0060" not in (await host.run(("sh", "-c", "cat /proc/*/cmdline"))).stdout


def clean_up(runs: Path) -> str:
    program = "from harness.cli import main; main()"
    command = [sys.executable, "-c", program, "cleanup", "--runs", str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_killed_harness_left_is_found_and_removed_and_a_living_run_is_not(
    client: docker.DockerClient, tmp_path: Path, run_id: str
):
    killed, living = tmp_path / "killed", tmp_path / "living"
    command = [sys.executable, str(HARNESS), str(killed), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        assert find_things(client, tmp_path) == [], "its harness lives"
        harness.kill()
        harness.wait()

    async def body() -> None:
        async with running(docker_backend(living, 1, f"{run_id}-living")) as backend:
            assert find_things(client, living) == []
            left = find_things(client, tmp_path)
            kinds = [(thing.run_id, thing.kind) for thing in left]
            assert kinds == [(run_id, "container")] * 2 + [(run_id, "network")]
            output = await asyncio.to_thread(clean_up, tmp_path)
            assert output.count(f"removing container kraftprobe-{run_id}-n") == 2
            assert find_things(client, tmp_path) == []
            assert [mount for mount in mounts() if mount.run_id == run_id] == []
            assert find_leftovers(tmp_path) == []
            assert await ask(backend, "n1", b"hi") == b"hi"

    asyncio.run(body())
    assert find_things(client, None, run_id) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_a_disk_that_the_engine_does_not_see_is_refused(
    client: docker.DockerClient, tmp_path: Path, run_id: str
):
    """Else its faults would be measured here, and the node would not meet them."""
    apart = ("unshare", "--mount", "--propagation", "private")
    command = (*apart, sys.executable, str(HARNESS), str(tmp_path), run_id)
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "the docker engine does not see what is mounted here" in refused.stderr
    assert find_things(client, None, run_id) == []


def test_a_cancelled_up_leaves_nothing(client: docker.DockerClient, tmp_path: Path, run_id: str):
    cancel_up(docker_backend(tmp_path, 2, run_id), lambda: find_things(client, None, run_id))
    assert find_things(client, None, run_id) == []


def test_a_node_that_does_not_start_is_reported_and_nothing_is_left(
    client: docker.DockerClient, tmp_path: Path, run_id: str
):
    fail_up(docker_backend(tmp_path, 1, run_id, mode="fail"), "n1 ended with 1 ")
    assert find_things(client, None, run_id) == []


def test_the_image_is_made_once_and_another_base_is_another_image(
    client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
):
    messages: list[str] = []
    tag = asyncio.run(ensure_image(client, messages.append))
    assert messages == []
    labels = client.images.get(tag).labels
    assert labels[IMAGE_LABEL] == tag.partition(":")[2]
    monkeypatch.setenv("KRAFTPROBE_DOCKER_BASE", tag)  # as a user names a base of his own
    other = asyncio.run(ensure_image(client, messages.append))
    try:
        assert other != tag
        assert [line.split()[0] for line in messages] == ["building", "built"]
    finally:
        client.images.remove(other)


@play("with_containers")
async def test_every_ability_works_on_this_machine(backend: HostedBackend):
    await has_every_ability(backend)

"""Backend netns with fake nodes: real namespaces, real packets, nothing of it outside."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hosted_nodes import (
    all_gone,
    ask,
    cancel_up,
    fail_up,
    has_every_ability,
    live_die_pause_and_stop,
    meets_all_that_a_command_started,
    nodes_of,
    run_up,
)
from netns_world import netns_backend, require_namespaces
from waiting import TIMEOUT_S, works

from cluster.backends.base import BackendError
from cluster.backends.cleanup import clean, find_leftovers
from cluster.backends.hosted import HostedBackend
from cluster.backends.netns import netns_hosts as netns
from cluster.backends.netns.netns_hosts import Namespaces, NetnsProvider
from cluster.backends.processes.labelled import labelled_processes
from tests.play import play
from tests.running import running

pytestmark = pytest.mark.slow

HARNESS = Path(__file__).with_name("netns_cluster.py")


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    require_namespaces()


@pytest.fixture
def with_hosts(tmp_path: Path):
    def run(
        body: Callable[[HostedBackend], Awaitable[None]], node_count: int = 3, mode: str = ""
    ) -> None:
        run_up(netns_backend(tmp_path, node_count, mode=mode), body)

    return run


def machine_network() -> str:
    """Everything of the machine's own network that a run could disturb."""
    commands = (["ip", "-o", "link"], ["ip", "-o", "address"], ["nft", "list", "tables"])
    listings = [
        subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for command in commands
    ]
    ours = [
        line for text in listings for line in text.splitlines() if "kp" in line or "kraft" in line
    ]
    return "\n".join(ours)


@play("with_hosts")
async def test_nodes_live_die_pause_and_stop_as_anywhere(backend: HostedBackend):
    await live_die_pause_and_stop(backend)
    assert [await host.pid() is None for host in backend.hosts.values()] == [True, True, False]


@play("with_hosts", 1, "wrapped")
async def test_a_fault_of_a_node_meets_whatever_its_command_started(backend: HostedBackend):
    await meets_all_that_a_command_started(backend)


@play("with_hosts")
async def test_a_cut_link_is_silent_in_its_own_direction_only(backend: HostedBackend):
    link, back = ("n1", "n2"), ("n2", "n1")
    assert await works(backend, link)
    await backend.cut_links([link])
    measure = await backend.measure_link(link, 0.2)
    assert measure.silent
    assert measure.bytes_since_cut == 0
    assert await works(backend, back)
    assert await works(backend, ("n1", "n3"))
    assert backend.links_cut() == {link}
    await backend.restore_links([link])
    assert await works(backend, link)
    assert backend.links_cut() == frozenset()


@play("with_hosts", node_count=2)
async def test_bytes_that_pass_a_cut_are_counted(backend: HostedBackend):
    link = ("n1", "n2")
    await backend.cut_links([link])
    table = backend.rules._table
    hole = ("nft", "flush", "set", "inet", table, "dropped")
    assert (await backend.hosts["n2"].run(hole)).exit_code == 0
    measure = await backend.measure_link(link, TIMEOUT_S)
    assert measure.by_source
    assert measure.by_target
    assert measure.bytes_since_cut is not None
    assert measure.bytes_since_cut > 0
    assert not measure.silent


@play("with_hosts", node_count=2)
async def test_the_harness_reaches_a_node_that_is_cut_off_from_all_others(backend: HostedBackend):
    await backend.cut_links([("n1", "n2"), ("n2", "n1")])
    assert await ask(backend, "n2", b"hi") == b"hi"


@play("with_hosts", 1)
async def test_nodes_are_reached_after_any_number_of_interrupted_connections(
    backend: HostedBackend,
):
    for _ in range(600):  # about twice as many sockets as may wait to be claimed
        connecting = asyncio.ensure_future(backend.connect(backend.endpoint("n1")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait((connecting,))
    async with asyncio.timeout(TIMEOUT_S):
        (await backend.connect(backend.endpoint("n1"))).close()


@play("with_hosts", node_count=2)
async def test_rules_that_a_host_lost_are_there_again_when_its_node_starts(backend: HostedBackend):
    link = ("n1", "n2")
    await backend.cut_links([link])
    gone = ("nft", "delete", "table", "inet", backend.rules._table)
    assert (await backend.hosts["n2"].run(gone)).exit_code == 0
    await backend.kill("n2")
    await backend.start("n2")
    assert (await backend.measure_link(link, 0.2)).silent
    assert await works(backend, ("n2", "n1"))


def test_nothing_shows_in_the_machines_own_network_and_nothing_is_left(tmp_path: Path):
    before = machine_network()

    async def body() -> None:
        first = netns_backend(tmp_path / "one", 2, "run-1")
        others = netns_backend(tmp_path / "other", 2, "run-2")
        try:
            await asyncio.gather(first.up(), others.up())
            assert machine_network() == before
            await first.cut_links([("n1", "n2")])
            assert await works(others, ("n1", "n2")), "two runs do not meet"
            await first.down()
            assert await ask(others, "n1", b"hi") == b"hi"
        finally:
            await first.down()
            await others.down()
        with pytest.raises(OSError, match="gone"):
            await first.provider.connect("10.0.0.1", 9092)

    asyncio.run(body())
    assert machine_network() == before
    pids = nodes_of(tmp_path / "one") + nodes_of(tmp_path / "other")
    assert len(pids) == 8, "a node and an agent in each of four hosts"
    assert all_gone(pids)
    assert find_leftovers(tmp_path) == []


def test_a_node_that_does_not_start_is_reported_and_nothing_is_left(tmp_path: Path):
    fail_up(netns_backend(tmp_path, 2, mode="fail"), "n1 ended with 1 ")
    assert all_gone(nodes_of(tmp_path))


def test_a_cancelled_up_leaves_nothing(tmp_path: Path):
    cancel_up(netns_backend(tmp_path, 2), lambda: nodes_of(tmp_path))
    assert all_gone(nodes_of(tmp_path))


def test_after_kill_9_of_the_harness_cleanup_ends_the_nodes_and_with_them_the_namespaces(
    tmp_path: Path,
):
    command = [sys.executable, str(HARNESS), str(tmp_path), "run-1", "hold"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        pids = nodes_of(tmp_path)
        networks = {Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}
        assert Path("/proc/self/ns/net").readlink() not in networks
        harness.kill()
        harness.wait()
    left = find_leftovers(tmp_path)
    assert set(pids) <= {leftover.identity.pid for leftover in left}
    assert clean(left) == []
    assert all_gone(pids)
    assert find_leftovers(tmp_path) == []


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user may use, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="kraftprobe-test-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_it_works_for_a_user_without_any_privilege(everybodys: Path):
    repository = HARNESS.parents[3]
    packages = [Path(path) for path in sys.path if path.endswith("site-packages")]
    harness, folders, start = HARNESS, [repository, HARNESS.parent, *packages], []
    interpreter = sys.executable
    if os.geteuid() == 0:
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        as_nobody += ["--inh-caps=-all", "--bounding-set=-all"]
        interpreter = interpreter_for_all_users(as_nobody)
        # A checkout below /root is closed to others: they see it at a place of their own.
        shown = [everybodys / f"seen-{place}" for place in range(1 + len(packages))]
        for folder in shown:
            folder.mkdir()
        pairs = zip([repository, *packages], shown, strict=True)
        binds = [f"mount --bind {shlex.quote(str(a))} {shlex.quote(str(b))}" for a, b in pairs]
        start = ["unshare", "--mount", "sh", "-c", " && ".join([*binds, 'exec "$@"']), "sh"]
        start += as_nobody
        harness = shown[0] / HARNESS.relative_to(repository)
        folders = [shown[0], harness.parent, *shown[1:]]
    command = [*start, interpreter, str(harness), str(everybodys), "run-1", "check"]
    path = os.pathsep.join(map(str, folders))
    environment = {**os.environ, "PYTHONPATH": path, "HOME": str(everybodys)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, cwd=everybodys
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["privileged"] is False
    cut = {"by_source": False, "by_target": False, "partly": False, "bytes_since_cut": 0}
    assert report["cut"] == cut
    back = {"by_source": True, "by_target": True, "partly": False, "bytes_since_cut": None}
    assert report["back"] == back


def interpreter_for_all_users(as_nobody: list[str]) -> str:
    """Find a Python of this version that every user may run."""
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
    # setpriv may start what its user may not: only the started one can say.
    question = "import os, sys; os.access(sys.executable, os.X_OK) or sys.exit(1); "
    question += "print('%d.%d' % sys.version_info[:2])"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/python{wanted}"):
        asked = subprocess.run(
            [*as_nobody, candidate, "-c", question], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() == wanted:
            return candidate
    pytest.skip(f"no Python {wanted} here that an unprivileged user can run")


def test_a_machine_that_forbids_namespaces_is_one_clear_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    monkeypatch.setattr(netns, "_SYSCTL", tmp_path)
    message = netns.refusal("unshare: unshare failed: Operation not permitted")
    assert message == (
        "this machine does not let this user make namespaces: "
        "unshare: unshare failed: Operation not permitted; "
        "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )


@play(asyncio.run)
async def test_a_missing_tool_is_one_clear_line_with_its_package(
    *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match=r"nft not found: (sudo )?apt install"):
        await NetnsProvider(tmp_path, "run-1").create(("n1",))


@play(asyncio.run)
async def test_an_agent_that_is_silent_is_no_refusal_of_namespaces(
    *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def silent(*_: object) -> None:
        raise BackendError("netns: its agent: not within 60 s")

    monkeypatch.setattr(NetnsProvider, "_start_agent", silent)
    with pytest.raises(BackendError, match=r"^netns: its agent: not within 60 s$"):
        await NetnsProvider(tmp_path, "run-1").create(("n1",))


@play("with_hosts", node_count=2)
async def test_every_ability_works_on_this_machine(backend: HostedBackend):
    await has_every_ability(backend)


def test_a_host_that_lost_its_agent_is_reported_and_nothing_is_left(tmp_path: Path):
    async def body() -> None:
        async with running(netns_backend(tmp_path, 2)) as backend:
            backend.hosts["n2"].namespaces.agent.kill()
            await backend.hosts["n2"].namespaces.agent.wait()
            for _ in range(2):
                with pytest.raises(BackendError, match=r"n2: .* not answer: "):
                    await backend.hosts["n2"].run(("true",))
            assert (await backend.hosts["n1"].run(("true",))).exit_code == 0

    asyncio.run(body())
    assert all_gone(nodes_of(tmp_path))


def test_what_nodes_leaned_on_ends_with_the_namespaces(tmp_path: Path):
    """As the server of a filesystem, which an interruption left mounted there."""

    async def body(backend: HostedBackend) -> None:
        await backend.hosts["n1"].run(("sh", "-c", "setsid sleep 60 >/dev/null 2>&1 &"))
        assert any(seen.run_id == "leaned-on" for seen in labelled_processes())

    run_up(netns_backend(tmp_path, 1, "leaned-on"), body)
    assert [seen for seen in labelled_processes() if seen.run_id == "leaned-on"] == []


def test_namespaces_are_lost_with_an_agent(tmp_path: Path):
    async def end(after_s: float) -> int:
        await asyncio.sleep(after_s)
        return -9

    (tmp_path / "netns.log").write_text("Killed\n")
    provider = NetnsProvider(tmp_path, "run-1")
    for after_s in 600.0, 0.0:
        agent = SimpleNamespace(wait=partial(end, after_s))
        provider._agents.append(Namespaces(agent, None))
    lost = asyncio.run(provider.wait_until_lost())
    assert lost == "an agent that holds the nodes' namespaces has ended: Killed"

"""How a node process starts, refuses to start, and ends."""

import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.cluster.client.nodes import TIMEOUT_S, Nodes

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path):
    nodes = Nodes(tmp_path, 1)
    yield nodes
    nodes.__exit__()


def refusal(process_or_nodes, node=1):
    """Exit code and stderr of a node that does not start; stderr must be one plain line."""
    code = process_or_nodes.processes[node].wait(TIMEOUT_S)
    (line,) = process_or_nodes.stderr(node).splitlines()
    assert "Traceback" not in line
    return code, line


def events(nodes, name):
    return [e for e in nodes.trace(1) if e["e"] == name]


def test_sigterm_ends_a_node_gracefully_and_it_comes_back_as_itself(cluster):
    for incarnation in (0, 1):
        cluster.start(1)
        cluster.wait_until_listening(1)
        assert cluster.stop(1) == 0
        starts = events(cluster, "start")
        assert [e["n"] for e in starts] == list(range(incarnation + 1))
    assert len({e["directory_id"] for e in starts}) == 1
    assert cluster.stderr(1) == ""


def test_a_node_says_which_settings_have_no_effect_and_when_it_leads(tmp_path):
    useless = {"log.retention.hours": 168, "num.io.threads": 8}
    nodes = Nodes(tmp_path, 1, **useless)
    try:
        nodes.start(1)
        nodes.wait_until_listening(1)
        nodes.wait_until_registered()
        assert nodes.stop(1) == 0
    finally:
        nodes.__exit__()
    config = nodes.node_folder(1) / "server.properties"
    assert nodes.stderr(1).splitlines() == [
        f"{config}: without effect on this node: num.io.threads"
    ]
    kinds = [line.removeprefix("node 1: ").split(" with ")[0] for line in nodes.said(1)]
    # Matters of time: whether its controller has claimed its epoch when the broker asks to be
    # registered, and whether it resigns before the broker has been let go.
    by_chance = (
        "the broker is not registered yet, and tries on: not_controller",
        "is no longer the active controller of epoch 1",
    )
    kinds = [kind for kind in kinds if kind not in by_chance]
    where = ", ".join(
        f"{name}://127.0.0.1:{ports[1]}"
        for name, ports in (("CLIENT", nodes.client_ports), ("CONTROLLER", nodes.controller_ports))
    )
    assert sorted(kinds) == sorted(
        [
            (
                f"controller and broker of cluster test-cluster started, listening on {where}; "
                "whoever reaches CLIENT, CONTROLLER is not authenticated"
            ),
            "is the active controller, in epoch 1",
            "the broker is registered",
            "the broker is unfenced",
            "the broker asks to be let go",
        ]
    )


def test_a_node_without_a_clusters_id_takes_that_of_its_folder(cluster):
    cluster.start(1)
    cluster.wait_until_listening(1)
    assert cluster.stop(1) == 0
    named = {key: v for key, v in cluster.properties(1).items() if key != "cluster.id"}
    cluster.properties = lambda node: named
    cluster.start(1)
    cluster.wait_until_listening(1)
    assert cluster.stop(1) == 0
    assert sum("of cluster test-cluster started" in line for line in cluster.said(1)) == 2


def test_a_node_without_a_clusters_id_and_a_formatted_folder_says_what_to_do(cluster):
    named = {key: v for key, v in cluster.properties(1).items() if key != "cluster.id"}
    cluster.properties = lambda node: named
    cluster.start(1)
    code, line = refusal(cluster)
    assert code == 2
    assert line.endswith(
        "data is not formatted: python -m cluster.node.format --config FILE --cluster-id ID"
    )


def test_an_empty_folder_is_formatted(cluster):
    cluster.start(1)
    cluster.wait_until_listening(1)
    assert cluster.stop(1) == 0
    data = cluster.node_folder(1) / "data"
    properties = dict(
        line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines()
    )
    assert properties["version"] == "1"
    assert properties["cluster.id"] == "test-cluster"
    assert properties["node.id"] == "1"
    assert len(properties["directory.id"]) == 22
    assert (data / "__cluster_metadata-0").is_dir()


def test_a_port_that_is_taken_is_one_line_and_exit_2(cluster):
    with socket.create_server(("127.0.0.1", cluster.controller_ports[1])):
        cluster.start(1)
        code, line = refusal(cluster)
    assert code == 2
    assert str(cluster.controller_ports[1]) in line
    assert "address already in use" in line


def test_a_folder_in_use_is_one_line_and_exit_2(cluster):
    cluster.start(1)
    cluster.wait_until_listening(1)
    first = cluster.processes[1]
    cluster.start(1)
    code, line = refusal(cluster)
    assert (code, first.poll()) == (2, None)
    assert "in use" in line
    first.kill()
    first.wait(TIMEOUT_S)


def test_a_folder_of_another_cluster_is_one_line_and_exit_2(cluster):
    cluster.start(1)
    cluster.wait_until_listening(1)
    cluster.stop(1)
    cluster.settings["cluster.id"] = "another"
    cluster.start(1)
    code, line = refusal(cluster)
    assert code == 2
    assert "cluster.id is 'test-cluster', the configuration says 'another'" in line


def test_a_folder_that_cannot_be_made_is_one_line_and_exit_2(cluster):
    cluster.settings["metadata.log.dir"] = "/proc/nowhere"
    cluster.start(1)
    code, line = refusal(cluster)
    assert code == 2
    assert "metadata.log.dir" in line


def test_an_unreadable_quorum_state_is_one_line_and_exit_1(cluster):
    cluster.start(1)
    cluster.wait_until_listening(1)
    cluster.stop(1)
    state = cluster.node_folder(1) / "data" / "__cluster_metadata-0" / "quorum-state"
    state.write_text("{")
    cluster.start(1)
    code, _ = refusal(cluster)
    assert code == 1
    assert [e["n"] for e in events(cluster, "fatal")] == [1]
    assert state.read_text() == "{"


@pytest.mark.parametrize(
    "file",
    [
        "__cluster_metadata-0/00000000000000000000.log",
        "__cluster_metadata-0/quorum-state",
        "bootstrap.checkpoint",
    ],
)
def test_a_disk_that_cannot_be_read_is_one_line_exit_1_and_in_the_trace(cluster, file):
    cluster.start(1)
    cluster.wait_until_listening(1)
    cluster.stop(1)
    unreadable = cluster.node_folder(1) / "data" / file
    unreadable.unlink(missing_ok=True)
    unreadable.mkdir()
    cluster.start(1)
    code, line = refusal(cluster)
    assert code == 1
    assert f"Is a directory: '{unreadable}'" in line
    (fatal,) = events(cluster, "fatal")
    assert fatal["reason"].startswith("IsADirectoryError: ")


def command(*arguments, program="cluster.node"):
    return subprocess.run(
        [sys.executable, "-m", program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_missing_configuration_is_one_line_and_exit_2(tmp_path):
    result = command("--config", str(tmp_path / "none"))
    assert result.returncode == 2
    assert result.stderr == f"{tmp_path}/none: No such file or directory\n"


def test_an_unknown_mutant_is_one_line_and_exit_2(cluster):
    cluster.node_folder(1).mkdir()
    config = cluster.node_folder(1) / "server.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in cluster.properties(1).items()))
    result = command("M9999", "--config", str(config), program="cluster.mutants")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "M9999" in result.stderr


def test_a_bad_key_is_one_line_and_exit_2(cluster):
    cluster.settings["node.idd"] = 1
    cluster.start(1)
    code, line = refusal(cluster)
    assert code == 2
    assert "did you mean 'node.id'?" in line


BREAK = {
    "a commit cannot be replayed": """
from cluster.node.controller.core.controller import QuorumController
def broken(self, batches): raise ValueError("no such record")
QuorumController.handle_commit = broken
""",
    "the disk fails to sync": """
import errno, os, cluster.node.process
def broken(fd): raise OSError(errno.EIO, "Input/output error")
cluster.node.process._quiet_collector = lambda: setattr(os, "fdatasync", broken)
""",
    "a timer's callback raises": """
import asyncio, cluster.node.process
def broken(): asyncio.get_running_loop().call_later(0.1, [].pop)
cluster.node.process._quiet_collector = broken
""",
    "a task dies": """
import asyncio, gc, cluster.node.process
async def dying(): raise RuntimeError("task")
def broken(): asyncio.get_running_loop().create_task(dying()); \\
    asyncio.get_running_loop().call_later(0.1, gc.collect)
cluster.node.process._quiet_collector = broken
""",
    "the node cannot answer": """
from cluster.node.assembly import Node
def broken(self, listener, message, reply): raise OSError("answering failed")
Node.handle = broken
import asyncio, socket, struct, threading, time, cluster.node.process
def ask():
    s = socket.create_connection(("127.0.0.1", PORT))
    s.sendall(struct.pack(">ihhih", 15, 3, 0, 1, 1) + b"x" + struct.pack(">i", 0))
    s.recv(1)
cluster.node.process._quiet_collector = lambda: threading.Thread(target=ask, daemon=True).start()
""",
}


@pytest.mark.parametrize("cause", BREAK)
def test_what_should_never_happen_ends_the_process_at_once_and_loudly(cluster, cause):
    folder = cluster.node_folder(1)
    folder.mkdir()
    config = folder / "server.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in cluster.properties(1).items()))
    breaking = BREAK[cause].replace("PORT", str(cluster.client_ports[1]))
    program = (
        f"{breaking}\nfrom cluster.node.process import main\nmain(['--config', {str(config)!r}])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("fatal: ")
    assert len(events(cluster, "fatal")) == 1
    assert cluster.trace(1)[-1]["e"] == "fatal"


HANG = {
    "an fsync never comes back": """
import os, pathlib, threading, cluster.node.process
def hung(fd):
    pathlib.Path(HUNG).touch()
    threading.Event().wait()
cluster.node.process._quiet_collector = lambda: setattr(os, "fdatasync", hung)
""",
    "a read never comes back": """
import pathlib, threading
from cluster.node.assembly import Node
def hung(node, *rest): threading.Event().wait()
Node.shutdown = hung
Node.handle_signal = lambda node, what: pathlib.Path(HUNG).touch()
""",
}


SHORT = """
import cluster.node.process
cluster.node.process.SHUTDOWN_TIMEOUT_MS = 1_500.0
cluster.node.process._RAFT_SHUTDOWN_MS = 400.0
"""


@pytest.mark.parametrize("hung", HANG)
def test_a_hung_disk_does_not_keep_a_node_from_ending_on_sigterm(cluster, hung):
    folder, marker = cluster.node_folder(1), cluster.folder / "hung"
    folder.mkdir()
    config = folder / "server.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in cluster.properties(1).items()))
    begin = f"from cluster.node.process import main\nmain(['--config', {str(config)!r}])"
    program = HANG[hung].replace("HUNG", repr(str(marker))) + SHORT + begin
    with (folder / "stderr").open("ab") as stderr:
        cluster.processes[1] = subprocess.Popen([sys.executable, "-c", program], stderr=stderr)
    cluster.wait_until_listening(1)
    deadline = time.monotonic() + TIMEOUT_S
    while not marker.exists():
        assert time.monotonic() < deadline, "nothing was written"
        cluster.processes[1].send_signal(signal.SIGUSR2)  # a snapshot is written and synced
        time.sleep(0.1)
    assert cluster.stop(1) == 0
    if hung == "an fsync never comes back":
        (line,) = cluster.stderr(1).splitlines()
        assert line.endswith(
            "writes did not end within 1.5 s of SIGTERM; what was not synced is lost"
        )
        assert cluster.trace(1)[-1]["e"] == "stop-timeout"
    cluster.start(1)
    cluster.wait_until_listening(1)
    assert cluster.stop(1) == 0

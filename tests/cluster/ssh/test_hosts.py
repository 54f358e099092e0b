"""Hosts behind a real sshd: keys, lost connections, files, and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.ssh.lab import ROOT, keygen

pytestmark = pytest.mark.cluster
SCRIPT = Path(__file__).with_name("on_hosts.py")


def scenario(lab, name, inventory=None, *, inside=None):
    command = (sys.executable, str(SCRIPT), name, str(inventory or lab.inventory()))
    return subprocess.Popen(
        (inside or lab.inside)(*command),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process):
    output, _ = process.communicate(timeout=600)
    return output.splitlines()


def test_a_lost_connection_comes_back_and_nothing_is_done_twice(lab):
    process = scenario(lab, "lost_and_found")
    assert process.stdout.readline() == "running\n"
    assert lab.cut_connections("n1") >= 1
    process.stdin.write("they are cut\n")
    process.stdin.flush()
    assert output(process) == ["done ['once'] 1", "running", "-9"]
    assert lab.traces() == []


def test_a_process_ends_with_whatever_it_started(lab):
    assert output(scenario(lab, "wrapped")) == ["-9 b''", "0 b''"]
    assert lab.traces() == []


def test_files_arrive_whole_and_never_outside_of_the_nodes_folder(lab):
    lines = output(scenario(lab, "files"))
    refused = [line for line in lines if line.startswith("refused")]
    assert len(refused) == 3, lines
    assert all("outside of the node's" in line for line in refused)
    rest = [line for line in lines if line not in refused]
    assert rest[:2] == ["['a', 'b.txt', 'c']", "b'\\x00\\xff'"]
    assert rest[2] == "7"
    assert "no end within 0.2 s" in rest[3]
    assert not Path("/etc/kraftprobe").exists()


def test_the_harness_is_never_filtered(lab):
    lines = output(scenario(lab, "own_address"))
    assert lines == ["n1: refused to filter the harness's own address"] * 2 + ["0"]


def test_a_host_that_is_the_harness_itself_is_refused(lab):
    def on_n1(*command):
        return (*lab._provider.entering(lab.hosts["n1"].holder), *command)

    (line,) = output(scenario(lab, "hold", inside=on_n1))
    assert "sees the harness at 10.0.0.1" in line
    assert lab.traces() == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_cleans_itself_when_its_harness_is_lost(lab, end):
    """Stopped, it keeps its connections, as one behind a network that swallows all packets."""
    inventory = lab.inventory("lost.toml", top="reconnect_s = 2\ngrace_s = 10")
    process = scenario(lab, "hold", inventory)
    assert process.stdout.readline() == "held\n"
    if end is signal.SIGKILL:
        time.sleep(12)  # longer than the grace: a harness that lives keeps its hosts
    assert lab.labelled() != []
    process.send_signal(end)
    deadline = time.monotonic() + 300
    while lab.traces() and time.monotonic() < deadline:
        time.sleep(0.2)
    process.kill()
    process.communicate()
    assert lab.traces() == []


# -- what keeps a harness out: each is one line ----------------------------------------------------


def refusal(lab, inventory):
    (line,) = output(scenario(lab, "hold", inventory))
    assert line.startswith("BackendError: ")
    assert lab.traces() == []
    return line


def test_a_changed_host_key_is_refused_even_if_new_ones_are_accepted(lab):
    other = (lab.folder / "n1/host_key.pub").read_text()
    known = lab.known_hosts.read_text()
    try:
        lab.known_hosts.write_text(f"{lab.hosts['n2'].address} {other}")
        inventory = lab.inventory("changed.toml", top="accept_new_host_keys = true")
        line = refusal(lab, inventory)
    finally:
        lab.known_hosts.write_text(known)
    assert "n2 (root@10.0.0.2:22): its key" in line


def test_an_unknown_host_key_is_refused_with_the_command_that_would_add_it(lab):
    known = lab.known_hosts.read_text()
    try:
        lab.know("n1", "n2")
        line = refusal(lab, lab.inventory())
        assert "n3 (root@10.0.0.3:22): its key (ssh-ed25519 SHA256:" in line
        assert f"ssh-keyscan -p 22 10.0.0.3 >> {lab.known_hosts}" in line
    finally:
        lab.known_hosts.write_text(known)


def test_an_unknown_host_key_is_kept_when_the_inventory_says_so(lab):
    known = lab.known_hosts.read_text()
    try:
        lab.know("n1", "n2")
        accepting = lab.inventory("accepting.toml", top="accept_new_host_keys = true")
        assert output(scenario(lab, "own_address", accepting))[-1] == "0"
        assert output(scenario(lab, "own_address"))[-1] == "0"
    finally:
        lab.known_hosts.write_text(known)


def test_a_wrong_key_is_refused(lab):
    wrong = lab.folder / "wrong_key"
    if not wrong.exists():
        keygen(wrong)
    line = refusal(lab, lab.inventory("wrong.toml", key=str(wrong)))
    assert f"let root in with {wrong}" in line


ONE_MACHINE = "hosts n1 (root@10.0.0.1:22) and n2 (root@10.0.0.1:22) are one machine"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"nodes": ("n1", "n1", "n2")}, ONE_MACHINE),
        ({"key": "/no/such/key"}, "/no/such/key"),
        ({"port": 2222}, "n1 (root@10.0.0.1:2222) cannot be reached: "),
        ({"python": "/no/such/python"}, "/no/such/python"),
        ({"nodes": ("n1", "n2")}, "the inventory names 2 hosts, and 3 are needed"),
    ],
    ids=["one machine", "no key file", "no answer", "no such python", "too few"],
)
def test_hosts_that_cannot_be_used_are_reported(lab, given, reason):
    assert reason in refusal(lab, lab.inventory("odd.toml", **given))

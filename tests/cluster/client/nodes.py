"""Real node processes on loopback, without a backend."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

T = TypeVar("T")

TIMEOUT_S = 300.0

STEADY = {
    "controller.quorum.election.timeout.ms": 1_000,
    "controller.quorum.fetch.timeout.ms": 60_000,
    "controller.quorum.request.timeout.ms": 30_000,
    "broker.session.timeout.ms": 60_000,
}
"""Of nodes that no test ends: however busy the machine, their first leader stays, and no broker is fenced."""
PATIENT = """
import cluster.node.process
cluster.node.process.SHUTDOWN_TIMEOUT_MS = 60_000.0
cluster.node.process.main()
"""
"""A node that waits for a disk which others keep busy, so that an end in order is one."""


def free_ports(count: int) -> list[int]:
    """Ports that no program listens on, below those that outgoing connections are given."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found


def eventually(read: Callable[[], T], wanted: object = bool) -> T:
    """Read again and again until it is `wanted`, or true of what is read; return that."""
    holds = wanted if callable(wanted) else lambda found: found == wanted
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def wait_until_listens(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    """Wait until a process that has begun listens on a port; `output`: what it has said."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        assert process.poll() is None, output.read_text()[-3000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        assert time.monotonic() < deadline, f"nothing listens on {port}: {output}"
        time.sleep(0.02)


class Nodes:
    """`count` nodes with both roles; ids from 1."""

    def __init__(self, folder: Path, count: int = 3, **settings: object) -> None:
        self.folder = folder
        ports = free_ports(2 * count)
        self.client_ports = dict(enumerate(ports[:count], start=1))
        self.controller_ports = dict(enumerate(ports[count:], start=1))
        self.settings = {
            "controller.quorum.election.timeout.ms": 300,
            "controller.quorum.fetch.timeout.ms": 600,
            "controller.quorum.request.timeout.ms": 500,
            "controller.quorum.append.linger.ms": 2,
            **settings,
        }
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def node_folder(self, node: int) -> Path:
        return self.folder / f"n{node}"

    def trace(self, node: int) -> list[dict]:
        path = self.node_folder(node) / "trace.jsonl"
        whole, _, _ = path.read_text().rpartition("\n")  # its last line may be half written
        return [json.loads(line) for line in whole.splitlines()]

    def leader(self) -> int:
        """Wait for a controller that has claimed an epoch; return that of the latest."""

        def claims() -> list[tuple[int, int]]:
            return [
                (line["epoch"], node)
                for node in self.controller_ports
                for line in self.trace(node)
                if line["e"] == "claim"
            ]

        return max(eventually(claims))[1]

    def stderr(self, node: int) -> str:
        return (self.node_folder(node) / "stderr").read_text()

    def said(self, node: int) -> list[str]:
        """What it says of itself."""
        return (self.node_folder(node) / "stdout").read_text().splitlines()

    def properties(self, node: int) -> dict[str, object]:
        def by_id(ports: dict[int, int]) -> str:
            return ",".join(f"{i}@127.0.0.1:{p}" for i, p in ports.items())

        return {
            "process.roles": "controller,broker",
            "node.id": node,
            "cluster.id": "test-cluster",
            "listeners": f"CLIENT://127.0.0.1:{self.client_ports[node]},"
            f"CONTROLLER://127.0.0.1:{self.controller_ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": by_id(self.controller_ports),
            "metadata.log.dir": self.node_folder(node) / "data",
            "kraftprobe.brokers": by_id(self.client_ports),
            "kraftprobe.trace.file": self.node_folder(node) / "trace.jsonl",
            **self.settings,
        }

    def start(self, node: int) -> subprocess.Popen[bytes]:
        folder = self.node_folder(node)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "server.properties"
        config.write_text("".join(f"{k}={v}\n" for k, v in self.properties(node).items()))
        with (folder / "stderr").open("ab") as stderr, (folder / "stdout").open("ab") as stdout:
            process = subprocess.Popen(
                [sys.executable, "-c", PATIENT, "--config", str(config)],
                stderr=stderr,
                stdout=stdout,
            )
        self.processes[node] = process
        return process

    def wait_until_listening(self, node: int) -> None:
        for port in (self.client_ports[node], self.controller_ports[node]):
            wait_until_listens(self.processes[node], port, self.node_folder(node) / "stderr")

    def wait_until_registered(self) -> None:
        """Wait until every broker has been unfenced."""
        deadline = time.monotonic() + TIMEOUT_S
        for node in self.client_ports:
            while not any(
                line["e"] == "broker-state" and line["state"] == "running"
                for line in self.trace(node)
            ):
                assert time.monotonic() < deadline, f"broker {node} is not unfenced"
                time.sleep(0.05)

    def __enter__(self) -> Self:
        for node in self.client_ports:
            self.start(node)
        for node in self.client_ports:
            self.wait_until_listening(node)
        return self

    def stop(self, node: int) -> int:
        process = self.processes[node]
        process.send_signal(signal.SIGTERM)
        return process.wait(TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(TIMEOUT_S)

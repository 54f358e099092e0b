"""Three PySyncObj processes, started and asked from here."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.node.load import Load, summarize

ANSWER_TIMEOUT_S = 90
PROGRAM = Path(__file__).with_name("pysyncobj_node.py")


class Peer:
    """A quorum of PySyncObj replicas in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._addresses = [f"127.0.0.1:{port}" for port in _free_ports(3)]
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for address in self._addresses:
            self._start(address)

    def _start(self, address: str) -> None:
        others = [other for other in self._addresses if other != address]
        journal = str(self._folder / f"journal-{address.rpartition(':')[2]}")
        self._processes[address] = subprocess.Popen(
            [sys.executable, str(PROGRAM), address, journal, *others],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read(address)

    def _read(self, address: str) -> dict[str, object]:
        stdout = self._processes[address].stdout
        if not select.select([stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            raise SystemExit(f"a PySyncObj node did not answer within {ANSWER_TIMEOUT_S} s")
        line = stdout.readline()
        if not line:
            raise SystemExit("a PySyncObj node ended")
        return json.loads(line)

    def _ask(self, address: str, **command: object) -> dict[str, object]:
        self._send(address, **command)
        return self._read(address)

    def _send(self, address: str, **command: object) -> None:
        stdin = self._processes[address].stdin
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()

    def leader(self) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for address in self._addresses:
                leader = self._ask(address, do="leader")["leader"]
                if leader in self._processes:
                    return str(leader)
            time.sleep(0.05)
        raise SystemExit("PySyncObj elected no leader within 30 s")

    def closed_loop(self, clients: int, seconds: float) -> Load:
        answer = self._ask(self.leader(), do="load", clients=clients, seconds=seconds)
        return summarize(answer["latencies_ms"], seconds)

    def failover_ms(self) -> float:
        leader = self.leader()
        others = [address for address in self._addresses if address != leader]
        process = self._processes[leader]
        started = time.monotonic()
        process.send_signal(signal.SIGKILL)
        process.wait()
        for address in others:
            self._send(address, do="insist")
        acknowledged = min(float(self._read(address)["at_s"]) for address in others)
        self._start(leader)
        time.sleep(1.5)
        return (acknowledged - started) * 1000

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for bound in sockets:
        bound.bind(("127.0.0.1", 0))
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports

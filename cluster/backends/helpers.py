"""Small programs of ours beside every node: started in its host, asked over the harness's path."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from cluster.backends.abilities import Host
from cluster.backends.base import BackendError, NodeState
from cluster.backends.hosts import HostPorts, HostProvider, StartedProcess
from cluster.backends.processes.records import labels

ASK_TIMEOUT_S = 5.0
_READY_TIMEOUT_S = 15.0
_POLL_S = 0.02


class Helpers:
    """One process of a program in every host that wants one.

    `program` is a module that runs as a script of the standard library alone and reads its settings
    from the environment variable `variable`: its address, port and token, and what `settings` adds.
    """

    def __init__(
        self,
        provider: HostProvider,
        hosts: Mapping[str, Host],
        run_id: str,
        program: ModuleType,
        variable: str,
        port: Callable[[HostPorts], int],
        *,
        ping: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        privileged: bool = False,
    ) -> None:
        self._provider = provider
        self._hosts = dict(hosts)
        self._run_id = run_id
        self._source = Path(str(program.__file__)).read_bytes()
        self._name = program.__name__.rpartition(".")[2]
        self._variable = variable
        self._port_of = port
        self._ping = dict(ping)
        self._settings = dict(settings or {})
        self._privileged = privileged
        self._token = secrets.token_hex(16)
        self._running: dict[str, StartedProcess] = {}

    def port(self, node: str) -> int:
        """Return the port of the node's helper."""
        return self._port_of(self._provider.ports(node))

    async def ensure(self, node: str) -> bool:
        """Start the node's helper if it does not run; answers whether it had to be started."""
        if await self.runs(node):
            return False
        script = f"{self._name}.py"
        await self._provider.put(node, {script: self._source})
        host = self._hosts[node]
        settings = {"address": host.address, "port": self.port(node), "token": self._token}
        environment = {
            self._variable: json.dumps({**settings, **self._settings}),
            **labels(self._run_id, support=True),
        }
        command = (self._provider.interpreter, "-I", "-S", script)
        self._running[node] = await self._provider.start(
            node, command, environment, f"{self._name}.log", privileged=self._privileged
        )
        await self._wait_ready(node)
        return True

    async def runs(self, node: str) -> bool:
        """Whether the node's helper lives."""
        helper = self._running.get(node)
        return helper is not None and await helper.state() is not NodeState.DEAD

    def stop_now(self) -> None:
        """Kill all of them without the event loop."""
        for helper in self._running.values():
            helper.kill_now()

    async def ask(
        self, node: str, request: Mapping[str, Any], timeout_s: float = ASK_TIMEOUT_S
    ) -> Any:
        """Ask the node's helper. Raises BackendError."""
        line = json.dumps({**request, "token": self._token}).encode() + b"\n"
        try:
            async with asyncio.timeout(timeout_s):
                address = self._hosts[node].address
                connection = await self._provider.connect(address, self.port(node))
                reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 22)
                try:
                    writer.write(line)
                    answer = await reader.readline()
                finally:
                    writer.close()
            return json.loads(answer)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise BackendError(f"{self._name} of {node} does not answer: {reason}") from error

    async def _wait_ready(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READY_TIMEOUT_S
        while True:
            try:
                await self.ask(node, self._ping)
            except BackendError as error:
                if not await self.runs(node) or loop.time() >= deadline:
                    tail = await self._running[node].output_tail()
                    reason = tail[-1] if tail else str(error)
                    raise BackendError(f"{self._name} of {node} did not start: {reason}") from error
                await asyncio.sleep(_POLL_S)
            else:
                return

"""Small Python programs run inside a host: a JSON argument in, a JSON answer out.

They use the standard library alone and start without site packages, in about 20 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from cluster.backends.abilities import Completed, Host
from cluster.backends.base import BackendError
from cluster.values import valueclass

_WORDS_MAX = 300


@valueclass
class Machine:
    """A host together with the Python in it that can import this toolkit."""

    host: Host
    interpreter: str

    @property
    def node(self) -> str:
        """See `Host.node`."""
        return self.host.node

    @property
    def folder(self) -> PurePath:
        """See `Host.folder`."""
        return self.host.folder

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """See `Host.run`."""
        return await self.host.run(command, stdin=stdin, timeout_s=timeout_s)

    async def pid(self) -> int | None:
        """See `Host.pid`."""
        return await self.host.pid()


def machines_of(hosts: Mapping[str, Host], interpreter: str) -> dict[str, Machine]:
    """Pair hosts with the Python in them."""
    return {node: Machine(host, interpreter) for node, host in hosts.items()}


async def run_program(
    host: Machine,
    source: str,
    argument: object,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> Any:
    """Run `source`, which finds its argument in `argument` and calls `answer(value)` once.

    Raises BackendError with the program's last line of stderr when it fails.
    """
    prelude = (
        "import json, sys\n"
        "argument = json.loads(sys.stdin.read())\n"
        "def answer(value):\n    print(json.dumps(value), flush=True)\n"
    )
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    command = [
        *(["env", *variables] if variables else []),
        host.interpreter,
        *("-I", "-S", "-c", prelude + source),
    ]
    done = await host.run(command, stdin=json.dumps(argument).encode(), timeout_s=timeout_s)
    if done.exit_code != 0:
        raise BackendError(f"{host.node}: {_last_line(done.stderr) or done.exit_code}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise BackendError(f"{host.node}: a helper gave no answer") from error


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:_WORDS_MAX] if lines else ""

"""Functions of `machine.inside`, run inside a host in about 20 ms; what passes is JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from cluster.backends.abilities import Host
from cluster.backends.base import BackendError

_WORDS_MAX = 300
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run_program(
    host: Host, program: Callable[[*Ts], T], *args: *Ts, timeout_s: float = 10.0
) -> T:
    """Call a function of `machine.inside` inside the host; what it returns, as JSON gives it back.

    Raises BackendError with the last line of stderr when it fails.
    """
    command = [host.interpreter, *("-I", "-S", "-c", _source_of(program))]
    done = await host.run(command, stdin=json.dumps(args).encode(), timeout_s=timeout_s)
    if done.exit_code != 0:
        raise BackendError(f"{host.node}: {done.complaint(-1)[:_WORDS_MAX]}")
    try:
        answer: T = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise BackendError(f"{host.node}: a helper gave no answer") from error
    return answer


def _source_of(program: Callable[..., object]) -> str:
    """Return the source of a program that calls the function with the JSON of its stdin."""
    module = Path(program.__code__.co_filename).read_text(encoding="utf-8")
    return (
        f"{module}\nimport json, sys\n"
        f"print(json.dumps({program.__name__}(*json.loads(sys.stdin.read()))), flush=True)\n"
    )

"""A harness that brings a cluster up, prints a line, and waits to be killed: RUN_FOLDER RUN_ID [MODE]."""

import asyncio
import sys
from pathlib import Path

from fake_system import FakeSystem

from cluster.backends.local.local_backend import LocalBackend


async def main() -> None:
    backend = LocalBackend(FakeSystem(*sys.argv[3:]), Path(sys.argv[1]), 3, sys.argv[2])
    await backend.up()
    await backend.pause("n2")
    sys.stdout.write("up\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


asyncio.run(main())

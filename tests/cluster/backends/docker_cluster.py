"""Containers with fake nodes; as a program, RUN_FOLDER RUN_ID: bring two up and wait to be killed."""

import asyncio
import os
import sys
from pathlib import Path

from fake_system import PROGRAM, FakeSystem

from cluster.backends.docker.docker_backend import DockerBackend


class CarriedSystem(FakeSystem):
    """The fake node; its program is put beside its configuration: a container sees no tests."""

    def files(self, node):
        return {**super().files(node), PROGRAM.name: PROGRAM.read_text()}

    def data_folder(self, folder):
        return folder / "data"

    def words(self, folder):
        return (str(folder / PROGRAM.name), str(folder / "config.json"))


def docker_backend(
    folder: Path, count: int, run_id: str, mode: str = "", needs=()
) -> DockerBackend:
    return DockerBackend(CarriedSystem(mode), folder, count, run_id, needs=needs)


async def hold(folder: Path, run_id: str) -> None:
    backend = docker_backend(folder, 2, run_id, needs=("disks",) if os.geteuid() == 0 else ())
    try:
        await backend.up()
        await backend.pause("n2")
        sys.stdout.write("up\n")
        sys.stdout.flush()
        await asyncio.sleep(600)
    finally:
        await backend.down()


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1]), sys.argv[2]))

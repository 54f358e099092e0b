"""`image`: the toolkit itself as an image, for jobs that have a docker engine and no more.

The image of hosts with the toolkit's sources, its packages and the scripts for CI on top. Where the
hosts' base was made of this machine (no registry can be reached) the packages are copied from it;
else pip installs the same versions in the image.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module, metadata
from pathlib import Path, PurePosixPath

import click
import docker

from cluster.backends.base import BackendError
from cluster.backends.dependencies import with_requirements
from cluster.backends.docker import image as host_image
from cluster.backends.docker import rootfs
from cluster.backends.docker.engine import BUILD_TIMEOUT_S, EngineErrors, connect, reason
from cluster.backends.docker.image import Say, build, ensure_image, has, is_of_this_machine, pin
from harness.commands.options import Command, shown_options
from harness.source_digest import PACKAGES
from harness.terminal.answers import Shown, answer

REPOSITORY = "kraftprobe/toolkit"
NAME = "kraftprobe"
_HOME = PurePosixPath("/opt/kraftprobe")
_MARKER = _HOME / "toolkit"
_PROGRAM = PurePosixPath("/usr/local/bin/kraftprobe")
_START = f"""\
#!{rootfs.INTERPRETER}
import sys

from harness.cli import main

sys.exit(main(prog_name="kraftprobe"))
"""
_DOCKERFILE = Path(host_image.__file__).with_name("Dockerfile.toolkit")
_GATE = Path(__file__).resolve().parents[2] / "ci" / "gate.sh"


def ensure_toolkit_image(client: docker.DockerClient, host: str, say: Say) -> str:
    """Return the tag of the image on the image `host`, after building it if it is not there.

    Raises BackendError.
    """
    packages = with_requirements([NAME])
    del packages[NAME]
    packages.pop("porcupine-py", None)  # its sources are copied as ours
    wanted = pin(packages)
    files = dict(_files())
    contents = hashlib.sha256(f"{host}\0{wanted}\0".encode() + _DOCKERFILE.read_bytes())
    for path, (data, _) in files.items():  # templates, campaigns and scripts as well as sources
        contents.update(f"\0{path}\0{len(data)}\0".encode() + data)
    tag = f"{REPOSITORY}:{contents.hexdigest()[:16]}"
    if has(client, tag):
        return tag
    say(f"building the image {tag} on {host}")
    copied = is_of_this_machine(host)
    if copied:
        files[_MARKER] = (b"", 0o644)
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, "Dockerfile", _DOCKERFILE.read_bytes())
            _add(archive, "requirements.txt", wanted.encode())
            rootfs.add_distributions(archive, "root", packages.values() if copied else (), files)
        file.seek(0)
        build(client, host, tag, file, by_itself=copied)
    return tag


def _files() -> Iterator[tuple[PurePosixPath, tuple[bytes, int]]]:
    """Yield what is ours: sources with their data, the program, the script for CI, the metadata."""
    yield _PROGRAM, (_START.encode(), 0o755)
    if _GATE.is_file():  # in a checkout
        yield _HOME / "ci" / "gate.sh", (_GATE.read_bytes(), 0o755)
    own = metadata.distribution(NAME)
    information = f"{NAME}-{own.version}.dist-info/METADATA"
    yield rootfs.SITE / information, ((own.read_text("METADATA") or "").encode(), 0o644)
    for package in PACKAGES:
        top = Path(str(import_module(package).__file__)).parent
        for path in sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                place = _HOME / "code" / package / path.relative_to(top).as_posix()
                yield place, (path.read_bytes(), 0o644)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


@click.command(cls=Command)
@click.option("--tag", metavar="NAME", help="Also give it this name.")
@shown_options(json="Print the image's name.", quiet="Print the name alone.")
def image(tag: str | None, shown: Shown) -> int:
    """Build an image that holds Kraftprobe, and print its name.

    For jobs whose machine has a docker engine and no Python. It is built once for each state of the
    code; nothing is pushed.
    """

    def say(line: str) -> None:
        if shown is Shown.LINES:
            click.echo(f"kraftprobe: {line}", err=True)

    with closing(connect()) as client:
        client.api.timeout = BUILD_TIMEOUT_S
        host = asyncio.run(ensure_image(client, say))
        name = ensure_toolkit_image(client, host, say)
        if tag is not None:
            _also_named(client, name, tag)
    name = tag or name
    answer(shown, {"image": name}, [name], [name])
    return 0


def _also_named(client: docker.DockerClient, name: str, tag: str) -> None:
    try:
        client.images.get(name).tag(tag)
    except EngineErrors as error:
        raise BackendError(f"--tag {tag}: the engine refuses it: {reason(error)}") from error

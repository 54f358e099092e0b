"""The image of hosts: built once for each set of contents, and found again by its tag.

The tag is a digest of all that goes in: the Dockerfile, the versions of the node's dependencies,
and for a base of this machine the interpreter and the way the base is made. The node's own code is
not in it, so changing that builds nothing.

Which base: what the user names in KRAFTPROBE_DOCKER_BASE; else the Dockerfile's default where the
engine has it or can pull it; else one made from this machine (`rootfs`).
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import IO

import docker
from docker.errors import ImageNotFound

from cluster.backends.base import BackendError
from cluster.backends.dependencies import requirements
from cluster.backends.docker import rootfs
from cluster.backends.docker.engine import BUILD_TIMEOUT_S, EngineErrors, in_thread, reason

REPOSITORY = "kraftprobe/host"
BASE_REPOSITORY = "kraftprobe/base"
IMAGE_LABEL = "kraftprobe.image"
"""Label of images: the digest. They belong to no run and are kept; see docs/setup.md."""
BASE_VARIABLE = "KRAFTPROBE_DOCKER_BASE"
DEFAULT_BASE = "python:3.12-slim"

Say = Callable[[str], None]
_DOCKERFILE = Path(__file__).with_name("Dockerfile")


async def ensure_image(client: docker.DockerClient, say: Say) -> str:
    """Return the tag of the image, built if the engine lacks it. Raises BackendError."""
    usual_s, client.api.timeout = client.api.timeout, BUILD_TIMEOUT_S
    try:
        return await in_thread(_ensure, client, say)
    finally:
        client.api.timeout = usual_s


def _ensure(client: docker.DockerClient, say: Say) -> str:
    asked = os.environ.get(BASE_VARIABLE)
    wanted = _requirements_text()
    # A host image of either base serves; the registry's is looked for first.
    bases = (asked,) if asked else (DEFAULT_BASE, _own_base_tag())
    for base in bases:
        tag = _tag(base, wanted)
        if has(client, tag):
            return tag
    began = time.monotonic()
    if asked:
        base = _asked_base(client, asked, say)
    else:
        base = DEFAULT_BASE if _pull(client, DEFAULT_BASE, say) else _own_base(client, say)
    tag = _tag(base, wanted)
    say(f"building the image {tag} on {base} (once; kept for later runs)")
    context = _context(
        {"Dockerfile": _DOCKERFILE.read_bytes(), "requirements.txt": wanted.encode()}
    )
    build(client, base, tag, context, by_itself=base.startswith(BASE_REPOSITORY))
    say(f"built the image {tag} in {time.monotonic() - began:.1f} s")
    return tag


def is_of_this_machine(tag: str) -> bool:
    """Return whether an image of hosts has the base that is made of this machine."""
    return tag == _tag(_own_base_tag(), _requirements_text())


def _asked_base(client: docker.DockerClient, base: str, say: Say) -> str:
    """Have the base that the user names. Raises BackendError that names it."""
    try:
        if not has(client, base):
            say(f"asking the registry for {base} ({BASE_VARIABLE})")
            client.images.pull(base)
    except EngineErrors as error:
        raise BackendError(
            f"{BASE_VARIABLE} names the image {base!r}, which the docker engine neither has nor "
            f"can pull: name one with Python 3.11 to 3.13, or unset it ({reason(error)})"
        ) from error
    return base


def _pull(client: docker.DockerClient, base: str, say: Say) -> bool:
    """Whether the engine has the base or can fetch it."""
    if has(client, base):
        return True
    say(f"asking the registry for {base}")
    try:
        client.images.pull(base)
    except EngineErrors as error:
        say(f"no registry can be reached ({reason(error)[:120]}): making a base of this machine")
        return False
    return True


def _own_base(client: docker.DockerClient, say: Say) -> str:
    """Import this machine's interpreter and tools, if that has not been done."""
    tag = _own_base_tag()
    if not has(client, tag):
        began = time.monotonic()
        packed = rootfs.pack()
        repository, _, version = tag.partition(":")
        client.api.import_image_from_data(
            packed,
            repository=repository,
            tag=version,
            changes=[f"LABEL {IMAGE_LABEL}={version}", "ENV LANG=C.UTF-8"],
        )
        size = len(packed) // 1_000_000
        say(f"imported a base of this machine: {size} MB in {time.monotonic() - began:.1f} s")
    return tag


def build(
    client: docker.DockerClient, base: str, tag: str, context: IO[bytes], *, by_itself: bool
) -> None:
    """Build an image from a tar archive; `by_itself`: it fetches nothing. Raises BackendError."""
    label = tag.partition(":")[2]
    lines: list[str] = []
    for step in client.api.build(
        fileobj=context,
        custom_context=True,
        tag=tag,
        buildargs={"BASE": base},
        network_mode="none" if by_itself else None,  # the engine's usual one may be turned off
        labels={IMAGE_LABEL: label},
        rm=True,
        forcerm=True,
        decode=True,
    ):
        lines.append(str(step.get("stream") or step.get("error") or "").strip())
        if "error" in step:
            output = " ".join(" ".join(line for line in lines[-4:] if line).split())
            raise BackendError(reason(RuntimeError(f"no image can be built on {base}: {output}")))


def _context(files: Mapping[str, bytes]) -> io.BytesIO:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    data.seek(0)
    return data


def _requirements_text() -> str:
    return pin(requirements())


def pin(packages: Mapping[str, metadata.Distribution]) -> str:
    """Spell packages in their installed versions, as pip reads them."""
    return "".join(f"{name}=={package.version}\n" for name, package in packages.items())


def _tag(base: str, wanted: str) -> str:
    return f"{REPOSITORY}:{_digest(base, wanted, _DOCKERFILE.read_text(encoding='utf-8'))}"


def _own_base_tag() -> str:
    made_by = Path(rootfs.__file__).read_text(encoding="utf-8")
    parts = (sys.version, sys.base_prefix, platform.machine(), _requirements_text(), made_by)
    return f"{BASE_REPOSITORY}:{_digest(*parts)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def has(client: docker.DockerClient, tag: str) -> bool:
    """Return whether the engine has an image of this name."""
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True

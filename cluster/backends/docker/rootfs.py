"""A container's root filesystem made from this machine's own interpreter and tools.

For machines that reach no registry. Holds the interpreter with its standard library, the node's
dependencies, the tools that hosts need, whatever of shared objects all of these load (as `ldd` says
it), and the few files of /etc without which names do not resolve. Everything lies where it lies on
this machine, so no path has to be configured; the dependencies go to one folder.

On one Debian 12: 80 MB and 2 s (docs/setup.md).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath

from cluster.backends.base import BackendError
from cluster.backends.dependencies import requirements
from cluster.backends.packages import install

SITE = PurePosixPath("/opt/kraftprobe/site")
INTERPRETER = PurePosixPath("/opt/kraftprobe/bin/python")
MARKER = PurePosixPath("/opt/kraftprobe/complete")

_NEEDED = ("sh", "sleep", "cat", "mkdir", "rm", "mv", "cp", "kill", "env", "tar", "nft", "tc", "ip")
_WELCOME = (
    "bash chmod chown cut date dd df echo fallocate find grep head id iptables iptables-nft ln ls "
    "mount nsenter prlimit ps pwd readlink sed seq setpriv ss ssh-keygen stat stdbuf sync sysctl "
    "tail tee test timeout touch tr true truncate umount uname wc xtables-nft-multi"
)
_PLUGINS = ("xtables", "iptables")
"""Folders beside the libraries, with what iptables loads by itself."""
_ETC = ("protocols", "services", "localtime", "nsswitch.conf", "iproute2", "ld.so.cache")
_NOT_NEEDED = re.compile(
    r"(site-packages|dist-packages|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|"
    r"config-.*|idle_test)"
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


def pack() -> bytes:
    """Make the filesystem as an uncompressed tar archive, for `docker import`.

    Raises BackendError where a tool is missing that cannot be done without, or cannot be read.
    """
    try:
        return _pack()
    except OSError as error:
        raise BackendError(
            f"no registry can be reached, and no base can be made from this machine: {error}"
        ) from error


def _pack() -> bytes:
    """Pack it. Raises OSError where a file cannot be read."""
    data = io.BytesIO()
    archive = tarfile.TarFile(fileobj=data, mode="w", format=tarfile.GNU_FORMAT)
    tree = Tree(archive)
    tree.links_at_root()
    for folder in ("tmp", "proc", "sys", "dev", "run", "etc", "root", "var/tmp"):
        tree.folder(PurePosixPath("/", folder), 0o1777 if folder.endswith("tmp") else 0o755)
    dependencies = _distributions(tree, requirements().values())
    binaries = [*_interpreter(tree), *_tools(tree), *dependencies, *_plugins(tree)]
    for library in _closure(binaries):
        tree.file(library)
    _etc(tree)
    archive.close()
    return data.getvalue()


def add_distributions(
    archive: tarfile.TarFile,
    below: str,
    distributions: Iterable[metadata.Distribution],
    files: Mapping[PurePosixPath, tuple[bytes, int]],
) -> None:
    """Add installed distributions, what they load of this machine, and files with their modes.

    All lie as in a filesystem whose root is the archive's folder `below`. Raises BackendError.
    """
    tree = Tree(archive, below)
    tree.know_links_at_root()
    installed = list(distributions)
    own = {Path(str(distribution.locate_file(""))) for distribution in installed}
    try:
        binaries = list(_distributions(tree, installed))
        for library in _closure(binaries):
            if not any(library.is_relative_to(place) for place in own):
                tree.file(library)
    except OSError as error:
        raise BackendError(f"an installed package cannot be read: {error}") from error
    for path, (data, mode) in files.items():
        tree.content(path, data, mode)


class Tree:
    """Adds files to an archive, below a folder of it; each path once, parents first."""

    def __init__(self, archive: tarfile.TarFile, below: str = "") -> None:
        self._tar = archive
        self._below = below
        self._there: set[PurePosixPath] = {PurePosixPath("/")}
        self._at_root: dict[str, str] = {}

    def know_links_at_root(self) -> None:
        """Follow /bin -> usr/bin and its like, where this machine has them."""
        for path in sorted(Path("/").iterdir()):
            if path.is_symlink() and path.name in {"bin", "sbin", "lib", "lib32", "lib64"}:
                self._at_root[path.name] = str(path.readlink())

    def links_at_root(self) -> None:
        """Make them here as well."""
        self.know_links_at_root()
        for name, target in self._at_root.items():
            self.link(PurePosixPath("/", name), target)

    def folder(self, path: PurePosixPath, mode: int = 0o755) -> None:
        """Add a folder, and those above it."""
        if self._new(path):
            self._add(_entry(path, tarfile.DIRTYPE, mode))

    def link(self, path: PurePosixPath, target: str) -> None:
        """Add a symbolic link."""
        if self._new(path):
            entry = _entry(path, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            self._add(entry)

    def file(self, source: Path, path: PurePosixPath | None = None) -> None:
        """Add what `source` shows, followed to its content, at its own or another path."""
        place = self._real(path or PurePosixPath(source))
        # Compiled modules know their sources by the time of change: with another one every
        # start would compile them anew.
        mode = 0o755 if os.access(source, os.X_OK) else 0o644
        self.content(place, source.read_bytes(), mode, int(source.stat().st_mtime))

    def content(
        self, path: PurePosixPath, data: bytes, mode: int = 0o644, mtime_s: int = 0
    ) -> None:
        """Add a file of this content."""
        if self._new(path):
            entry = _entry(path, tarfile.REGTYPE, mode)
            entry.size = len(data)
            entry.mtime = mtime_s
            self._add(entry, data)

    def tree(self, source: Path, path: PurePosixPath | None = None) -> Iterator[Path]:
        """Add a folder with all below it; yields the shared objects among its files."""
        top = self._real(path or PurePosixPath(source))
        for folder, names, files in os.walk(source):
            names[:] = sorted(name for name in names if not _NOT_NEEDED.fullmatch(name))
            for name in sorted(files):
                found = Path(folder, name)
                if found.exists():
                    self.file(found, top / found.relative_to(source))
                    if ".so" in found.suffixes:
                        yield found

    def _real(self, path: PurePosixPath) -> PurePosixPath:
        """Where a path leads when a link at the root is on its way."""
        first, *rest = path.parts[1:]
        return PurePosixPath("/", self._at_root.get(first, first), *rest)

    def _new(self, path: PurePosixPath) -> bool:
        if path in self._there:
            return False
        self.folder(path.parent)
        self._there.add(path)
        return True

    def _add(self, entry: tarfile.TarInfo, data: bytes = b"") -> None:
        entry.name = str(PurePosixPath(self._below, entry.name))
        self._tar.addfile(entry, io.BytesIO(data))


def _entry(path: PurePosixPath, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path.relative_to("/")))
    entry.type = kind
    entry.mode = mode
    return entry


def _interpreter(tree: Tree) -> Iterator[Path]:
    """Add the interpreter below its virtual environment, if it is in one, and its library."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    tree.file(base)
    tree.link(INTERPRETER, str(base))
    tree.link(PurePosixPath("/usr/local/bin/python3"), str(base))
    yield base
    installed = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    installed |= {"installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
    for key in ("stdlib", "platstdlib"):
        folder = Path(sysconfig.get_path(key, vars=installed))
        if folder.is_dir():
            yield from tree.tree(folder)


def _tools(tree: Tree) -> Iterator[Path]:
    missing = []
    for name in (*_NEEDED, *_WELCOME.split()):
        found = shutil.which(name, path=_PATH)
        if found is not None:
            path = Path(found)
            tree.file(path)
            yield path
        elif name in _NEEDED:
            missing.append(name)
    if missing:
        raise BackendError(
            f"no registry can be reached, and a base image cannot be made from this machine, as it "
            f"lacks {', '.join(missing)}: {install('nftables', 'iproute2', 'coreutils', 'tar')}"
        )


def _plugins(tree: Tree) -> Iterator[Path]:
    libc = _closure([Path(shutil.which("sh", path=_PATH) or "/bin/sh")])
    for library_folder in sorted({path.parent for path in libc}):
        for name in _PLUGINS:
            folder = library_folder / name
            if folder.is_dir():
                yield from tree.tree(folder)


def _distributions(tree: Tree, distributions: Iterable[metadata.Distribution]) -> Iterator[Path]:
    for distribution in distributions:
        for file in distribution.files or ():
            if ".." in file.parts:
                continue  # a script of its own, outside of the packages
            source = Path(str(file.locate()))
            if source.is_file():
                tree.file(source, SITE / PurePosixPath(file))
                if ".so" in source.suffixes:
                    yield source


def _closure(binaries: Iterable[Path]) -> list[Path]:
    """List what the dynamic loader would load for these, sorted; scripts load nothing."""
    found: set[Path] = set()
    asked = sorted({path for path in binaries if _is_elf(path)})
    answer = subprocess.run(  # noqa: S603  (paths of our own finding)
        ["ldd", *map(str, asked)],  # noqa: S607  (the system's)
        capture_output=True,
        text=True,
        check=False,
    )
    for line in answer.stdout.splitlines():
        loaded = _LOADED.search(line)
        if loaded is not None:
            found.add(Path(loaded.group(1)))
    return sorted(found)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _etc(tree: Tree) -> None:
    tree.content(PurePosixPath("/etc/passwd"), _USERS.encode())
    tree.content(PurePosixPath("/etc/group"), _GROUP.encode())
    for name in _ETC:
        path = Path("/etc", name)
        if path.is_dir():
            for _ in tree.tree(path):
                pass
        elif path.exists():
            tree.file(path)
    tree.content(MARKER, b"")

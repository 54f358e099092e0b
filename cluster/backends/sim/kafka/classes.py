"""Java classes that play Kafka's raft client, for each generation of its interfaces.

One source in `java` serves all releases from 3.9 on. A line that ends in `// SINCE x` or
`// BEFORE x` belongs to the releases from x on, or below; three classes changed name or package,
which is replaced. `python -m cluster.backends.sim.kafka.classes build` compiles them (javac 17 and
the releases of `REFERENCES`, fetched) into `jars`, which are part of the distribution: a user needs
no compiler.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cluster.systems.kafka.fetch import Say, fetch_raft
from cluster.systems.kafka.installation import java, raft_libraries, raft_version
from cluster.systems.kinds import SettingError

REFERENCES: Final = {"3.9": "3.9.2", "4.0": "4.0.0", "4.1": "4.1.2", "4.3": "4.3.1", "4.4": "4.4.0"}
"""Generation -> the release that it is compiled against."""
SOURCES: Final = Path(__file__).parent / "java"
JARS: Final = Path(__file__).parent / "jars"
MAIN: Final = "org.apache.kafka.raft.SimDriver"
_RELEASE: Final = "17"
"""Of Java: what Kafka 4 itself needs."""
_COMMON: Final = "org.apache.kafka.common"
_REPLACEMENTS: Final = (
    ((0, 0), (4, 3), f"{_COMMON}.record.internal.", f"{_COMMON}.record."),
    ((0, 0), (4, 3), "RaftLog", "ReplicatedLog"),
    (
        (0, 0),
        (4, 1),
        "org.apache.kafka.server.common.OffsetAndEpoch",
        "org.apache.kafka.raft.OffsetAndEpoch",
    ),
    ((4, 4), (99, 0), f"{_COMMON}.utils.LogContext", f"{_COMMON}.utils.internals.LogContext"),
)
"""From a release, below a release, what is replaced in the source, by what."""
_MARK: Final = re.compile(r"\s*// (SINCE|BEFORE) (\d+)\.(\d+)$")
_OLD: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all entries of a jar: the earliest that the format has."""
_SALTED: Final = ("SetN$SetNIterator", "MapN$MapNIterator", "Set12", "Set12$1")
"""Classes of java.util.ImmutableCollections that iterate in an order that each JVM draws at its
start; SimDriver sets it, after they may have been compiled with the order folded in."""
_OPTIONS: Final = (
    "-XX:CompileCommand=quiet",
    *(f"-XX:CompileCommand=exclude,java.util.ImmutableCollections${name}::*" for name in _SALTED),
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the second compiler costs more than it brings
    "-Xshare:auto",
    "-Xmx256m",
)


def generation(release: str) -> str:
    """Return which generation of the interfaces a release has. Raises SettingError: too old."""
    version = raft_version(release)
    fitting = [name for name in REFERENCES if _numbers(name) <= _numbers(version)]
    if not fitting:
        raise SettingError(f"system kafka-raft: {version} is older than 3.9, the first that runs")
    return fitting[-1]


def java_command(
    release: str, patched: Path | None = None, say: Say = lambda _: None
) -> tuple[str, ...]:
    """Return the command that runs the driver for a release, whose jars are fetched if need be.

    `patched`: a folder of classes that take the place of Kafka's. Raises FetchError, SettingError.
    """
    libraries = raft_libraries(release) or _fetch(release, say)
    path = [JARS / f"{generation(release)}.jar", *libraries]
    if patched is not None:
        path.insert(0, patched)
    program = java()
    return (program, *options(program), "-cp", os.pathsep.join(map(str, path)), MAIN)


@functools.cache
def options(program: str) -> tuple[str, ...]:
    """Return the options for a JVM: what it is asked for differs by its version."""
    said = subprocess.run(  # noqa: S603
        [program, "-version"], capture_output=True, text=True, check=True
    ).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < int(_RELEASE):
        raise SettingError(
            f"{program}: system kafka-raft needs Java {_RELEASE} or newer, this is "
            f"{said.splitlines()[0] if said else 'unknown'}"
        )
    # sun.misc.Unsafe, which SimDriver needs once, warns from 24 on; before, the option is unknown.
    late = ("--sun-misc-unsafe-memory-access=allow",) if int(found[1]) >= 24 else ()
    return (*_OPTIONS, *late)


def sources(name: str) -> dict[str, str]:
    """Return the sources of a generation, by their paths."""
    found = sorted(SOURCES.rglob("*.java"))
    return {
        path.relative_to(SOURCES).as_posix(): adapt(path.read_text(encoding="utf-8"), name)
        for path in found
    }


def adapt(text: str, name: str) -> str:
    """Return what a source is in a generation."""
    release = _numbers(name)
    lines = []
    for line in text.splitlines():
        mark = _MARK.search(line)
        if mark is None:
            lines.append(line)
        elif (mark[1] == "SINCE") == (release >= (int(mark[2]), int(mark[3]))):
            lines.append(line[: mark.start()])
    adapted = "\n".join(lines) + "\n"
    for first, end, old, new in _REPLACEMENTS:
        if first <= release < end:
            adapted = re.sub(rf"\b{re.escape(old)}\b", new, adapted)
    return adapted


def compile_sources(
    texts: Mapping[str, str], class_path: Iterable[Path], target: Path
) -> dict[str, bytes]:
    """Compile sources into a folder, and return the class files by their paths.

    Raises FileNotFoundError where there is no javac, CalledProcessError with its messages.
    """
    compiler = shutil.which("javac")
    if compiler is None:
        raise FileNotFoundError("there is no javac on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        command = [
            compiler,
            "-J-XX:TieredStopAtLevel=1",
            "-J-XX:+UseSerialGC",
            "--release",
            _RELEASE,
            "-proc:none",
            "-nowarn",
            "-XDignore.symbol.file",
            "-XDstringConcat=inline",  # the first compiler makes little of method handles
        ]
        command += ["-g:source,lines", "-encoding", "UTF-8", "-d", str(target)]
        command += ["-cp", os.pathsep.join(map(str, class_path))]
        command += [str(Path(folder, path)) for path in sorted(texts)]
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in sorted(target.rglob("*.class"))
    }


def compile_generation(name: str) -> dict[str, bytes]:
    """Compile the sources of a generation, and return the class files by their paths."""
    libraries = raft_libraries(REFERENCES[name]) or _fetch(REFERENCES[name], lambda _: None)
    with tempfile.TemporaryDirectory() as target:
        return compile_sources(sources(name), libraries, Path(target))


def build() -> None:
    """Compile all generations into `jars`."""
    JARS.mkdir(exist_ok=True)
    for name in REFERENCES:
        with zipfile.ZipFile(JARS / f"{name}.jar", "w", zipfile.ZIP_DEFLATED) as jar:
            for path, content in compile_generation(name).items():
                entry = zipfile.ZipInfo(path, _OLD)
                entry.compress_type = zipfile.ZIP_DEFLATED
                jar.writestr(entry, content)


def _fetch(version: str, say: Say) -> tuple[Path, ...]:
    generation(version)  # nothing is fetched that cannot run
    fetch_raft(version, None, say)
    libraries = raft_libraries(version)
    assert libraries is not None, "they are there now"
    return libraries


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def main(arguments: Sequence[str]) -> int:
    """`build`: compile the classes that are part of the distribution."""
    if list(arguments) != ["build"]:
        sys.stderr.write("usage: python -m cluster.backends.sim.kafka.classes build\n")
        return 2
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How the programs of Java's clients are built and started; UnavailableError where they cannot be.

What is built goes below the folder that is given, caches included; nothing is put elsewhere.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster.systems.kafka.installation import find
from cluster.systems.kinds import SettingError
from cluster.values import valueclass

SOURCES: Final = Path(__file__).parent
QUIET: Final = "status = error\nrootLogger.level = off\n"
"""Log4j for Kafka's tools, whose output is read."""


class UnavailableError(Exception):
    """The tool chain is not there, or cannot build; one line says why."""


@valueclass
class Program:
    """A client's program, ready to be started with the brokers, the controllers and `client`."""

    client: str
    command: tuple[str, ...]


def compiled(build: Path, version: str, sources: Sequence[Path]) -> tuple[str, ...]:
    """Compile against a release's own jar files; returns the command before the name of a class.

    Raises UnavailableError.
    """
    compiler, runtime = _tool("javac"), _tool("java")
    classes, scratch = build / "java", build / "scratch"
    for folder in (classes, scratch):
        folder.mkdir(exist_ok=True)
    try:
        jars = find({"version": version}).class_path
    except SettingError as reason:
        raise UnavailableError(str(reason)) from reason
    files = map(str, sources)
    _run([compiler, "-nowarn", "-d", str(classes), "-cp", jars, *files], build)
    logging = build / "log4j2.properties"
    logging.write_text(QUIET)
    return (
        *(runtime, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
        f"-Dlog4j2.configurationFile={logging}",
        f"-Djava.io.tmpdir={scratch}",
        *("-cp", f"{jars}{os.pathsep}{classes}"),
    )


def programs(build: Path, version: str) -> list[Program]:
    """Compile the programs of this folder. Raises UnavailableError."""
    build.mkdir(parents=True, exist_ok=True)
    sources = sorted((SOURCES / "java").glob("*.java"))
    command = (*compiled(build.resolve(), version, sources), "Program")
    return [Program(client, command) for client in ("admin", "tools")]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed")
    return found


def _run(command: list[str], folder: Path) -> None:
    """Run a step of a build at low priority. Raises UnavailableError with its last line."""
    try:
        done = subprocess.run(
            ["nice", *command], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise UnavailableError(f"{Path(command[0]).name} {command[1]} failed: {words[-1][:200]}")

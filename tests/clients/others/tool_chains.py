"""How each client's program is built and started; a tool chain that is not there has a reason.

What is built goes below the folder that is given, caches included; nothing is put elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cluster.systems.kafka.installation import find
from cluster.systems.kinds import SettingError
from cluster.values import valueclass

SOURCES: Final = Path(__file__).parent
NODE_MAJOR: Final = 20
QUIET: Final = "status = error\nrootLogger.level = off\n"
"""Log4j for Kafka's tools, whose output is read."""


class UnavailableError(Exception):
    """A tool chain is not there, or cannot build; one line says why."""


@valueclass
class Program:
    """A client's program, ready to be started with the brokers, the controllers and `client`."""

    client: str
    command: tuple[str, ...]


def go(build: Path, version: str) -> Mapping[str, tuple[str, ...]]:
    """Build the module. Raises UnavailableError."""
    tool = _tool("go")
    binary = build / "go-program"
    caches = {"GOPATH": str(build / "gopath"), "GOCACHE": str(build / "go-cache")}
    _run([tool, "build", "-o", str(binary), "."], SOURCES / "go", caches)
    return dict.fromkeys(("kadm", "sarama", "kafka-go"), (str(binary),))


def node(build: Path, version: str) -> Mapping[str, tuple[str, ...]]:
    """Install the locked packages. Raises UnavailableError."""
    tool, npm = _tool("node"), _tool("npm")
    found = _run([tool, "--version"], build)
    if int(found.lstrip("v").split(".")[0]) < NODE_MAJOR:
        raise UnavailableError(f"node {found.strip()} is older than {NODE_MAJOR}")
    place = build / "node"
    place.mkdir(exist_ok=True)
    for file in (SOURCES / "node").iterdir():
        if file.is_file():
            shutil.copy2(file, place)
    lock, installed = place / "package-lock.json", place / "installed-lock.json"
    if not installed.exists() or installed.read_text() != lock.read_text():
        _run([npm, "ci", "--no-audit", "--no-fund", "--cache", str(build / "npm")], place)
        shutil.copy2(lock, installed)
    return dict.fromkeys(("kafkajs", "platformatic"), (tool, str(place / "main.mjs")))


def java(build: Path, version: str) -> Mapping[str, tuple[str, ...]]:
    """Compile the programs of this folder. Raises UnavailableError."""
    sources = sorted((SOURCES / "java").glob("*.java"))
    return dict.fromkeys(("admin", "tools"), (*compiled(build, version, sources), "Program"))


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


def rust(build: Path, version: str) -> Mapping[str, tuple[str, ...]]:
    """Build the crate. Raises UnavailableError."""
    tool = _tool("cargo")
    place = build / "rust"  # its lock file names a registry, and is not kept with the sources
    shutil.copytree(SOURCES / "rust", place, dirs_exist_ok=True)
    _run([tool, "build", "--quiet"], place, {"CARGO_TARGET_DIR": str(build / "cargo")})
    return {"rskafka": (str(build / "cargo" / "debug" / "others"),)}


TOOL_CHAINS: Final = {"java": java, "go": go, "node": node, "rust": rust}


def programs(chain: str, build: Path, version: str) -> list[Program]:
    """Build a tool chain's programs. Raises UnavailableError."""
    build.mkdir(parents=True, exist_ok=True)
    found = TOOL_CHAINS[chain](build.resolve(), version)
    return [Program(client, command) for client, command in found.items()]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed")
    return found


def _run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a step of a build at low priority. Raises UnavailableError with its last line."""
    try:
        done = subprocess.run(
            ["nice", *command],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise UnavailableError(f"{Path(command[0]).name} {command[1]} failed: {words[-1][:200]}")
    return done.stdout

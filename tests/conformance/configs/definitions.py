"""What the classes of a release of Kafka say of every configuration key."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from cluster.node.controller.configs import definitions
from cluster.systems.kafka.installation import home_of

PROGRAM = Path(__file__).with_name("Definitions.java")
DATA = Path(definitions.__file__).with_name("definitions.json")


def jdk() -> str | None:
    """Return a java that also compiles; None where there is none."""
    return shutil.which("java") if shutil.which("javac") else None


def described(version: str) -> str:
    """Return what `definitions.json` is to hold. The release must have been fetched."""
    home, java = home_of(version), jdk()
    assert home is not None, f"Apache Kafka is not there; kraftprobe kafka fetch {version}"
    assert java is not None, "java and javac are not on the path"
    command = [java, "-cp", str(home / "libs" / "*"), str(PROGRAM)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

"""Classes of Kafka's raft with a fault put in, ahead of Kafka's own on the class path.

The source of the release is fetched (217 kB), a line of it replaced, and its file compiled: needs a
compiler. `classes.java_command(VERSION, patched=FOLDER)` runs it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from cluster.backends.sim.kafka import classes
from cluster.systems.kafka import fetch
from cluster.systems.kafka.installation import cache_folder
from tests.kafka_release import VERSION, javac, raft_jars

DIGEST = "62a12abd61b24dba55fdc7a6bb3544432f3f8a3753ffc6efddf1a04b208460cb"
PATCHES = {
    "high watermark of one voter": (
        "org/apache/kafka/raft/LeaderState.java",
        "int indexOfHw = voterStates.size() / 2;",
        "int indexOfHw = 0;",
    ),
    "election won by any vote": (
        "org/apache/kafka/raft/internals/EpochElection.java",
        "return voterStates.size() / 2 + 1;",
        "return 1;",
    ),
    "vote granted twice in an epoch": (
        "org/apache/kafka/raft/QuorumState.java",
        "} else if (votedKey.isPresent()) {",
        "} else if (false) {",
    ),
    "leader that goes on alone": (
        "org/apache/kafka/raft/LeaderState.java",
        "if (voterStates.size() == 1) {\n            return Long.MAX_VALUE;\n        }\n        checkQ",
        "if (voterStates.size() >= 1) {\n            return Long.MAX_VALUE;\n        }\n        checkQ",
    ),
    "removal before anything is committed": (
        "org/apache/kafka/raft/internals/RemoveVoterHandler.java",
        "if (highWatermark.isEmpty()) {",
        "if (false) {",
        "votersEntry.get().offset() >= highWatermark.get()",
        "false",
    ),
}
"""Fault -> file, and in turn lines and what takes their place."""


def patched_classes(fault: str, folder: Path) -> Path:
    """Compile a class with a fault into a folder, and return the folder."""
    javac()
    path, *changes = PATCHES[fault]
    with zipfile.ZipFile(_sources()) as jar:
        text = jar.read(path).decode()
    for line, replacement in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(line) == 1, f"{path} of {VERSION} has no such line, or several"
        text = text.replace(line, replacement)
    folder.mkdir()
    classes.compile_sources({path: text}, raft_jars(VERSION), folder)
    return folder


def patched_build(fault: str, folder: Path) -> Path:
    """Make the folder of a build with a fault, as an unpacked release is one; return it."""
    libraries = folder / "libs"
    libraries.mkdir(parents=True)
    for jar in raft_jars(VERSION):
        shutil.copy(jar, libraries)
    classes_of = patched_classes(fault, folder / "classes")
    raft = libraries / f"kafka-raft-{VERSION}.jar"
    whole = zipfile.ZipFile(raft)
    with whole, zipfile.ZipFile(libraries / "patched", "w") as patched:
        for entry in whole.infolist():
            changed = classes_of / entry.filename
            patched.writestr(
                entry, changed.read_bytes() if changed.is_file() else whole.read(entry)
            )
    (libraries / "patched").replace(raft)
    return folder


def _sources() -> Path:
    home = cache_folder() / f"raft-sources-{VERSION}"
    jar = home / "libs" / f"kafka-raft-{VERSION}-sources.jar"
    if not jar.is_file():
        if os.environ.get("CI") != "true":
            pytest.skip(f"the source of the raft module of Apache Kafka {VERSION} is not there")
        fetch_sources(home)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == DIGEST, jar
    return jar


def fetch_sources(home: Path) -> None:
    """Let Ivy fetch the source of the raft module."""
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    module = (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="kraftprobe" module="sources"/><dependencies>'
        f'<dependency org="org.apache.kafka" name="kafka-raft" rev="{VERSION}" transitive="false" '
        'conf="default->*"><artifact name="kafka-raft" type="jar" m:classifier="sources"/>'
        "</dependency></dependencies></ivy-module>"
    )
    fetch.retrieve(VERSION, None, home, module, lambda _: None)

"""The simulated metadata log answers as Kafka's own does, whatever is done to both.

`LogDifferential.java` beside this file draws operations. By hand, on any release from 4.1 on that
was fetched as a whole: `python -m tests.cluster.backends.sim.kafka.test_sim_log VERSION FIRST LAST
OPERATIONS`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cluster.backends.sim.kafka import classes
from cluster.systems.kafka.installation import cache_folder, java
from tests.kafka_release import javac, release

SOURCES = Path(__file__).parent / "java"
EXPECTED = {
    "appendAsFollower": {"done", "CorruptRecordException", "KafkaException"},
    "appendAsLeader": {"done", "InvalidRecordException", "KafkaException"},
    "createNewSnapshot": {"true", "false", "IllegalArgumentException"},
    "createNewSnapshotUnchecked": {"true", "false"},
    "deleteBeforeSnapshot": {"true", "false", "OffsetOutOfRangeException"},
    "endOffsetForEpoch": {"done"},
    "flush": {"done"},
    "initializeLeaderEpoch": {"done"},
    "maybeClean": {"true", "false"},
    "powerLoss": {"torn", "lost", "nothing"},
    "read": {"done", "OffsetOutOfRangeException"},
    "readSnapshot": {"done", "none"},
    "truncateTo": {"done", "IllegalArgumentException"},
    "truncateToEndOffset": {"done", "IllegalArgumentException"},
    "truncateToLatestSnapshot": {"true", "false"},
    "updateHighWatermark": {"done"},
    "validateOffsetAndEpoch": {"done"},
}
"""Outcomes that must come about: a comparison of logs which refuse everything would say nothing."""


def compile_both(version: str, folder: Path) -> list[str]:
    """Compile SimLog and what compares it, and return the command that runs a main class."""
    name = classes.generation(version)
    texts = dict(classes.sources(name))
    for path in SOURCES.rglob("*.java"):
        texts[path.relative_to(SOURCES).as_posix()] = classes.adapt(path.read_text(), name)
    # Kafka's binding of SLF4J would be found beside ours.
    libraries = (cache_folder() / version / "libs").glob("*.jar")
    jars = [jar for jar in libraries if not jar.name.startswith("log4j-slf4j")]
    classes.compile_sources(texts, jars, folder)
    path = os.pathsep.join(map(str, (folder, *jars)))
    return [java(), *classes.options(java()), "-cp", path]


def run(command: list[str], *arguments: int) -> list[str]:
    """Play seeds on both logs, and return the lines that were printed."""
    # In memory where that can be: Kafka syncs its files.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as logs:
        words = [*command, "org.apache.kafka.raft.LogDifferential", logs, *map(str, arguments)]
        played = subprocess.run(words, capture_output=True, text=True, check=False)
    return (played.stdout + played.stderr).splitlines()


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    javac()
    return compile_both(release(), tmp_path_factory.mktemp("classes"))


@pytest.mark.slow
def test_the_simulated_log_answers_as_kafkas_does(command):
    lines = run(command, 1, 12, 400)

    printed = "\n".join(lines)
    outcomes = dict(re.findall(r"^(\w+ (?:throws )?\w+): (\d+)$", printed, re.MULTILINE))
    assert lines[-1] == "4800 operations, 0 differences", printed
    for operation, kinds in EXPECTED.items():
        for kind in kinds:
            assert {f"{operation} {kind}", f"{operation} throws {kind}"} & outcomes.keys(), kind


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        both = compile_both(sys.argv[1], Path(scratch))
        bounds = [int(word) for word in sys.argv[2:]]
        sys.stdout.write("\n".join(run(both, *bounds)) + "\n")

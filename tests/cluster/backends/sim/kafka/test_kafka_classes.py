"""The class files that play Kafka's raft client are those of their sources, in each generation."""

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from cluster.backends.sim.kafka import classes
from cluster.systems.kinds import SettingError
from tests.kafka_release import javac, raft_jars

BETWEEN = list(classes.REFERENCES)[1:-1]
"""A source that was changed and not compiled is noticed at the first and the last generation, too."""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.9.0", "3.9"),
        ("3.9.2", "3.9"),
        ("4.0.2", "4.0"),
        ("4.1.2", "4.1"),
        ("4.2.2", "4.1"),
        ("4.3.1", "4.3"),
        ("4.4.0", "4.4"),
        ("4.10.0", "4.4"),
    ],
)
def test_a_release_has_the_newest_generation_that_is_not_newer(version, expected):
    assert classes.generation(version) == expected


def test_a_release_before_dynamic_quorums_is_refused():
    with pytest.raises(SettingError, match=r"3\.8\.1 is older than 3\.9"):
        classes.generation("3.8.1")


def test_marked_lines_and_names_are_those_of_the_generation():
    old, new = classes.sources("3.9"), classes.sources("4.4")

    log, inbox = "org/apache/kafka/raft/SimLog.java", "org/apache/kafka/raft/SimInbox.java"
    assert "implements ReplicatedLog" in old[log]
    assert "implements RaftLog" in new[log]
    assert "import org.apache.kafka.raft.OffsetAndEpoch;" in old[log]
    assert "import org.apache.kafka.common.record.internal.Records;" in new[log]
    assert "public RaftMessage poll" in old[inbox]
    assert "public Optional<QueueEntry> poll" in new[inbox]
    for text in (*old.values(), *new.values()):
        assert "// SINCE" not in text
        assert "// BEFORE" not in text


def test_the_class_files_are_part_of_the_distribution():
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["cluster"]
    package = Path("cluster")
    jars = {path for pattern in patterns for path in package.glob(pattern)}

    expected = {package / "backends/sim/kafka/jars" / f"{name}.jar" for name in classes.REFERENCES}
    assert expected <= jars
    assert sum(path.stat().st_size for path in expected) < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] if name in BETWEEN else [])
        for name in classes.REFERENCES
    ],
)
def test_the_class_files_are_what_javac_makes_of_the_sources(name):
    javac()
    raft_jars(classes.REFERENCES[name])

    compiled = classes.compile_generation(name)
    with zipfile.ZipFile(classes.JARS / f"{name}.jar") as jar:
        shipped = {path: jar.read(path) for path in jar.namelist()}

    remedy = "run: python -m cluster.backends.sim.kafka.classes build"
    assert compiled.keys() == shipped.keys(), remedy
    assert [path for path in compiled if compiled[path] != shipped[path]] == [], remedy


@pytest.mark.slow
def test_a_jvm_whose_sets_cannot_be_given_an_order_is_refused_by_name():
    raft_jars("4.3.1")
    command = classes.java_command("4.3.1")
    allowed = "--sun-misc-unsafe-memory-access=allow"
    if allowed not in command:
        pytest.skip("the JVM is older than 24, where nothing forbids it")
    denied = [word.replace("allow", "deny") if word == allowed else word for word in command]

    accepted = subprocess.run(command, input=b"", capture_output=True, check=False)
    refused = subprocess.run(denied, input=b"", capture_output=True, check=False)

    assert (accepted.returncode, accepted.stderr) == (0, b"")
    assert refused.returncode == 2
    assert b"this JVM (" in refused.stderr
    assert b"order of its own" in refused.stderr

"""`python -m tests.conformance.partition_changes VERSION`: what Kafka makes of partitions.

Needs a JDK and the release (`kraftprobe kafka fetch VERSION`). `PartitionChanges.java` beside the
table calls Kafka's PartitionChangeBuilder. A line is `PARTITION CALL = RECORD`, words in the order
of `_PARTITION`, `_CALL` and `_RECORD`: brokers are digits ("-" for -1, "_" for no broker), log
directories letters, "." what is not set. The record `none` changes nothing. Where ` ! RECORD`
follows, Kafka would answer that if replicas that are taken away counted as shut down uncleanly, so
that they are in no ELR: there our builder differs (`cluster.node.controller.partitions.partition_change`).
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.node.controller.metadata.state import PartitionRegistration
from cluster.node.controller.partitions.partition_change import Election, PartitionChangeBuilder
from cluster.node.controller.records.kinds import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    PartitionChangeRecord,
)
from cluster.systems.kafka.installation import home_of

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kafka"
GENERATOR = FOLDER / "PartitionChanges.java"
ROWS, SEED = 8000, 1
TOPIC_ID = uuid.UUID(int=1)
_PARTITION = 9
"""Replicas, ISR, adding, removing, ELR, last known ELR, directories, leader, recovery state."""
_CALL = 11
"""Election, ELR on, minimal ISR, acceptable, unclean shutdown; wanted: ISR, replicas, adding,
removing, recovery state; a replica and its new directory."""
_ELECTIONS = {"P": Election.PREFERRED, "U": Election.UNCLEAN, "O": Election.ONLINE}


@dataclass(frozen=True)
class Row:
    """One call, and Kafka's answer."""

    line: str
    builder: PartitionChangeBuilder
    expected: PartitionChangeRecord | None
    differs: bool
    """Whether Kafka's own answer is another one, with a replica in the ELR that is taken away."""
    kafkas: PartitionChangeRecord | None


def table_file(version: str) -> Path:
    """Where the answers of a release are kept."""
    return FOLDER / f"partition-changes-{version}.txt.gz"


def load(version: str) -> Iterator[Row]:
    """Read the table."""
    with gzip.open(table_file(version), "rt") as lines:
        yield from map(parse, lines)


def parse(line: str) -> Row:
    """Read a line of the table."""
    asked, _, answers = line.rstrip("\n").partition(" = ")
    plain, differs, other = answers.partition(" ! ")
    kafkas = _record(plain)
    words = asked.split(" ")
    assert len(words) == _PARTITION + _CALL
    expected = _record(other) if differs else kafkas
    return Row(line, _builder(words), expected, bool(differs), kafkas)


def _builder(words: list[str]) -> PartitionChangeBuilder:
    replicas, isr, adding, removing, elr, last_known, directories, leader, recovery = words[:9]
    partition = PartitionRegistration(
        replicas=_some(replicas),
        isr=_some(isr),
        leader=_broker(leader),
        leader_epoch=1,
        partition_epoch=1,
        removing_replicas=_some(removing),
        adding_replicas=_some(adding),
        leader_recovery_state=int(recovery),
        directories=_places(directories),
        elr=_some(elr),
        last_known_elr=_some(last_known),
    )
    election, elr_enabled, min_isr, acceptable, unclean = words[9:14]
    to_isr, to_replicas, to_adding, to_removing, to_recovery, moved = words[14:]
    alive = frozenset(_some(acceptable))
    return PartitionChangeBuilder(
        topic_id=TOPIC_ID,
        index=0,
        partition=partition,
        is_acceptable=lambda replica: replica in alive,
        min_isr=int(min_isr),
        elr_enabled=elr_enabled == "1",
        election=_ELECTIONS[election],
        isr=_brokers(to_isr),
        recovery_state=None if to_recovery == "." else int(to_recovery),
        unclean_shutdown=frozenset(_brokers(unclean) or ()),
        replicas=_brokers(to_replicas),
        adding=_brokers(to_adding),
        removing=_brokers(to_removing),
        directories=None if moved == "." else _moved(partition, int(moved[0]), moved[1]),
        directory_of=lambda replica: _directory(10 + replica),
    )


def _record(text: str) -> PartitionChangeRecord | None:
    if text == "none":
        return None
    replicas, isr, adding, removing, elr, last_known, directories, leader, recovery = text.split(
        " "
    )
    return PartitionChangeRecord(
        topic_id=TOPIC_ID,
        partition_id=0,
        isr=_brokers(isr),
        leader=NO_LEADER_CHANGE if leader == "." else _broker(leader),
        replicas=_brokers(replicas),
        removing_replicas=_brokers(removing),
        adding_replicas=_brokers(adding),
        leader_recovery_state=NO_RECOVERY_STATE_CHANGE if recovery == "." else int(recovery),
        directories=None if directories == "." else _places(directories),
        eligible_leader_replicas=_brokers(elr),
        last_known_elr=_brokers(last_known),
    )


def _broker(text: str) -> int:
    return -1 if text == "-" else int(text)


def _brokers(text: str) -> tuple[int, ...] | None:
    return None if text == "." else _some(text)


def _some(text: str) -> tuple[int, ...]:
    return () if text == "_" else tuple(map(_broker, text))


def _directory(number: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + number)


def _places(text: str) -> tuple[uuid.UUID, ...]:
    return tuple(_directory(ord(letter) - ord("a")) for letter in text)


def _moved(partition: PartitionRegistration, moved: int, place: str) -> tuple[uuid.UUID, ...]:
    pairs = zip(partition.replicas, partition.directories, strict=True)
    [new] = _places(place)
    return tuple(new if replica == moved else old for replica, old in pairs)


def generate(version: str) -> str:
    """Ask Kafka's own class. Raises FileNotFoundError, CalledProcessError."""
    home = home_of(version)
    if home is None:
        raise FileNotFoundError(f"no Apache Kafka; kraftprobe kafka fetch {version}")
    command = ["java", "-cp", f"{home}/libs/*", str(GENERATOR), str(ROWS), str(SEED)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> int:
    """Write the table anew."""
    [version] = sys.argv[1:]
    table_file(version).write_bytes(gzip.compress(generate(version).encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())

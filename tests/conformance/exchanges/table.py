"""What Kafka answered, what ours may answer otherwise, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "data" / "kafka"
ABSENT = "absent"

Answers = Mapping[str, Mapping[str, Any]]
"""Situation -> case -> answer."""


def stored_file(version: str) -> Path:
    """Where the answers of a release are kept."""
    return FOLDER / f"exchanges-{version}.jsonl"


def store(version: str, answers: Answers) -> None:
    """One line for each answer, in order."""
    lines = (
        json.dumps([situation, case, answer], separators=(",", ":"))
        for situation, cases in answers.items()
        for case, answer in cases.items()
    )
    stored_file(version).write_text("".join(f"{line}\n" for line in lines))


def load(version: str) -> dict[str, dict[str, Any]]:
    """Read what was stored."""
    found: dict[str, dict[str, Any]] = {}
    for line in stored_file(version).read_text().splitlines():
        situation, case, answer = json.loads(line)
        found.setdefault(situation, {})[case] = answer
    return found


def differing(ours: Any, kafkas: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two answers differ, as (field, ours, Kafka's)."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        for key in dict.fromkeys([*kafkas, *ours]):
            inner = f"{path}.{key}".lstrip(".")
            yield from differing(ours.get(key, ABSENT), kafkas.get(key, ABSENT), inner)
    elif isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        for one, other in zip(ours, kafkas, strict=True):
            yield from differing(one, other, path)
    elif ours != kafkas:
        yield path, ours, kafkas


@dataclass(frozen=True)
class Difference:
    """Answers of ours that are known to be others than Kafka's."""

    why: str
    cases: str
    """A regular expression for `situation: case`."""
    fields: str = ".*"
    """And one for where the answers differ."""

    def covers(self, case: str, field: str) -> bool:
        return bool(re.fullmatch(self.cases, case) and re.fullmatch(self.fields, field))


DIFFERENCES = (
    Difference(
        "Kafka takes the metadata topic by its id only, since Fetch 13; ours takes older versions "
        "by its name, as their schema says, and refuses those below 12 for the partition alone, "
        "since replicas cannot name the epoch of their last record in them.",
        r".*: Fetch.*, version ([4-9]|1[0-2])|.*: Fetch of another topic",
    ),
    Difference(
        "Version 16 has the field for endpoints, which Kafka fills from 17 on only.",
        r".*: Fetch.*, version 16",
        "node_endpoints",
    ),
    Difference(
        "A bug of Kafka: each refusal of a FetchSnapshot ends in a NullPointerException, because "
        "its records are null, and becomes UNKNOWN_SERVER_ERROR. Ours gives the error that Kafka "
        "meant to give.",
        r".*: FetchSnapshot.*",
        r"error_code|topics|node_endpoints",
    ),
    Difference(
        "A bug of Kafka: FetchSnapshot without a topic, from anybody who can reach the port, ends "
        "a controller (NullPointerException in the raft thread).",
        r".*: FetchSnapshot of no topic",
        "",
    ),
    Difference(
        "A bug of Kafka: UpdateRaftVoter that names the leader ends it, at kraft.version 0 "
        "(IllegalArgumentException in LeaderState.updateFetchedVoters).",
        r"static-leader: UpdateRaftVoter of another disk.*",
        "",
    ),
    Difference(
        "A second leader of one epoch is refused and traced by ours; Kafka's node ends.",
        r".*voter: EndQuorumEpoch of another leader",
        "",
    ),
    Difference(
        "Nobody but this node can say that it leads, so ours refuses it; Kafka takes it for news "
        "that it has.",
        r".*: (Begin|End)QuorumEpoch of the leader itself.*",
        r"topics\.partitions\.error_code",
    ),
    Difference(
        "A refusal of DescribeQuorum leaves numbers at 0 in Kafka, where its schema says -1 for "
        "unknown; ours names leader and epoch where it knows them, and an error message only where "
        "there is an error.",
        r".*: DescribeQuorum.*",
        r"error_message|topics\.partitions\.(error_message|leader_id|leader_epoch|high_watermark)",
    ),
    Difference(
        "A request without a single partition: ours looks at its sender first.",
        r".*: AlterPartition.*",
        "error_code",
    ),
    Difference(
        "A controller that names no metadata.version cannot follow this quorum; ours refuses to "
        "register it, Kafka registers it.",
        r".*leader: ControllerRegistration without a version",
        "error_code",
    ),
    Difference(
        "Kafka looks names up in a follower's own metadata, which may be stale, before it says "
        "that it does not lead.",
        r".*voter: DeleteTopics at a follower",
        r"responses\.error_code",
    ),
)

"""`python -m tests.conformance.authorizer_decisions VERSION`: what Kafka's authorizer decides.

Needs a JDK and the release (`kraftprobe kafka fetch VERSION`). `AuthorizerDecisions.java` beside the
table asks Kafka's StandardAuthorizer, whose super users are `User:root` and `Group:roots`. A line
`world E` begins another authorizer, E being 1 where everyone is allowed what no entry is about;
`entry` and seven words are an entry of it: resource type, name, pattern type, principal, host,
operation, permission type; `ask` and six words a question: principal, host, operation, resource
type, name, and 1 where Kafka allows it.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.node.controller.access.codes import AclOperation, AclResourceType
from cluster.node.controller.records.security import AccessControlEntryRecord
from cluster.node.protocol.origin import Origin
from cluster.systems.kafka.installation import home_of

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kafka"
GENERATOR = FOLDER / "AuthorizerDecisions.java"
WORLDS, QUESTIONS, SEED = 150, 60, 1
SUPER_USERS = frozenset({"User:root", "Group:roots"})


@dataclass(frozen=True)
class Question:
    """What is asked of one authorizer, and Kafka's answer."""

    origin: Origin
    operation: AclOperation
    resource_type: AclResourceType
    name: str
    allowed: bool


@dataclass
class World:
    """One authorizer, and what it is asked."""

    allow_everyone: bool
    entries: list[AccessControlEntryRecord] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def table_file(version: str) -> Path:
    """Where the answers of a release are kept."""
    return FOLDER / f"authorizer-decisions-{version}.txt.gz"


def load(version: str) -> Iterator[World]:
    """Read the table."""
    world: World | None = None
    with gzip.open(table_file(version), "rt") as lines:
        for line in lines:
            kind, *words = line.split()
            if kind == "world":
                if world is not None:
                    yield world
                world = World(words[0] == "1")
            elif kind == "entry":
                assert world is not None
                world.entries.append(_entry(len(world.entries), *words))
            else:
                assert world is not None
                world.questions.append(_question(*words))
    if world is not None:
        yield world


def _entry(
    number: int,
    resource_type: str,
    name: str,
    pattern_type: str,
    principal: str,
    host: str,
    operation: str,
    permission: str,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=uuid.UUID(int=number),
        resource_type=int(resource_type),
        resource_name=name,
        pattern_type=int(pattern_type),
        principal=principal,
        host=host,
        operation=int(operation),
        permission_type=int(permission),
    )


def _question(
    principal: str, host: str, operation: str, resource_type: str, name: str, allowed: str
) -> Question:
    kind, _, user = principal.partition(":")
    return Question(
        Origin(kind, user, host),
        AclOperation(int(operation)),
        AclResourceType(int(resource_type)),
        name,
        allowed == "1",
    )


def generate(version: str) -> str:
    """Ask Kafka's own class. Raises FileNotFoundError, CalledProcessError."""
    home = home_of(version)
    if home is None:
        raise FileNotFoundError(f"no Apache Kafka; kraftprobe kafka fetch {version}")
    sizes = map(str, (WORLDS, QUESTIONS, SEED))
    command = ["java", "-cp", f"{home}/libs/*", str(GENERATOR), *sizes]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> int:
    """Write the table anew."""
    [version] = sys.argv[1:]
    table_file(version).write_bytes(gzip.compress(generate(version).encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())

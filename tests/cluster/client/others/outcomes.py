"""What became of a client's operations: run against a cluster, stored, compared.

A program prints one JSON object a line: `client` (with its version), `operation`, `outcome` (works
or fails) and `seen`: what it saw, in words that are equal where behaviour is, or the error. A line
with `ask` has the harness do something, and is answered with a line once that is done.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.values import valueclass
from tests.cluster.client.others.clusters import BROKERS, CONTROLLERS, Cluster
from tests.cluster.client.others.tool_chains import Program

RUN_S: Final = 600.0
"""How long one client's operations may take."""
FAIL_OVERS: Final = 2
SEEN_MAX: Final = 100
"""Characters of what was seen that are kept."""
ASIDES: Final[Mapping[str, str]] = {
    "consume in a group": "consumer groups",
    "list groups": "consumer groups",
    "kafka-groups --list": "consumer groups",
    "kafka-consumer-groups --list": "consumer groups",
    "kafka-configs --describe, groups": "consumer groups: it lists them",
    "produce in a transaction": "transactions",
    "get a producer's id": "transactions: it looks for their coordinator first",
    "list transactions": "transactions",
    "kafka-transactions list": "transactions",
    "kafka-transactions describe-producers": "transactions: to find one that hangs",
}
"""Operations of groups and transactions, which our brokers have not, and why each is one."""

Key = tuple[str, str]
"""Client without its version, operation."""


@valueclass
class Outcome:
    """What became of one operation."""

    client: str
    """With its version."""
    operation: str
    works: bool
    seen: str

    @property
    def key(self) -> Key:
        """Tell it from others, in whatever version of the client."""
        return self.client.rpartition(" ")[0], self.operation


def run(program: Program, cluster: Cluster, say: Callable[[str], None]) -> list[Outcome]:
    """Run a client's operations; those that it does not come to are missing."""
    addresses = (cluster.addresses(BROKERS), cluster.addresses(CONTROLLERS))
    found: list[Outcome] = []
    with subprocess.Popen(
        [*program.command, *addresses, program.client],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        overdue = threading.Timer(RUN_S, process.kill)
        overdue.start()
        for line in process.stdout:
            fields = json.loads(line)
            if "ask" in fields:
                assert fields["ask"] == "restart controllers", fields
                for _ in range(FAIL_OVERS):
                    say(f"  controller {cluster.fail_over()} restarted")
                process.stdin.write("done\n")
                process.stdin.flush()
                continue
            seen = " ".join(fields["seen"].split())[:SEEN_MAX].rstrip()
            outcome = Outcome(
                fields["client"], fields["operation"], fields["outcome"] == "works", seen
            )
            found.append(outcome)
            say(f"  {'works' if outcome.works else 'fails'}  {outcome.operation}: {seen}")
        overdue.cancel()
    return found


def store(file: Path, outcomes: Iterable[Outcome]) -> None:
    """Write outcomes as JSON lines."""
    lines = [
        json.dumps([each.client, each.operation, each.works, each.seen], ensure_ascii=False)
        for each in outcomes
    ]
    file.write_text("".join(f"{line}\n" for line in lines))


def load(file: Path) -> list[Outcome]:
    """Read what was stored."""
    return [Outcome(*json.loads(line)) for line in file.read_text().splitlines()]


def stored_file(version: str) -> Path:
    """Where the outcomes at a release of Kafka are kept."""
    return Path(__file__).resolve().parents[3] / "data" / "kafka" / f"clients-{version}.jsonl"


def by_key(outcomes: Iterable[Outcome]) -> dict[Key, Outcome]:
    """Index outcomes; a client says what becomes of an operation once."""
    found: dict[Key, Outcome] = {}
    for each in outcomes:
        assert each.key not in found, each
        found[each.key] = each
    return found


def worse(kafkas: Iterable[Outcome], ours: Iterable[Outcome]) -> list[str]:
    """Describe each operation that works at Kafka, and at ours not or not as there.

    Asides are left out. So is a client of which ours has no outcome at all: it was not run.
    """
    mine = by_key(ours)
    clients = {client for client, _ in mine}
    found = []
    for theirs in kafkas:
        client, operation = theirs.key
        if not theirs.works or operation in ASIDES or client not in clients:
            continue
        own = mine.get(theirs.key)
        if own is None:
            found.append(f"{client}: {operation}: no outcome")
        elif not own.works:
            found.append(f"{client}: {operation}: {own.seen}")
        elif own.seen != theirs.seen:
            found.append(f"{client}: {operation}: {own.seen!r}, at Kafka {theirs.seen!r}")
    return found

"""The trace of a Kafka node, made from what its loggers wrote to its output.

Lines are `nanoseconds|level|logger|message`, by the machine's monotonic clock. Everything else is
left out: half a line that a kill left, continued messages, stack traces but for what a fatal fault
was caused by.

| logger | message | event |
|---|---|---|
| `kraftprobe.start` | facts of the process | `start` |
| `QuorumState` | Completed transition to XState(epoch=..., ...) | `state` |
| the same | ... to Leader(..., epochStartOffset=...) | `epoch-start` as well |
| `KafkaRaftClient` | Starting voters are VoterSet(voters={1=..., ...}) | `voters` |
| `KRaftControlRecordStateMachine` | Latest set of voters is VoterSet(...) at offset N | the same |
| `KafkaRaftClient` | Leader high watermark updated to LogOffsetMetadata(offset=...) | `hw` |
| the same | Follower high watermark updated to ... | `hw` |
| `KafkaRaftClient` | Truncated to offset ... from Fetch response | `truncate` |
| `KafkaRaftClient` | Fully truncated the log at (offset, epoch) | `truncate-fully` |
| a terminating fault handler | Encountered fatal fault: ... | `fatal` |

A line is written after what it describes, where this repository's own node writes it before. So a
node that is killed in between has done one thing more than its trace says. And a truncation, which
may bring back earlier voters, is not followed by a line that names them. No invariant that is
judged for Kafka accuses by the absence of an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from cluster.node.runtime.trace import encode_line
from cluster.node.wire.uuid_text import uuid_from_text
from cluster.systems.kafka.start import START

TRACED: Final = frozenset({"start", "state", "epoch-start", "hw", "truncate"})
"""The events of docs/evidence.md that are complete in such a trace."""

_NO_ID: Final = "A" * 22
_KNOW_VOTERS: Final = frozenset({"KafkaRaftClient", "KRaftControlRecordStateMachine"})

_LINE: Final = re.compile(r"(\d{1,19})\|([A-Z]+)\|([\w.$]+)\|(.*)")
_MOVED: Final = re.compile(r"Completed transition to (\w+?)(?:State)?\((.*?)\) from ")
_EPOCH: Final = re.compile(r"\bepoch=(\d+)")
_EPOCH_START: Final = re.compile(r"\bepochStartOffset=(\d+)")
_LEADER: Final = re.compile(r"\b(?:leader=|leaderId=OptionalInt\[)(\d+)")
_OWN_ID: Final = re.compile(
    r"\b(?:localId=|localVoterNode=VoterNode\(voterKey=ReplicaKey\(id=)(\d+)"
)
_VOTED: Final = re.compile(r"\bvotedKey=Optional\[ReplicaKey\(id=(\d+)")
_VOTERS: Final = re.compile(
    r".*\bvoters (?:is|are) VoterSet\(voters=\{(.+)\}\)(?: at offset (\d+))?"
)
_VOTER: Final = re.compile(r"\bReplicaKey\(id=(\d+), directoryId=([\w-]{22})?")
_MARK: Final = re.compile(r"(Leader|Follower) high watermark updated to (?:\w+\(offset=)?(\d+)")
_CUT: Final = re.compile(r"Truncated to offset (\d+) from Fetch response from leader")
_REPLACED: Final = re.compile(r"Fully truncated the log at \((\d+), (\d+)\)")
_FATAL: Final = "Encountered fatal fault: "
_CAUSE: Final = re.compile(r"(?:Caused by: )?([\w.$]+(?:Exception|Error)(?:: .*)?)")

Event = dict[str, Any]


def trace_of(output: Path) -> bytes:
    """Make the trace; empty where there is no output."""
    try:
        text = output.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return b""
    return b"".join(encode_line(event) for event in _events(text.split("\n")))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    incarnation, epoch = -1, 0
    fatal: Event | None = None
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            if fatal is not None and (cause := _CAUSE.fullmatch(line)) is not None:
                fatal["reason"] += f"; {cause[1]}"
            continue
        if fatal is not None:
            yield fatal
        fatal = None
        time_ns, level, logger, message = found.groups()
        if logger == START:
            incarnation, epoch = incarnation + 1, 0
        for event, fields in _read(level, logger.rpartition(".")[2], message, epoch):
            epoch = fields.get("epoch", epoch)
            made = {"t": int(time_ns), "n": max(incarnation, 0), "e": event, **fields}
            if event == "fatal":
                fatal = made
            else:
                yield made
    if fatal is not None:
        yield fatal


def _read(level: str, logger: str, message: str, epoch: int) -> Iterator[tuple[str, Event]]:
    message = message.partition("] ")[2] if message.startswith("[") else message
    if logger == START.rpartition(".")[2]:
        facts = json.loads(message)
        directory = str(uuid_from_text(facts.pop("directory_id") or _NO_ID))
        yield "start", {**facts, "directory_id": directory, "mutant": None}
    elif logger == "QuorumState" and (found := _MOVED.match(message)):
        name, text = found.groups()
        state = _state(name, text)
        yield "state", state
        if name == "Leader":
            start = _number(_EPOCH_START, text)
            yield "epoch-start", {"epoch": state["epoch"], "offset": start}
    elif logger in _KNOW_VOTERS and (found := _VOTERS.fullmatch(message)):
        keys = _VOTER.findall(found[1])
        voters = {number: str(uuid_from_text(name or _NO_ID)) for number, name in keys}
        yield "voters", {"offset": int(found[2] or -1), "voters": voters}
    elif logger == "KafkaRaftClient" and (found := _MARK.match(message)):
        role = found[1].lower()
        counted: Event = {"replicas": {}} if role == "leader" else {}
        yield "hw", {"epoch": epoch, "offset": int(found[2]), "role": role, **counted}
    elif logger == "KafkaRaftClient" and (found := _CUT.match(message)):
        yield "truncate", {"end_offset": int(found[1]), "epoch": epoch}
    elif logger == "KafkaRaftClient" and (found := _REPLACED.match(message)):
        yield "truncate-fully", {"start_offset": int(found[1]), "epoch": int(found[2])}
    elif level in {"ERROR", "FATAL"} and message.startswith(_FATAL):
        yield "fatal", {"reason": message.removeprefix(_FATAL)}


def _state(name: str, text: str) -> Event:
    """Read a state from its text, in which other objects are nested.

    A resigned node led the epoch that it is in. A leader voted for itself, which it said as the
    candidate that it was.
    """
    own = _number(_OWN_ID, text)
    leads = own if name in {"Leader", "Resigned"} else _number(_LEADER, text)
    voted = own if name == "Candidate" else _number(_VOTED, text)
    epoch = _number(_EPOCH, text)
    return {"state": name, "epoch": epoch, "leader_id": leads, "voted_id": voted}


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return -1 if found is None else int(found[1])

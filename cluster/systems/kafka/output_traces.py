"""The trace of a Kafka node, made from what its loggers write to its output.

Lines are `nanoseconds|level|logger|message`, by the machine's monotonic clock. Everything else is
left out: half a line that a kill left, one with the half before it that a full disk took, continued
messages, stack traces but for what a fatal fault or the failure of a log directory was caused by.

| logger | message | event |
|---|---|---|
| `kraftprobe.start` | facts of the process | `start` |
| `UnifiedLog` | Loading producer state till offset N, of the metadata log | `log-end` |
| `QuorumState` | Completed transition to XState(epoch=..., ...) | `state` |
| the same | ... to Leader(..., epochStartOffset=...) | `epoch-start` as well |
| `KafkaRaftClient` | Starting voters are VoterSet(voters={1=..., ...}) | `voters` |
| `KRaftControlRecordStateMachine` | Latest set of voters is VoterSet(...) at offset N | the same |
| `KafkaRaftClient` | Leader high watermark updated to LogOffsetMetadata(offset=...) | `hw` |
| the same | Follower high watermark updated to ... | `hw` |
| the same | Vote request ... with epoch N is granted, or rejected | `vote` |
| the same | Truncated to offset ... from Fetch response | `truncate` |
| the same | Fully truncated the log at (offset, epoch) | `truncate-fully` |
| `AppInfoParser` | Kafka version: ..., then Kafka commitId: ... | `release` |
| a terminating fault handler | Encountered fatal fault: ... | `fatal` |
| one that logs | Encountered metadata publishing (or quorum controller) fault: ... | `fault` |
| `LogManager`, `ReplicaManager` | Shutdown broker because ... | the same, with the last failure |
| `LogDirFailureChannel` | why a log directory fails | |

A line is written after what it describes, where this repository's own node writes it before. So a
node that is killed in between has done one thing more than its trace says. And a truncation, which
may bring back earlier voters, is not followed by a line that names them. No invariant that is
judged for Kafka accuses by the absence of an event but `mark-heard` and `change-after-commit`: a
leader prints its high watermark before it acts by it, unless its disk is full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cluster.node.runtime.trace import encode_line
from cluster.node.wire.uuid_text import uuid_from_text
from cluster.systems.kafka.start import START

TRACED: Final = frozenset(
    {"start", "log-end", "state", "epoch-start", "hw", "truncate", "release", "voters.led"}
)
"""The events of docs/evidence.md that are complete in such a trace, `voters` while a node leads."""

_INFO: Final = "AppInfoParser"
_VERSION, _COMMIT = "Kafka version: ", "Kafka commitId: "
_NO_ID: Final = "A" * 22
_KNOW_VOTERS: Final = frozenset({"KafkaRaftClient", "KRaftControlRecordStateMachine"})

_LINE: Final = re.compile(r"(\d{1,19})\|([A-Z]+)\|([\w.$]+)\|(.*)")
_SECOND: Final = re.compile(r"\d\|[A-Z]+\|[\w.$]+\|")
"""Where another line begins behind half a line: where the half ends is not known."""
_LOADED: Final = re.compile(
    r"\[LogLoader partition=__cluster_metadata-0, .*?\] Loading producer state till offset (\d+)"
)
"""Of each segment that is recovered, and then of the whole log."""
_MOVED: Final = re.compile(r"Completed transition to (\w+?)(?:State)?\((.*?)\) from ")
_EPOCH: Final = re.compile(r"\bepoch=(\d+)")
_EPOCH_START: Final = re.compile(r"\bepochStartOffset=(\d+)")
_LEADER: Final = re.compile(r"\b(?:leader=(?:\S+ \(id: )?|leaderId=(?:OptionalInt\[)?)(\d+)")
"""3.8 names the leader's address before its id; 3.7 the id alone."""
_OWN_ID: Final = re.compile(
    r"\blocal(?:Id=|(?:VoterNode=VoterNode\(voterKey|ReplicaKey)=ReplicaKey\(id=)(\d+)"
)
"""A leader names its key in 3.9 and 4.0, and its voter node since."""
_VOTED: Final = re.compile(r"\bvoted(?:Id=|Key=(?:Optional\[)?ReplicaKey\(id=)(\d+)")
"""Until 3.9 the key alone, and in 3.7 the id."""
_VOTERS: Final = re.compile(
    r".*\bvoters (?:is|are) VoterSet\(voters=\{(.+)\}\)(?: at offset (\d+))?"
)
_VOTER: Final = re.compile(r"\bReplicaKey\(id=(\d+), directoryId=([\w-]{22})?")
_MARK: Final = re.compile(r"(Leader|Follower) high watermark updated to (?:\w+\(offset=)?(\d+)")
_VOTE: Final = re.compile(
    r"Vote request .*\b(?:replica|candidate)Id=(\d+),.*\blastOffsetEpoch=(\d+), lastOffset=(\d+)"
    r"(.*) with epoch (\d+) is (granted|rejected)"
)
"""Until 3.9 of a candidate: there was no PreVote."""
_CUT: Final = re.compile(r"Truncated to offset (\d+) from Fetch response from leader")
_REPLACED: Final = re.compile(
    r"Fully truncated the log at \(LogOffsetMetadata\(offset=(\d+), .*\), (\d+)\) after "
)
_FATAL: Final = re.compile(
    r"(?:\[.*?\] )?(?:Encountered fatal fault: |(Shutdown broker because ))(.*)"
)
_FAULT: Final = re.compile(r"(?:\[.*?\] )?Encountered ([a-z][a-z -]* fault: .*)")
"""Of its image, which is not what the log holds, or of what its controller did not foresee."""
_FAILURE: Final = "failure"
"""Of a log directory: no event, but why a broker without another one ends itself."""
_CAUSE: Final = re.compile(r"(?:Caused by: )?([\w.$]+(?:Exception|Error)(?:: .*)?)")

Event = dict[str, Any]


class OutputReader:
    """See `cluster.systems.base.TraceReader`.

    A fault is kept back until the next line of a logger: its causes follow it.
    """

    def __init__(self) -> None:
        self._incarnation = -1
        self._epoch = 0
        self._half = b""
        """The beginning of the last line."""
        self._fault: Event | None = None
        self._log_end: int | None = None
        """Of the metadata log, while it is loaded."""
        self._failure = ""
        """The last one of a log directory."""
        self._version = ""
        """That a process of the node printed, until its commit follows."""

    def take(self, data: bytes) -> bytes:
        *whole, self._half = (self._half + data).split(b"\n")
        return b"".join(encode_line(event) for line in whole for event in self._events(line))

    def end(self) -> bytes:
        events = [*self._events(self._half), *self._take_kept()]
        self._half = b""
        return b"".join(map(encode_line, events))

    def _events(self, line: bytes) -> Iterator[Event]:
        text = line.decode("utf-8", "replace")
        found = _LINE.fullmatch(text)
        if found is None or _SECOND.search(found[4]):
            if self._fault is not None and (cause := _CAUSE.fullmatch(text)) is not None:
                self._fault["reason"] += f"; {cause[1]}"
            return
        yield from self._take_kept()
        time_ns, level, logger, message = found.groups()
        if logger == START:
            self._incarnation, self._epoch, self._failure = self._incarnation + 1, 0, ""
            self._log_end = None
        for event, fields in self._read(level, logger.rpartition(".")[2], message):
            self._epoch = fields["epoch"] if event == "state" else self._epoch
            made = {"t": int(time_ns), "n": max(self._incarnation, 0), "e": event, **fields}
            if event in {"fatal", "fault", _FAILURE}:
                self._fault = made
            else:
                yield made

    def _read(self, level: str, logger: str, message: str) -> Iterator[tuple[str, Event]]:
        if found := _LOADED.match(message):
            self._log_end = int(found[1])
        elif level in {"ERROR", "FATAL"} and (found := _FATAL.fullmatch(message)):
            failure = f"; {self._failure}" if found[1] and self._failure else ""
            yield "fatal", {"reason": f"{found[2]}{failure}"}
        elif level == "ERROR" and (found := _FAULT.fullmatch(message)):
            yield "fault", {"reason": found[1]}
        elif logger != _INFO:
            for event, fields in _read(logger, message, self._epoch):
                if event == "state" and self._log_end is not None:
                    yield "log-end", {"end_offset": self._log_end}
                    self._log_end = None
                yield event, fields
        elif message.startswith(_VERSION):
            self._version = message.removeprefix(_VERSION)
        elif message.startswith(_COMMIT) and self._version:
            yield "release", {"version": self._version, "commit": message.removeprefix(_COMMIT)}
            self._version = ""

    def _take_kept(self) -> Iterator[Event]:
        fault, self._fault = self._fault, None
        if fault is not None and fault["e"] == _FAILURE:
            self._failure = fault["reason"]
        elif fault is not None:
            yield fault


def _read(logger: str, message: str, epoch: int) -> Iterator[tuple[str, Event]]:
    message = message.partition("] ")[2] if message.startswith("[") else message
    if logger == START.rpartition(".")[2]:
        try:
            facts = json.loads(message)
            directory = str(uuid_from_text(facts.pop("directory_id") or _NO_ID))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return
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
    elif logger == "KafkaRaftClient":
        yield from _read_client(message, epoch)
    elif logger == "LogDirFailureChannel":
        yield _FAILURE, {"reason": message}


def _read_client(message: str, epoch: int) -> Iterator[tuple[str, Event]]:
    if found := _MARK.match(message):
        role = found[1].lower()
        counted: Event = {"replicas": {}} if role == "leader" else {}
        yield "hw", {"epoch": epoch, "offset": int(found[2]), "role": role, **counted}
    elif found := _VOTE.fullmatch(message):
        candidate_id, last_epoch, last_offset, vote_epoch = map(int, found.group(1, 2, 3, 5))
        vote: Event = {"epoch": vote_epoch, "candidate_id": candidate_id}
        vote |= {"pre_vote": "preVote=true" in found[4], "granted": found[6] == "granted"}
        yield "vote", {**vote, "last_epoch": last_epoch, "last_offset": last_offset}
    elif found := _CUT.match(message):
        yield "truncate", {"end_offset": int(found[1]), "epoch": epoch}
    elif found := _REPLACED.match(message):
        yield "truncate-fully", {"start_offset": int(found[1]), "epoch": int(found[2])}


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

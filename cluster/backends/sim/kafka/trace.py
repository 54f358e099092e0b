"""What a released node does, in the vocabulary of docs/evidence.md.

A raft client of Kafka is seen from around: what it writes to its log and its state file, what it
sends, what its listener is handed, and its role after each step. So these events
are complete (`cluster.systems.kafka_raft.TRACED`):

| event | from |
|---|---|
| `state` | each write of the state file, and each change of the role at the end of a step |
| `epoch-start` | the first batch that a leader appends in its epoch: LeaderChange is in it |
| `append`, `flush`, `truncate`, `truncate-fully`, `log-start`, `hw`, `snapshot` | the log |
| `voters` | the configured voters, and the VotersRecords of the log |
| `voter-change` | a VotersRecord that a leader appends behind the start of its epoch |
| `vote` | the answers to Vote |
| `fetch` | the requests of a voter: only these promise that the log is durable |
| `claim`, `renounce` | what the listener hears of the leader |
| `ack` | answers to clients |

Left out, since it cannot be seen: `commit` (its latency), `contradiction`, `corrupt-fetch`,
`fetch-snapshot`, `read`, and the replicas' offsets in a leader's `hw`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.backends.sim.kafka.replica import KafkaReplica

NO_NODE: Final = -1
_STATES: Final = {
    "leader": "Leader",
    "follower": "Follower",
    "candidate": "Candidate",
    "prospective": "Prospective",
    "resigned": "Resigned",
    "unattached": "Unattached",
    "voted": "Unattached",
}

Trace = Callable[..., None]
"""Called with an event's name and its fields by keyword."""


class KafkaTrace:
    """The trace of one process, event by event."""

    def __init__(self, node_id: int, replica: KafkaReplica, trace: Trace) -> None:
        self._id = node_id
        self._replica = replica
        self._trace = trace
        self._state: tuple[str, int, int, int] | None = None
        self._awaited_epoch: int | None = None
        """Of a leader that has appended nothing yet."""
        self._started_epoch = -1
        """In which it appended its LeaderChange."""
        self._start_end = -1
        """Last offset of the batch with that, which repeats the voters of a checkpoint."""
        self.high_watermark = 0
        self._claimed: int | None = None
        """Epoch in which its listener was the leader."""

    @property
    def leads(self) -> bool:
        """Whether it leads."""
        return self._state is not None and self._state[0] == "Leader"

    @property
    def claims(self) -> bool:
        """Whether its listener knows that it leads."""
        return self._claimed is not None

    def begin(self, directory: uuid.UUID, pid: int, check_quorum_timeout_ms: float) -> None:
        """Trace what is known before the first step."""
        replica = self._replica
        self._trace(
            "start",
            node_id=self._id,
            directory_id=directory,
            pid=pid,
            mutant=None,
            check_quorum_timeout_ms=check_quorum_timeout_ms,
        )
        self._trace(
            "recovered",
            start_offset=replica.start_offset,
            end_offset=replica.end_offset,
            last_epoch=replica.last_epoch,
            truncated_bytes=replica.torn_bytes,
        )
        self._trace_voters()

    def _voters(self) -> dict[str, Any]:
        offset, voters = self._replica.voters
        named = {voter: str(directory) for voter, directory in voters.items()}
        return {"offset": offset, "voters": named}

    def _trace_voters(self) -> None:
        version = 0 if self._replica.is_static else 1
        self._trace("voters", kraft_version=version, **self._voters())

    def write_state(self) -> None:
        """The state file holds another election: name the state that has it."""
        epoch, leader, voted = self._replica.held or (0, NO_NODE, NO_NODE)
        before = None if self._state is None else self._state[:2]
        if leader == self._id and before in (("Candidate", epoch), ("Leader", epoch)):
            name = "Leader"
            if epoch > self._started_epoch:  # else the file is written in another version
                self._awaited_epoch = epoch
        elif leader == self._id:  # it led before it was restarted
            name = "Resigned"
        elif leader != NO_NODE:
            name = "Follower"
        else:
            name = "Candidate" if voted == self._id else "Unattached"
        self._note_state(name, epoch, leader, voted)

    def take_role(self, text: str) -> None:
        """The role at the end of a step."""
        role, _, number = text.partition(" ")
        epoch = int(number)
        held = self._replica.held
        leader, voted = held[1:] if held is not None and held[0] == epoch else (NO_NODE, NO_NODE)
        self._note_state(_STATES[role], epoch, leader, voted)

    def _note_state(self, name: str, epoch: int, leader: int, voted: int) -> None:
        state = (name, epoch, leader, voted)
        if state != self._state:
            self._state = state
            self._trace("state", state=name, epoch=epoch, leader_id=leader, voted_id=voted)

    def append(self, base: int, last: int, epoch: int) -> None:
        """A batch is in the log."""
        role = "leader" if self.leads else "follower"
        self._trace("append", epoch=epoch, base_offset=base, last_offset=last, role=role)
        if epoch == self._awaited_epoch:
            self._awaited_epoch, self._started_epoch, self._start_end = None, epoch, last
            self._trace("epoch-start", epoch=epoch, offset=base)

    def change_voters(self) -> None:
        """Another voter set is in force."""
        if self.leads and self._replica.voters[0] > self._start_end:
            self._trace("voter-change", epoch=self._started_epoch, **self._voters())
        self._trace_voters()

    def flush(self, offset: int) -> None:
        """All below is durable."""
        self._trace("flush", end_offset=offset)

    def truncate(self, offset: int) -> None:
        """The log was cut."""
        self._trace("truncate", end_offset=offset, epoch=self._replica.last_epoch)

    def drop(self, offset: int, epoch: int) -> None:
        """The log was dropped for a snapshot."""
        self._trace("truncate-fully", start_offset=offset, epoch=epoch)

    def move_start(self, offset: int, epoch: int) -> None:
        """The log begins at a snapshot."""
        self._trace("log-start", offset=offset, epoch=epoch)

    def snapshot(self, offset: int, epoch: int, size: int, *, own: bool) -> None:
        """A snapshot is durable."""
        origin = "created" if own else "fetched"
        self._trace("snapshot", offset=offset, epoch=epoch, size_bytes=size, origin=origin)

    def advance(self, offset: int) -> None:
        """The high watermark moved."""
        self.high_watermark = offset
        held = self._replica.held
        fields: dict[str, Any] = {"epoch": 0 if held is None else held[0], "offset": offset}
        if self.leads:
            self._trace("hw", **fields, role="leader", replicas={})
        else:
            self._trace("hw", **fields, role="follower")

    def change_leader(self, epoch: int, leader: int) -> None:
        """The listener is told who leads."""
        if self._claimed is not None and (leader != self._id or epoch != self._claimed):
            self._trace("renounce", epoch=self._claimed, offset=self.high_watermark)
            self._claimed = None
        if leader == self._id and self._claimed is None:
            self._claimed = epoch
            self._trace("claim", epoch=epoch, offset=self.high_watermark)

    def fetch(self, asked: int, epoch: int, offset: int) -> None:
        """A Fetch leaves; only those of voters acknowledge anything."""
        replica = self._replica
        if self._id in replica.voters[1]:
            leader = NO_NODE if replica.held is None else replica.held[1]
            self._trace(
                "fetch",
                epoch=epoch,
                leader_id=leader,
                asked_id=asked,
                offset=offset,
                durable_end_offset=replica.durable_end_offset,
            )

    def vote(self, asked: Mapping[str, Any], *, granted: bool) -> None:
        """A Vote is answered."""
        self._trace("vote", **asked, granted=granted)

    def acknowledge(self, offset: int, epoch: int) -> None:
        """A client's record is committed."""
        mark = self.high_watermark
        self._trace("ack", epoch=epoch, offset=offset, high_watermark=mark)

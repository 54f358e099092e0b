"""What must hold in a simulated world after every event, watched while it runs.

The monitor hears of each trace event at the instruction that traces it, keeps its own small copy of
every node's log and votes, and checks what that event could have broken: a step costs what it
changed. It looks into nodes (their logs, their disks) but never changes them.

| property | says | source |
|---|---|---|
| election-safety | one leader an epoch, whoever believes in it | NeverTwoLeadersInSameEpoch |
| elected-by-majority | who leads has the votes of a majority of its voters | Raft, section 5.2 |
| one-voter-change | voter sets that follow each other differ by one voter | Ongaro's thesis, 4.1 |
| change-after-commit | voters change once epoch start and last change are committed | Ongaro 2015 |
| committed-voters | nobody goes back behind voters that it knows to be committed | KIP-853 |
| one-vote | a voter votes for one candidate an epoch, whatever befalls it | KIP-595 |
| durable-vote | a vote, an epoch, a leader is on the disk before anybody hears of it | KIP-595 |
| monotonic-epoch | no node's epoch decreases | RaftEventSimulationTest 2 |
| log-matching | (offset, epoch) stands for one batch on all nodes at all times | Raft 5.3 |
| committed-prefix | what lies below any high watermark never changes | V8, NoLogDivergence |
| committed-truncated | no replica gives up a committed record that it held | durability |
| majority-durable | what commits is on the disks of a majority | MajorityReachedHighWatermark |
| monotonic-high-watermark | that of the newest leader never decreases | RaftEventSimulationTest 1 |
| leader-completeness | a new leader holds all that was committed before its epoch | Raft 5.4 |
| durable-fetch | a voter fetches no further than it has fsynced | KIP-595 |
| recovery | what was fsynced is there again after a restart | the disk's contract |
| snapshot-committed | a snapshot ends where a committed batch of its epoch does | KIP-630 |
| snapshot-durable | a snapshot that is told of is on the disk, whole | KAFKA-15312 |
| snapshot-agreement | equal ids stand for equal bytes | snapshot == log prefix |
| claim-after-replay | a controller claims only past its epoch's start | KAFKA-17333 |
| ack-committed | an acknowledged write is below a high watermark | KIP-595 |

A log that begins above 0 is taken for one whose beginning is what was committed below: its snapshot
stands for that.

The first violations are kept; what follows from a broken state is not worth telling.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from crc32c import crc32c

from cluster.backends.sim.electorate import (
    Electorate,
    VotersInForce,
    difference,
    voters_of,
)
from cluster.backends.sim.hooks import TraceFields
from cluster.backends.sim.process import Process
from cluster.backends.sim.shadow import Batch, ShadowLog, read_from
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import METADATA_DIRECTORY
from cluster.node.kraft.messages import NO_NODE
from cluster.node.kraft.quorum_state_store import FILE_NAME, ElectionState, QuorumStateError, decode
from cluster.node.log.snapshot import CorruptSnapshotError, parse_snapshot, snapshot_name
from cluster.node.log.types import OffsetAndEpoch
from cluster.values import valueclass

QUORUM_STATE = f"{METADATA_DIRECTORY}/{FILE_NAME}"
VIOLATIONS_MAX = 20
_PERSISTED = frozenset({"Unattached", "Candidate", "Follower", "Leader"})
"""States whose epoch, leader and vote are in the file before they are entered."""


@valueclass
class Violation:
    """A property that does not hold."""

    property: str
    """Its name in the table of `cluster.backends.sim.monitor`."""
    explanation: str
    nodes: tuple[str, ...]
    time_ms: float


class SafetyMonitor:
    """Watches a world from its beginning: make it before the first node starts."""

    def __init__(
        self, world: SimWorld, on_violation: Callable[[Violation], None] | None = None
    ) -> None:
        """`on_violation` is called in the midst of an event: it may note, not act."""
        self.violations: list[Violation] = []
        self.logs = {name: ShadowLog() for name in world.names}
        self.committed: list[Batch] = []
        """What was below any high watermark, ever."""
        self.leader_of: dict[int, str] = {}
        """Who led each epoch, as anybody said."""
        self.electorate = Electorate()
        """Who may vote, and who voted for whom."""
        self.leader_high_watermark = 0
        self._world = world
        self._on_violation = on_violation
        self._committed_in: list[int] = []
        """The epoch whose leader committed each batch first; never decreases."""
        self._contents: dict[tuple[int, int], Batch] = {}
        """The batch that (base offset, epoch) stands for."""
        self._snapshots: dict[OffsetAndEpoch, tuple[str, int]] = {}
        """Who had the snapshot of an id first, and its checksum."""
        self._wiped: dict[tuple[str, str], ShadowLog] = {}
        """By node and directory: what was on disks that are gone."""
        self._epochs: dict[str, int] = {}
        self._epoch_starts: dict[int, int] = {}
        self._checks: dict[str, Callable[[str, Process, TraceFields], None]] = {
            "start": self._started,
            "voters": self._voters,
            "voter-change": self._voter_change,
            "recovered": self._recovered,
            "state": self._state,
            "vote": self._vote,
            "epoch-start": self._epoch_start,
            "append": self._append,
            "truncate": self._truncate,
            "truncate-fully": self._truncate_fully,
            "snapshot": self._snapshot,
            "fetch": self._fetch,
            "hw": self._high_watermark,
            "claim": self._claim,
            "ack": self._ack,
        }
        world.observers.append(self._observe)
        world.on_end.append(self._ended)

    @property
    def committed_end(self) -> int:
        """First offset that nobody knows to be committed."""
        return self.committed[-1][1] if self.committed else 0

    def distrust(self, node: str) -> None:
        """Expect nothing more of what a node's disk held: a fault damaged it."""
        self.logs[node].durable = 0

    def violated(self, property_: str, explanation: str, *nodes: str) -> None:
        """Note a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            violation = Violation(property_, explanation, nodes, self._world.scheduler.now_ms)
            self.violations.append(violation)
            if self._on_violation is not None:
                self._on_violation(violation)

    def _observe(self, process: Process, event: str, fields: TraceFields) -> None:
        check = self._checks.get(event)
        if check is not None:
            name = process.name
            if self.logs[name].is_stale and process.node is not None:
                self._read_log(name, process)
            check(name, process, fields)

    def durable_end(self, name: str) -> int:
        """Offset below which all is on the node's disk, as the completed fsyncs say.

        Those of earlier lives count, also while a node that starts has not asked its disk yet.
        """
        shadow, process = self.logs[name], self._world.nodes[name].process
        if shadow.is_stale or process is None or process.node is None or not process.alive:
            return shadow.durable
        return max(shadow.durable, process.node.raft.log.durable_end_offset)

    def _ended(self, process: Process) -> None:
        shadow = self.logs[process.name]
        if process.node is not None and not shadow.is_stale:
            shadow.durable = max(shadow.durable, process.node.raft.log.durable_end_offset)

    # -- elections -------------------------------------------------------------------------------

    def _state(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        epoch: int = fields["epoch"]
        known = self._epochs.get(name, 0)
        if epoch < known:
            self.violated("monotonic-epoch", f"{name} went from epoch {known} to {epoch}", name)
        self._epochs[name] = epoch
        leader_id, voted_id = fields["leader_id"], fields["voted_id"]
        if leader_id != NO_NODE:
            self._believes(name, epoch, f"n{leader_id}")
        if voted_id != NO_NODE:
            self._votes(name, epoch, f"n{voted_id}")
        if fields["state"] == "Leader":
            self._check_elected(name, epoch)
        if fields["state"] in _PERSISTED:
            self._check_file(name, epoch, leader_id, voted_id, fields["state"])

    def _believes(self, name: str, epoch: int, leader: str) -> None:
        known = self.leader_of.setdefault(epoch, leader)
        if known != leader:
            told = f"epoch {epoch} is led by {known}, and by {leader} as {name} says"
            self.violated("election-safety", told, known, leader)

    def _votes(self, name: str, epoch: int, candidate: str) -> None:
        known = self.electorate.voted(name, epoch, candidate)
        if known != candidate:
            told = f"{name} voted for {known} and for {candidate} in epoch {epoch}"
            self.violated("one-vote", told, name)

    def _check_elected(self, name: str, epoch: int) -> None:
        voters = self.electorate.members(name)
        granting = self.electorate.granting(name, epoch)
        if len(granting) < voters.majority:
            told = (
                f"{name} leads epoch {epoch} with the votes of {', '.join(granting) or 'nobody'} "
                f"among {', '.join(voters.directories) or 'nobody'}"
            )
            self.violated("elected-by-majority", told, name)

    def _check_file(self, name: str, epoch: int, leader_id: int, voted_id: int, state: str) -> None:
        content = self._world.nodes[name].disk.durable(QUORUM_STATE)
        try:
            durable = None if content is None else decode(content)
        except QuorumStateError as error:
            self.violated("durable-vote", f"{name}: {error}", name)
            return
        found = (
            None
            if durable is None
            else (
                durable.epoch,
                durable.leader_id,
                NO_NODE if durable.voted_key is None else durable.voted_key.id,
            )
        )
        if found != (epoch, leader_id, voted_id):
            told = (
                f"{name} is {state} in {_election(epoch, leader_id, voted_id)}, while its disk "
                f"holds {_held(durable)}"
            )
            self.violated("durable-vote", told, name)

    def _vote(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        if not fields["granted"] or fields["pre_vote"]:
            return
        epoch, candidate_id = fields["epoch"], fields["candidate_id"]
        self._votes(name, epoch, f"n{candidate_id}")
        content = self._world.nodes[name].disk.durable(QUORUM_STATE)
        durable = None if content is None else decode(content)
        voted = None if durable is None else durable.voted_key
        if durable is None or durable.epoch != epoch or voted is None or voted.id != candidate_id:
            told = (
                f"{name} votes for n{candidate_id} in epoch {epoch} while its disk holds "
                f"{_held(durable)}"
            )
            self.violated("durable-vote", told, name)

    def _epoch_start(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        epoch = fields["epoch"]
        self._epoch_starts[epoch] = fields["offset"]
        needed = bisect_left(self._committed_in, epoch)
        if self.logs[name].batches[:needed] != self.committed[:needed]:
            told = f"{name} leads epoch {epoch} without all that was committed before it"
            self.violated("leader-completeness", told, name)

    # -- voters ----------------------------------------------------------------------------------

    def _started(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        before = self.electorate.directories.get(name, "")
        if self.electorate.started(name, str(fields["directory_id"])):
            # Its disk was wiped: it is another replica, which promised and held nothing yet.
            self._wiped[name, before] = self.logs[name]
            self.logs[name] = ShadowLog()
            self._epochs.pop(name, None)

    def _voters(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        shadow = self.logs[name]
        mark = shadow.batches[shadow.checked - 1][1] if shadow.checked else 0
        voters = VotersInForce(voters_of(fields), fields["offset"])
        forgotten = self.electorate.take_up(name, voters, mark)
        if forgotten is not None:
            old = "configured voters" if voters.offset < 0 else f"voters of offset {voters.offset}"
            told = f"{name} goes by the {old} again, not by those of offset {forgotten}"
            self.violated("committed-voters", told, name)

    def _voter_change(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        before, epoch = self.electorate.members(name), fields["epoch"]
        after = voters_of(fields)
        if difference(before.directories, after) > 1:
            told = f"{name} goes from {', '.join(before.directories)} to {', '.join(after)}"
            self.violated("one-voter-change", told, name)
        needed = max(before.offset, self._epoch_starts.get(epoch, 0))
        if needed >= self.committed_end:
            told = (
                f"{name} changes the voters in epoch {epoch} while offset {needed} is not committed"
            )
            self.violated("change-after-commit", told, name)

    # -- logs ------------------------------------------------------------------------------------

    def _recovered(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        log, end_offset = self.logs[name], fields["end_offset"]
        log.is_stale = True
        # A log that is not what was committed gives way to a snapshot. The node tells so, but it
        # may die between the deed and the trace of it.
        gave_way = fields["start_offset"] == end_offset and log.differs(self.committed, end_offset)
        if end_offset < log.durable and not gave_way:
            told = f"{name} held offsets below {log.durable} and recovered {end_offset}"
            self.violated("recovery", told, name)

    def _read_log(self, name: str, process: Process) -> None:
        """Take the log of a new process as it is."""
        assert process.node is not None
        shadow, log = self.logs[name], process.node.raft.log
        shadow.is_stale = False
        before = shadow.durable
        shadow.batches = self._committed_below(name, log.start_offset)
        shadow.checked = 0
        self._take(name, read_from(log, log.start_offset))
        # What was fsynced in an earlier life is still that, so far as it is there.
        shadow.durable = max(log.durable_end_offset, min(before, shadow.end))

    def _append(self, name: str, process: Process, fields: TraceFields) -> None:
        assert process.node is not None
        shadow, base_offset = self.logs[name], fields["base_offset"]
        if base_offset != shadow.end:
            told = f"{name} appends at {base_offset}, but its log ends at {shadow.end}"
            self.violated("log-matching", told, name)
        self._take(name, read_from(process.node.raft.log, base_offset))

    def _take(self, name: str, batches: list[Batch]) -> None:
        shadow, contents = self.logs[name], self._contents
        for batch in batches:
            known = contents.setdefault((batch[0], batch[2]), batch)
            if known != batch:
                told = f"{name} holds another batch than others at {batch[0]}, epoch {batch[2]}"
                self.violated("log-matching", told, name)
                known = batch
            shadow.batches.append(known)

    def _truncate(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        for position, batch in self.logs[name].truncate(fields["end_offset"]):
            if position < len(self.committed) and self.committed[position] == batch:
                told = f"{name} cut its log to {fields['end_offset']}, below committed records"
                self.violated("committed-truncated", told, name)
                return

    # -- snapshots -------------------------------------------------------------------------------

    def _committed_below(self, name: str, offset: int) -> list[Batch]:
        """Return what a snapshot that ends at `offset` stands for."""
        below = self.committed[: bisect_left(self.committed, (offset,))]
        if (below[-1][1] if below else 0) != offset:
            told = f"{name} begins at {offset}, where no committed batch ends"
            self.violated("snapshot-committed", told, name)
        return below

    def _truncate_fully(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        shadow = self.logs[name]
        shadow.batches = self._committed_below(name, fields["start_offset"])
        shadow.checked = 0
        shadow.durable = fields["start_offset"]

    def _snapshot(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        snapshot_id = OffsetAndEpoch(fields["offset"], fields["epoch"])
        below = self._committed_below(name, snapshot_id.offset)
        if below and below[-1][2] != snapshot_id.epoch:
            told = (
                f"{name} calls a snapshot {snapshot_name(snapshot_id)}, but what is below offset "
                f"{snapshot_id.offset} ends in epoch {below[-1][2]}"
            )
            self.violated("snapshot-committed", told, name)
        path = f"{METADATA_DIRECTORY}/{snapshot_name(snapshot_id)}"
        content = self._world.nodes[name].disk.durable(path)
        try:
            parse_snapshot(path, snapshot_id, b"" if content is None else content)
        except CorruptSnapshotError as error:
            self.violated("snapshot-durable", f"{name}: {error}", name)
            return
        assert content is not None
        known = self._snapshots.setdefault(snapshot_id, (name, crc32c(content)))
        if known[1] != crc32c(content):
            told = (
                f"{name} and {known[0]} hold different snapshots of one name, "
                f"{snapshot_name(snapshot_id)}"
            )
            self.violated("snapshot-agreement", told, name, known[0])

    def _fetch(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        durable = self.durable_end(name)
        if fields["offset"] > durable:
            told = f"{name} fetches at {fields['offset']} with {durable} fsynced"
            self.violated("durable-fetch", told, name)

    # -- commits ---------------------------------------------------------------------------------

    def _high_watermark(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        offset, epoch = fields["offset"], fields["epoch"]
        shadow, committed = self.logs[name], self.committed
        batches, position = shadow.batches, shadow.checked
        while position < len(batches) and batches[position][0] < offset:
            batch = batches[position]
            if position == len(committed):
                committed.append(batch)
                self._committed_in.append(epoch)
            elif committed[position] != batch:
                self._changed(name, batch, committed[position])
            position += 1
        shadow.checked = position
        if offset == 0:
            return  # says that nothing is committed
        if position == 0 or batches[position - 1][1] != offset:
            told = f"{name}: high watermark {offset} is no end of a batch of its log"
            self.violated("committed-prefix", told, name)
        elif fields["role"] == "leader":
            self._check_leader_commit(name, epoch, offset, position - 1)

    def _changed(self, name: str, batch: Batch, known: Batch) -> None:
        told = f"{name} takes {_batch(batch)} for committed, where {_batch(known)} was committed"
        self.violated("committed-prefix", told, name)

    def _check_leader_commit(self, name: str, epoch: int, offset: int, position: int) -> None:
        batch = self.logs[name].batches[position]
        voters = self.electorate.members(name)
        holders = [
            voter
            for voter in voters.directories
            if self._held_durably(name, voter, position, batch)
        ]
        if len(holders) < voters.majority:
            told = (
                f"{name} commits up to {offset} in epoch {epoch}, "
                f"which is durable on {', '.join(holders) or 'none'} only "
                f"of its voters {', '.join(voters.directories)}"
            )
            self.violated("majority-durable", told, name)
        if epoch == max(self.leader_of, default=epoch):
            if offset < self.leader_high_watermark:
                told = (
                    f"{name}, leader of epoch {epoch}, announces the high watermark {offset} "
                    f"after {self.leader_high_watermark}"
                )
                self.violated("monotonic-high-watermark", told, name)
            self.leader_high_watermark = offset

    def _held_durably(self, leader: str, voter: str, position: int, batch: Batch) -> bool:
        """Whether a voter in force at a leader has this batch on its disk, or had when it died."""
        if self.electorate.is_member(leader, voter):
            log, durable = self.logs[voter], self.durable_end(voter)
        else:
            # It was wiped since; what it had fsynced then, it may have told the leader.
            directory = self.electorate.members(leader).directories[voter]
            lost = self._wiped.get((voter, directory))
            if lost is None:
                return False
            log, durable = lost, lost.durable
        return log.holds(position, batch) and durable >= batch[1]

    # -- controller ------------------------------------------------------------------------------

    def _claim(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        epoch = fields["epoch"]
        start = self._epoch_starts.get(epoch)
        if self.leader_of.get(epoch) != name or start is None or fields["offset"] < start:
            told = (
                f"{name} claims epoch {epoch} with replayed offset {fields['offset']}; "
                f"the epoch is led by {self.leader_of.get(epoch)} and starts at {start}"
            )
            self.violated("claim-after-replay", told, name)

    def _ack(self, name: str, process: Process, fields: TraceFields) -> None:
        del process
        if fields["offset"] >= self.committed_end:
            told = (
                f"{name} acknowledges offset {fields['offset']} while nothing from "
                f"{self.committed_end} on is committed"
            )
            self.violated("ack-committed", told, name)


def _election(epoch: int, leader_id: int, voted_id: int) -> str:
    """Describe a quorum-state for a person."""
    leader, vote = (f"n{i}" if i != NO_NODE else "none" for i in (leader_id, voted_id))
    return f"epoch {epoch} (leader {leader}, vote {vote})"


def _held(state: ElectionState | None) -> str:
    if state is None:
        return "no quorum-state"
    voted_id = NO_NODE if state.voted_key is None else state.voted_key.id
    return _election(state.epoch, state.leader_id, voted_id)


def _batch(batch: Batch) -> str:
    return f"the batch at offset {batch[0]} of epoch {batch[2]} (crc {batch[3]:08x})"

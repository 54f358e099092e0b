"""Shows the logs and disks of simulated nodes to the invariants, beside the nodes' traces.

`watch(world)` judges a world by all invariants of `checkers.invariants`; call it before the first
node starts. It reads the nodes' state and never changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from checkers.invariants.sight import Batch, Election, Fields, Term, node_name
from checkers.invariants.watcher import LIVE, Violation, Watcher
from cluster.backends.sim.encoded import EncodedRequest, EncodedResponse
from cluster.backends.sim.incarnation import Incarnation, Replica, TraceFields
from cluster.backends.sim.kafka.host import KafkaProcess
from cluster.backends.sim.world import SimWorld
from cluster.node.errors import ErrorCode
from cluster.node.kraft.core import RaftCore
from cluster.node.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    VoteRequest,
)
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft_version import KRAFT_VERSION
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.messages import UpdateFeaturesRequest
from harness.sim.sights.standing import StandingWatch


def watch(
    world: SimWorld,
    on_violation: Callable[[Violation], None] | None = None,
    traced: Collection[str] | None = None,
) -> Watcher:
    """Judge a world; `on_violation` is called within a node's event, so it must not act on it.

    `traced`: the events that all its nodes trace; None: all. Invariants of others are left out.
    """
    among = [
        invariant for invariant in LIVE if traced is None or invariant.reads <= frozenset(traced)
    ]
    watcher = Watcher(WorldSight(world), on_violation, among)
    take = watcher.take

    def observe(process: Incarnation, event: str, fields: TraceFields) -> None:
        take(process.name, event, fields)

    def on_end(process: Incarnation) -> None:
        if process.replica is not None:
            watcher.note_end(process.name, process.replica.durable_end_offset)

    arrivals = Arrivals(take)
    world.mesh.on_ask[BeginQuorumEpochRequest].append(arrivals.on_ask)
    for kind in Arrivals.SERVED:
        world.mesh.on_serve[kind].append(arrivals.on_serve)
    for kind in Arrivals.ANSWERED:
        world.mesh.on_answer[kind].append(arrivals.on_answer)
    world.mesh.on_serve[EncodedRequest].append(arrivals.on_encoded)
    world.mesh.on_answer[EncodedRequest].append(arrivals.on_encoded_answer)
    world.mesh.on_reply[DescribeQuorumRequest].append(Descriptions(world, take).on_reply)
    VoterAnswers(world, take)
    Resignations(world, take)
    StandingWatch(world, take)
    world.observe(observe)
    world.on_end.append(on_end)
    waits = FetchWaits(world, take)
    world.observe(waits.on_event, "hw")
    for asked in (FetchRequest, VoteRequest):
        world.mesh.on_serve[asked].append(waits.on_serve)
    return watcher


class Arrivals:
    """Tells what is handed to nodes, which they do not trace."""

    ANSWERED = (BeginQuorumEpochRequest, FetchRequest, FetchSnapshotRequest)
    """Requests of whose answers it tells."""
    SERVED = (*ANSWERED, EndQuorumEpochRequest, UpdateVoterRequest)
    """Requests of which it tells."""
    _OF_KAFKA = frozenset(
        (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.END_QUORUM_EPOCH, ApiKey.UPDATE_RAFT_VOTER)
    )
    """Those between nodes of Kafka: what else it does on BeginQuorumEpoch is its own."""

    def __init__(self, take: Callable[[str, str, Fields], None]) -> None:
        self._take = take
        self._asked: dict[tuple[str, int], object] = {}
        """A node and a voter -> the BeginQuorumEpoch that it asked of it last."""

    def on_ask(self, node: str, message: object) -> None:
        """Note what a leader asks."""
        if isinstance(message, BeginQuorumEpochRequest):
            self._asked[node, message.voter_id] = message

    def on_serve(self, node: str, message: object) -> None:
        """Tell of a request that is handed to a node."""
        match message:
            case FetchRequest() | FetchSnapshotRequest():
                self._note_alive(node, message.replica_id, message.current_leader_epoch)
            case UpdateVoterRequest():
                self._note_alive(node, message.voter_id, message.current_leader_epoch)
            case BeginQuorumEpochRequest():
                self._note_epoch(node, message.leader_id, message.leader_epoch, None)
            case EndQuorumEpochRequest():
                names = [node_name(key.id) for key in message.preferred_candidates]
                leader = node_name(message.leader_id)
                fields = {"epoch": message.leader_epoch, "leader": leader, "candidates": names}
                self._take(node, "epoch-end", fields)

    def on_encoded(self, node: str, request: Any) -> None:
        """Tell of a request of a foreign node that is handed to a node."""
        if request.api in self._OF_KAFKA:
            self.on_serve(node, request.message)

    def on_encoded_answer(self, node: str, request: Any, response: object) -> None:
        """Tell of an answer to a foreign node."""
        if request.api in self._OF_KAFKA and isinstance(response, EncodedResponse):
            self.on_answer(node, request.message, response.message)

    def on_answer(self, node: str, request: object, response: object) -> None:
        """Tell of an answer, unless the node has asked again and waits for that one no more.

        Its clock may be faster than the network's, which has not given up the first one yet.
        """
        match request, response:
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse():
                if self._asked[node, request.voter_id] is request:
                    epoch, asked = response.leader_epoch, request.leader_epoch
                    self._note_epoch(node, request.voter_id, epoch, asked)
            case _, FetchResponse() | FetchSnapshotResponse():
                if response.error is ErrorCode.none:
                    self._take(node, "leader-answer", {})

    def _note_alive(self, node: str, sender_id: int, epoch: int) -> None:
        self._take(node, "fetch-arrival", {"sender": node_name(sender_id), "epoch": epoch})

    def _note_epoch(self, node: str, sender_id: int, epoch: int, asked: int | None) -> None:
        fields = {"sender": node_name(sender_id), "epoch": epoch, "asked_epoch": asked}
        self._take(node, "epoch-arrival", fields)


class FetchWaits:
    """Shows the Fetch that waits for longest at a quorum's leader, and all that waits at others.

    It looks when a Fetch or Vote is about to be served, in the state that all before has left.
    """

    def __init__(self, world: SimWorld, take: Callable[[str, str, Fields], None]) -> None:
        self._nodes = world.nodes
        self._take = take
        self._commits: dict[tuple[str, int], tuple[int, int]] = {}
        """By node and incarnation: number of the first that begins to wait after its last commit,
        and what was committed before."""

    def on_event(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        """Note who waits as the high watermark moves."""
        del event
        core = _core(process)
        if fields["role"] == "leader" and core is not None:
            at, first = (process.name, process.incarnation), core.fetch_purgatory._next
            self._commits[at] = first, core.log.high_watermark

    def on_serve(self, name: str, _: object) -> None:
        """Show who waits still since before the last commit, or since the node led."""
        process = self._nodes[name].process
        core = _core(process)
        if process is None or core is None:
            return
        if core.leader is None:
            waiting = core.fetch_purgatory._waiters, core.append_purgatory._waiters, core.readers
            count = sum(map(len, waiting)) + (core.pending_change is not None)
            self._take(name, "waits-lost", {"epoch": core.quorum.epoch, "count": count})
            return
        first, known = self._commits.get((name, process.incarnation), (0, 0))
        if next(iter(core.fetch_purgatory._waiters), first) < first:
            committed = core.leader.high_watermark
            shown = {"epoch": core.leader.epoch, "high_watermark": committed, "known": known}
            self._take(name, "voters-wait", shown)


def _core(process: Incarnation | None) -> RaftCore | None:
    """Return a node's raft layer; None: it does not run, or is another program."""
    own = None if process is None else process.node
    return None if own is None else own.raft._core


class Descriptions:
    """Shows what a leader answers to DescribeQuorum, and those that follow it as observers."""

    def __init__(self, world: SimWorld, take: Callable[[str, str, Fields], None]) -> None:
        self._nodes = world.nodes
        self._take = take

    def on_reply(self, name: str, request: object, response: object) -> None:
        """Look at an answer of the leader itself."""
        del request
        if not isinstance(response, DescribeQuorumResponse):
            return
        core = _core(self._nodes[name].process)
        if core is None or core.leader is None or response.leader_epoch != core.leader.epoch:
            return
        rows = (*response.voters, *response.observers)
        shown = {
            "log_end": core.log.end_offset,
            "high_watermark": response.high_watermark,
            "ends": {node_name(row.replica_id): row.log_end_offset for row in rows},
            "following": list(self._observers(core, core.leader)),
        }
        self._take(name, "description", shown)

    def _observers(self, core: RaftCore, leader: Leader) -> Iterator[str]:
        """Yield observers that have records of the epoch, if its voters are those of its begin.

        Who follows may have sent no more than a Fetch from where the logs differ, which counts
        for nothing, or for a snapshot, which leaves its log empty.
        """
        control = core.log.control
        if control.voters_offset >= leader.epoch_start_offset:
            return
        for name, host in self._nodes.items():
            other = _core(host.process)
            if other is None or control.voters.is_voter(other.config.replica_key):
                continue
            state, log = other.quorum.state, other.log
            has_records = log.end_offset > log.start_offset and log.end.epoch == leader.epoch
            if has_records and isinstance(state, Follower) and state.epoch == leader.epoch:
                yield name


class Resignations:
    """Shows what leaders that resign send, and how far they know their successors to be."""

    def __init__(self, world: SimWorld, take: Callable[[str, str, Fields], None]) -> None:
        self._take = take
        self._leaders: dict[str, Leader] = {}
        """What each node had as its state as it led last."""
        world.observe(self._on_event, "start", "state")
        world.mesh.on_ask[EndQuorumEpochRequest].append(self._on_ask)

    def _on_event(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del fields
        core = _core(process)
        if event == "start":
            self._leaders.pop(process.name, None)
        elif core is not None and core.leader is not None:
            self._leaders[process.name] = core.leader

    def _on_ask(self, name: str, message: object) -> None:
        assert isinstance(message, EndQuorumEpochRequest), "nothing else is heard"
        leader = self._leaders.get(name)
        ends = {} if leader is None else {i: s.end_offset for i, s in leader.replicas.items()}
        named = [key.id for key in message.preferred_candidates]
        shown = {node_name(id_): ends[id_] for id_ in named if id_ in ends}
        self._take(name, "epoch-end-sent", {"successors": shown})


class VoterAnswers:
    """Shows what a leader answers to right requests for other voters, and whether it may begin."""

    def __init__(self, world: SimWorld, take: Callable[[str, str, Fields], None]) -> None:
        self._nodes = world.nodes
        self._take = take
        self._came: dict[tuple[str, int], _VoterChange] = {}
        """By node and identity: requests that it has to answer as the leader."""
        self._holds: dict[tuple[str, int, ReplicaKey], int] = {}
        """By leader, epoch and replica: how often that asked for what comes behind all it has."""
        for kind in _VOTER_CHANGES:
            world.mesh.on_serve[kind].append(self._hear)
            world.mesh.on_reply[kind].append(self._look)
        world.mesh.on_serve[FetchRequest].append(self._note_fetch)
        world.mesh.on_ask[ApiVersionsRequest].append(self._note_ask)
        world.mesh.on_answer[ApiVersionsRequest].append(self._note_answer)

    def _hear(self, name: str, request: object) -> None:
        core = _core(self._nodes[name].process)
        is_other = isinstance(request, UpdateFeaturesRequest) and not _is_upgrade(request)
        if core is not None and core.leader is not None and not is_other:
            self._came[name, id(request)] = _VoterChange(request, core.leader)

    def _note_ask(self, name: str, _: object) -> None:
        for (node, _), change in self._came.items():
            change.has_asked |= node == name

    def _note_answer(self, name: str, _: object, response: object) -> None:
        if getattr(response, "error_code", None) is ErrorCode.none:
            for (node, _), change in self._came.items():
                change.is_answered |= node == name

    def _note_fetch(self, name: str, request: Any) -> None:
        core, epoch = _core(self._nodes[name].process), request.current_leader_epoch
        if core is None or core.leader is None or epoch != core.leader.epoch:
            return
        end = core.log.end
        if (request.last_fetched_epoch, request.fetch_offset) == (end.epoch, end.offset):
            at = name, epoch, ReplicaKey(request.replica_id, request.replica_directory_id)
            self._holds[at] = self._holds.get(at, 0) + 1

    def _look(self, name: str, request: Any, response: Any) -> None:
        """Look at a refusal in the state that it left, which is that in which it was made."""
        change, core = self._came.pop((name, id(request)), None), _core(self._nodes[name].process)
        if change is None or core is None or core.leader is not change.leader or core.shutting_down:
            return
        error = response.error_code if _is_upgrade(request) else response.error
        if isinstance(request, AddVoterRequest) and change.is_answered:
            key = ReplicaKey(request.voter_id, request.voter_directory_id)
            change.has_asked = self._holds.get((name, change.leader.epoch, key), 0) < _HELD_MIN
        shown = {
            "request": type(request).__name__.removesuffix("Request"),
            "error": error.name,
            "may_begin": _may_begin(core, change),
        }
        self._take(name, "voter-answer", shown)


_HELD_MIN = 2
"""The log may have grown as the first Fetch was served; behind the second it has all of before."""
_VOTER_CHANGES = (AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, UpdateFeaturesRequest)


def _is_upgrade(request: Any) -> bool:
    """Whether a request finalizes kraft.version 1, and nothing else."""
    if not isinstance(request, UpdateFeaturesRequest):
        return False
    updates = [(str(u.feature), int(u.max_version_level)) for u in request.feature_updates]
    return updates == [(KRAFT_VERSION, 1)]


@dataclass(slots=True)
class _VoterChange:
    """A change of the voters that a leader was asked for."""

    request: Any
    leader: Leader
    has_asked: bool = False
    """Whether it has asked a node for its versions since, and may refuse that one."""
    is_answered: bool = False


def _may_begin(core: RaftCore, change: _VoterChange) -> bool:
    """Whether nothing speaks against a change."""
    control, request, leader = core.log.control, change.request, change.leader
    voters, committed = control.voters, leader.high_watermark
    is_dynamic = control.kraft_version > 0
    last_offset = max(control.voters_offset, leader.last_change_offset) if is_dynamic else -1
    if core.pending_change is not None or committed is None or last_offset >= committed:
        return False
    if isinstance(request, UpdateFeaturesRequest):
        described = {leader.leader_id, *leader.updated_voters}
        is_known = core.config.local_voter is not None and leader.is_voter
        return is_dynamic or (is_known and described.issuperset(voters.ids))
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    known = voters.key(key.id)
    match request:
        case AddVoterRequest():
            return is_dynamic and known is None and not change.has_asked
        case RemoveVoterRequest():
            return is_dynamic and known == key and len(voters) > 1
    is_known = known == key if is_dynamic else known is not None
    return is_known and request.current_leader_epoch == leader.epoch


class WorldSight:
    """See `checkers.invariants.sight.Sight`."""

    def __init__(self, world: SimWorld) -> None:
        self._nodes = world.nodes
        self._leaders: dict[str, Leader] = {}
        """What each node that leads has as its state, or had as it led last."""
        self._latest_ms: dict[tuple[str, int], float] = {}
        """By node and incarnation: the latest time that it was seen to show."""

    def is_open(self, node: str) -> bool:
        """Whether the node has opened its log."""
        process = self._nodes[node].process
        return process is not None and process.replica is not None

    def start_offset(self, node: str) -> int:
        """First offset of the node's log."""
        return self._open(node).start_offset

    def batches(self, node: str, offset: int) -> list[Batch]:
        """All batches of the node's log from `offset` on."""
        return self._open(node).batches(offset)

    def durable_end(self, node: str) -> int | None:
        """Offset below which all is durable; None: the node does not run, or is opening its log."""
        process = self._nodes[node].process
        if process is None or process.replica is None or not process.alive:
            return None
        return process.replica.durable_end_offset

    def quorum_state(self, node: str) -> Election | str | None:
        """The durable content of the quorum-state file, or why it cannot be decoded."""
        held = self._open(node).election()
        return Election(*held) if isinstance(held, tuple) else held

    def monotonic_ms(self, node: str) -> float:
        """What the clock shows by which the node's timers run.

        Kafka's run by the wall clock, and wait while that is behind what it has shown (its Timer).
        """
        host = self._nodes[node]
        process = host.process
        if not isinstance(process, KafkaProcess):
            return host.clock.monotonic_ms()
        at = node, process.incarnation
        self._latest_ms[at] = max(float(host.clock.wall_ms()), self._latest_ms.get(at, 0.0))
        return self._latest_ms[at]

    def waits_for_disk(self, node: str) -> bool:
        """Whether the node does nothing else while it syncs."""
        return isinstance(self._nodes[node].process, KafkaProcess)

    def is_written(self, node: str) -> bool:
        """Whether the node waits for nothing that it asked of its disk.

        One that is stopped may have yet to take up that its epoch or vote is durable.
        """
        core = self._core(node)
        return self._nodes[node].disk.is_idle and not (core is not None and core.quorum.busy)

    def snapshot(self, node: str, offset: int, epoch: int) -> int | str:
        """Checksum of the durable bytes of a snapshot."""
        return self._open(node).snapshot(offset, epoch)

    def term(self, node: str) -> Term | None:
        """What it knows as the leader; None: it does not lead, or is another program."""
        core = self._core(node)
        leader = None if core is None else core.leader
        if core is None or leader is None:
            return None
        self._leaders[node] = leader
        others = {node_name(state.key.id): state for state in leader.remote_voters()}
        return Term(
            {name: state.last_fetch_ms for name, state in others.items()},
            {name: state.confirmed_read for name, state in others.items()},
            self.latest_ready_read(node),
        )

    def latest_ready_read(self, node: str) -> int:
        """The number of the latest read that waits no more; 0 of another program."""
        core = self._core(node)
        if core is None:
            return 0
        return core.readers[0][0] - 1 if core.readers else core.latest_read

    def may_resign(self, node: str) -> bool:
        """Whether it shuts down, was asked to resign or removed, or is another program."""
        core = self._core(node)
        return core is None or core.shutting_down or self._leaders[node].resign_requested

    def must_resign(self, node: str) -> bool:
        """Whether it leads others, and shuts down or was asked to resign or removed."""
        process = self._nodes[node].process
        own = None if process is None else process.node
        leader = None if own is None else own.raft._core.leader
        if own is None or leader is None or own.raft._halted or not leader.remote_voters():
            return False
        return own.raft._core.shutting_down or leader.resign_requested

    def _core(self, node: str) -> RaftCore | None:
        return _core(self._nodes[node].process)

    def _open(self, node: str) -> Replica:
        process = self._nodes[node].process
        assert process is not None, "it was started"
        assert process.replica is not None, "it is open"
        return process.replica

"""Asks simulated nodes for their quorum all the time, as administrators do (DescribeQuorum).

`QuorumPolls(world, watcher)` shows the answers to `checkers.invariants.descriptions`, and with them
the changes of voters that were asked for and acknowledged. Every node is also asked, in turn, for
what each of them refuses (`wrong_quorum_requests`), or answers at once (`right_quorum_requests`),
which `checkers.invariants.answers` judges, and `standing` when it is to wake up. A node is asked
between two of its events, over no link, and answers by what it knows and changes nothing: so a
world is the same whether it is asked or not.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from random import Random
from typing import Any, Final

from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.node.assembly import Node
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    RaftRequest,
    RemoveVoterRequest,
)
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower, Unattached
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft_version import KRAFT_VERSION
from cluster.node.protocol.messages import UpdateFeaturesRequest
from harness.sim.requests.right_quorum import question, why_wrong
from harness.sim.requests.wrong_quorum import WRONG

_DESCRIBE: Final = DescribeQuorumRequest()
_EVERY_MS: Final = 20.0


class QuorumPolls:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._asked: dict[tuple[str, int], tuple[object, int]] = {}
        """By node and identity: requests for a change of a voter, and their numbers."""
        self._count = 0
        self._wrong = cycle(WRONG)
        self._random = Random(0)
        self._obeys = False
        """Whether a node took what is wrong: more of that would make another world of this one."""
        for kind in (AddVoterRequest, RemoveVoterRequest):
            world.mesh.on_serve[kind].append(self._hear_change)
            world.mesh.on_reply[kind].append(self._look_at_change)
        world.mesh.on_reply[UpdateFeaturesRequest].append(self._look_at_upgrade)
        world.scheduler.call_later(_EVERY_MS, self._ask_all)

    def _ask_all(self) -> None:
        what = next(self._wrong)
        for host, _, node in self._world.running():
            self._ask(host, node)
            self._ask_wrong(host, node, what)
            self._ask_right(host, node)
            self._look_at_timer(host, node)
        self._world.scheduler.call_later(_EVERY_MS, self._ask_all)

    def _ask(self, host: SimNode, node: Node) -> None:
        answers = _answers(node.raft, node.raft.handle, _DESCRIBE)
        if not answers:
            return
        (answer,), core = answers, node.raft._core
        leads = answer.error is ErrorCode.none
        shown = {"leads": leads, "leader_id": answer.leader_id, "epoch": answer.leader_epoch}
        if leads:
            rows = {node_name(row.replica_id): row for row in answer.voters}
            shown |= {
                "high_watermark": answer.high_watermark,
                "voters": {voter: str(row.directory_id) for voter, row in rows.items()},
                "ends": {voter: row.log_end_offset for voter, row in rows.items()},
                "fetched_ms": {voter: row.last_fetch_timestamp_ms for voter, row in rows.items()},
                "known": [
                    node_name(row.replica_id)
                    for row in (*answer.voters, *answer.observers)
                    if row.last_fetch_timestamp_ms >= 0
                ],
                "log_start": core.log.start_offset,  # as Fetch would show
                "timeout_ms": core.config.check_quorum_timeout_ms,
                "wall_ms": host.clock.wall_ms(),
                "at_ms": self._world.scheduler.now_ms,
                "every_ms": _EVERY_MS,
            }
        self._watcher.take(host.name, "quorum-answer", shown)

    def _ask_wrong(self, host: SimNode, node: Node, what: str) -> None:
        raft, (make, right) = node.raft, WRONG[what]
        if self._obeys or self._is_away(host, node):
            return
        request = make(raft._core)
        if request is None:
            return
        answers = _answers(raft, raft._inbound.handle, request)
        errors = [error_of(answer).name for answer in answers]
        self._obeys = ErrorCode.none.name in errors
        shown = {
            "what": what,
            "errors": errors,
            "right": [(*right, "not_leader_or_follower")],
        }
        is_of_clients = isinstance(request, AddVoterRequest | RemoveVoterRequest)
        self._watcher.take(host.name, "refusal" if is_of_clients else "peer-refusal", shown)

    def _is_away(self, host: SimNode, node: Node) -> bool:
        """Whether it waits for its disk, has ended, or ends by its disk at the next request."""
        return node.raft._quorum.busy or node.raft._halted or host.disk.detached

    def _ask_right(self, host: SimNode, node: Node) -> None:
        raft, batches = node.raft, self._watcher.quorum.logs[host.name].batches
        core = raft._core
        if self._is_away(host, node) or (batches[-1][1] if batches else 0) != core.log.end_offset:
            return
        asked = question(core, batches, self._random)
        if asked is None:
            return
        request, right, read = asked
        trace, core.trace = core.trace, lambda *_, **__: None
        try:
            answers = _answers(raft, raft._inbound.handle, request)
        finally:
            core.trace = trace
        wrong = why_wrong(answers, right, read)
        if wrong is not None:
            what = type(request).__name__.removesuffix("Request")
            self._watcher.take(host.name, "peer-answer", {"request": what, "wrong": wrong})

    def _look_at_timer(self, host: SimNode, node: Node) -> None:
        """Show a replica that will wake up later than it has to do something."""
        raft, now_ms = node.raft, host.clock.monotonic_ms()
        if self._is_away(host, node) or raft._poke_pending:
            return
        due_ms, timer_ms = _due_ms(raft, now_ms), raft._timer_due_ms
        if timer_ms > due_ms:
            shown = {"state": raft.state.name, "epoch": raft.state.epoch}
            times = {"in_ms": due_ms - now_ms, "timer_ms": timer_ms - now_ms}
            self._watcher.take(host.name, "timer-seen", {**shown, **times})

    def _hear_change(self, name: str, request: Any) -> None:
        self._count += 1
        self._asked[name, id(request)] = request, self._count
        shown = {"voter": node_name(request.voter_id), "number": self._count}
        self._watcher.take(name, "voter-asked", shown)

    def _look_at_change(self, name: str, request: Any, response: Any) -> None:
        _, number = self._asked.pop((name, id(request)), (None, 0))
        is_committed = getattr(request, "ack_when_committed", True)
        if response.error is ErrorCode.none and is_committed:
            shown = {
                "voter": node_name(request.voter_id),
                "directory": str(request.voter_directory_id),
                "is_addition": isinstance(request, AddVoterRequest),
                "number": number,
            }
            self._watcher.take(name, "voters-acknowledged", shown)

    def _look_at_upgrade(self, name: str, request: Any, response: Any) -> None:
        levels = {str(u.feature): int(u.max_version_level) for u in request.feature_updates}
        is_done = response.error_code is ErrorCode.none and not request.validate_only
        if is_done and levels.get(KRAFT_VERSION) == 1:
            shown = {"voter": None, "directory": "", "is_addition": True, "number": 0}
            self._watcher.take(name, "voters-acknowledged", shown)


def _due_ms(raft: RaftClient, now_ms: float) -> float:
    """Return when a replica has to do something, if nothing comes before that."""
    core, state = raft._core, raft.state
    waiting = core.fetch_purgatory
    due = [due_ms for due_ms, number in waiting._deadlines if number in waiting._waiters]
    due += [raft._shutdown_deadline_ms]
    match state:
        case Leader():
            appends = state.accumulator
            due += [
                state.check_quorum_deadline_ms,
                now_ms + core.config.begin_quorum_epoch_interval_ms,
            ]
            if appends._open is not None and appends._prepared_from is None:
                due.append(appends._open.first_append_ms + core.config.append_linger_ms)
            if core.pending_change is not None:
                due.append(core.pending_change.deadline_ms)
        case Follower():
            due += [state.fetch_deadline_ms] * core.quorum.is_voter
        case Unattached():
            due += [state.election_deadline_ms] * core.quorum.is_voter
        case _:
            due.append(state.election_deadline_ms)
    asked = [each.until_ms for each in core.requests._connections.values()]
    installs = core.is_installing_snapshot or (core.download is not None and core.download.frozen)
    may_ask = core.log.is_durable and not installs and not isinstance(state, Leader)
    if may_ask and max(asked, default=0.0) > now_ms:
        due.append(max(asked))
    return min(due)


def _answers(raft: RaftClient, handle: Callable[..., None], request: RaftRequest) -> list[Any]:
    """Ask a node; what it raises ends it, as in an event of its own."""
    answers: list[Any] = []
    try:
        handle(request, answers.append)
    except Exception as error:  # noqa: BLE001  (whatever it is, the node raised it)
        raft.fail(error)
    return answers


def error_of(answer: Any) -> ErrorCode:
    """Return the error of an answer: of the whole of it, else of the partition."""
    errors: tuple[ErrorCode, ErrorCode] = (
        getattr(answer, "top_level_error", ErrorCode.none),
        answer.error,
    )
    return errors[errors[0] is ErrorCode.none]

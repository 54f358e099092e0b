"""The steps of a released KafkaRaftClient, and what each of them does to the world.

The node takes a step when a message or its time-out comes. What it did in the step is played in the
world effect by effect, each at the instruction that traces it. Where it waits for its disk the rest
of the effects is held back until the simulated disk has synced, and nothing is delivered meanwhile,
as the raft thread would not take it. A process that dies meanwhile leaves a disk on which nothing
behind that flush has happened.

Its clock is the host's wall clock, as of a real node, whose raft module asks for the time of day. A
poll that may not wait takes time nevertheless, else none would pass: a millisecond, and ten once it
is known that the thread spins.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from cluster.backends.sim.encoded import EncodedRequest, EncodedResponse
from cluster.backends.sim.incarnation import TIMER_GRAIN_MS, Incarnation
from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.frames import Effect
from cluster.backends.sim.kafka.jvm import Jvm
from cluster.backends.sim.kafka.machine import Archive, StateMachine
from cluster.backends.sim.kafka.replica import LOG, STATE, KafkaReplica
from cluster.backends.sim.kafka.trace import KafkaTrace
from cluster.backends.sim.mesh import Reply
from cluster.backends.sim.scheduler import Entry
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.client.raft_log import NOT_LEADER, AppendResponse
from cluster.node.errors import reason_of
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol.apis import ApiKey

_SPIN_MS: Final = 1.0
_KNOWN_SPIN_MS: Final = 10.0
_KNOWN_AFTER: Final = 100
"""Polls in a row that may not wait, after which the thread is known to spin."""
_FETCH_EPOCH: Final = 43
_FETCH_OFFSET: Final = 47
"""Where in a Fetch of raft, which names one topic with one partition, these fields are (v13 on)."""
_FETCH_FROM: Final = 13
_IN_FLUSH: Final = int(Effect.IN_FLUSH)
_OF_LOG: Final = 0
"""Of what a flush is of the log; else it is of the state file or of a snapshot."""


class Spin:
    """Polls in a row that were not allowed to wait."""

    __slots__ = ("began_ms", "node", "polls", "until_ms")

    def __init__(self, node: str, began_ms: float) -> None:
        self.node = node
        self.began_ms = self.until_ms = began_ms
        self.polls = 0

    @property
    def length_ms(self) -> float:
        """How long it lasted, as far as it is known."""
        return self.until_ms - self.began_ms


class SteppedProcess(Incarnation):
    """See the module."""

    def __init__(
        self,
        world: SimWorld,
        node: SimNode,
        jvm: Jvm,
        replica: KafkaReplica,
        *,
        request_timeout_ms: float,
        archive: Archive,
        spins: list[Spin],
    ) -> None:
        super().__init__(world, node)
        self._clock = node.clock
        self._now = node.clock.wall_ms
        self._skew_ms = 0.0
        """By how much its wall clock was off at the last frame."""
        self._id = node.node_id
        self._disk = node.disk
        self._jvm = jvm
        self._disk_replica = replica
        self._tracer = KafkaTrace(node.node_id, replica, self.trace)
        self._request_timeout_ms = request_timeout_ms
        self._effects: frames.Effects = []
        """What the node did and the world has not seen, the last first."""
        self._flushes = 0
        """Flushes of the last answer so far."""
        self._is_busy = False
        """Whether effects are being played, or held back behind a flush."""
        self._is_syncing = False
        """Whether the first of the effects that are held back is the end of a flush."""
        self._inbox: list[bytes | Callable[[], bytes]] = []
        """Items of the next step, and other commands."""
        self._timer: Entry | None = None
        self._replies: dict[int, tuple[EncodedRequest, Reply]] = {}
        self._appending: tuple[str, Reply] | None = None
        self._machine = StateMachine(archive)
        self._on_down: Callable[[], None] | None = None
        self._spins = spins
        self._spin: Spin | None = None
        self._ready: Callable[[], None] | None = None
        self._is_to_resign = False
        """Whether it was asked to, before its listener knew that it leads."""

    def halt(self) -> None:
        """See `Incarnation.halt`: what the node did behind this instruction has not happened."""
        if self._flushes_ahead():
            self._disk_replica.in_flush = self._flushes + (0 if self._is_syncing else 1)
        self._effects.clear()
        super().halt()

    # -- steps -----------------------------------------------------------------------------------

    def _deliver(self, item: bytes) -> None:
        if self._is_busy:
            self._inbox.append(item)
        else:
            self._run(frames.step(self._id, self._now(), (item,)))

    def _command(self, make: Callable[[], bytes]) -> None:
        """Run a command as soon as the node is not busy; it is made then, for the time then."""
        if self._is_busy:
            self._inbox.append(make)
        else:
            self._run(make())

    def _on_timer(self) -> None:
        self._timer = None
        if self.alive and not self._is_busy:
            self._run(frames.step(self._id, self._now(), ()))

    def _run(self, frame: bytes) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_busy = True
        self._flushes = 0
        self._note_clock()
        self._effects = self._jvm.call(frame)
        self._effects.reverse()
        self._play()

    def _note_clock(self) -> None:
        """Report by how much the wall clock was set since the frame before."""
        by_ms = round(self._clock.skew_ms - self._skew_ms)
        if by_ms:
            self._skew_ms += by_ms
            self._jvm.call(frames.set_clock(self._id, by_ms))

    def _play(self) -> None:
        """Play effects until the node has to wait for its disk, or there are no more."""
        effects, meets = self._effects, self._MEETS
        while effects:
            kind, *fields = effects.pop()
            if kind == _IN_FLUSH:
                self._flushes += 1
                self._sync(fields[0])
                return
            meet = meets.get(kind)
            if meet is not None:
                meet(self, *fields)
                if not self.alive:
                    return
        self._is_busy = False
        self._go_on()

    def _go_on(self) -> None:
        """Take what came meanwhile."""
        if self._ready is not None:
            ready, self._ready = self._ready, None
            self.listen()
            ready()
        if not self._inbox:
            return
        first = self._inbox[0]
        if isinstance(first, bytes):
            items: list[bytes] = []
            while self._inbox and isinstance(item := self._inbox[0], bytes):
                items.append(item)
                del self._inbox[0]
            self._run(frames.step(self._id, self._now(), items))
        else:
            del self._inbox[0]
            self._run(first())

    # -- the disk --------------------------------------------------------------------------------

    def _flushes_ahead(self) -> bool:
        return self._is_syncing or any(effect[0] == _IN_FLUSH for effect in self._effects)

    def _sync(self, what: int) -> None:
        """Let the simulated disk take the time of a sync, or fail."""
        path = LOG
        if what != _OF_LOG:
            path = STATE
            self._disk.write(STATE, b"")
        self._is_syncing = True
        self._disk.sync(path, self._on_sync)

    def _on_sync(self, error: OSError | None) -> None:
        if not self.alive:
            return
        if error is not None:
            self._end_by_itself(reason_of(error))
            return
        self._is_syncing = False
        self._play()

    # -- effects ---------------------------------------------------------------------------------

    def _on_send(
        self,
        correlation: int,
        target: int,
        host: str,
        port: int,
        api: int,
        version: int,
        body: bytes,
    ) -> None:
        if api == ApiKey.FETCH and version >= _FETCH_FROM:
            epoch = int.from_bytes(body[_FETCH_EPOCH : _FETCH_EPOCH + 4], signed=True)
            offset = int.from_bytes(body[_FETCH_OFFSET : _FETCH_OFFSET + 8], signed=True)
            asked = target if target >= 0 else int(host.removeprefix("n"))
            self._tracer.fetch(asked, epoch, offset)
        message = EncodedRequest(api, version, body)

        def on_reply(answer: object) -> None:
            if not self.alive:
                return
            if isinstance(answer, Failure):  # a time-out ends the connection, too
                self._deliver(frames.disconnection(correlation, version))
                return
            if not isinstance(answer, EncodedResponse):
                answer = message.encode_response(answer)
            self._deliver(frames.answer(correlation, version, answer.body))

        timeout_ms = self._request_timeout_ms / self._clock.rate
        self._mesh.request(
            self.name, self, Endpoint(target, host, port), message, timeout_ms, on_reply
        )

    def _on_reply(self, token: int, body: bytes) -> None:
        request, reply = self._replies.pop(token)
        response = EncodedResponse(request.api, request.version, body)
        if request.api == ApiKey.VOTE:
            asked, answered = request.message, response.message
            fields = {
                "epoch": asked.replica_epoch,
                "candidate_id": asked.replica_id,
                "candidate_directory_id": asked.replica_directory_id,
                "pre_vote": asked.pre_vote,
            }
            self._tracer.vote(fields, granted=answered.vote_granted)
        reply(response)

    def _on_state(self, epoch: int, leader: int, voted: int) -> None:
        self._disk_replica.held = (epoch, leader, voted)
        self._tracer.write_state()

    def _on_append(self, base: int, last: int, epoch: int, checksum: int) -> None:
        self._disk_replica.append((base, last + 1, epoch, checksum), self._disk)
        self._tracer.append(base, last, epoch)

    def _on_voters(self, offset: int, voters: Mapping[int, uuid.UUID]) -> None:
        if self._disk_replica.add_voters(offset, voters):
            self._tracer.change_voters()

    def _on_flush(self, offset: int) -> None:
        self._disk_replica.durable_end_offset = offset
        self._tracer.flush(offset)

    def _on_truncate(self, offset: int) -> None:
        others = self._disk_replica.truncate(offset, self._disk)
        self._tracer.truncate(offset)
        if others:
            self._tracer.change_voters()

    def _on_snapshot(self, offset: int, epoch: int, size: int, checksum: int) -> None:
        replica = self._disk_replica
        own = offset <= self._machine.replayed
        replica.note_snapshot(offset, epoch, checksum, self._disk)
        self._tracer.snapshot(offset, epoch, size, own=own)

    def _on_log_start(self, offset: int) -> None:
        replica = self._disk_replica
        epoch = max((of for at, of in replica.snapshots if at == offset), default=0)
        # As Kafka decides it: a snapshot of a later epoch takes the place of a longer log, too.
        if epoch > replica.last_epoch or offset > replica.end_offset:
            replica.drop(offset, self._disk)
            if not replica.is_static:
                replica.learn_voters(self._jvm.call(frames.state(self._id)))
                self._tracer.change_voters()
            self._tracer.drop(offset, epoch)
        else:
            replica.trim(offset)
        self._tracer.move_start(offset, epoch)

    def _on_hw(self, offset: int) -> None:
        self._tracer.advance(offset)

    def _on_commit(self, offset: int, epoch: int, value: bytes) -> None:
        self._machine.commit(offset, epoch, value, self._tracer.acknowledge)

    def _on_loaded(self, offset: int, epoch: int, count: int, checksum: int) -> None:
        self.trace("load-snapshot", offset=offset, epoch=epoch)
        reason = self._machine.load(offset, count, checksum)
        if reason is not None:
            self._end_by_itself(f"the snapshot {offset}-{epoch} {reason}")

    def _on_leader(self, epoch: int, leader: int) -> None:
        self._tracer.change_leader(epoch, leader)
        if leader != self._id:
            self._machine.give_up()
        elif self._is_to_resign:
            self._is_to_resign = False
            self._command(lambda: frames.resign(self._id, self._now()))

    def _on_role(self, text: str) -> None:
        self._tracer.take_role(text)
        if not self._tracer.leads:
            self._is_to_resign = False
            self._machine.give_up()

    def _on_appended(self, offset: int) -> None:
        if self._appending is not None:
            self._machine.expect(offset, *self._appending)
            self._appending = None

    def _on_refused(self, why: str) -> None:
        if self._appending is not None:
            _, reply = self._appending
            self._appending = None
            reply(AppendResponse(NOT_LEADER))
        del why

    def _on_fault(self, kind: str, text: str, where: str) -> None:
        self._end_by_itself(f"{kind}: {text} ({where})")

    def _end_by_itself(self, reason: str) -> None:
        self.trace("fatal", reason=reason)
        self.halt()
        self._on_death(self, reason)

    def _on_end(self, alive: bool, wake_ms: int, end: int, flushed: int) -> None:  # noqa: FBT001
        del end, flushed
        if not alive:
            if self._on_down is not None:
                self._on_down()
            else:
                self._end_by_itself("it ended without a word")
            return
        wait_ms: float = wake_ms - self._now()
        if wait_ms > 0:
            if self._spin is not None:
                self._spin.until_ms = self._scheduler.now_ms
                self._spin = None
        else:
            wait_ms = self._charge_spin()
        delay_ms = wait_ms / self._clock.rate + TIMER_GRAIN_MS
        self._timer = self._scheduler.call_later(delay_ms, self._on_timer, self)

    def _charge_spin(self) -> float:
        if self._spin is None:
            self._spin = Spin(self.name, self._scheduler.now_ms)
            self._spins.append(self._spin)
        self._spin.polls += 1
        self._spin.until_ms = self._scheduler.now_ms
        return _SPIN_MS if self._spin.polls < _KNOWN_AFTER else _KNOWN_SPIN_MS

    _MEETS: ClassVar[Mapping[int, Callable[..., None]]] = {
        Effect.END: _on_end,
        Effect.SEND: _on_send,
        Effect.REPLY: _on_reply,
        Effect.STATE: _on_state,
        Effect.APPEND: _on_append,
        Effect.FLUSH: _on_flush,
        Effect.TRUNCATE: _on_truncate,
        Effect.HW: _on_hw,
        Effect.COMMIT: _on_commit,
        Effect.LEADER: _on_leader,
        Effect.FAULT: _on_fault,
        Effect.ROLE: _on_role,
        Effect.APPENDED: _on_appended,
        Effect.REFUSED: _on_refused,
        Effect.SNAPSHOT: _on_snapshot,
        Effect.LOADED: _on_loaded,
        Effect.LOG_START: _on_log_start,
        Effect.VOTERS: _on_voters,
    }

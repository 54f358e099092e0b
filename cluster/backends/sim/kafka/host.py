"""A node of the simulated world that runs a released KafkaRaftClient in the JVM of its release.

How it starts and ends, and what is asked of it; `steps` has what it does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from cluster.backends.sim.encoded import EncodedRequest, EncodedResponse, encode_request
from cluster.backends.sim.incarnation import CONTROLLER_PORT
from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.jvm import Jvm
from cluster.backends.sim.kafka.machine import FEATURES_AS_THEY_ARE, Archive
from cluster.backends.sim.kafka.replica import KafkaReplica
from cluster.backends.sim.kafka.steps import Spin, SteppedProcess
from cluster.backends.sim.mesh import Reply
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.client.raft_log import AppendRequest, ReadRequest
from cluster.node.assembly import NodeSignal
from cluster.node.protocol.apis import SPOKEN, VersionRange
from cluster.node.protocol.codec import api_key_of
from cluster.node.protocol.messages import UpdateFeaturesRequest

_SHUTDOWN_MS: Final = 4000
_SEED_BITS: Final = 63


class KafkaProcess(SteppedProcess):
    """See the module."""

    def __init__(
        self,
        world: SimWorld,
        node: SimNode,
        jvm: Jvm,
        replica: KafkaReplica,
        start: Callable[[int, int], frames.Start],
        *,
        versions: Mapping[int, VersionRange],
        request_timeout_ms: float,
        check_quorum_timeout_ms: float,
        archive: Archive,
        spins: list[Spin],
    ) -> None:
        """`start`: (now, seed) -> the frame's content; `versions`: what the release serves."""
        super().__init__(
            world,
            node,
            jvm,
            replica,
            request_timeout_ms=request_timeout_ms,
            archive=archive,
            spins=spins,
        )
        self._start = start
        self._seed = random.Random(f"{world.seed}/node/{node.name}/{node.incarnation}")
        self._versions = versions
        self._check_quorum_timeout_ms = check_quorum_timeout_ms
        self._tokens = 0

    # -- start and end ---------------------------------------------------------------------------

    def begin(self, pid: int, ready: Callable[[], None]) -> None:
        replica = self._disk_replica
        replica.open(self._jvm, self._disk)
        self.replica = replica
        self._tracer.begin(replica.directory, pid, self._check_quorum_timeout_ms)
        self._ready = ready
        self._skew_ms = self._clock.skew_ms
        self._run(frames.start(self._start(self._now(), self._seed.getrandbits(_SEED_BITS))))

    def shut_down(self, done: Callable[[], None]) -> None:
        if self.replica is None:
            done()
            return
        self._on_down = done
        self._command(lambda: frames.shut_down(self._id, self._now(), _SHUTDOWN_MS))

    def signal(self, what: NodeSignal) -> None:
        if self.replica is None:
            return
        if what == "resign":
            # A leader that its listener does not know yet has nobody that could let it resign.
            self._is_to_resign = self._tracer.leads and not self._tracer.claims
            if not self._is_to_resign:
                self._command(lambda: frames.resign(self._id, self._now()))
        else:
            self._command(lambda: frames.snapshot(self._id, self._now()))

    def die(self, error: BaseException) -> None:
        """Raise it: no error of this side of the pipe is one of Kafka."""
        raise error

    # -- requests --------------------------------------------------------------------------------

    def serve(self, port: int, message: Any, reply: Reply) -> None:
        """See `Incarnation.serve`; other requests are those of the controller above: silence."""
        if not self.alive or port != CONTROLLER_PORT:
            return
        if isinstance(message, EncodedRequest):
            self._take(message, reply)
        elif isinstance(message, AppendRequest):
            self._command(partial(self._append, message.value, reply))
        elif isinstance(message, ReadRequest):
            reply(self._machine.read(message.offset))
        elif isinstance(message, UpdateFeaturesRequest):
            if not self._disk_replica.is_static:  # formatted so: it has its kraft.version
                reply(FEATURES_AS_THEY_ARE)
        elif (version := self._version_for(message)) is not None:
            encoded = encode_request(message, version)
            self._take(encoded, lambda answer: reply(_decode(answer)))

    def _version_for(self, message: object) -> int | None:
        """Return the highest version of a request that both sides know."""
        try:
            api = api_key_of(message)
        except (AttributeError, ValueError):
            return None
        served = self._versions.get(int(api))
        return None if served is None or api not in SPOKEN else SPOKEN[api].highest_common(served)

    def _take(self, message: EncodedRequest, reply: Reply) -> None:
        self._tokens += 1
        self._replies[self._tokens] = (message, reply)
        self._deliver(frames.request(self._tokens, message.api, message.version, message.body))

    def _append(self, value: str, reply: Reply) -> bytes:
        self._appending = (value, reply)
        return frames.append(self._id, self._now(), value.encode())


def _decode(answer: Any) -> Any:
    return answer.message if isinstance(answer, EncodedResponse) else answer

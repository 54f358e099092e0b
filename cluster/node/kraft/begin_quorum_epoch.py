"""What a leader announces to the other voters and asks them: BeginQuorumEpoch.

It reminds voters that do not fetch from it that it leads (KIP-595, KIP-853). And it finds out
whether it still leads, for linearizable reads: a voter that answers in the leader's epoch had not
left it, so a majority of answers to what was sent after a read arrived proves that no later leader
had been elected when it did. This second use is ours; Kafka's controllers have no such reads.
"""

from __future__ import annotations

from bisect import bisect_right

from cluster.node.kraft.core import RaftCore, Reader
from cluster.node.kraft.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from cluster.node.kraft.quorum.leader_state import Leader, ReplicaState
from cluster.node.kraft.quorum.states import NEVER_MS
from cluster.node.kraft.types import Send


class BeginQuorumEpochs:
    """The leader's side of BeginQuorumEpoch."""

    def __init__(self, core: RaftCore, send: Send) -> None:
        self._core = core
        self._send = send
        self._interval_ms = core.config.begin_quorum_epoch_interval_ms

    def poll(self, leader: Leader, now_ms: float) -> float:
        """Remind voters that do not fetch, and check leadership for reads; returns when again."""
        core = self._core
        interval_ms = self._interval_ms
        again_ms = now_ms + interval_ms
        if core.readers:
            again_ms = min(again_ms, self._check_leadership(leader, now_ms))
        for replica in leader.remote_voters():
            due_ms = max(replica.last_fetch_ms, replica.begin_sent_ms) + interval_ms
            if due_ms <= now_ms:
                if core.requests.is_ready(replica.key.id, now_ms):
                    self._ask(leader, replica, now_ms)
                    due_ms = now_ms + interval_ms
                else:
                    due_ms = core.requests.ready_at_ms(replica.key.id)
            again_ms = min(again_ms, due_ms)
        return again_ms

    def _check_leadership(self, leader: Leader, now_ms: float) -> float:
        """Ask as many voters as the latest read still needs; returns when more may be due.

        Those that fetched last are asked first. A voter that has not answered within the retry
        back-off is counted on no longer, and another is asked as well.
        """
        core, latest_read = self._core, self._core.latest_read
        patience_ms = core.config.retry_backoff_ms
        missing = leader.confirmations_needed
        again_ms = ready_ms = NEVER_MS
        askable: list[ReplicaState] = []
        for replica in leader.remote_voters():
            id_, patient_until_ms = replica.key.id, replica.begin_sent_ms + patience_ms
            if replica.confirmed_read >= latest_read:
                missing -= 1
            elif core.requests.is_ready(id_, now_ms):
                askable.append(replica)
            elif (
                replica.asked_read >= latest_read
                and now_ms < patient_until_ms
                and core.requests.is_awaiting(id_, now_ms)
            ):
                missing -= 1
                again_ms = min(again_ms, patient_until_ms)
            else:
                ready_ms = min(ready_ms, core.requests.ready_at_ms(id_))
        if missing <= 0:
            self._release_readers(leader)  # fewer voters than before may make a majority
        askable.sort(key=lambda replica: -replica.last_fetch_ms)
        for replica in askable[: max(0, missing)]:
            self._ask(leader, replica, now_ms)
            again_ms = min(again_ms, now_ms + patience_ms)
        return min(again_ms, ready_ms) if missing > len(askable) else again_ms

    def _ask(self, leader: Leader, replica: ReplicaState, now_ms: float) -> None:
        core = self._core
        endpoint = core.voters.endpoint(replica.key.id)
        assert endpoint is not None
        replica.begin_sent_ms, replica.asked_read = now_ms, core.latest_read
        # The response proves that the voter had not left this epoch when it answered, which was
        # after every read up to this number had arrived.
        latest_read = core.latest_read

        def on_answer(_: BeginQuorumEpochResponse) -> None:
            if core.leader is leader:
                replica.confirmed_read = max(replica.confirmed_read, latest_read)
                self._release_readers(leader)

        request = BeginQuorumEpochRequest(
            core.config.cluster_id,
            replica.key.id,
            replica.key.directory_id,
            leader.leader_id,
            leader.epoch,
            leader.leader_endpoint,
        )
        self._send(endpoint, request, BeginQuorumEpochResponse, on_answer)

    def _release_readers(self, leader: Leader) -> None:
        core = self._core
        confirmed = leader.confirmed_read(core.latest_read)
        first_waiting = bisect_right(core.readers, confirmed, key=_number)  # they are in order
        ready, core.readers = core.readers[:first_waiting], core.readers[first_waiting:]
        for _, done in ready:
            done(True)  # noqa: FBT003  (the answer itself)


def _number(reader: Reader) -> int:
    return reader[0]

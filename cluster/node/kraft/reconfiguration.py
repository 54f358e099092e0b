"""Changes of the voter set, as the leader makes them (KIP-853).

One voter at a time, because then any majority of the old set shares a voter with any majority of
the new one (Ongaro's thesis, 4.1). The new set is in force as soon as its VotersRecord is in the
leader's log, and is committed by a majority of itself. No change begins

- before the leader has committed a record of its own epoch: else the bug that Ongaro found in 2015
  lets two leaders, each with a set of its own, commit different records;
- before the last one is committed;
- for a replica that does not hold the log yet: it would be no help in committing it.

Sources: AddVoterHandler.java, RemoveVoterHandler.java, UpdateVoterHandler.java, LeaderState.java.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages
from cluster.node.kraft.core import PendingChange, RaftCore
from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.kraft.quorum.control_state import (
    LISTENERS_MAX,
    MAX_KRAFT_VERSION,
    MIN_KRAFT_VERSION,
    NAME_MAX_CHARACTERS,
    Voter,
    VoterSet,
    select_endpoint,
)
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.purgatory import Outcome
from cluster.node.kraft.quorum.states import NEVER_MS
from cluster.node.log.batch.control import KRaftVersion, VoterListener, encode_control
from cluster.node.ports import Endpoint, Failure

KRAFT_VERSION_FEATURE = "kraft.version"
Reply = Callable[[messages.VoterResponse], None]
Finish = Callable[[ErrorCode, str | None], None]

_NONE = ErrorCode.none
_TRY_LATER = ErrorCode.request_timed_out
"""What a change that may not begin now is answered with."""
_VOTER_APIS = {
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "EndQuorumEpoch": 54,
    "Fetch": 1,
    "FetchSnapshot": 59,
}
"""What a voter must answer, as one of several and as the leader, by API key."""
_ASK_VERSIONS = ApiVersionsRequest(client_software_name="kraftprobe", client_software_version="1")


class Refusal(Exception):  # noqa: N818 - it is an answer and no error of ours
    """A change that does not begin, with the answer's error code."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Reconfiguration:
    """Handles what asks for another voter set. Answers each request once."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core

    def handle(self, request: messages.VoterRequest, reply: Reply) -> None:
        """Handle AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter."""
        finish: Finish
        match request:
            case messages.AddVoterRequest():

                def finish(error: ErrorCode, message: str | None) -> None:
                    reply(messages.AddVoterResponse(error, message))

                self._guard(lambda: self._add(request, finish), finish)
            case messages.RemoveVoterRequest():

                def finish(error: ErrorCode, message: str | None) -> None:
                    reply(messages.RemoveVoterResponse(error, message))

                self._guard(lambda: self._remove(request, finish), finish)
            case messages.UpdateVoterRequest():

                def finish(error: ErrorCode, message: str | None) -> None:
                    del message  # this API has no place for it
                    reply(self._update_response(error))

                self._guard(lambda: self._update(request, finish), finish)

    def upgrade(self, level: int, finish: Finish, *, validate_only: bool) -> None:
        """Finalize a `kraft.version`: from 1 on the voters are in the log (KIP-1022).

        Its record and the first VotersRecord go to the log in one batch. It needs the voters'
        descriptions by UpdateRaftVoter: a set without their directories would not be safe.
        """
        self._guard(lambda: self._upgrade(level, finish, validate_only=validate_only), finish)

    @staticmethod
    def _guard(begin: Callable[[], None], finish: Finish) -> None:
        try:
            begin()
        except Refusal as refusal:
            finish(refusal.error, refusal.message)

    # -- adding ----------------------------------------------------------------------------------

    def _add(self, request: messages.AddVoterRequest, finish: Finish) -> None:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        self._check_cluster(request.cluster_id)
        leader = self._leader(self._core.quorum.epoch)
        self._check_key(key)
        endpoint = self._endpoint(key, request.listeners)
        self._check_may_begin(leader)
        self._check_dynamic()
        if key.id in self._core.voters:
            raise Refusal(
                ErrorCode.duplicate_voter, f"The voter id {key.id} is in the voter set already."
            )
        pending = self._begin(request.timeout_ms, finish)
        voter = Voter(key, endpoint, listeners=request.listeners)
        core = self._core
        core.network.request(
            endpoint,
            _ASK_VERSIONS,
            core.config.request_timeout_ms,  # the change itself may end sooner
            lambda response: core.submit(
                lambda: self._on_versions(request, leader, pending, voter, response)
            ),
        )

    def _on_versions(
        self,
        request: messages.AddVoterRequest,
        leader: Leader,
        pending: PendingChange,
        voter: Voter,
        response: object,
    ) -> None:
        """Go on with an addition once the new voter reported what it supports."""
        core = self._core
        if core.leader is not leader or core.pending_change is not pending or pending.is_appended:
            return  # answered already, or a repeated response
        try:
            self._check_new_voter(leader, voter, response)
        except Refusal as refusal:
            pending.finish(refusal.error, refusal.message)
            return
        lowest, highest = _kraft_versions(response)
        voter = replace(voter, min_kraft_version=lowest, max_kraft_version=highest)
        self._append(leader, pending, core.voters.with_voter(voter))
        if not request.ack_when_committed:
            pending.finish(_NONE, None)

    def _check_new_voter(self, leader: Leader, voter: Voter, response: object) -> None:
        endpoint = voter.endpoint
        if isinstance(response, Failure):
            message = f"The new voter does not answer ApiVersions: {response.value}."
            raise Refusal(_TRY_LATER, message)
        if getattr(response, "error_code", None) is not _NONE:
            raise Refusal(_TRY_LATER, "The new voter answers ApiVersions with an error.")
        served = {int(api.api_key) for api in getattr(response, "api_keys", ())}
        missing = [name for name, api_key in _VOTER_APIS.items() if api_key not in served]
        if missing:
            # Kafka's tool refuses a node without the controller role; its leader elects it.
            raise Refusal(
                ErrorCode.invalid_request,
                f"What answers at {endpoint.host}:{endpoint.port} is no controller, as it does not "
                f"serve {', '.join(missing)}: name a controller's listener.",
            )
        lowest, highest = _kraft_versions(response)
        version = self._core.log.control.kraft_version
        if not lowest <= version <= highest:
            raise Refusal(
                ErrorCode.invalid_request,
                f"The new voter supports kraft.version {lowest} to {highest}, not {version}.",
            )
        if not self.is_caught_up(leader, voter.key):
            raise Refusal(_TRY_LATER, "The new voter does not hold the log yet.")

    def is_caught_up(self, leader: Leader, key: ReplicaKey) -> bool:
        """Whether a replica would help to commit from its first moment as a voter on."""
        return leader.is_caught_up(key, self._core.clock.monotonic_ms())

    # -- removing --------------------------------------------------------------------------------

    def _remove(self, request: messages.RemoveVoterRequest, finish: Finish) -> None:
        core = self._core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        self._check_cluster(request.cluster_id)
        leader = self._leader(core.quorum.epoch)
        self._check_key(key)
        self._check_may_begin(leader)
        self._check_dynamic()
        if core.voters.key(key.id) != key:
            raise Refusal(ErrorCode.voter_not_found, f"{_name(key)} is not in the voter set.")
        if len(core.voters) == 1:
            raise Refusal(ErrorCode.voter_not_found, f"{_name(key)} is the only voter.")
        pending = self._begin(core.config.request_timeout_ms, finish)
        # A leader that removes itself leads on until the others committed it; see
        # RaftCore.leader_high_watermark_moved.
        self._append(leader, pending, core.voters.without(key.id))

    # -- updating --------------------------------------------------------------------------------

    def _update(self, request: messages.UpdateVoterRequest, finish: Finish) -> None:
        core = self._core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        self._check_cluster(request.cluster_id)
        leader = self._leader(request.current_leader_epoch)
        self._check_key(key)
        endpoint = self._endpoint(key, request.listeners)
        lowest, highest = request.min_kraft_version, request.max_kraft_version
        version = core.log.control.kraft_version
        if not 0 <= lowest <= highest or not lowest <= version <= highest:
            message = f"kraft.version is {version}, the voter supports {lowest} to {highest}."
            raise Refusal(ErrorCode.invalid_request, message)
        voter = Voter(key, endpoint, lowest, highest, request.listeners)
        if version == 0:
            self._note(leader, voter)
        else:
            self._check_may_begin(leader)
            if core.voters.key(key.id) != key:
                raise Refusal(ErrorCode.voter_not_found, f"{_name(key)} is not in the voter set.")
            if core.voters.get(key.id) != voter:
                pending = self._begin(core.config.request_timeout_ms, lambda *_: None)
                self._append(leader, pending, core.voters.with_voter(voter))
        leader.count_alive(key, core.clock.monotonic_ms())
        finish(_NONE, None)

    def _note(self, leader: Leader, voter: Voter) -> None:
        """Keep what a voter reported of itself for the upgrade of kraft.version."""
        self._check_no_pending()
        if leader.high_watermark is None:
            raise Refusal(_TRY_LATER, "The leader has not committed a record of its epoch yet.")
        if voter.key.id not in self._core.voters:
            raise Refusal(ErrorCode.voter_not_found, f"{_name(voter.key)} is not a voter.")
        leader.updated_voters[voter.key.id] = voter

    def _update_response(self, error: ErrorCode) -> messages.UpdateVoterResponse:
        core = self._core
        return messages.UpdateVoterResponse(
            error, core.quorum.leader_id, core.quorum.epoch, core.known_leader_endpoint
        )

    # -- kraft.version ---------------------------------------------------------------------------

    def _upgrade(self, level: int, finish: Finish, *, validate_only: bool) -> None:
        core = self._core
        if core.leader is None or core.shutting_down:
            raise Refusal(ErrorCode.not_controller, "This node is not the active controller.")
        leader = self._leader(core.quorum.epoch)
        current = core.log.control.kraft_version
        if not MIN_KRAFT_VERSION <= level <= MAX_KRAFT_VERSION or level < current:
            message = f"kraft.version is {current} and can go up to {MAX_KRAFT_VERSION} only."
            raise Refusal(ErrorCode.invalid_update_version, message)
        self._check_may_begin(leader)  # before what follows: `current` may not be committed yet
        if level == current:
            finish(_NONE, None)
            return
        voters = self._reported_voters(leader, level)
        if validate_only:
            finish(_NONE, None)
            return
        pending = self._begin(core.config.request_timeout_ms, finish)
        self._append(leader, pending, voters, KRaftVersion(level))

    def _reported_voters(self, leader: Leader, level: int) -> VoterSet:
        """The static voters as they described themselves."""
        core, reported = self._core, dict(leader.updated_voters)
        own = core.config.local_voter
        if leader.is_voter and own is not None:
            reported[leader.leader_id] = own
        missing = [id_ for id_ in core.voters.ids if id_ not in reported]
        unable = [
            id_ for id_ in core.voters.ids if id_ in reported and not reported[id_].supports(level)
        ]
        if missing or unable:
            ids = ", ".join(map(str, missing or unable))
            reason = "have not described themselves yet" if missing else f"do not support {level}"
            raise Refusal(ErrorCode.invalid_update_version, f"kraft.version: voters {ids} {reason}")
        return VoterSet(reported[id_] for id_ in core.voters.ids)

    # -- what all changes share ------------------------------------------------------------------

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._core.config.cluster_id:
            raise Refusal(ErrorCode.inconsistent_cluster_id, "This is another cluster.")

    def _leader(self, epoch: int) -> Leader:
        error = self._core.leader_only_error(epoch)
        leader = self._core.leader
        if error is not _NONE or leader is None:
            raise Refusal(error, "This node does not lead that epoch.")
        return leader

    @staticmethod
    def _check_key(key: ReplicaKey) -> None:
        if key.id < 0 or key.directory_id == NO_DIRECTORY:
            raise Refusal(ErrorCode.invalid_request, "A voter has an id and a directory id.")

    def _endpoint(self, key: ReplicaKey, listeners: tuple[VoterListener, ...]) -> Endpoint:
        name = self._core.config.listener_name
        endpoint = select_endpoint(key.id, listeners, name)
        names = {listener.name for listener in listeners}
        valid = len(listeners) <= LISTENERS_MAX and all(
            0 < len(listener.host) <= NAME_MAX_CHARACTERS
            and len(listener.name) <= NAME_MAX_CHARACTERS
            and 0 < listener.port < 65536
            for listener in listeners
        )
        if endpoint is None or not valid or len(names) != len(listeners):
            raise Refusal(
                ErrorCode.invalid_request, f"Listeners must be valid and one be named {name}."
            )
        return endpoint

    def _check_dynamic(self) -> None:
        version = self._core.log.control.kraft_version
        if version < 1:
            raise Refusal(
                ErrorCode.unsupported_version, f"kraft.version is {version}: the voters are static."
            )

    def _check_no_pending(self) -> None:
        if self._core.pending_change is not None:
            raise Refusal(_TRY_LATER, "Another change of the voters is not finished.")

    def _check_may_begin(self, leader: Leader) -> None:
        """Raise Refusal while a change would not be safe."""
        self._check_no_pending()
        committed = leader.high_watermark
        if committed is None:
            raise Refusal(_TRY_LATER, "The leader has not committed a record of its epoch yet.")
        last_offset = max(self._core.log.control.voters_offset, leader.last_change_offset)
        if last_offset >= committed:
            raise Refusal(_TRY_LATER, "The last change of the voters is not committed yet.")

    def _begin(self, timeout_ms: float, finish: Finish) -> PendingChange:
        core = self._core
        # Not the check above: that one is what a mutant leaves out.
        if core.pending_change is not None:
            core.pending_change.finish(_TRY_LATER, "Another change of the voters began.")
        deadline_ms = core.clock.monotonic_ms() + max(timeout_ms, 0)
        pending = core.pending_change = PendingChange(core, deadline_ms, finish)
        return pending

    def _append(
        self,
        leader: Leader,
        pending: PendingChange,
        voters: VoterSet,
        version: KRaftVersion | None = None,
    ) -> None:
        """Append a new voter set; the pending change ends once it is committed."""
        core = self._core
        records = [encode_control(voters.to_record())]
        if version is not None:
            records.insert(0, encode_control(version))
        offset = leader.accumulator.append_control(records, core.clock.wall_ms())
        pending.is_appended = True
        leader.last_change_offset = offset
        core.trace(
            "voter-change",
            epoch=leader.epoch,
            offset=offset,
            voters={str(v.key.id): str(v.key.directory_id) for v in voters},
        )

        def on_end(outcome: Outcome) -> None:
            if outcome is Outcome.REACHED:
                pending.finish(_NONE, None)
            else:
                pending.finish(ErrorCode.not_leader_or_follower, "The leadership was lost.")

        core.append_purgatory.wait(offset + 1, NEVER_MS, on_end)


def _kraft_versions(response: object) -> tuple[int, int]:
    """The range of kraft.version that an ApiVersions response reports; (0, 0) when it does not."""
    for feature in getattr(response, "supported_features", ()):
        if feature.name == KRAFT_VERSION_FEATURE:
            return int(feature.min_version), int(feature.max_version)
    return (0, 0)


def _name(key: ReplicaKey) -> str:
    return f"Voter {key.id} with directory {key.directory_id}"

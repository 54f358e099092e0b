"""The requests that change the voter set, flat as in `cluster.node.kraft.messages` (KIP-853)."""

from __future__ import annotations

import uuid

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.control import VoterListener
from cluster.node.ports import Endpoint
from cluster.values import valueclass


@valueclass
class AddVoterRequest:
    """AddRaftVoter (80): an operator, or an observer itself, asks the leader for a new voter."""

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: uuid.UUID
    listeners: tuple[VoterListener, ...]
    """The controller listeners of the new voter."""
    ack_when_committed: bool = True
    """Whether the answer waits until the new set is committed; else it comes at the append."""


@valueclass
class AddVoterResponse:
    """Answer to AddRaftVoter."""

    error: ErrorCode
    message: str | None = None


@valueclass
class RemoveVoterRequest:
    """RemoveRaftVoter (81)."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: uuid.UUID


@valueclass
class RemoveVoterResponse:
    """Answer to RemoveRaftVoter."""

    error: ErrorCode
    message: str | None = None


@valueclass
class UpdateVoterRequest:
    """UpdateRaftVoter (82): a voter reports to its leader where it listens and what it supports."""

    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: uuid.UUID
    listeners: tuple[VoterListener, ...]
    min_kraft_version: int
    max_kraft_version: int


@valueclass
class UpdateVoterResponse:
    """Answer to UpdateRaftVoter."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none
    """Always none: this API has one error."""


VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
VoterResponse = AddVoterResponse | RemoveVoterResponse | UpdateVoterResponse

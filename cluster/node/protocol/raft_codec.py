"""Raft's messages on the wire: which mapping belongs to which flat class and API.

The mappings are written by hand and know the highest version only, because they are on the
replication path and peers of ours always speak it; other versions go through
`cluster.node.protocol.convert` on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.node.kraft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from cluster.node.kraft.voter_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from cluster.node.protocol import raft_election_codec, raft_fetch_codec, raft_voter_codec
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.raft_schema import RaftCodec, Refused

__all__ = ["CODECS", "REQUEST_KEYS", "RaftCodec", "Refused"]

CODECS: Final[Mapping[ApiKey, RaftCodec]] = {
    codec.key: codec
    for codec in (
        raft_election_codec.VOTE,
        raft_election_codec.BEGIN_QUORUM_EPOCH,
        raft_election_codec.END_QUORUM_EPOCH,
        raft_fetch_codec.FETCH,
        raft_fetch_codec.FETCH_SNAPSHOT,
        raft_fetch_codec.DESCRIBE_QUORUM,
        raft_voter_codec.ADD_VOTER,
        raft_voter_codec.REMOVE_VOTER,
        raft_voter_codec.UPDATE_VOTER,
    )
}

REQUEST_KEYS: Final[Mapping[type[Any], ApiKey]] = {
    VoteRequest: ApiKey.VOTE,
    BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
    FetchRequest: ApiKey.FETCH,
    FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
    DescribeQuorumRequest: ApiKey.DESCRIBE_QUORUM,
    AddVoterRequest: ApiKey.ADD_RAFT_VOTER,
    RemoveVoterRequest: ApiKey.REMOVE_RAFT_VOTER,
    UpdateVoterRequest: ApiKey.UPDATE_RAFT_VOTER,
}
"""Which API each flat request is of."""

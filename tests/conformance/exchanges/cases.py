"""What is asked, in which situation. A body is a table in the words of kio's newest version."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.node.protocol.apis import ApiKey

TOPIC = "__cluster_metadata"
TOPIC_ID = uuid.UUID(int=1)
STRANGER = uuid.UUID(int=99)
OTHER_CLUSTER = "another-cluster-000000"
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Situation:
    """A controller and its quorum before it is asked."""

    name: str
    voters: int
    dynamic: bool
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        return self.voters == 1


@dataclass
class Facts:
    """What differs from one start to the next."""

    cluster_id: str
    ports: dict[int, str]
    address: tuple[str, int]
    directories: dict[int, uuid.UUID]
    epoch: int = 0
    end: int = 0
    """Log end and high watermark of a leader, once its log is quiet."""

    def directory(self, node: int) -> uuid.UUID:
        return self.directories.get(node, STRANGER)


@dataclass(frozen=True)
class Case:
    """One request. Cases of a situation are asked in order, and some change its state."""

    name: str
    key: ApiKey
    version: int
    body: Callable[[Facts], Mapping[str, Any]]


QUIET = {
    "controller.quorum.election.timeout.ms": HOUR_MS,
    "controller.quorum.fetch.timeout.ms": HOUR_MS,
}
"""Nothing happens by itself: what a voter does, requests make it do."""

SITUATIONS = {
    "leader": Situation("leader", 1, dynamic=True),
    "static-leader": Situation("static-leader", 1, dynamic=False),
    "voter": Situation("voter", 3, dynamic=True, settings=QUIET),
    "static-voter": Situation("static-voter", 3, dynamic=False, settings=QUIET),
}


def cases(situation: str) -> Iterator[Case]:
    """All requests of a situation, in order."""
    yield from _LEADERS if situation.endswith("leader") else _VOTERS


def _in_cluster(facts: Facts, message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"cluster_id": facts.cluster_id, **message}


def _of_partition(
    facts: Facts,
    topic_field: str,
    row: Mapping[str, Any],
    changes: Mapping[str, Any],
    **message: Any,
) -> Mapping[str, Any]:
    """One partition of the topic that a field names; changes are of its row, or of the message."""
    inner = {key: value for key, value in changes.items() if key in row}
    outer = {key: value for key, value in changes.items() if key not in row}
    topic = {topic_field: TOPIC, "topic_id": TOPIC_ID, "partitions": [{**row, **inner}]}
    return _in_cluster(facts, {"topics": [topic], **message, **outer})


def vote(
    epoch: int = 0,
    *,
    candidate: int = 2,
    end: int | None = None,
    last_epoch: int | None = None,
    **changes: Any,
) -> Callable[[Facts], Mapping[str, Any]]:
    """Ask for a vote `epoch` above the leader's own; `end`: of the candidate's log."""

    def body(facts: Facts) -> Mapping[str, Any]:
        row = {
            "partition_index": 0,
            "replica_epoch": facts.epoch + epoch,
            "replica_id": candidate,
            "replica_directory_id": facts.directory(candidate),
            "voter_directory_id": facts.directory(1),
            "last_offset_epoch": facts.epoch if last_epoch is None else last_epoch,
            "last_offset": facts.end if end is None else end,
            "pre_vote": False,
        }
        return _of_partition(facts, "topic_name", row, changes, voter_id=1)

    return body


def begin(epoch: int = 0, *, leader: int = 2, **changes: Any) -> Callable[[Facts], Any]:
    """Say that `leader` leads an epoch."""

    def body(facts: Facts) -> Mapping[str, Any]:
        row = {
            "partition_index": 0,
            "voter_directory_id": facts.directory(1),
            "leader_id": leader,
            "leader_epoch": facts.epoch + epoch,
        }
        ends = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": _port(facts, leader)}]
        return _of_partition(facts, "topic_name", row, changes, voter_id=1, leader_endpoints=ends)

    return body


def end(epoch: int = 0, *, leader: int = 2, **changes: Any) -> Callable[[Facts], Any]:
    """Say that `leader` no longer leads an epoch."""

    def body(facts: Facts) -> Mapping[str, Any]:
        candidates = changes.get("candidates", (1, 3))
        row = {
            "partition_index": 0,
            "leader_id": leader,
            "leader_epoch": facts.epoch + epoch,
            "preferred_successors": list(candidates),
            "preferred_candidates": [
                {"candidate_id": each, "candidate_directory_id": facts.directory(each)}
                for each in candidates
            ],
        }
        rest = {key: value for key, value in changes.items() if key != "candidates"}
        ends = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": _port(facts, leader)}]
        return _of_partition(facts, "topic_name", row, rest, leader_endpoints=ends)

    return body


def _port(facts: Facts, node: int) -> int:
    named = [port for port, name in facts.ports.items() if name == f"port of {node}"]
    return named[0] if named else 1


def fetch(
    epoch: int = 0, *, offset: int | None = 0, last_epoch: int = 0, replica: int = 2, **changes: Any
) -> Callable[[Facts], Any]:
    """Fetch the metadata log; `offset` counts from the log's end where it is None or negative."""

    def body(facts: Facts) -> Mapping[str, Any]:
        at = facts.end if offset is None else offset
        row = {
            "partition": 0,
            "current_leader_epoch": facts.epoch + epoch,
            "fetch_offset": at,
            "last_fetched_epoch": last_epoch,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
            "replica_directory_id": facts.directory(replica),
            "high_watermark": (1 << 63) - 1,
        }
        message = {
            "replica_id": replica,
            "replica_state": {"replica_id": replica, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
        }
        return _of_partition(facts, "topic", row, changes, **message)

    return body


def fetch_snapshot(
    epoch: int = 0,
    *,
    end_offset: int = 0,
    snapshot_epoch: int = 0,
    position: int = 0,
    **changes: Any,
) -> Callable[[Facts], Any]:
    """Fetch a part of a snapshot."""

    def body(facts: Facts) -> Mapping[str, Any]:
        row = {
            "partition": 0,
            "current_leader_epoch": facts.epoch + epoch,
            "snapshot_id": {"end_offset": end_offset, "epoch": snapshot_epoch},
            "position": position,
            "replica_directory_id": facts.directory(2),
        }
        return _of_partition(facts, "name", row, changes, replica_id=2, max_bytes=1 << 20)

    return body


def describe(name: str = TOPIC, index: int = 0) -> Callable[[Facts], Any]:
    """Ask for the state of the quorum."""
    rows = [{"partition_index": index}]
    return lambda _: {"topics": [{"topic_name": name, "partitions": rows}]}


def add(voter: int = 2, **changes: Any) -> Callable[[Facts], Any]:
    """Add a voter."""

    def body(facts: Facts) -> Mapping[str, Any]:
        ends = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
        message = {"timeout": 1000, "voter_id": voter, "voter_directory_id": facts.directory(voter)}
        message |= {"listeners": ends, "ack_when_committed": True}
        return _in_cluster(facts, {**message, **changes})

    return body


def remove(voter: int = 2, **changes: Any) -> Callable[[Facts], Any]:
    """Remove a voter."""

    def body(facts: Facts) -> Mapping[str, Any]:
        own = {"voter_id": voter, "voter_directory_id": facts.directory(voter)}
        return _in_cluster(facts, {**own, **changes})

    return body


def update(voter: int = 2, epoch: int = 0, **changes: Any) -> Callable[[Facts], Any]:
    """Change a voter's endpoints."""

    def body(facts: Facts) -> Mapping[str, Any]:
        ends = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
        message = {"voter_id": voter, "voter_directory_id": facts.directory(voter)}
        message |= {"listeners": ends, "current_leader_epoch": facts.epoch + epoch}
        feature = {"min_supported_version": 0, "max_supported_version": 1}
        return _in_cluster(facts, {**message, "k_raft_version_feature": feature, **changes})

    return body


def plain(**body: Any) -> Callable[[Facts], Any]:
    """The same body whatever the facts are."""
    return lambda _: body


def _versions(
    name: str, key: ApiKey, versions: Iterator[int] | range, body: Callable[[Facts], Any]
) -> Iterator[Case]:
    for version in versions:
        yield Case(f"{name}, version {version}", key, version, body)


VOTE, BEGIN, END = ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH
FETCH, SNAPSHOT = ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT
DESCRIBE = ApiKey.DESCRIBE_QUORUM
ADD, REMOVE, UPDATE = ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER
NO_TOPICS: Mapping[str, Any] = {"topics": []}
WRONG_NAME = {"topics": [{"topic_name": "t", "topic": "t", "name": "t", "partitions": [{}]}]}
TWO_TOPICS = {
    "topics": [
        {"topic_name": TOPIC, "topic": TOPIC, "name": TOPIC, "partitions": [{}]},
        {"topic_name": TOPIC, "topic": TOPIC, "name": TOPIC, "partitions": [{}]},
    ]
}

_LEADERS = (
    # -- Vote: 0 has no directory ids, 2 has PreVote -------------------------------------------
    *_versions("Vote of the leader's epoch", VOTE, range(3), vote()),
    *_versions("Vote of an older epoch", VOTE, range(3), vote(-1)),
    *_versions("Vote of another cluster", VOTE, range(3), vote(cluster_id=OTHER_CLUSTER)),
    *_versions("Vote of no cluster", VOTE, range(3), vote(cluster_id=None)),
    *_versions("Vote for another topic", VOTE, range(3), vote(**WRONG_NAME)),
    *_versions("Vote for no topic", VOTE, range(3), vote(**NO_TOPICS)),
    *_versions("Vote for two topics", VOTE, range(3), vote(**TWO_TOPICS)),
    *_versions("Vote for partition 1", VOTE, range(3), vote(partition_index=1)),
    Case("Vote asked of another voter", VOTE, 1, vote(voter_id=3)),
    Case("Vote asked of another disk", VOTE, 1, vote(voter_directory_id=STRANGER)),
    Case("Vote of an unknown candidate", VOTE, 1, vote(candidate=77)),
    Case("Vote of a negative offset", VOTE, 1, vote(end=-1)),
    Case("Vote of a negative epoch of the log", VOTE, 1, vote(last_epoch=-1)),
    Case("Vote whose log is of its own epoch", VOTE, 1, vote(last_epoch=100)),
    Case("Vote of a negative candidate", VOTE, 1, vote(candidate=-1)),
    Case("Vote of the voter itself", VOTE, 1, vote(candidate=1)),
    Case("PreVote of the leader's epoch", VOTE, 2, vote(pre_vote=True)),
    Case("PreVote of an older epoch", VOTE, 2, vote(-1, pre_vote=True)),
    Case("PreVote of an unknown candidate", VOTE, 2, vote(candidate=77, pre_vote=True)),
    # -- BeginQuorumEpoch, EndQuorumEpoch -------------------------------------------------------
    *_versions("BeginQuorumEpoch of an older epoch", BEGIN, range(2), begin(-1)),
    *_versions("BeginQuorumEpoch of another cluster", BEGIN, range(2), begin(cluster_id="x")),
    *_versions("BeginQuorumEpoch of another topic", BEGIN, range(2), begin(**WRONG_NAME)),
    *_versions("BeginQuorumEpoch of no topic", BEGIN, range(2), begin(**NO_TOPICS)),
    *_versions("BeginQuorumEpoch of partition 1", BEGIN, range(2), begin(partition_index=1)),
    *_versions("BeginQuorumEpoch of the leader itself", BEGIN, range(2), begin(leader=1)),
    Case("BeginQuorumEpoch for another voter", BEGIN, 1, begin(-1, voter_id=3)),
    Case("BeginQuorumEpoch without endpoints", BEGIN, 1, begin(-1, leader_endpoints=[])),
    Case("BeginQuorumEpoch of a negative leader", BEGIN, 1, begin(-1, leader=-1)),
    *_versions("EndQuorumEpoch of an older epoch", END, range(2), end(-1)),
    *_versions("EndQuorumEpoch of another cluster", END, range(2), end(cluster_id="x")),
    *_versions("EndQuorumEpoch of another topic", END, range(2), end(**WRONG_NAME)),
    *_versions("EndQuorumEpoch of no topic", END, range(2), end(**NO_TOPICS)),
    *_versions("EndQuorumEpoch of partition 1", END, range(2), end(partition_index=1)),
    *_versions("EndQuorumEpoch of the leader itself", END, range(2), end(leader=1)),
    Case("EndQuorumEpoch of a negative leader", END, 1, end(-1, leader=-1)),
    # -- Fetch ----------------------------------------------------------------------------------
    *_versions("Fetch from the beginning", FETCH, range(4, 19), fetch()),
    *_versions("Fetch at the end", FETCH, range(12, 19), fetch(offset=None, last_epoch=1)),
    *_versions("Fetch of an older epoch", FETCH, (12, 15, 18), fetch(-1)),
    *_versions("Fetch of a later epoch", FETCH, (12, 15, 18), fetch(5)),
    *_versions("Fetch of another cluster", FETCH, (12, 15, 18), fetch(cluster_id="x")),
    *_versions("Fetch of no cluster", FETCH, (12, 15, 18), fetch(cluster_id=None)),
    Case("Fetch of another topic", FETCH, 12, fetch(**WRONG_NAME)),
    Case("Fetch of no topic", FETCH, 17, fetch(**NO_TOPICS)),
    Case("Fetch of partition 1", FETCH, 17, fetch(partition=1)),
    Case("Fetch beyond the end", FETCH, 17, fetch(offset=1_000_000, last_epoch=1)),
    Case("Fetch at a negative offset", FETCH, 17, fetch(offset=-1)),
    Case("Fetch of an epoch that never was", FETCH, 17, fetch(offset=3, last_epoch=100)),
    Case("Fetch of a negative epoch", FETCH, 17, fetch(offset=1, last_epoch=-1)),
    Case("Fetch of a negative wait", FETCH, 17, fetch(max_wait=-1)),
    Case("Fetch of no bytes", FETCH, 17, fetch(max_bytes=0)),
    Case("Fetch of a consumer", FETCH, 17, fetch(replica=-1)),
    Case("Fetch with a session", FETCH, 17, fetch(session_id=5, session_epoch=1)),
    # -- FetchSnapshot --------------------------------------------------------------------------
    *_versions("FetchSnapshot of none", SNAPSHOT, range(2), fetch_snapshot(end_offset=1 << 40)),
    *_versions("FetchSnapshot of an older epoch", SNAPSHOT, range(2), fetch_snapshot(-1)),
    *_versions("FetchSnapshot of a later epoch", SNAPSHOT, range(2), fetch_snapshot(5)),
    *_versions(
        "FetchSnapshot of another cluster", SNAPSHOT, range(2), fetch_snapshot(cluster_id="x")
    ),
    *_versions("FetchSnapshot of partition 1", SNAPSHOT, range(2), fetch_snapshot(partition=1)),
    *_versions("FetchSnapshot of another topic", SNAPSHOT, range(2), fetch_snapshot(**WRONG_NAME)),
    Case("FetchSnapshot of the first", SNAPSHOT, 1, fetch_snapshot()),
    Case("FetchSnapshot beyond its end", SNAPSHOT, 1, fetch_snapshot(position=1 << 40)),
    Case("FetchSnapshot at a negative position", SNAPSHOT, 1, fetch_snapshot(position=-1)),
    # -- DescribeQuorum -------------------------------------------------------------------------
    *_versions("DescribeQuorum", DESCRIBE, range(3), describe()),
    *_versions("DescribeQuorum of another topic", DESCRIBE, range(3), describe("t")),
    *_versions("DescribeQuorum of partition 1", DESCRIBE, range(3), describe(index=1)),
    *_versions("DescribeQuorum of no topic", DESCRIBE, range(3), plain(**NO_TOPICS)),
    # -- voters ---------------------------------------------------------------------------------
    *_versions("AddRaftVoter of another cluster", ADD, range(2), add(cluster_id="x")),
    *_versions("AddRaftVoter of a voter", ADD, range(2), add(1)),
    *_versions("AddRaftVoter without listeners", ADD, range(2), add(listeners=[])),
    *_versions("AddRaftVoter without a directory", ADD, range(2), add(voter_directory_id=None)),
    *_versions("AddRaftVoter of a negative id", ADD, range(2), add(-1)),
    *_versions("RemoveRaftVoter of another cluster", REMOVE, range(1), remove(cluster_id="x")),
    *_versions("RemoveRaftVoter of no voter", REMOVE, range(1), remove(2)),
    *_versions(
        "RemoveRaftVoter of another disk", REMOVE, range(1), remove(1, voter_directory_id=STRANGER)
    ),
    *_versions(
        "RemoveRaftVoter without a directory", REMOVE, range(1), remove(1, voter_directory_id=None)
    ),
    *_versions("RemoveRaftVoter of the last voter", REMOVE, range(1), remove(1)),
    *_versions("UpdateRaftVoter of another cluster", UPDATE, range(1), update(cluster_id="x")),
    *_versions("UpdateRaftVoter of no voter", UPDATE, range(1), update(2)),
    *_versions("UpdateRaftVoter of an older epoch", UPDATE, range(1), update(1, -1)),
    *_versions("UpdateRaftVoter of a later epoch", UPDATE, range(1), update(1, 5)),
    *_versions("UpdateRaftVoter without listeners", UPDATE, range(1), update(1, listeners=[])),
    # -- brokers and controllers ----------------------------------------------------------------
    Case("BrokerHeartbeat of no broker", ApiKey.BROKER_HEARTBEAT, 1, plain(broker_id=50)),
    Case(
        "BrokerHeartbeat of another epoch",
        ApiKey.BROKER_HEARTBEAT,
        1,
        plain(broker_id=1, broker_epoch=-5),
    ),
    Case(
        "BrokerRegistration of another cluster",
        ApiKey.BROKER_REGISTRATION,
        4,
        plain(broker_id=50, cluster_id="x"),
    ),
    Case("UnregisterBroker of no broker", ApiKey.UNREGISTER_BROKER, 0, plain(broker_id=50)),
    Case("AllocateProducerIds of no broker", ApiKey.ALLOCATE_PRODUCER_IDS, 0, plain(broker_id=50)),
    Case(
        "AssignReplicasToDirs of no broker", ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, plain(broker_id=50)
    ),
    Case("AlterPartition of no broker", ApiKey.ALTER_PARTITION, 3, plain(broker_id=50)),
    Case(
        "ControllerRegistration without a version",
        ApiKey.CONTROLLER_REGISTRATION,
        0,
        plain(controller_id=50),
    ),
    # The last ones, since they end some nodes.
    *_versions(
        "UpdateRaftVoter of another disk", UPDATE, range(1), update(1, voter_directory_id=STRANGER)
    ),
    Case("FetchSnapshot of no topic", SNAPSHOT, 1, fetch_snapshot(**NO_TOPICS)),
)

_VOTERS = (
    *_versions("DescribeQuorum of no leader", DESCRIBE, range(3), describe()),
    *_versions("Fetch from a voter without a leader", FETCH, (12, 15, 17, 18), fetch()),
    *_versions("FetchSnapshot without a leader", SNAPSHOT, range(2), fetch_snapshot()),
    *_versions("AddRaftVoter without a leader", ADD, range(2), add(4)),
    *_versions("RemoveRaftVoter without a leader", REMOVE, range(1), remove(2)),
    *_versions("UpdateRaftVoter without a leader", UPDATE, range(1), update(2)),
    # PreVote changes nothing.
    Case("PreVote of epoch 0", VOTE, 2, vote(0, pre_vote=True)),
    Case("PreVote of a later epoch", VOTE, 2, vote(3, pre_vote=True, last_epoch=0)),
    Case("PreVote of a shorter log", VOTE, 2, vote(3, pre_vote=True, end=-0, last_epoch=0)),
    Case("EndQuorumEpoch of epoch 0", END, 1, end(0)),
    Case(
        "Vote of another disk of a voter",
        VOTE,
        1,
        vote(3, replica_directory_id=STRANGER, last_epoch=0),
    ),
    # The first vote of epoch 5 is granted, and again to the same candidate, and to no other.
    Case("first Vote of an epoch", VOTE, 1, vote(5, last_epoch=0)),
    Case("the same Vote again", VOTE, 1, vote(5, last_epoch=0)),
    Case("Vote of another candidate", VOTE, 1, vote(5, candidate=3, last_epoch=0)),
    Case(
        "PreVote of another candidate after a vote",
        VOTE,
        2,
        vote(5, candidate=3, pre_vote=True, last_epoch=0),
    ),
    Case("Vote of an older epoch", VOTE, 1, vote(4, last_epoch=0)),
    Case("BeginQuorumEpoch of an older epoch", BEGIN, 1, begin(4)),
    *_versions("DescribeQuorum after a vote", DESCRIBE, range(3), describe()),
    # Voter 2 leads epoch 6.
    Case("BeginQuorumEpoch", BEGIN, 1, begin(6)),
    Case("BeginQuorumEpoch again", BEGIN, 1, begin(6)),
    Case("Vote of the epoch that has a leader", VOTE, 1, vote(6, candidate=3, last_epoch=0)),
    Case(
        "PreVote of the epoch that has a leader",
        VOTE,
        2,
        vote(6, candidate=3, pre_vote=True, last_epoch=0),
    ),
    *_versions("Fetch from a follower", FETCH, (12, 15, 17, 18), fetch(6)),
    Case("Fetch of an older epoch from a follower", FETCH, 17, fetch(5)),
    Case("Fetch of a later epoch from a follower", FETCH, 17, fetch(7)),
    *_versions("FetchSnapshot from a follower", SNAPSHOT, range(2), fetch_snapshot(6)),
    *_versions("DescribeQuorum of a follower", DESCRIBE, range(3), describe()),
    *_versions("AddRaftVoter at a follower", ADD, range(2), add(4)),
    *_versions("RemoveRaftVoter at a follower", REMOVE, range(1), remove(3)),
    *_versions("UpdateRaftVoter at a follower", UPDATE, range(1), update(2, 6)),
    # A vote of a later epoch deposes the leader, whoever asks.
    Case("Vote of a later epoch", VOTE, 0, vote(8, candidate=3, last_epoch=0)),
    Case("Vote of an unknown candidate, later still", VOTE, 1, vote(9, candidate=77, last_epoch=0)),
    Case("Vote of a shorter log", VOTE, 1, vote(10, end=0, last_epoch=0)),
    Case("BeginQuorumEpoch of version 0", BEGIN, 0, begin(12, leader=3)),
    Case("BrokerHeartbeat at a follower", ApiKey.BROKER_HEARTBEAT, 1, plain(broker_id=1)),
    Case("UnregisterBroker at a follower", ApiKey.UNREGISTER_BROKER, 0, plain(broker_id=1)),
    Case("AllocateProducerIds at a follower", ApiKey.ALLOCATE_PRODUCER_IDS, 0, plain(broker_id=1)),
    Case("AlterPartition at a follower", ApiKey.ALTER_PARTITION, 3, plain(broker_id=1)),
    Case(
        "AssignReplicasToDirs at a follower", ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, plain(broker_id=1)
    ),
    Case(
        "ControllerRegistration at a follower",
        ApiKey.CONTROLLER_REGISTRATION,
        0,
        plain(controller_id=1),
    ),
    Case(
        "CreateTopics at a follower",
        ApiKey.CREATE_TOPICS,
        7,
        plain(
            topics=[
                {
                    "name": "t",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout=1000,
        ),
    ),
    Case(
        "DeleteTopics at a follower",
        ApiKey.DELETE_TOPICS,
        6,
        plain(topics=[{"name": "t"}], timeout=1000),
    ),
    Case(
        "ElectLeaders at a follower",
        ApiKey.ELECT_LEADERS,
        2,
        plain(topic_partitions=[{"topic": "t", "partitions": [0]}], timeout=1000),
    ),
    Case("UpdateFeatures at a follower", ApiKey.UPDATE_FEATURES, 2, plain(timeout=1000)),
    Case("EndQuorumEpoch", END, 1, end(12, leader=3)),
    # The last one, since it ends the node.
    Case("EndQuorumEpoch of another leader", END, 1, end(12, leader=2)),
)

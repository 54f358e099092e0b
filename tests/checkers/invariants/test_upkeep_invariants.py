"""What a node does in its own time: each invariant broken, and the closest right looks."""

from types import SimpleNamespace

import pytest

from checkers.partition_logs.columns import CONFIGURE
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumResponse
from cluster.node.kraft.quorum.states import Follower
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from harness.sim.sights.world import Descriptions
from tests.checkers.invariants.watching import QUIET, broken, found_in

SIZES = {"size_bytes": 5_000, "kept_bytes": 3_000, "interval_ms": 2_000.0}
RIGHT = {
    "checkpoint-seen": {"name": "t-0", "mark": 9, "saved": 8, "for_ms": 11_000.0},
    "cleaning-seen": {**SIZES, "for_ms": 3_000.0},
    "move-seen": {"name": "t-0", "to_dir": "/d", "is_there": True},
    "logs-seen": {"name": "t-0", "log": "future log", "directories": ["/a"]},
    "request-late": {"request": "Fetch", "for_ms": 1_500.0, "waits_ms": 500.0},
    "fetch-idle": {"for_ms": 499.0, "waits_ms": 500.0},
    "directory-used": {"log_dir": "/d", "is_open": True, "lacks": []},
    "epochs-seen": {"name": "t-0", "known": [(0, 0), (2, 7)], "saved": [(0, 0), (2, 7)]},
    "point-seen": {"name": "t-0", "point": 7, "durable_end": 7, "lost": None},
    "point-moved": {"name": "t-0", "point": 7, "least": (7, "which it had")},
    "start-seen": {"name": "t-0", "has": {"end": "7"}, "finds": {"end": "7"}, "after": "a kill"},
    "log-opened": {"name": "t-0", "log": (3, 9), "high_watermark": 7, "saved": (3, 7)},
}
"""Of each look the one that is just right."""


@pytest.mark.parametrize(
    ("event", "wrong", "found"),
    [
        ("checkpoint-seen", {"for_ms": 11_001.0}, "mark-checkpointed"),
        ("cleaning-seen", {"for_ms": 3_001.0}, "snapshots-cleaned"),
        ("move-seen", {"is_there": False}, "move-kept"),
        ("logs-seen", {"directories": ["/a", "/b"]}, "move-kept"),
        ("request-late", {"for_ms": 1_501.0}, "answered-in-time"),
        ("fetch-idle", {"for_ms": 498.0}, "waits-for-news"),
        ("directory-used", {"is_open": False}, "directory-opened"),
        ("directory-used", {"lacks": ["t-0"]}, "directory-opened"),
        ("directory-used", {"lacks": ["t-0/7.log"]}, "directory-opened"),
        ("epochs-seen", {"saved": [(0, 0)]}, "epochs-saved"),
        ("epochs-seen", {"saved": None}, "epochs-saved"),
        ("point-seen", {"durable_end": 6}, "point-durable"),
        ("point-seen", {"lost": "t-0/0.timeindex"}, "point-durable"),
        ("point-moved", {"point": 6}, "point-durable"),
        ("start-seen", {"finds": {"end": ""}}, "start-finds"),
        ("start-seen", {"finds": "no log"}, "start-finds"),
        ("log-opened", {"high_watermark": 6}, "checkpoints-heeded"),
        ("log-opened", {"log": (2, 9)}, "checkpoints-heeded"),
    ],
)
def test_a_look_that_is_wrong_in_one_thing_is_found(event, wrong, found):
    assert broken(event, **RIGHT[event]) == []
    assert broken(event, **RIGHT[event] | wrong) == [found]


@pytest.mark.parametrize(
    ("event", "other"),
    [
        ("checkpoint-seen", {"saved": 9, "for_ms": 60_000.0}),
        ("checkpoint-seen", {"saved": 10}),
        ("point-seen", {"durable_end": 8}),
        ("point-moved", {"point": 8}),
        ("log-opened", {"log": (5, 9), "high_watermark": 8}),
        ("log-opened", {"log": (3, 5), "high_watermark": 5}),
    ],
    ids=["saved", "later", "more is durable", "further", "later than saved", "a crash took it"],
)
def test_other_looks_are_right(event, other):
    assert broken(event, **RIGHT[event] | other) == []


def test_no_file_is_left_of_a_snapshot_that_is_none():
    assert broken("file-left", path="/d/1-1.checkpoint.part") == ["snapshots-cleaned"]


def test_nothing_is_watched_for_a_session_that_is_over():
    assert broken("watch-left", what="Fetch session", count=1) == ["watches-end"]


@pytest.mark.parametrize(
    ("remembered", "found"),
    [
        ({7: (0, 4, 12)}, []),
        ({7: (0, 4, 12), 8: (0, 9, 4)}, []),
        ({}, ["producers-in-log"]),
        ({7: (0, 2, 9)}, ["producers-in-log"]),
        ({7: (0, 4, 12), 8: (0, 9, 5)}, ["producers-in-log"]),
    ],
    ids=[
        *("its last batch", "another's was deleted", "nothing", "an earlier batch"),
        "a batch that is not there",
    ],
)
def test_a_log_remembers_the_last_batch_of_each_producer(remembered, found):
    seen = {"what": "holds t-0 and", "start": 5, "written": {7: (0, 4, 12)}}
    assert broken("producers-seen", remembered=remembered, **seen) == found


BATCHES = [(0, 0, 50), (60, 1, 70), (120, 2, 60), (180, 3, 70), (240, 4, 90)]
"""Positions, last offsets and largest timestamps; an entry each 100 bytes."""


@pytest.mark.parametrize(
    ("offsets", "times", "found"),
    [
        ([(2, 120), (4, 240)], [(70, 1), (90, 4)], False),
        ([(2, 120), (4, 240)], [(50, 0), (70, 1), (90, 4)], False),
        ([(4, 240)], [(70, 1), (90, 4)], True),
        ([(2, 120), (3, 180), (4, 240)], [(70, 1), (90, 4)], True),
        ([(3, 120), (4, 240)], [(70, 1), (90, 4)], True),
        ([(2, 120), (2, 120), (4, 240)], [(70, 1), (90, 4)], True),
        ([(2, 120), (4, 240)], [(90, 4)], True),
        ([(2, 120), (4, 240)], [(70, 3), (90, 4)], True),
        ([(2, 120), (4, 240)], [(70, 1)], True),
        ([(2, 120), (4, 240)], [], True),
    ],
    ids=[
        *("all entries", "one from before it was cut", "it lacks a batch", "it has too many"),
        *("another batch", "a batch twice", "a time is missing", "a later one of the same time"),
        *("its latest time is missing", "it has no times"),
    ],
)
def test_a_rolled_segment_is_indexed(offsets, times, found):
    seen = {"path": "/d/0.log", "interval_bytes": 100, "batches": BATCHES, "is_rolled": True}
    expected = ["segment-indexed"] if found else []
    assert broken("indexes-seen", offsets=offsets, times=times, **seen) == expected


def host(**core):
    raft = SimpleNamespace(_core=SimpleNamespace(config=SimpleNamespace(replica_key=None), **core))
    return SimpleNamespace(process=SimpleNamespace(node=SimpleNamespace(raft=raft)))


def described(start, end, epoch, *, follows=3, voters_offset=0):
    """Those whom a leader of epoch 3, from offset 5 on, must know, if one node has such a log."""
    voters = SimpleNamespace(is_voter=lambda _: False)
    control = SimpleNamespace(voters=voters, voters_offset=voters_offset)
    leader = host(
        leader=SimpleNamespace(epoch=3, epoch_start_offset=5),
        log=SimpleNamespace(
            start_offset=0, end_offset=8, end=OffsetAndEpoch(8, 3), control=control
        ),
        quorum=SimpleNamespace(state=None),
    )
    log = SimpleNamespace(start_offset=start, end_offset=end, end=OffsetAndEpoch(end, epoch))
    state = Follower(follows, 1, Endpoint(1, "n1", 9093), 0.0)
    other = host(log=log, quorum=SimpleNamespace(state=state))
    shown = []
    world = SimpleNamespace(nodes={"n1": leader, "n2": other})
    answer = DescribeQuorumResponse(ErrorCode.none, 1, 3, 8)
    Descriptions(world, lambda *seen: shown.append(seen)).on_reply("n1", None, answer)
    ((_, _, fields),) = shown
    return fields["following"]


@pytest.mark.parametrize(
    ("log", "following"),
    [((0, 6, 3), ["n2"]), ((0, 5, 2), []), ((6, 6, 3), [])],
    ids=["it has records of the epoch", "its first Fetch diverged", "it has a snapshot alone"],
)
def test_a_leader_knows_an_observer_that_has_records_of_its_epoch(log, following):
    assert described(*log) == following


@pytest.mark.parametrize("at", [{"voters_offset": 5}, {"follows": 2}])
def test_an_observer_that_was_a_voter_or_is_behind_may_not_be_known(at):
    assert described(0, 6, 3, **at) == []


def test_a_segment_that_is_appended_to_has_its_latest_time_in_its_index_later():
    seen = {"path": "/d/0.log", "interval_bytes": 300, "batches": BATCHES, "is_rolled": False}
    assert broken("indexes-seen", offsets=[], times=[], **seen) == []


SENDS = {
    **QUIET,
    "duration_s": 25,
    "rate_per_s": 2,
    "workload": "log",
    "node_settings": {"kraftprobe.registration": 1, "kraftprobe.log.dirs": 2},
}
SNAPSHOTS = {
    **QUIET,
    "duration_s": 8,
    "rate_per_s": 15,
    "workload": "register",
    "node_settings": {
        "metadata.log.max.record.bytes.between.snapshots": 500,
        "metadata.max.retention.bytes": 0,
        "metadata.log.segment.bytes": 1024,
        "kraftprobe.log.clean.interval.ms": 1_000,
    },
}


def with_steps(plan, at_ms, *steps):
    return {**plan, "schedule": [{"at_ms": at_ms, "steps": list(steps)}]}


KILLED = with_steps(
    {**SNAPSHOTS, "duration_s": 14},
    4_000,
    {"kind": "wait", "until": {"at": "node:n2", "event": "log-start"}, "within_ms": 5_000},
    {"kind": "kill", "targets": "node:n2", "after_ms": 100, "for_ms": 500},
)
"""It dies while the file of a deleted snapshot waits to be removed."""
STALLED = with_steps(
    SNAPSHOTS,
    2_000,
    {"kind": "cast", "until": {"established": True}, "names": {"A": "leader", "B": "follower"}},
    {"kind": "disk-stall", "targets": "@B", "for_ms": 5_000},
    {"kind": "kill", "targets": "@A", "for_ms": 500},
)
"""A follower cannot write the next epoch, and answers nobody in it meanwhile."""
GIVEN_UP = with_steps(
    {
        **SNAPSHOTS,
        "duration_s": 25,
        "node_settings": {
            **SNAPSHOTS["node_settings"],
            "controller.quorum.fetch.snapshot.max.bytes": 100,
        },
    },
    2_000,
    {"kind": "cast", "until": {"established": True}, "names": {"A": "leader", "B": "follower"}},
    {"kind": "partition", "targets": "@B", "shape": "isolate", "for_ms": 3_000},
    {
        "kind": "kill",
        "targets": "@A",
        "until": {"at": "@B", "event": "fetch-snapshot"},
        "within_ms": 5_000,
        "for_ms": 1_000,
    },
)
"""The leader dies in the middle of a follower's download, and another one has another snapshot."""
MOVED = with_steps(
    {**SENDS, "duration_s": 3, "workload_options": {"partitions": 9, "send_fraction": 0.1}},
    2_000,
    {"kind": "log-dir-move", "targets": "node:n1"},
)
CUT_MOVE = with_steps(
    {**SENDS, "duration_s": 9, "workload_options": {"partitions": 1, "topics": 1}},
    7_500,
    {"kind": "log-dir-move", "targets": "node:n1"},
    {"kind": "wait", "until": {"at": "node:n1", "event": "assign-replicas"}, "within_ms": 1_000},
    {"kind": "kill", "targets": "node:n1", "after_ms": 8, "for_ms": 0},
)
"""The kill comes when the future log has its new name, and before the log that it copied is gone."""
WATCHED = {**SNAPSHOTS, "duration_s": 2, "nodes": 5, "world": {"observers": 2}}


QUICK = {
    **SENDS,
    "duration_s": 14,
    "rate_per_s": 10,
    "world": {"power_loss": "written"},
    "workload_options": {"partitions": 6},
    "node_settings": {
        **SENDS["node_settings"],
        "broker.session.timeout.ms": 1000,
        "broker.heartbeat.interval.ms": 100,
    },
}
KILLED_BROKER = with_steps(QUICK, 8_000, {"kind": "kill", "targets": "node:n1", "for_ms": 500})
FENCED = with_steps(QUICK, 6_000, {"kind": "kill", "targets": "node:n1", "for_ms": 2_500})
LOST_AT_START = with_steps(
    QUICK,
    8_000,
    {"kind": "kill", "targets": "node:n1", "for_ms": 500},
    {
        "kind": "log-dir-loss",
        "targets": "node:n1",
        "until": {"at": "node:n1", "event": "broker-state", "where": {"state": "fenced"}},
        "within_ms": 3_000,
        "for_ms": 5_000,
    },
)
"""A disk goes before the logs on it are opened: the broker goes on without, as it must."""
STOPPED_BROKER = with_steps(
    {**QUICK, "workload_options": {"partitions": 1, "topics": 1}},
    5_000,
    {"kind": "log-dir-move", "targets": "node:n1"},
    {"kind": "stop", "targets": "node:n1", "after_ms": 3_000, "for_ms": 500},
)
"""The only log of n1 lies on another disk than its metadata."""
ROLLED = with_steps(
    {**QUICK, "workload_options": {"partitions": 1, "topics": 1}},
    3_000,
    {"kind": "op", "f": CONFIGURE, "key": "d0-0", "value": {"name": "segment.ms", "value": "900"}},
    {"kind": "kill", "targets": "node:n1", "after_ms": 6_000, "for_ms": 500},
)
"""Recovery finds several segments."""
DEPOSED = with_steps(
    {**QUIET, "duration_s": 8, "rate_per_s": 10, "workload": "register"},
    2_000,
    {"kind": "partition", "targets": "leader", "shape": "isolate", "for_ms": 4_000},
)
SYNCED = with_steps(
    {**QUICK, "workload_options": {"partitions": 1, "topics": 1}},
    3_000,
    *(
        {"kind": "op", "f": CONFIGURE, "key": "d0-0", "value": {"name": name, "value": value}}
        for name, value in (("flush.messages", "1"), ("segment.ms", "900"))
    ),
)
"""Nothing of a segment waits for a sync when it is rolled, but what closes its time index."""
STOPPED_TWICE = with_steps(
    {**QUICK, "duration_s": 18, "workload_options": {"partitions": 1, "topics": 1}},
    4_000,
    *({"kind": "stop", "targets": "node:n1", "after_ms": 2_500, "for_ms": 500} for _ in range(3)),
)
"""Each end leaves a snapshot of producers amid a segment, and the next start removes it."""
_RECOVERY = "X:log.data.data_recovery:_Opening"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "mutant", "found"),
    [
        (SENDS, "X:log.data.log_directory:LogDirectory._every:left-out:0", "mark-checkpointed"),
        (SNAPSHOTS, "X:kraft.log_cleaner:LogCleaner._is_too_large:sum:0", "snapshots-cleaned"),
        (KILLED, "X:kraft.snapshot_store:SnapshotStore.publish:left-out:1", "snapshots-cleaned"),
        (GIVEN_UP, "X:kraft.log_cleaner:LogCleaner.poll:left-out:0", "snapshots-cleaned"),
        (KILLED, "X:kraft.snapshot_store:SnapshotStore.__init__:left-out:4", "snapshots-cleaned"),
        (GIVEN_UP, "X:kraft.snapshot_store:SnapshotStore.discard:relation:0", "snapshots-cleaned"),
        (GIVEN_UP, "X:kraft.core:RaftCore._give_up_download:left-out:0", "snapshots-cleaned"),
        (
            MOVED,
            "X:broker.replication.alter_log_dirs:ReplicaAlterLogDirsManager.begin:left-out:0",
            "move-kept",
        ),
        (CUT_MOVE, "X:log.data.log_manager:LogManager._in:left-out:0", "move-kept"),
        (WATCHED, "X:kraft.quorum.leader_state:Observers.live:negation:0", "described"),
        (WATCHED, "X:kraft.inbound:InboundRequests._describe_quorum:relation:0", "node-died"),
        (MOVED, "X:controller.metadata.replay:_register_controller:left-out:0", "placement"),
        (SENDS, "X:broker.serving.fetch:_Delayed.try_complete:never:0", "answered-in-time"),
        (SENDS, "X:kraft.inbound:_is_complete:relation:1", "waits-for-news"),
        (
            SENDS,
            "X:broker.replication.fetch_sessions:Fetching.is_empty:negation:0",
            "waits-for-news",
        ),
        (CUT_MOVE, "X:log.data.log_manager:LogManager.open:never:1", "start-finds"),
        (ROLLED, "X:log.data.data_segment:DataSegment.indexes_plausible:truth:0", "start-finds"),
        (
            SNAPSHOTS,
            "X:controller.metadata.snapshot_generator:SnapshotGenerator.on_commit:left-out:0",
            "snapshot-made",
        ),
        (FENCED, "X:broker.replication.isr_manager:_answer_of:always:0", "changed-once"),
        (FENCED, None, None),
        (STALLED, "X:kraft.inbound:InboundRequests._vote:left-out:2", "answered-in-time"),
        (STALLED, None, None),
        (SENDS, None, None),
        (KILLED, None, None),
        (GIVEN_UP, None, None),
        (MOVED, None, None),
        (CUT_MOVE, None, None),
        (WATCHED, None, None),
        (
            LOST_AT_START,
            "X:log.data.log_directory:LogDirectory.open:left-out:1",
            "directory-opened",
        ),
        (
            KILLED_BROKER,
            "X:log.storage.epoch_cache:LeaderEpochCache.encode:left-out:0",
            "epochs-saved",
        ),
        (STOPPED_TWICE, f"{_RECOVERY}._remove_strays:left-out:0", "directory-opened"),
        (SYNCED, "X:log.data.data_segment:DataSegment.close_times:left-out:1", "point-durable"),
        (KILLED_BROKER, f"{_RECOVERY}.open:always:8", "point-durable"),
        (STOPPED_BROKER, f"{_RECOVERY}._check_order:relation:0", "directory-lost"),
        (ROLLED, "X:log.data.data_files:DataFiles._roll:left-out:0", "segment-indexed"),
        (ROLLED, f"{_RECOVERY}._scan_all:negation:1", "segment-indexed"),
        (ROLLED, "X:log.data.data_segment:DataSegment.note_times:left-out:1", "segment-indexed"),
        (ROLLED, "X:log.data.data_files:DataFiles._on_flush:extreme:0", "point-durable"),
        (SNAPSHOTS, "X:log.metadata.log:Log._start_flush:never:1", "point-durable"),
        (QUICK, "X:log.metadata.log:Log._start_flush:left-out:2", "epochs-saved"),
        (
            KILLED_BROKER,
            "X:log.data.log_directory:LogDirectory._open:left-out:3",
            "checkpoints-heeded",
        ),
        (KILLED_BROKER, f"{_RECOVERY}._scan:left-out:8", "producers-in-log"),
        (KILLED_BROKER, "K15375", "clean-ends"),
        (
            STOPPED_BROKER,
            "X:log.data.log_directory:LogDirectory.read_mark:left-out:0",
            "clean-ends",
        ),
        (
            QUICK,
            "X:broker.replication.replica_fetcher:ReplicaFetcher._on_answer:never:5",
            "fetched-written",
        ),
        (LOST_AT_START, None, None),
        (KILLED_BROKER, None, None),
        (STOPPED_BROKER, None, None),
        (STOPPED_TWICE, None, None),
        (DEPOSED, "X:kraft.core:RaftCore._move:relation:1", "fetch-answered"),
        (DEPOSED, None, None),
        (SYNCED, None, None),
        (ROLLED, None, None),
    ],
)
def test_worlds_find_what_is_not_done_and_accuse_no_correct_node(document, mutant, found):
    assert found_in(document, mutant, found) == found

"""What is seen of nodes, where a right one comes close to what a wrong one shows."""

from types import SimpleNamespace

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.batch.records import Record, encode_batch
from cluster.node.log.metadata.log import Log, LogConfig
from cluster.node.log.types import OffsetAndEpoch
from harness.sim.sights.images import _has_grown
from harness.sim.sights.partitions import _common_end
from harness.sim.sights.starts import _is_cut_to_start


@pytest.mark.parametrize(
    ("cut", "bases", "expected"), [(3, [0, 3], True), (3, [0], True), (4, [0, 4], False)]
)
def test_a_segment_below_the_start_is_left_where_the_log_ends_at_its_start(cut, bases, expected):
    log = Log.open(MemoryDisk(Scheduler().call_later), "log-0", LogConfig(), lambda _: None)
    for offset in range(5):
        log.append(encode_batch(offset, 1, [Record(b"v")], 1))
    log.delete_before(3)
    log.truncate_to(cut)
    if len(bases) > 1:
        log._roll()
    assert [each.base_offset for each in log._segments] == bases
    seen = SimpleNamespace(_log=log, start_offset=log.start_offset, end_offset=log.end_offset)
    assert _is_cut_to_start(seen) is expected


@pytest.mark.parametrize(("before", "expected"), [(1, 6), (2, 1)])
def test_a_leader_commits_by_itself_what_its_isr_holds_but_for_a_setting(before, expected):
    alone = SimpleNamespace(
        min_insync_replicas=1,
        change_in_flight=False,
        is_under_min_isr=False,
        high_watermark=1,
        log=SimpleNamespace(end_offset=6, written_end_offset=6),
        followers={},
        isr=(1,),
        lag_time_max_ms=100.0,
    )
    assert _common_end(alone, 0.0, before) == expected


@pytest.mark.parametrize(("writing", "expected"), [((), True), ((OffsetAndEpoch(9, 1),), False)])
def test_a_log_grows_since_the_last_snapshot_that_was_begun(writing, expected):
    segments = [SimpleNamespace(base_offset=at, size_bytes=300) for at in (0, 4, 9, 12)]
    log = SimpleNamespace(
        size_bytes=1_200,
        high_watermark=12,
        snapshots=SimpleNamespace(ids=(), _writing=writing),
        _log=SimpleNamespace(_segments=segments),
    )
    snapshots = SimpleNamespace(_max_bytes=300)
    node = SimpleNamespace(
        raft=SimpleNamespace(_core=SimpleNamespace(log=log)),
        controller=SimpleNamespace(_snapshots=snapshots),
    )
    assert _has_grown(node) is expected

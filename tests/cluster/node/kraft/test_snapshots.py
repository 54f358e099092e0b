"""Snapshots of the metadata log: made, served, loaded, cleaned, and what crashes do to them."""

import dataclasses
from random import Random

import pytest

from cluster import mutants
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.replicated_log import Validity
from cluster.node.kraft.types import IllegalStateError
from cluster.node.log.metadata.snapshot import CorruptSnapshotError
from cluster.node.log.storage.recovery import CorruptLogError
from cluster.node.log.types import OffsetAndEpoch
from tests.cluster.node.kraft.world import DIRECTORY, World


def snapshot(world, node, offset=None, epoch=None):
    """Let a node's state machine snapshot what it was given; returns the id."""
    offset = node.listener.next_offset if offset is None else offset
    epoch = node.log._log.epochs.epoch_at(offset - 1) if epoch is None else epoch
    snapshot_id = OffsetAndEpoch(offset, epoch)
    writer = node.client.create_snapshot(snapshot_id, 1_700_000_000_000)
    if writer is not None:
        for at, value in node.listener.values:
            if at < offset:
                writer.append([b"%d:%s" % (at, value)])
        writer.freeze()
        assert world.scheduler.run_until(lambda: snapshot_id in node.log.snapshots, 1_000)
    return snapshot_id


def shorten(world, node):
    """Snapshot, and let the log begin there."""
    snapshot_id = snapshot(world, node)
    assert node.log.delete_before_snapshot(snapshot_id, world.scheduler.now_ms)
    return snapshot_id


def quorum(count=3, **settings):
    world = World(count, segment_bytes=300, **settings).start()
    world.settle(10)
    world.stand(world.nodes[1])  # a second of waiting for the time-out would be most of a test
    leader = world.elect()
    for number in range(20):
        world.commit(leader, f"value{number}")
    world.settle()
    return world, leader, [n for n in world.voter_nodes if n is not leader]


def wipe(node):
    """Give a stopped node an empty disk."""
    for path in list(node.disk.files()):
        node.disk.remove(path)
    node.disk.sync_directory(DIRECTORY, lambda _: None)
    node.world.settle(10)


def agrees(world, node, other):
    return world.scheduler.run_until(
        lambda: (
            node.listener is not None
            and node.listener.next_offset == other.listener.next_offset
            and node.listener.values == other.listener.values
        ),
        20_000,
    )


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "reason"),
    [(1, 0, "above the high watermark"), (0, 1, "not in this log"), (-1, 0, "within a batch")],
)
def test_a_snapshot_of_what_has_no_end_here_is_refused(offset, epoch, reason):
    world, leader, _ = quorum()
    world.commit(leader, "a", "b", "c")
    end = leader.log.end
    with pytest.raises(ValueError, match=reason):
        leader.client.create_snapshot(OffsetAndEpoch(end.offset + offset, end.epoch + epoch), 0)


def test_a_snapshot_exists_once_and_none_is_made_below_the_log_start():
    world, leader, _ = quorum()
    snapshot_id = shorten(world, leader)
    assert leader.client.create_snapshot(snapshot_id, 0) is None
    assert leader.client.create_snapshot(OffsetAndEpoch(1, snapshot_id.epoch), 0) is None


def test_positions_that_the_log_no_longer_reaches_need_a_snapshot():
    world, leader, _ = quorum()
    snapshot_id = shorten(world, leader)
    start, epoch = snapshot_id.offset, snapshot_id.epoch
    world.commit(leader, "more")
    needs = (Validity.SNAPSHOT, snapshot_id)
    assert leader.log.validate(0, 0) == needs
    assert leader.log.validate(start - 1, epoch) == needs
    assert leader.log.validate(start, epoch - 1) == needs
    assert leader.log.validate(start + 1, epoch - 1) == needs
    assert leader.log.validate(start, epoch)[0] is Validity.VALID
    assert leader.log.validate(start + 1, epoch)[0] is Validity.VALID
    assert leader.log.validate(start + 2, epoch)[0] is Validity.DIVERGING


# -- FetchSnapshot --------------------------------------------------------------------------------


def ask(leader, **changes):
    snapshot_id = leader.log.latest_snapshot_id or OffsetAndEpoch(0, 0)
    request = FetchSnapshotRequest(
        "cluster", 2, leader.world.nodes[2].client._core.config.directory_id,
        leader.state.epoch, snapshot_id, 0, 100,
    )  # fmt: skip
    answers = []
    leader.client.handle(dataclasses.replace(request, **changes), answers.append)
    [answer] = answers
    assert isinstance(answer, FetchSnapshotResponse)
    return answer


def test_pieces_make_the_snapshot():
    world, leader, _ = quorum()
    snapshot_id = snapshot(world, leader)
    data, size = b"", None
    while size is None or len(data) < size:
        answer = ask(leader, position=len(data))
        assert (answer.error, answer.position) == (ErrorCode.none, len(data))
        data, size = data + answer.records, answer.size
    assert data == leader.log.read_snapshot(snapshot_id).data


@pytest.mark.parametrize("piece_bytes", [50, 1 << 20])
def test_a_wiped_follower_loads_a_snapshot_and_goes_on(piece_bytes):
    world, leader, (follower, _) = quorum(fetch_snapshot_max_bytes=piece_bytes)
    follower.crash("nothing")
    snapshot_id = shorten(world, leader)
    wipe(follower)
    world.commit(leader, "later")
    follower.start()
    assert agrees(world, follower, leader)
    assert follower.listener.loaded == [snapshot_id]
    assert follower.log.start_offset == snapshot_id.offset
    asked = [e["position"] for e in follower.events("fetch-snapshot")]
    assert asked == sorted(set(asked))
    assert (len(asked) > 3) == (piece_bytes == 50)


@pytest.mark.slow
def test_a_follower_that_lags_below_the_log_start_loads_a_snapshot():
    world, leader, (follower, _) = quorum()
    world.network.isolate(follower.node_id, world.ids)
    for number in range(10):
        world.commit(leader, f"unseen{number}")
    snapshot_id = shorten(world, leader)
    world.network.heal()
    assert agrees(world, follower, leader)
    assert (follower.listener.loaded, follower.log.start_offset) == (
        [snapshot_id],
        snapshot_id.offset,
    )
    world.settle()
    assert follower.log.end_offset == leader.log.end_offset


def downloading():
    """A world, its leader, and a follower that has some pieces of a snapshot."""
    world, leader, (follower, _) = quorum(fetch_snapshot_max_bytes=60)
    world.network.isolate(follower.node_id, world.ids)
    world.keep_still(follower)
    world.commit(leader, "unseen")
    shorten(world, leader)
    world.network.heal()
    assert world.scheduler.run_until(lambda: len(follower.events("fetch-snapshot")) >= 5, 5_000)
    return world, leader, follower


def test_a_download_goes_on_where_it_was_cut():
    world, leader, follower = downloading()
    before = len(follower.events("fetch-snapshot"))
    world.network.isolate(follower.node_id, world.ids)
    assert world.scheduler.run_until(lambda: follower.state.name == "Prospective", 9_000)
    world.network.heal()
    assert agrees(world, follower, leader)
    resumed = [e["position"] for e in follower.events("fetch-snapshot")[before:]]
    assert min(resumed) >= 60, "it began again"


def test_a_replica_that_is_asked_again_to_load_goes_on_and_another_snapshot_takes_its_place():
    world, leader, follower = downloading()
    core, state = follower.client._core, follower.state
    loading = core.download
    assert loading.size_bytes > 0
    fetch = follower.client._roles._outbound._snapshots
    fetch.begin(state, loading.id)  # a bootstrap server, the leader itself, answered a Fetch
    assert core.download is loading
    newer = OffsetAndEpoch(loading.id.offset + 1, loading.id.epoch)
    fetch.begin(state, newer)
    assert core.download.id == newer
    assert core.download.size_bytes == 0
    assert agrees(world, follower, leader), "the leader has no such snapshot, and says which"
    assert [n for n in follower.disk.list_directory(DIRECTORY) if n.endswith(".part")] == []


def test_another_leader_continues_to_serve_a_replica_that_was_loading():
    world, leader, (follower, other) = quorum(fetch_snapshot_max_bytes=3)
    world.network.isolate(follower.node_id, world.ids)
    world.commit(leader, "unseen")
    world.settle(600)
    for node in (leader, other):
        shorten(world, node)
    world.network.heal()
    assert world.scheduler.run_until(lambda: len(follower.events("fetch-snapshot")) >= 3, 9_000)
    leader.crash("nothing")
    assert world.scheduler.run_until(lambda: isinstance(other.state, Leader), 30_000)
    leader.start()
    assert agrees(world, follower, other)
    assert agrees(world, leader, other)
    parts = [n for n in follower.disk.list_directory(DIRECTORY) if n.endswith(".part")]
    assert parts == []


def test_a_snapshot_that_is_deleted_while_it_is_loaded_is_given_up_for_the_next():
    world, leader, (follower, _) = quorum(fetch_snapshot_max_bytes=3)
    follower.crash("nothing")
    shorten(world, leader)
    wipe(follower)
    follower.start()
    assert world.scheduler.run_until(lambda: len(follower.events("fetch-snapshot")) >= 3, 9_000)
    world.commit(leader, "newer")
    newer = shorten(world, leader)
    assert agrees(world, follower, leader)
    assert follower.listener.loaded == [newer]


def test_a_damaged_download_is_loaded_again():
    world, leader, (follower, _) = quorum()
    follower.crash("nothing")
    snapshot_id = shorten(world, leader)
    wipe(follower)
    true_slice, damaged = leader.log.snapshots.read_slice, []

    def read_slice(*arguments):
        data = true_slice(*arguments)
        if not damaged:
            damaged.append(True)
            data = data[:-1] + bytes([data[-1] ^ 1])
        return data

    leader.log.snapshots.read_slice = read_slice
    follower.start()
    assert agrees(world, follower, leader)
    assert follower.events("corrupt-fetch")
    assert follower.listener.loaded == [snapshot_id]


@pytest.mark.slow
def test_fetching_a_snapshot_keeps_a_leader_in_office():
    world, leader, (follower, other) = quorum(fetch_snapshot_max_bytes=1)
    follower.crash("nothing")
    shorten(world, leader)
    wipe(follower)
    epoch = leader.state.epoch
    other.crash("nothing")
    follower.start()
    world.settle(20_000)
    assert isinstance(follower.state, Follower)
    assert (leader.state.epoch, isinstance(leader.state, Leader)) == (epoch, True)


# -- restarts -------------------------------------------------------------------------------------


def test_a_restarted_node_with_several_snapshots_loads_the_latest():
    world, leader, (follower, _) = quorum()
    shorten(world, follower)
    world.commit(leader, "between")
    world.settle(100)
    latest = snapshot(world, follower)
    world.commit(leader, "after")
    follower.crash("everything")
    follower.start()
    assert len(follower.log.snapshots.ids) == 2
    assert agrees(world, follower, leader)
    assert follower.listener.loaded == [latest]
    with pytest.raises(IllegalStateError):
        follower.log.truncate_to_end_offset(OffsetAndEpoch(latest.offset - 1, latest.epoch))


def test_a_log_that_begins_above_zero_needs_its_snapshot():
    world, _, (follower, _) = quorum()
    snapshot_id = shorten(world, follower)
    world.settle()
    follower.crash("everything")
    name = f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
    follower.disk.remove(f"{DIRECTORY}/{name}")
    world.settle(10)
    with pytest.raises(CorruptSnapshotError, match="no snapshot holds"):
        follower.start()


def test_a_damaged_snapshot_is_not_started_from():
    world, _, (follower, _) = quorum()
    snapshot_id = shorten(world, follower)
    world.settle()
    follower.crash("everything")
    name = f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
    follower.disk.corrupt(f"{DIRECTORY}/{name}", 80, 1)
    with pytest.raises(CorruptLogError, match=name):
        follower.start()


def test_unfinished_deleted_and_outdated_files_are_removed_at_the_start():
    world, leader, (follower, _) = quorum()
    snapshot_id = shorten(world, follower)
    world.settle()
    follower.crash("everything")
    for name in (
        "00000000000000000009-0000000001.checkpoint.part",
        "00000000000000000007-0000000001.checkpoint.deleted",
        "00000000000000000003-0000000001.checkpoint",
    ):
        follower.disk.write(f"{DIRECTORY}/{name}", b"x")
    follower.start()
    world.settle()
    names = [n for n in follower.disk.list_directory(DIRECTORY) if "checkpoint" in n]
    kept = f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
    assert [n for n in names if n[0].isdigit()] == [kept]
    assert agrees(world, follower, leader)


class PowerCut:
    """Cuts a node's power when its disk was asked for so many operations."""

    def __init__(self, node, count, keep):
        self.node, self.left, self.keep, self.done = node, count, keep, False

    def __call__(self):
        self.left -= 1
        if self.left < 0 and not self.done:
            self.done = True
            self.node.client = None
            self.node.world.network.handlers.pop(self.node.node_id, None)
            self.node.disk.power_off(Random(self.left), self.keep)


def cut_everywhere(act, keep, **settings):
    """Run `act(world, node, leader)` with a cut at its first, second, ... disk operation.

    After each: the node starts again and comes to agree with the leader.
    """
    operation, cut_happened = 0, True
    while cut_happened:
        world, leader, (node, _) = quorum(**settings)
        prepare = act(world, node, leader)
        cut = node.disk.on_operation = PowerCut(node, operation, keep)
        prepare()
        world.settle(50)
        world.commit(leader, "after")
        world.settle(3_000)
        cut_happened = cut.done
        if cut_happened:
            node.disk.on_operation = None
            node.disk.power_on()
            before = leader.log.high_watermark
            node.start()
            assert agrees(world, node, leader), f"operation {operation}"
            assert world.leader().log.high_watermark >= before
            epochs = node.log._log.epochs
            for snapshot_id in node.log.snapshots.ids:
                node.log.read_snapshot(snapshot_id)
                assert snapshot_id.offset >= node.log.start_offset
                assert epochs.epoch_at(snapshot_id.offset - 1) in (None, snapshot_id.epoch)
            if node.log.start_offset:
                assert node.log.snapshots.earliest.offset == node.log.start_offset
        operation += 1
        assert operation < 400, "it never ends"
    return operation


KEEPS = pytest.mark.parametrize("keep", ["nothing", "any", "everything"])


@pytest.mark.slow
@KEEPS
def test_power_may_fail_at_every_operation_of_a_snapshot(keep):
    assert cut_everywhere(make_a_snapshot, keep) > 20


@pytest.mark.slow
@KEEPS
def test_power_may_fail_at_every_operation_of_a_deletion_below_a_snapshot(keep):
    def act(world, node, _):
        snapshot_id = snapshot(world, node)
        return lambda: node.log.delete_before_snapshot(snapshot_id, world.scheduler.now_ms)

    assert cut_everywhere(act, keep) > 8


@pytest.mark.slow
@KEEPS
def test_power_may_fail_at_every_operation_of_a_download(keep):
    def act(world, node, leader):
        world.network.isolate(node.node_id, world.ids)
        for number in range(3):
            world.commit(leader, f"unseen{number}")
        shorten(world, leader)
        return world.network.heal

    assert cut_everywhere(act, keep, fetch_snapshot_max_bytes=700) > 12


# -- mutants --------------------------------------------------------------------------------------


def make_a_snapshot(world, node, _):
    def prepare():
        writer = node.client.create_snapshot(
            OffsetAndEpoch(node.listener.next_offset, node.log.last_fetched_epoch), 1
        )
        for at, value in node.listener.values:
            writer.append([b"%d:%s" % (at, value)])
        writer.freeze()

    return prepare


@pytest.mark.slow
def test_a_rename_before_the_sync_is_found_by_a_power_cut():
    with mutants.apply_mutant("M27"), pytest.raises(CorruptSnapshotError):
        cut_everywhere(make_a_snapshot, "nothing")


# -- the cleaner ----------------------------------------------------------------------------------


def test_the_cleaner_keeps_the_last_snapshot_and_what_follows_the_next():
    world, leader, _ = quorum(metadata_max_retention_bytes=1)
    first = snapshot(world, leader)
    world.settle(61_000)
    assert leader.log.snapshots.ids == (first,)
    assert leader.log.start_offset == 0
    world.commit(leader, "more")
    second = snapshot(world, leader)
    world.settle(61_000)
    assert leader.log.snapshots.ids == (second,)
    assert leader.log.start_offset == second.offset
    assert any(n.endswith(".deleted") for n in leader.disk.list_directory(DIRECTORY))
    world.settle(121_000)
    assert not any(n.endswith(".deleted") for n in leader.disk.list_directory(DIRECTORY))


def test_snapshots_go_when_they_are_too_old():
    world, leader, _ = quorum(metadata_max_retention_ms=100_000)
    snapshot(world, leader)
    world.commit(leader, "more")
    second = snapshot(world, leader)
    world.settle(70_000)
    assert len(leader.log.snapshots.ids) == 2
    world.settle(120_000)
    assert leader.log.snapshots.ids == (second,)


@pytest.mark.parametrize(
    "retention", [{}, {"metadata_max_retention_bytes": -1, "metadata_max_retention_ms": -1}]
)
def test_snapshots_stay_within_the_retention(retention):
    world, leader, _ = quorum(**retention)
    snapshot(world, leader)
    world.commit(leader, "more")
    snapshot(world, leader)
    world.settle(130_000)
    assert len(leader.log.snapshots.ids) == 2
    assert leader.log.start_offset == 0

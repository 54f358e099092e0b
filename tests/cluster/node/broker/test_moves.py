"""Replicas that move from one log directory of their broker to the other, and what may interfere."""

import pytest

from cluster.node.broker.replication.alter_log_dirs import ReplicaAlterLogDirsManager, _disagreement
from cluster.node.broker.serving.log_dirs import describe_log_dirs
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import DescribeLogDirsRequest
from tests.cluster.node.broker.cluster_of_brokers import (
    TWO_DIRECTORIES,
    Brokers,
    move_replicas,
    values_in,
)
from tests.harness.sim.hooks import Nth

SMALL_STEPS = {**TWO_DIRECTORIES, "replica.fetch.max.bytes": 200}
ERROR = OSError(5, "Input/output error")


def rows(results):
    return [
        (directory.log_dir, row.is_future_key, row.offset_lag)
        for directory in results
        for topic in directory.topics
        for row in topic.partitions
    ]


class Moves(Brokers):
    """Three brokers with two directories each, and topic t on all of them."""

    def __init__(self, records=0, **options):
        super().__init__(settings=SMALL_STEPS, **options)
        self.acknowledged = []
        self.create(min_insync_replicas=2)
        self.home = self.directory(1)
        (self.other,) = [each for each in self.directories(1) if each is not self.home]
        for number in range(records):
            self.write(1, b"%d" % number)

    def directories(self, broker):
        return self.node(broker).replicas.logs.directories

    def directory(self, broker):
        return self.node(broker).replicas.logs.holder(self.replica(broker).at)

    def write(self, broker, value):
        """Produce, and remember what was acknowledged."""
        replies = self.send(broker, value)
        assert self.until(lambda: replies)
        if replies[0].partitions[0].error is ErrorCode.none:
            self.acknowledged.append(value)

    def alter(self, path, name="t", index=0):
        request = move_replicas(path, (name, index))
        return self.answer(1, request).results[0].partitions[0].error_code

    def described(self):
        """Describe what broker 1 has of t: path, whether it is the future one, and its lag."""
        return rows(self.answer(1, DescribeLogDirsRequest(topics=None)).results)

    def recorded(self, broker=1):
        partition = self.partition()
        return partition.directories[partition.replicas.index(broker)]

    def has_moved(self):
        if self.node(1) is None or self.replica(1) is None:
            return False
        at_other = self.directory(1).path == self.other.path
        return at_other and self.recorded() == self.other.directory_id

    def restart(self):
        self.world.start("n1")
        assert self.until(lambda: self.node(1) is not None and self.replica(1) is not None)

    def check(self):
        """Every replica has what was acknowledged, in order, once."""
        assert self.until(lambda: set(self.partition().isr) == {1, 2, 3}, 60_000)
        leader = self.partition().leader
        assert self.until(lambda: self.replica(leader).partition.leads)
        end = self.replica(leader).log.end_offset
        assert self.until(
            lambda: all(
                self.replica(broker).partition.high_watermark == end for broker in (1, 2, 3)
            )
        )
        for broker in (1, 2, 3):
            assert self.stored(broker) == self.stored(leader)
        found = iter(self.stored(leader))
        assert all(value in found for value in self.acknowledged)
        assert self.world.deaths == []

    def stored(self, broker):
        log = self.replica(broker).log
        batches = log.batches_from(log.start_offset, log.end_offset)
        return values_in(b"".join(batch for _, batch in batches))

    def future_end(self):
        holder = self.node(1).replicas.logs.future_holder(self.replica(1).at)
        return -1 if holder is None else holder.future_logs[self.replica(1).at].end_offset

    def folders(self, broker=1):
        """The folders of t in the two directories."""
        disks = self.world.nodes[f"n{broker}"].disks.values()
        return [
            sorted({path.partition("/")[0] for path in disk.files() if path.startswith("t-0")})
            for disk in disks
        ]


@pytest.mark.slow
def test_a_replica_moves_and_nothing_is_left_behind():
    moves = Moves(records=5)
    assert moves.home.path != moves.other.path
    assert moves.alter(moves.other.path) is ErrorCode.none
    assert moves.until(moves.has_moved)
    moves.write(1, b"after")
    moves.run(100_000)
    assert sorted(moves.folders()) == [[], ["t-0"]]
    assert moves.described() == [(moves.other.path, False, 0)]
    moves.check()


def test_a_leader_that_moves_before_its_first_record_knows_its_epoch():
    moves = Moves()
    assert moves.alter(moves.other.path) is ErrorCode.none
    assert moves.until(moves.has_moved)
    replica = moves.replica(1)
    assert replica.partition.leads
    assert replica.log.epochs.latest_epoch == replica.partition.leader_epoch
    moves.write(1, b"first")
    moves.check()


def test_a_move_that_is_poked_by_its_own_step_takes_over_once(monkeypatch):
    """`sim --seed 89000079`: what is copied begins later, by retention, which pokes the move."""
    moves = Moves(records=5)
    renamed = []
    moves.node(1).replicas.moves._finish_rename = renamed.append
    assert moves.alter(moves.other.path) is ErrorCode.none
    assert moves.until(lambda: renamed)
    moves.write(1, b"more than was copied")
    moves.world.kill("n1", "written")
    copy = ReplicaAlterLogDirsManager._copy

    def copy_and_poke(manager, move):
        has_copied = copy(manager, move)
        if has_copied:
            manager.poke(move.replica.key)
        return has_copied

    monkeypatch.setattr(ReplicaAlterLogDirsManager, "_copy", copy_and_poke)
    moves.restart()
    assert moves.until(moves.has_moved)
    moves.check()


def test_the_future_replica_is_described_with_its_lag():
    moves = Moves(records=20)
    manager = moves.node(1).replicas
    manager.moves.begin(moves.replica(1), moves.other)
    assert sorted(
        rows(describe_log_dirs(manager, DescribeLogDirsRequest(topics=None)).results)
    ) == [*sorted([(moves.home.path, False, 0), (moves.other.path, True, 20)])]
    assert moves.until(lambda: moves.described() == [(moves.other.path, False, 0)])


def test_a_leader_moves_while_it_is_written_to():
    moves = Moves(records=10)
    moves.alter(moves.other.path)
    for number in range(100):
        moves.write(1, b"during %d" % number)
        if moves.has_moved():
            break
    assert moves.until(moves.has_moved)
    moves.write(1, b"after")
    moves.check()


def test_a_move_survives_a_restart_of_the_broker():
    moves = Moves(records=5)
    moves.alter(moves.other.path)
    assert moves.until(moves.has_moved)
    moves.restart_in_order(1)
    assert moves.until(moves.has_moved)
    moves.check()


@pytest.mark.parametrize("keep", ["written", "nothing"])
@pytest.mark.parametrize("after_ms", [2, 20, 110, 120, 135, 150, 200])
def test_a_crash_in_the_middle_of_a_move_loses_nothing_and_the_move_goes_on(keep, after_ms):
    moves = Moves(records=12)
    moves.alter(moves.other.path)
    moves.run(after_ms)
    moves.world.kill("n1", keep)
    moves.write(2, b"meanwhile")
    moves.restart()
    moves.check()
    assert moves.node(1).replicas.logs.has_offline is False


@pytest.mark.slow
@pytest.mark.parametrize("is_target", [True, False])
def test_a_crash_at_any_change_of_a_disk_around_the_swap_loses_nothing(is_target):
    for number in range(1, 40, 3):
        moves = Moves(records=2)
        moves.alter(moves.other.path)
        path = moves.other.path if is_target else moves.home.path
        disk = moves.world.nodes["n1"].disks[path]
        disk.on_operation = Nth(number, lambda moves=moves: moves.world.kill("n1", "written"))
        node = moves.world.nodes["n1"]
        moves.until(lambda node=node, moves=moves: not node.process.alive or moves.has_moved())
        disk.on_operation = None
        if node.process.alive:
            moves.world.kill("n1", "written")
        moves.restart()
        moves.write(moves.partition().leader, b"after")
        moves.check()


def test_a_log_that_is_cut_meanwhile_takes_the_future_log_along():
    moves = Moves(records=20)
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 10)
    replica = moves.replica(1)
    # As a new leader would have it: records that the others never had are gone.
    replica.truncate(5)
    replica.log.initialize_leader_epoch(7)
    moves.run(2)
    assert moves.future_end() <= 5


def test_a_log_that_is_cut_to_nothing_takes_the_future_log_along():
    moves = Moves(records=20)
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 10)
    log, holder = moves.replica(1).log, moves.node(1).replicas.logs.future_holder
    log.truncate_to(0)
    assert log.epochs.latest_epoch is None
    future = holder(moves.replica(1).at).future_logs[moves.replica(1).at]
    assert _disagreement(log, future) == 0


def test_moves_go_on_through_changes_of_leaders():
    moves = Moves(records=10)
    moves.alter(moves.other.path)
    for round_ in range(3):
        moves.run(30)
        killed = (2, 1, 3)[round_]
        moves.world.kill(f"n{killed}", "written")
        assert moves.until(
            lambda killed=killed: moves.partition().leader not in (-1, killed), 30_000
        )
        leader = moves.partition().leader
        assert moves.until(lambda leader=leader: moves.replica(leader).partition.leads)
        moves.write(leader, b"round %d" % round_)
        moves.world.start(f"n{killed}")
        assert moves.until(lambda: set(moves.partition().isr) == {1, 2, 3}, 60_000)
    assert moves.until(moves.has_moved, 30_000)
    moves.check()


def test_a_move_whose_target_goes_offline_leaves_the_replica_where_it_is():
    moves = Moves(records=20)
    # The directory of the metadata is not to be lost: the replica moves out of it.
    if moves.home.path.endswith("log-2"):
        moves.alter(moves.other.path)
        assert moves.until(moves.has_moved)
        moves.home, moves.other = moves.other, moves.home
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 0)
    moves.other.on_failure(ERROR)
    moves.write(1, b"after")
    moves.run(3_000)
    assert moves.directory(1) is moves.home
    assert moves.recorded() == moves.home.directory_id
    assert moves.alter(moves.other.path) is ErrorCode.kafka_storage_error
    moves.check()


def test_a_move_whose_source_goes_offline_leaves_nothing_to_serve():
    moves = Moves(records=20)
    if not moves.home.path.endswith("log-2"):
        moves.alter(moves.other.path)
        assert moves.until(moves.has_moved)
        moves.home, moves.other = moves.other, moves.home
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 0)
    moves.home.on_failure(ERROR)
    assert moves.fetch(1).error is ErrorCode.kafka_storage_error
    assert moves.until(lambda: 1 not in moves.partition().isr)
    assert moves.until(lambda: moves.recorded() == moves.home.directory_id)


def test_a_move_back_ends_the_move():
    moves = Moves(records=20)
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 0)
    assert moves.alter(moves.home.path) is ErrorCode.none
    assert [(path, future) for path, future, _ in moves.described()] == [(moves.home.path, False)]
    moves.run(1_000)
    assert moves.directory(1) is moves.home
    assert moves.until(lambda: moves.recorded() == moves.home.directory_id)
    moves.check()


@pytest.mark.slow
def test_a_topic_that_is_deleted_meanwhile_leaves_nothing():
    moves = Moves(records=20)
    moves.alter(moves.other.path)
    assert moves.until(lambda: moves.future_end() > 0)
    moves.delete()
    assert moves.until(lambda: moves.replica(1) is None)
    moves.run(100_000)
    assert moves.folders() == [[], []]
    assert moves.world.deaths == []


def test_what_cannot_be_moved_is_refused():
    moves = Moves()
    assert moves.alter("/nowhere") is ErrorCode.log_dir_not_found
    assert moves.alter(moves.home.path) is ErrorCode.none
    assert moves.alter(moves.other.path, name="nothing") is ErrorCode.unknown_topic_or_partition
    assert moves.alter(moves.other.path, name="x" * 230) is ErrorCode.invalid_topic_exception
    moves.create("elsewhere", (2, 3))
    assert moves.alter(moves.other.path, name="elsewhere") is ErrorCode.replica_not_available

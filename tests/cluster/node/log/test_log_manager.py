"""Several log directories on simulated disks: what goes where, and what a crash leaves."""

import uuid
from random import Random

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.data.data_config import DataLogConfig, StorageError
from cluster.node.log.data.directory_checkpoints import CLEAN_SHUTDOWN_FILE
from cluster.node.log.data.log_manager import LogDir, LogDirs, LogManager
from cluster.node.log.storage.checkpoint import TopicPartition
from tests.cluster.node.log.data_helpers import NOW_MS, TOPIC_ID, TestClock, batch

IDS = (uuid.UUID(int=1_001), uuid.UUID(int=1_002), uuid.UUID(int=1_003))
UNASSIGNED = uuid.UUID(int=0)
LOST = uuid.UUID(int=1)
EPOCH = 7


def at(number):
    return TopicPartition("topic", number)


class Directories:
    """Disks that outlive the managers of their logs."""

    def __init__(self, count=2):
        self.steps = Scheduler()
        self.disks = [MemoryDisk(self.steps.call_later) for _ in range(count)]
        self.assigned = {}
        self.failed = []

    def start(self, *, without=()):
        """Open all directories but those `without`, which are offline from the start."""
        self.clock = TestClock()
        self.failed.clear()
        found = tuple(
            LogDir(f"/{index}", IDS[index], disk)
            for index, disk in enumerate(self.disks)
            if index not in without
        )
        manager = LogManager(
            LogDirs(found, tuple(f"/{index}" for index in without)),
            self.clock,
            Random(1),
            lambda _: DataLogConfig(),
            lambda directory, damage: self.failed.append((directory.path, damage)),
            lambda _: None,
        )
        manager.read_marks()
        self.previous_epoch = manager.previous_broker_epoch
        removed = []
        manager.remove_marks(lambda: removed.append(True))
        self.steps.run()
        assert removed
        manager.open(self.assigned.get)
        return manager

    def close(self, manager):
        done = []
        manager.close(EPOCH, lambda: done.append(True))
        self.steps.run()
        assert done

    def kill(self):
        for disk in self.disks:
            disk.crash(Random(1), "written")


def append(log, *values, epoch=0):
    log.append_as_leader(batch(*values, timestamp_ms=NOW_MS), epoch)


def create(manager, number, assigned=UNASSIGNED):
    directory = manager.directory_for(at(number), assigned)
    return directory, directory.create(at(number), TOPIC_ID)


def test_new_logs_go_where_the_fewest_are():
    manager = Directories(3).start()
    assert [create(manager, number)[0].path for number in range(7)] == [
        *("/0", "/1", "/2"),
        *("/0", "/1", "/2"),
        "/0",
    ]


def test_a_creation_reads_no_other_log():
    class Logs(dict):
        def __iter__(self):
            raise AssertionError("10,000 partitions of one request would cost a square of them")

    manager = Directories(1).start()
    (directory,) = manager.directories
    directory.logs, directory.future_logs = Logs(), Logs()
    create(manager, 0)
    directory.create(at(1), TOPIC_ID, is_future=True)
    with pytest.raises(AssertionError, match="exists"):
        directory.create(at(1), TOPIC_ID)
    assert len(directory.logs) == len(directory.future_logs) == 1


def test_an_assigned_directory_comes_first_and_a_wish_before_it():
    manager = Directories(3).start()
    assert create(manager, 0, IDS[2])[0].path == "/2"
    manager.prefer(at(1), "/1")
    assert create(manager, 1, IDS[2])[0].path == "/1"
    assert create(manager, 2, uuid.UUID(int=9_999))[0].path == "/0"
    assert create(manager, 3, LOST)[0].path == "/0"


def test_a_log_that_is_there_is_used_wherever_it_is_assigned_to():
    manager = Directories().start()
    directory, _ = create(manager, 0, IDS[0])
    assert manager.directory_for(at(0), IDS[1]) is directory


def test_nothing_is_made_for_a_directory_that_is_offline():
    directories = Directories(3)
    manager = directories.start(without=(2,))
    with pytest.raises(StorageError):
        manager.directory_for(at(0), IDS[2])
    assert manager.directory_for(at(0), UNASSIGNED).path == "/0"
    assert manager.directory_for(at(0), LOST).path == "/0"
    assert manager.directory_for(at(0), IDS[1]).path == "/1"


def test_an_old_log_elsewhere_does_not_stand_for_that_of_an_offline_directory():
    manager = Directories().start()
    create(manager, 0, IDS[0])
    manager.directories[1].on_failure(OSError(5, "Input/output error"))
    with pytest.raises(StorageError):
        manager.directory_for(at(0), IDS[1])


def test_a_stop_in_order_is_known_only_if_every_directory_knows_of_it():
    directories = Directories()
    manager = directories.start()
    assert directories.previous_epoch is None
    directories.close(manager)
    manager = directories.start()
    assert directories.previous_epoch == EPOCH
    directories.close(manager)
    directories.disks[1].remove(CLEAN_SHUTDOWN_FILE)
    manager = directories.start()
    assert directories.previous_epoch is None
    directories.close(manager)
    directories.start(without=(1,))
    assert directories.previous_epoch is None


def test_a_directory_goes_offline_alone():
    directories = Directories()
    manager = directories.start()
    _, lost = create(manager, 0, IDS[0])
    _, kept = create(manager, 1, IDS[1])
    append(kept, b"a")
    manager.directories[0].on_failure(OSError(5, "Input/output error"))
    assert [path for path, _ in directories.failed] == ["/0"]
    assert manager.has_offline
    with pytest.raises(StorageError):
        append(lost, b"a")
    append(kept, b"b")
    assert kept.end_offset == 2
    assert manager.next_directory().path == "/1"


def test_what_waits_for_all_directories_does_not_wait_for_one_that_goes_offline():
    directories = Directories()
    manager = directories.start()
    _, log = create(manager, 0, IDS[0])
    append(log, b"a")
    directories.disks[0].stall()
    log.flush(lambda: None)
    done = []
    manager.when_written(lambda: done.append(True))
    directories.steps.run()
    assert not done
    manager.directories[0].on_failure(OSError(5, "Input/output error"))
    assert not done, "not within the call that met the damage"
    directories.clock.advance(1)
    assert done


class Moving:
    """A log of directory 0 with three records, and a future log in directory 1 that has some."""

    def __init__(self, copied, count=2):
        self.directories = Directories(count)
        self.directories.assigned[at(0)] = IDS[1]
        self.manager = self.directories.start()
        _, self.log = create(self.manager, 0, IDS[0])
        self.future = self.manager.directories[1].create(at(0), TOPIC_ID, is_future=True)
        for value in (b"a", b"b", b"c"):
            append(self.log, value)
        self.future.append_as_follower(self.log.read(0, 1 << 20, end_offset=copied))
        self.directories.steps.run()

    def rename(self):
        renamed = []
        self.manager.directories[1].rename_future(at(0), lambda: renamed.append(True))
        self.directories.steps.run()
        assert renamed

    def restart(self):
        self.directories.kill()
        manager = self.directories.start()
        self.directories.steps.run()
        assert not self.directories.failed
        return manager

    @property
    def folders(self):
        return [
            sorted({path.partition("/")[0] for path in disk.files() if path.startswith("topic")})
            for disk in self.directories.disks
        ]


def held(manager):
    """Where the log and the future log of partition 0 are, and where they end."""
    current, future = manager.holder(at(0)), manager.future_holder(at(0))
    return (
        current and (current.path, current.logs[at(0)].end_offset),
        future and (future.path, future.future_logs[at(0)].end_offset),
    )


def test_a_future_log_is_found_again():
    moving = Moving(copied=2)
    assert held(moving.restart()) == (("/0", 3), ("/1", 2))


@pytest.mark.parametrize(("assigned", "kept"), [(1, ("/1", 2)), (2, ("/2", 0))])
def test_of_two_future_logs_one_stays_where_the_replica_is_assigned(assigned, kept):
    moving = Moving(copied=2, count=3)
    moving.directories.assigned[at(0)] = IDS[assigned]
    moving.manager.directories[2].create(at(0), TOPIC_ID, is_future=True).flush(lambda: None)
    moving.directories.steps.run()
    manager = moving.restart()
    assert held(manager) == (("/0", 3), kept)
    futures = [at(0) in directory.future_logs for directory in manager.directories]
    assert sum(futures) == 1, "another move may go to the directory of the other"


def test_a_future_log_that_was_renamed_and_lacks_records_is_one_still():
    moving = Moving(copied=2)
    moving.rename()
    assert moving.folders == [["topic-0"], ["topic-0"]]
    assert held(moving.restart()) == (("/0", 3), ("/1", 2))


def test_a_future_log_that_was_renamed_and_has_all_takes_over():
    moving = Moving(copied=3)
    moving.rename()
    manager = moving.restart()
    assert held(manager) == (("/1", 3), None)
    assert [name.endswith("-delete") for name in moving.folders[0]] == [True]
    assert moving.folders[1] == ["topic-0"]


def test_a_future_log_that_is_deleted_amid_its_flush_is_not_renamed(monkeypatch):
    moving = Moving(copied=3)
    directory, renamed = moving.manager.directories[1], []
    save = directory.save_recovery_points

    def save_and_delete(done):  # its files are synced by then, the recovery points not yet
        monkeypatch.setattr(directory, "save_recovery_points", save)
        save(done)
        directory.delete(at(0))

    monkeypatch.setattr(directory, "save_recovery_points", save_and_delete)
    directory.rename_future(at(0), lambda: renamed.append(True))
    moving.directories.steps.run()
    assert not moving.directories.failed
    assert not renamed
    assert held(moving.restart()) == (("/0", 3), None)


def test_a_log_that_took_over_is_the_longer_one():
    moving = Moving(copied=3)
    moving.rename()
    moving.manager.directories[1].take_over(at(0))
    append(moving.future, b"d", epoch=1)
    moving.directories.steps.run()
    assert held(moving.restart()) == (("/1", 4), None)


@pytest.mark.parametrize(
    ("assigned", "found"), [(1, (("/1", 3), None)), (0, (None, ("/1", 3)))], ids=["there", "not"]
)
def test_a_future_log_without_the_one_that_it_copied_takes_over_if_it_is_assigned_there(
    assigned, found
):
    moving = Moving(copied=3)
    moving.directories.assigned[at(0)] = IDS[assigned]
    moving.directories.disks[0].power_off(Random(1))
    moving.directories.disks[0].wipe()
    moving.directories.disks[0].power_on()
    assert held(moving.restart()) == found


def test_a_future_log_alone_is_the_log_where_the_one_that_it_copied_had_no_record():
    directories = Directories()
    manager = directories.start()
    create(manager, 0, IDS[0])
    append(create(manager, 1, IDS[0])[1], b"a")
    manager.directories[1].create(at(0), TOPIC_ID, is_future=True).flush(lambda: None)
    directories.steps.run()
    directories.kill()
    manager = directories.start()
    assert held(manager) == (None, ("/1", 0))
    append(create(manager, 2, IDS[0])[1], b"a")
    assert manager.directory_for(at(0), UNASSIGNED).path == "/1"
    assert held(manager) == (("/1", 0), None)


def test_a_renamed_log_is_read_and_appended_to_under_its_new_name():
    moving = Moving(copied=3)
    moving.rename()
    moving.manager.directories[1].take_over(at(0))
    append(moving.future, b"d")
    moving.directories.steps.run()
    manager = moving.restart()
    log = manager.directories[1].logs[at(0)]
    assert log.read(0, 1 << 20) == moving.future.read(0, 1 << 20)

"""What a power loss leaves of a folder: exactly what was fsynced."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.machine.faultfs.volatile import Volatile

pytestmark = pytest.mark.slow


class Disk:
    """Does what the filesystem does around the bookkeeping."""

    def __init__(self, folder: Path, *, in_order: bool = False) -> None:
        self.root = folder / "data"
        self.root.mkdir()
        (folder / "graveyard").mkdir()
        self.graveyard = folder / "graveyard"
        self.volatile = Volatile(str(self.root), str(self.graveyard), in_order=in_order)

    def write(self, name: str, offset: int, data: bytes) -> None:
        with self.opened(name) as file:
            self.volatile.will_write(file, offset, len(data))
            os.pwrite(file, data, offset)

    def append(self, name: str, data: bytes) -> None:
        self.write(name, len(self.read(name)) if (self.root / name).exists() else 0, data)

    def truncate(self, name: str, size: int) -> None:
        with self.opened(name) as file:
            self.volatile.will_truncate(file, size)
            os.ftruncate(file, size)

    def rename(self, old: str, new: str) -> None:
        self.volatile.will_change_names(old, new)
        (self.root / old).replace(self.root / new)

    def remove(self, name: str) -> None:
        self.volatile.will_change_names(name)
        (self.root / name).unlink()

    def sync(self, name: str) -> None:
        with self.opened(name) as file:
            self.volatile.note_sync(file)

    def sync_folder(self) -> None:
        self.volatile.synced_folder("")

    def durable(self, name: str, data: bytes) -> None:
        self.append(name, data)
        self.sync(name)
        self.sync_folder()

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.root.iterdir())}

    def opened(self, name: str):
        if not (self.root / name).exists():
            self.volatile.will_change_names(name)
        return _Opened(self.root / name)


class _Opened:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> int:
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        return self.file

    def __exit__(self, *_: object) -> None:
        os.close(self.file)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.fixture
def sectors(tmp_path: Path) -> Disk:
    """Make a disk that writes each sector whole or not at all."""
    return Disk(tmp_path, in_order=True)


def test_the_unsynced_tail_is_lost_and_nothing_else(disk):
    disk.durable("log", b"synced")
    disk.append("log", b"lost")
    disk.write("log", 0, b"SY")
    lost = disk.volatile.power_loss()
    assert disk.files() == {"log": b"synced"}
    assert (lost.bytes, lost.files) == (6, 1)


def test_a_plain_user_loses_what_is_in_files_that_were_made_read_only_and_no_other():
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        user = os.geteuid()
        os.seteuid(user or 65_534)  # root may write to any file
        try:
            disk = Disk(Path(folder))
            disk.durable("old", b"synced")
            disk.durable("new", b"synced")
            disk.append("new", b"lost")
            for name in ("old", "new"):
                (disk.root / name).chmod(0o444)
            disk.volatile.power_loss()
        finally:
            os.seteuid(user)
        assert disk.files() == {"new": b"synced", "old": b"synced"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in disk.root.iterdir()} == {0o444}


def test_a_truncation_is_undone(disk):
    disk.durable("log", b"0123456789")
    disk.truncate("log", 4)
    disk.append("log", b"xy")
    disk.volatile.power_loss()
    assert disk.files() == {"log": b"0123456789"}


def test_a_name_is_durable_with_its_file_where_the_disk_has_one_journal(tmp_path):
    disk = Disk(tmp_path, in_order=True)
    disk.append("other", b"content")
    disk.append("new", b"content")
    disk.rename("new", "renamed")
    disk.sync("renamed")
    disk.rename("renamed", "again")
    disk.append("later", b"content")
    disk.volatile.power_loss()
    assert disk.files() == {"other": b"", "renamed": b"content"}
    assert list(disk.graveyard.iterdir()) == []


def test_the_sync_of_a_file_of_the_toolkit_makes_no_other_name_durable(tmp_path):
    disk = Disk(tmp_path, in_order=True)
    disk.append("new", b"content")
    with disk.opened(".kraftprobe-measure") as file:
        disk.volatile.note_sync(file, own=True)
    disk.volatile.power_loss()
    assert disk.files() == {}


@pytest.mark.parametrize("in_order", [False, True])
def test_a_folder_of_another_name_keeps_what_its_files_have_to_lose(tmp_path, in_order):
    disk = Disk(tmp_path, in_order=in_order)
    (disk.root / "wal.tmp").mkdir()
    disk.append("wal.tmp/0.wal", b"synced")
    disk.sync("wal.tmp/0.wal")
    disk.volatile.synced_folder("wal.tmp")
    disk.append("wal.tmp/1.wal", b"lost")
    (disk.root / "wal.tmp").rename(disk.root / "wal")
    disk.volatile.note_rename("wal.tmp", "wal")
    disk.append("wal/0.wal", b", lost")
    disk.volatile.power_loss()
    assert [path.name for path in disk.root.iterdir()] == ["wal"]
    assert {path.name: path.read_bytes() for path in (disk.root / "wal").iterdir()} == {
        "0.wal": b"synced"
    }


def test_a_folder_that_was_removed_has_no_names_to_bring_back(disk):
    (disk.root / "old").mkdir()
    disk.append("old/file", b"content")
    disk.remove("old/file")
    (disk.root / "old").rmdir()
    disk.volatile.note_removal("old")
    assert disk.volatile.power_loss().files == 0
    assert list(disk.graveyard.iterdir()) == []


def test_a_torn_write_keeps_the_first_half_of_the_last_one(disk):
    disk.durable("log", b"synced")
    disk.append("log", b"before")
    disk.append("log", b"12345678")
    disk.append(".kraftprobe-canary", b"toolkit")
    lost = disk.volatile.power_loss(torn=True)
    assert disk.read("log") == b"syncedbefore1234"
    assert lost.torn_path == "log"


def test_after_a_failed_fsync_the_data_is_gone_at_once(disk):
    disk.durable("log", b"synced")
    disk.append("log", b"lost")
    with disk.opened("log") as file:
        assert disk.volatile.lose(file) == 4
    assert disk.files() == {"log": b"synced"}


STEP = st.one_of(
    st.tuples(st.just("append"), st.sampled_from("abc"), st.binary(min_size=1, max_size=5)),
    st.tuples(st.just("sync"), st.sampled_from("abc"), st.just(b"")),
    st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from([b"a", b"b", b"c"])),
    st.tuples(st.just("remove"), st.sampled_from("abc"), st.just(b"")),
    st.tuples(st.just("folder"), st.just("a"), st.just(b"")),
)


@given(st.lists(STEP, max_size=25))
def test_a_power_loss_after_any_steps_leaves_what_a_model_predicts(tmp_path_factory, steps):
    disk = Disk(tmp_path_factory.mktemp("disk"))
    names: dict[str, list[bytes]] = {}  # name -> [content, synced content] of one file
    durable: dict[str, list[bytes]] = {}
    for verb, name, data in steps:
        if verb == "append":
            disk.append(name, data)
            names.setdefault(name, [b"", b""])[0] += data
        elif verb == "folder":
            disk.sync_folder()
            durable = dict(names)
        elif name not in names:
            continue
        elif verb == "sync":
            disk.sync(name)
            names[name][1] = names[name][0]
        elif verb == "rename" and data.decode() != name:
            disk.rename(name, data.decode())
            names[data.decode()] = names.pop(name)
        elif verb == "remove":
            disk.remove(name)
            del names[name]
    disk.volatile.power_loss()
    assert disk.files() == {name: file[1] for name, file in sorted(durable.items())}
    assert list(disk.graveyard.iterdir()) == []


def test_a_torn_write_of_two_equal_parts_does_not_end_between_them(disk):
    disk.durable("log", b"synced")
    disk.append("log", b"a" * 100 + b"b" * 100)
    assert disk.volatile.power_loss(torn=True).torn_path == "log"
    assert disk.read("log") == b"synced" + b"a" * 100 + b"b" * 13


@pytest.mark.parametrize(
    ("offset", "size", "kept"),
    [(500, 100, 12), (500, 20, 12), (512, 513, 512), (0, 4096, 2048), (100, 1200, 412)],
)
def test_a_write_is_torn_between_sectors(sectors, offset, size, kept):
    sectors.durable("log", b"\0" * 8192)
    sectors.write("log", offset, b"x" * size)
    assert sectors.volatile.tearable
    lost = sectors.volatile.power_loss(torn=True)
    assert lost.torn_path == "log"
    assert lost.bytes == size - kept
    assert sectors.read("log") == b"\0" * offset + b"x" * kept + b"\0" * (8192 - offset - kept)


def test_of_several_writes_the_newest_that_spans_sectors_is_torn(sectors):
    sectors.durable("log", b"s" * 500)
    sectors.append("log", b"a" * 4)
    sectors.append("log", b"b" * 20)
    sectors.append("log", b"c" * 100)
    sectors.append(".kraftprobe-canary", b"t" * 600)
    assert sectors.volatile.power_loss(torn=True).torn_path == "log"
    assert sectors.read("log") == b"s" * 500 + b"a" * 4 + b"b" * 8


def test_a_write_within_a_sector_is_lost_whole(sectors):
    sectors.durable("log", b"synced")
    sectors.append("log", b"x" * 506)
    assert not sectors.volatile.tearable
    assert sectors.volatile.power_loss(torn=True).torn_path == ""
    assert sectors.read("log") == b"synced"

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.meta_properties import (
    FILE_NAME,
    MetaPropertiesError,
    UnreadableIdentityError,
    identify,
)
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text


class MemoryDisk:
    """Files in memory. Completions wait until `settle`; `error` is what they then report."""

    def __init__(self, files=None, error=None):
        self.files = dict(files or {})
        self.error = error
        self.calls = []
        self.waiting = []

    def exists(self, path):
        return path in self.files

    def read(self, path):
        return self.files[path]

    def list_directory(self, path):
        return tuple(sorted(self.files))

    def write(self, path, data):
        self.calls.append(("write", path))
        self.files[path] = data

    def rename(self, source, target):
        self.calls.append(("rename", source, target))
        self.files[target] = self.files.pop(source)

    def sync(self, path, done):
        self.calls.append(("sync", path))
        self.waiting.append(done)

    def sync_directory(self, path, done):
        self.calls.append(("sync_directory", path))
        self.waiting.append(done)

    def settle(self):
        while self.waiting:
            self.waiting.pop(0)(self.error)


def load(disk, cluster_id="c", node_id=1, seed=1):
    found = []
    identify({"": disk}, cluster_id, node_id, random.Random(seed), lambda it: found.append(it[""]))
    disk.settle()
    (result,) = found
    return result


def test_an_empty_folder_gets_an_identity_that_stays():
    disk = MemoryDisk()
    first = load(disk)
    assert isinstance(first, uuid.UUID)
    assert load(disk, seed=2) == first


def test_the_identity_is_whole_and_durable_before_it_is_used():
    disk = MemoryDisk()
    found = []
    identify({"": disk}, "c", 1, random.Random(1), found.append)
    while disk.waiting:
        assert found == []
        disk.waiting.pop(0)(None)
    assert len(found) == 1
    assert disk.calls == [
        ("write", "meta.properties.tmp"),
        ("sync", "meta.properties.tmp"),
        ("rename", "meta.properties.tmp", "meta.properties"),
        ("sync_directory", ""),
    ]


def test_a_disk_that_fails_is_reported():
    error = OSError("no")
    assert load(MemoryDisk(error=error)) is error


def test_what_a_crash_left_of_formatting_and_the_lock_do_not_count():
    assert isinstance(load(MemoryDisk({".lock": b"", "meta.properties.tmp": b"vers"})), uuid.UUID)


def test_a_folder_with_a_log_but_no_identity_is_refused():
    with pytest.raises(MetaPropertiesError, match="__cluster_metadata-0"):
        load(MemoryDisk({"__cluster_metadata-0": b""}))


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "message"),
    [("d", 1, "cluster.id is 'c', the configuration says 'd'"), ("c", 2, "node.id is '1'")],
)
def test_anothers_folder_is_refused(cluster_id, node_id, message):
    disk = MemoryDisk()
    load(disk)
    with pytest.raises(MetaPropertiesError, match=message):
        load(disk, cluster_id, node_id)


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"version=1\n", b"directory.id=short\n", b"directory.id=!\n"]
)
def test_an_unreadable_identity_is_refused_and_not_replaced(content):
    disk = MemoryDisk({FILE_NAME: content})
    with pytest.raises(MetaPropertiesError):
        load(disk)
    assert disk.files == {FILE_NAME: content}


def test_a_newer_version_is_refused():
    disk = MemoryDisk()
    load(disk)
    disk.files[FILE_NAME] = disk.files[FILE_NAME].replace(b"version=1", b"version=2")
    with pytest.raises(MetaPropertiesError, match="version is '2'"):
        load(disk)


@given(st.uuids())
def test_a_uuid_survives_its_text(value):
    assert uuid_from_text(uuid_to_text(value)) == value


def test_the_metadata_topics_id_is_written_as_kafka_writes_it():
    assert uuid_to_text(uuid.UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


def identified(disks, cluster_id="c", node_id=1):
    """Identify folders called 0, 1, ...; the metadata are in the first."""
    found = []
    named = {str(number): disk for number, disk in enumerate(disks)}
    identify(named, cluster_id, node_id, random.Random(3), found.append)
    for disk in disks:
        disk.settle()
    (result,) = found
    return result


def formatted(**changes):
    disk = MemoryDisk()
    load(disk, **changes)
    return disk


def test_each_folder_gets_an_identity_of_its_own_and_keeps_it():
    disks = [MemoryDisk() for _ in range(3)]
    first = identified(disks)
    assert len(set(first.values())) == 3
    assert identified(disks) == first


def test_a_folder_beside_that_of_the_metadata_gets_one_whatever_it_holds():
    disks = [formatted(), MemoryDisk({"topic-0": b""})]
    assert isinstance(identified(disks)["1"], uuid.UUID)
    with pytest.raises(MetaPropertiesError, match="not empty"):
        identified([MemoryDisk({"topic-0": b""})])


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"cluster_id": "d", "seed": 2}, "cluster.id is 'd', the configuration says 'c'"),
        ({"node_id": 2, "seed": 2}, "node.id is '2', the configuration says '1'"),
        ({"seed": 1}, "is that of 0, too"),
    ],
)
def test_a_folder_that_would_mix_replicas_up_is_refused(other, complaint):
    with pytest.raises(MetaPropertiesError, match=complaint) as caught:
        identified([formatted(seed=1), formatted(**other)])
    assert caught.value.folder == "1"


def test_a_folder_with_a_reserved_id_is_refused():
    content = b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    with pytest.raises(MetaPropertiesError, match="reserved"):
        identified([formatted(), MemoryDisk({FILE_NAME: content})])


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"directory.id=?\n", b"\xff"])
def test_a_folder_that_cannot_be_identified_is_left_out_alone(content):
    disks = [formatted(), MemoryDisk({FILE_NAME: content}), MemoryDisk()]
    found = identified(disks)
    assert isinstance(found["1"], UnreadableIdentityError)
    assert all(isinstance(found[name], uuid.UUID) for name in ("0", "2"))
    with pytest.raises(UnreadableIdentityError):
        identified(disks[1:])


def test_an_error_of_one_disk_is_its_own():
    disks = [formatted(), MemoryDisk(error=OSError(28, "full"))]
    found = identified(disks)
    assert isinstance(found["0"], uuid.UUID)
    assert isinstance(found["1"], OSError)

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.meta_properties import (
    FILE_NAME,
    MetaPropertiesError,
    load_or_format,
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
    load_or_format(disk, cluster_id, node_id, random.Random(seed), found.append)
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
    load_or_format(disk, "c", 1, random.Random(1), found.append)
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

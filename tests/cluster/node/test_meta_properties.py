import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.meta_properties import (
    FILE_NAME,
    MetaPropertiesError,
    UnreadableIdentityError,
    identify,
)
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text

STEPS = Scheduler()


def folder(files=None, error=None):
    """A disk with files, which fails with an error."""
    disk = MemoryDisk(STEPS.call_later)
    disk.replace(files or {})
    disk.fail(error)
    return disk


def load(disk, cluster_id="c", node_id=1, seed=1):
    found = []
    identify({"": disk}, cluster_id, node_id, random.Random(seed), lambda it: found.append(it[""]))
    STEPS.run()
    (result,) = found
    return result


def test_a_disk_that_fails_is_reported():
    error = OSError("no")
    assert load(folder(error=error)) is error


def test_what_a_crash_left_of_formatting_and_the_lock_do_not_count():
    assert isinstance(load(folder({".lock": b"", "meta.properties.tmp": b"vers"})), uuid.UUID)


def test_a_folder_with_a_log_but_no_identity_is_refused():
    with pytest.raises(MetaPropertiesError, match="__cluster_metadata-0"):
        load(folder({"__cluster_metadata-0": b""}))


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"version=1\n", b"directory.id=short\n", b"directory.id=!\n"]
)
def test_an_unreadable_identity_is_refused_and_not_replaced(content):
    disk = folder({FILE_NAME: content})
    with pytest.raises(MetaPropertiesError):
        load(disk)
    assert disk.files() == {FILE_NAME: content}


def test_a_newer_version_is_refused():
    disk = formatted()
    disk.replace({FILE_NAME: disk.read(FILE_NAME).replace(b"version=1", b"version=2")})
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
    STEPS.run()
    (result,) = found
    return result


def formatted(**changes):
    disk = folder()
    load(disk, **changes)
    return disk


def test_each_folder_gets_an_identity_of_its_own_and_keeps_it():
    disks = [folder() for _ in range(3)]
    first = identified(disks)
    assert len(set(first.values())) == 3
    assert identified(disks) == first


def test_a_folder_beside_that_of_the_metadata_gets_one_whatever_it_holds():
    disks = [formatted(), folder({"topic-0": b""})]
    assert isinstance(identified(disks)["1"], uuid.UUID)
    with pytest.raises(MetaPropertiesError, match="not empty"):
        identified([folder({"topic-0": b""})])


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
        identified([formatted(), folder({FILE_NAME: content})])


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"directory.id=?\n", b"\xff"])
def test_a_folder_that_cannot_be_identified_is_left_out_alone(content):
    disks = [formatted(), folder({FILE_NAME: content}), folder()]
    found = identified(disks)
    assert isinstance(found["1"], UnreadableIdentityError)
    assert all(isinstance(found[name], uuid.UUID) for name in ("0", "2"))
    with pytest.raises(UnreadableIdentityError):
        identified(disks[1:])


def test_an_error_of_one_disk_is_its_own():
    disks = [formatted(), folder(error=OSError(28, "full"))]
    found = identified(disks)
    assert isinstance(found["0"], uuid.UUID)
    assert isinstance(found["1"], OSError)

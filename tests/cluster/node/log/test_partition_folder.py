"""Names of the folders of logs, and the topic id in them."""

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.data.partition_folder import (
    DELETE_SUFFIX,
    PARTITION_METADATA_FILE,
    delete_name,
    fits,
    future_name,
    parse_folder,
    read_topic_id,
    write_topic_id,
)
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.log.storage.recovery import CorruptLogError

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(
    lambda name: name not in {".", ".."}
)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
NAME_MAX = 255


@given(PARTITIONS, st.integers(0, 2**32))
def test_every_name_fits_a_file_system(partition, seed):
    assert len(delete_name(partition, random.Random(seed))) <= NAME_MAX
    name = future_name(partition, random.Random(seed))
    assert (len(name) <= NAME_MAX) is fits(partition)


@given(PARTITIONS, st.integers(0, 2**32))
def test_a_folder_is_of_the_partition_that_it_was_named_for(partition, seed):
    assert parse_folder(str(partition)) == (partition, False)
    assert parse_folder(future_name(partition, random.Random(seed))) == (partition, True)
    with pytest.raises(ValueError, match="the name is not"):
        parse_folder(delete_name(partition, random.Random(seed)))
    assert delete_name(partition, random.Random(seed)).endswith(DELETE_SUFFIX)


@given(st.uuids())
def test_a_topic_id_is_read_as_it_was_written(topic_id):
    disk = a_disk()
    write_topic_id(disk, "t-0", topic_id, lambda error: None)
    steps.run()
    assert read_topic_id(disk, "t-0") == topic_id


def test_a_folder_without_the_file_has_no_topic_id():
    assert read_topic_id(a_disk(), "t-0") is None


@pytest.mark.parametrize("content", [b"version: 1", b"version: 0\ntopic_id: ?", b"version: 0"])
def test_a_file_of_another_form_is_damage(content):
    disk = a_disk()
    disk.write(f"t-0/{PARTITION_METADATA_FILE}", content)
    with pytest.raises(CorruptLogError):
        read_topic_id(disk, "t-0")


steps = Scheduler()


def a_disk():
    disk = MemoryDisk(steps.call_later)
    disk.make_directory("t-0")
    return disk


def test_the_ids_are_uuids_of_their_own():
    names = {future_name(TopicPartition("t", 0), random.Random(seed)) for seed in range(50)}
    assert len(names) == 50
    assert all(uuid.UUID(name.split(".")[1].removesuffix("-future")) for name in names)

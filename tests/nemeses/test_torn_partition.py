"""A log of a partition is torn as a write is: never below what the node knows to be fsynced."""

import asyncio

import pytest

from cluster.backends.base import BackendError
from cluster.client.batches import batch_of
from cluster.node.log.batch.records import NOBODY, with_base_offset
from cluster.node.log.storage.checkpoint import TopicPartition, encode_offsets
from nemeses.disks.corruption import TruncateFile

BATCH = batch_of(["one", "two"], 0, NOBODY)
LOG = BATCH + with_base_offset(BATCH, 2)
SEGMENT = "d0-1/00000000000000000000.log"


class Disks:
    """One node's files."""

    def __init__(self, recovery_point):
        offsets = {TopicPartition("d0", 1): recovery_point}
        self.content = {SEGMENT: LOG, "recovery-point-offset-checkpoint": encode_offsets(offsets)}
        self.damaged = []

    async def files(self, node):
        return {path: len(content) for path, content in self.content.items()}

    async def read(self, node, path):
        return self.content[path]

    async def damage(self, node, kind, path, position, bit=0):
        self.damaged.append((path, position))


def tear(disks):
    return asyncio.run(TruncateFile().hurt(disks, "n1", {"file": "partition"}))


@pytest.mark.parametrize("recovery_point", [0, 2])
def test_the_last_batch_is_torn_where_it_lies_above_the_recovery_point(recovery_point):
    disks = Disks(recovery_point)
    half = len(BATCH) + len(BATCH) // 2
    assert tear(disks) == {"file": SEGMENT, "size": half, "byte": half - 1}
    assert disks.damaged == [(SEGMENT, half)]


def test_what_was_fsynced_is_not_torn():
    disks = Disks(4)
    with pytest.raises(BackendError, match="its recovery point 4"):
        tear(disks)
    assert disks.damaged == []


@pytest.mark.parametrize(("suffix", "torn"), [("-future", "d0-2"), ("-delete", "d0-1")])
def test_a_log_that_is_about_to_be_removed_is_not_torn(suffix, torn):
    disks = Disks(0)
    longer = f"d0-2.{32 * 'a'}{suffix}/00000000000000000000.log"
    disks.content[longer] = LOG + with_base_offset(BATCH, 4)
    assert tear(disks)["file"].startswith(torn)

"""Metadata transactions (KIP-868): nobody sees half of one, and a new leader aborts an open one."""

import pytest

from cluster.controller.image import MetadataImage
from cluster.controller.records import decode_record, encode_record
from cluster.controller.records.system import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from cluster.controller.state import ReplayError
from cluster.kraft.types import CommittedBatch
from tests.controller.fakes import Node, alter, describe

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
F = FeatureLevelRecord(name="f", feature_level=3)


def replayed(*batches):
    image = MetadataImage()
    for records in batches:
        values = tuple(encode_record(record) for record in records)
        base = image.offset + 1
        image.apply(CommittedBatch(base, base + len(values) - 1, 1, 0, 100, values))
    return image


def test_a_transaction_is_seen_when_it_ends_and_not_before():
    image = replayed((BEGIN, F))
    assert image.in_transaction
    assert (image.state.features.get("f"), image.offset) == (None, 1)
    image = replayed((BEGIN,), (F,), (END,))
    assert not image.in_transaction
    assert (image.state.features.get("f"), image.offset) == (3, 2)


def test_an_aborted_transaction_never_happened():
    image = replayed((BEGIN, F), (ABORT,))
    assert image.state.features.get("f") is None
    assert not image.in_transaction


@pytest.mark.parametrize("records", [(BEGIN, BEGIN), (END,), (ABORT,), (BEGIN, END, END)])
def test_transactions_that_do_not_fit_are_fatal(records):
    with pytest.raises(ReplayError):
        replayed(records)


def test_a_new_leader_aborts_what_its_predecessor_left_open():
    node = Node()
    node.raft.epoch = 1
    node.raft._add(tuple(encode_record(record) for record in (BEGIN, F)), 1)
    node.raft.commit()
    node.raft.elect()
    kinds = [type(decode_record(value)[0]) for value in node.raft.log[-1].records]
    assert kinds == [AbortTransactionRecord, FeatureLevelRecord]
    node.raft.commit()
    assert not node.controller.image.in_transaction
    features = node.controller.image.state.features
    assert (features.get("f"), features.get("metadata.version")) == (None, 30)
    node.call(alter("k", "1"))
    assert node.call(describe()).results[0].configs[0].value == "1"

"""Metadata transactions (KIP-868): atomic to readers, and aborted by a new leader if open."""

import pytest

from cluster.node.controller.core import feature_control
from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.state import ReplayError
from cluster.node.controller.records import decode_record, encode_record
from cluster.node.controller.records.kinds import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from cluster.node.kraft.types import CommittedBatch
from tests.cluster.node.controller.fakes import Node, alter, describe

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
GROUP = "group.version"
F = FeatureLevelRecord(name=GROUP, feature_level=1)


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
    assert (image.state.features.get(GROUP), image.offset) == (None, 1)
    image = replayed((BEGIN,), (F,), (END,))
    assert not image.in_transaction
    assert (image.state.features.get(GROUP), image.offset) == (1, 2)


@pytest.mark.parametrize("records", [(BEGIN, BEGIN), (END,), (ABORT,), (BEGIN, END, END)])
def test_transactions_that_do_not_fit_are_fatal(records):
    with pytest.raises(ReplayError):
        replayed(records)


def test_a_new_leader_aborts_what_its_predecessor_left_open():
    node = Node()
    node.raft.epoch = 1
    older = FeatureLevelRecord(name="transaction.version", feature_level=1)
    node.raft._add(tuple(encode_record(record) for record in (BEGIN, older)), 1)
    node.raft.commit()
    node.raft.elect()
    kinds = [type(decode_record(value)[0]) for value in node.raft.log[-1].records]
    assert kinds == [
        AbortTransactionRecord,
        BeginTransactionRecord,
        *(type(record) for record in feature_control.bootstrap_metadata()),
        ConfigRecord,
        EndTransactionRecord,
    ]
    node.raft.commit()
    assert not node.controller.image.in_transaction
    features = node.controller.image.state.features
    assert (features.get("transaction.version"), features.get("metadata.version")) == (2, 30)
    node.call(alter("k", "1"))
    assert node.call(describe()).results[0].configs[0].value == "1"


LARGE = tuple(
    ConfigRecord(resource_type=4, resource_name="", name=f"k{number}", value="v")
    for number in range(2_500)
)


def larger_bootstrap(monkeypatch):
    monkeypatch.setattr(
        feature_control,
        "bootstrap_metadata",
        lambda: (FeatureLevelRecord(name="metadata.version", feature_level=30), *LARGE),
    )


def configs(state):
    return len(list(state.configs.keys()))


def test_bootstrap_metadata_of_several_batches_are_seen_together(monkeypatch):
    larger_bootstrap(monkeypatch)
    node = Node()
    node.raft.elect()
    node.clock.advance(1)
    assert [len(batch.records) for batch in node.raft.log[1:]] == [1_000, 1_000, 503]
    newest, image = node.controller.speculative.state, node.controller.image
    for committed in range(1, 4):
        assert configs(newest) == 2_500, "what is appended is seen, committed or not"
        node.raft.commit(1)
        assert configs(image.state) == (2_500 if committed == 3 else 0)
    assert configs(newest) == 2_500
    assert node.controller.speculative.is_empty
    assert image.stable_offset == image.offset


def test_a_bootstrap_that_was_cut_short_is_aborted_and_begun_anew(monkeypatch):
    larger_bootstrap(monkeypatch)
    node = Node()
    node.raft.elect()
    node.clock.advance(1)
    node.raft.commit(2)
    assert node.controller.image.in_transaction
    assert node.controller.image.stable_offset == 0
    node.raft.lose()
    node.raft.commit()
    node.raft.elect()
    node.clock.advance(1)
    node.raft.commit()
    first = node.raft.log[-3].records[0]
    assert decode_record(first)[0] == AbortTransactionRecord(reason="Controller failover")
    state = node.controller.image.state
    assert (configs(state), state.features.get("metadata.version")) == (2_500, 30)
    assert not node.controller.image.in_transaction
    assert node.call(alter("k0", "w")).responses[0].error_code == 0


def test_a_controller_that_loses_its_office_within_a_bootstrap_leaves_it_to_the_next(monkeypatch):
    larger_bootstrap(monkeypatch)
    node = Node()
    node.raft.elect()
    node.raft.leader_id = 2  # raft knows, the controller is about to learn it
    node.clock.advance(1)
    assert node.raft.resigned == [1]
    assert not node.controller.is_active


def test_what_a_claim_begins_with_comes_before_what_others_ask_for(monkeypatch):
    larger_bootstrap(monkeypatch)
    node = Node()
    node.raft.elect()
    replies = node.send(alter("asked", "1"))
    node.clock.advance(1)
    node.raft.commit()
    assert replies[0].responses[0].error_code == 0
    kinds = [type(decode_record(batch.records[-1])[0]) for batch in node.raft.log[3:]]
    assert kinds == [EndTransactionRecord, ConfigRecord]

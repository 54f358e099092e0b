"""Linearizable reads: confirmed after they arrived, and of committed state only."""

from dataclasses import replace

from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import (
    BOOTSTRAP_END,
    CLIENT,
    CLUSTER,
    CONTROLLER,
    Node,
    active,
    alter,
    create,
    delete,
    describe,
    describe_cluster,
    metadata,
)


def value_of(reply):
    return {config.name: config.value for config in reply.results[0].configs}


def test_a_read_waits_for_the_confirmation():
    node = active()
    node.call(alter("k", "1"))
    replies = node.send(describe())
    node.raft.commit()
    assert replies == []
    node.raft.confirm()
    assert value_of(replies[0]) == {"k": "1"}


def test_a_read_does_not_see_what_is_not_committed():
    node = active()
    node.call(alter("k", "1"))
    node.send(alter("k", "2"))
    replies = node.send(describe())
    node.raft.confirm()
    assert value_of(replies[0]) == {"k": "1"}


def test_a_read_sees_what_was_committed_while_it_waited():
    node = active()
    node.send(alter("k", "2"))
    replies = node.send(describe())
    node.raft.commit()
    node.raft.confirm()
    assert value_of(replies[0]) == {"k": "2"}


def test_a_read_is_traced_with_the_committed_offset():
    node = active()
    node.call(alter("k", "1"))
    node.call(describe())
    assert node.traced("read") == [
        {"epoch": 1, "offset": BOOTSTRAP_END + 1, "confirmed": True, "query": True}
    ]


def test_a_read_waits_until_the_high_watermark_of_its_arrival_is_replayed():
    node = active()
    node.send(alter("k", "1"))
    node.raft.committed = len(node.raft.log)  # committed, but not handed over yet
    replies = node.send(describe())
    node.raft.confirm()
    assert replies == []
    node.controller.handle_commit(node.raft.log[2:])
    assert value_of(replies[0]) == {"k": "1"}


def test_a_confirmation_of_an_older_claim_answers_nothing():
    node = active()
    replies = node.send(describe())
    node.raft.lose()
    node.raft.commit()
    node.raft.elect()
    node.raft.confirm()
    assert [reply.results[0].error_code for reply in replies] == [ErrorCode.not_controller]
    assert node.traced("read") == []


def test_a_read_that_no_majority_confirms_times_out():
    node = active()
    replies = node.send(describe())
    node.clock.advance(30_000)
    assert replies[0].results[0].error_code == ErrorCode.request_timed_out


def test_a_node_that_is_not_active_refuses_reads_on_the_controller_listener():
    node = Node()
    assert node.send(describe())[0].results[0].error_code == ErrorCode.not_controller
    assert node.send(metadata("a"))[0].error_code == ErrorCode.not_controller


def test_that_a_topic_exists_already_is_answered_only_when_committed_and_confirmed():
    node = active()
    node.send(create("a"))
    replies = node.send(create("a"))
    node.raft.confirm()
    assert replies == []
    node.raft.commit()
    assert replies[0].topics[0].error_code == ErrorCode.topic_already_exists


def test_that_a_topic_is_unknown_is_not_answered_by_a_leader_that_lost():
    node = active()
    replies = node.send(delete("a"))
    node.raft.commit()
    assert replies == []
    node.raft.confirm(answer=False)
    assert replies[0].responses[0].error_code == ErrorCode.not_controller


def test_metadata_names_this_node_only_when_confirmed():
    node = active()
    node.call(create("a"))
    replies = node.send(metadata("a"), CLIENT)
    assert replies == []
    node.raft.confirm()
    assert replies[0].controller_id == 1
    assert replies[0].topics[0].error_code == ErrorCode.none


def test_metadata_that_cannot_be_confirmed_comes_from_the_image_and_names_no_controller():
    node = active()
    node.call(create("a"))
    replies = node.send(metadata("a"), CLIENT)
    node.clock.advance(1_500)
    assert replies[0].controller_id == -1
    assert replies[0].topics[0].error_code == ErrorCode.none
    assert node.traced("read") == []


def test_metadata_of_a_node_that_loses_leadership_names_the_new_leader():
    node = active()
    replies = node.send(metadata(), CLIENT)
    node.raft.lose(leader_id=3)
    assert replies[0].controller_id == 3


def test_metadata_of_another_node_names_the_leader_it_knows():
    node = Node()
    node.raft.leader_id = 2
    assert node.send(metadata(), CLIENT)[0].controller_id == 2
    node.raft.leader_id = 1  # elected, but not claimed yet
    assert node.send(metadata(), CLIENT)[0].controller_id == -1


def test_a_broker_that_is_no_controller_names_a_live_one_while_there_is_no_leader():
    cluster = replace(CLUSTER, is_controller=False)
    node = Node(cluster=cluster)
    assert node.raft.leader_id == -1
    assert node.send(metadata(), CLIENT)[0].controller_id in {2, 3}


def test_the_client_listener_describes_configs_from_the_image():
    node = active()
    node.call(alter("k", "1"))
    node.raft.lose()
    assert value_of(node.send(describe(), CLIENT)[0]) == {"k": "1"}
    assert node.send(describe(), CONTROLLER)[0].results[0].error_code == ErrorCode.not_controller


REGISTERED = ClusterInfo("fake-cluster", 1, brokers=(), registration=True)


def test_a_controller_of_an_unseen_broker_names_one_that_is_seen():
    """A client that knows of broker 1, but not where it is, asks for it for ever."""
    brokers = Brokers(cluster=REGISTERED)
    assert brokers.node.call(metadata(), CLIENT).controller_id == -1
    assert brokers.node.call(describe_cluster(), CLIENT).controller_id == -1
    brokers.register(1)
    assert brokers.node.call(metadata(), CLIENT).controller_id == -1
    brokers.join(2)
    assert brokers.node.call(metadata(), CLIENT).controller_id == 2
    assert brokers.node.call(describe_cluster(), CLIENT).controller_id == 2
    assert not brokers.beat(1).is_fenced
    assert brokers.node.call(metadata(), CLIENT).controller_id == 1
    assert brokers.node.call(describe_cluster(), CLIENT).controller_id == 1


def test_without_a_confirmation_no_controller_names_itself_even_if_it_is_alone():
    brokers = Brokers(1, cluster=REGISTERED)
    brokers.node.raft.lose(leader_id=3)
    assert brokers.node.send(metadata(), CLIENT)[0].controller_id == -1


def test_a_broker_that_is_alone_names_itself():
    brokers = Brokers(1, cluster=replace(REGISTERED, is_controller=False))
    brokers.node.raft.lose(leader_id=3)
    assert brokers.node.send(metadata(), CLIENT)[0].controller_id == 1

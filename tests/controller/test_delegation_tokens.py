"""Delegation tokens of other controllers expire under a leader of ours."""

from cluster.node.controller.records import encode_record
from cluster.node.controller.records.security import DelegationTokenRecord
from tests.controller.fakes import Node, active

INTERVAL_MS = 1_000


def token(token_id, expires_ms, max_ms=100_000):
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=(),
        issue_timestamp=0,
        max_timestamp=max_ms,
        expiration_timestamp=expires_ms,
        token_id=token_id,
    )


def held(node):
    return list(node.controller.image.state.delegation_tokens.keys())


def leads_with(*tokens):
    """A node that takes office when the metadata hold tokens of its predecessor."""
    node = Node(delegation_token_expiry_check_interval_ms=INTERVAL_MS)
    node.raft.elect()
    node.raft.commit()
    node.raft.prepare_append(node.raft.epoch, [encode_record(each) for each in tokens])
    node.raft.commit()
    node.raft.lose()
    node.raft.elect()
    node.raft.commit()
    return node


def pass_time(node, duration_ms):
    node.clock.advance(duration_ms)
    node.raft.commit()


def test_a_token_goes_at_the_first_sweep_after_its_time():
    node = leads_with(token("a", 1_500), token("b", 2_500), token("c", 90_000, max_ms=1_500))
    pass_time(node, 1_000)
    assert held(node) == ["a", "b", "c"]
    pass_time(node, 1_000)
    assert held(node) == ["b"]
    pass_time(node, 1_000)
    assert held(node) == []


def test_a_token_is_valid_at_the_very_millisecond_of_its_end():
    node = leads_with(token("a", 1_000))
    pass_time(node, 1_000)
    assert held(node) == ["a"]
    pass_time(node, 1_000)
    assert held(node) == []


def test_whoever_does_not_lead_sweeps_nothing():
    node = leads_with(token("a", 500))
    node.raft.lose()
    end = node.raft.end_offset
    pass_time(node, 10_000)
    assert node.raft.end_offset == end
    assert held(node) == ["a"]


def test_there_is_no_timer_where_there_are_no_tokens():
    node = active(delegation_token_expiry_check_interval_ms=INTERVAL_MS)
    assert [timer for timer in node.clock.timers if not timer.cancelled] == []

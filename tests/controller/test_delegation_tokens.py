"""Delegation tokens, after DelegationTokenControlManager and DelegationTokenManager."""

import datetime as dt
import hashlib
import hmac
from dataclasses import replace

import pytest

from cluster.node.controller.access.authorizer import StandardAuthorizer
from cluster.node.controller.access.rights import Access
from cluster.node.controller.delegation_tokens import TokenSettings
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.security import DelegationTokenRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from cluster.node.protocol.origin import ANONYMOUS, Origin
from cluster.node.security.settings import SecurityProtocol
from tests.controller.entries import authorizer_of, entry
from tests.controller.fakes import CLIENT, CLUSTER, CONTROLLER, Node, active

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


# --- requests ---

SECRET = "the nodes share this"
HOUR_MS = 3_600_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECURED = replace(
    CLUSTER,
    protocols={CLIENT: SecurityProtocol.SASL_SSL, CONTROLLER: SecurityProtocol.SASL_SSL},
    tokens=TokenSettings(SECRET, 10 * HOUR_MS, 2 * HOUR_MS),
)
NOT_ALLOWED = ErrorCode.delegation_token_request_not_allowed
MISMATCH = ErrorCode.delegation_token_owner_mismatch


def user(name):
    return Access(None, Origin("User", name))


def issuer(cluster=SECURED, **settings):
    return active(cluster=cluster, **settings)


def interval(milliseconds):
    return dt.timedelta(milliseconds=milliseconds)


def ms(time):
    return (time - EPOCH) // interval(1)


def creating(renewers=(), lifetime_ms=-1, owner=None, renewer_type="User"):
    return CreateDelegationTokenRequest(
        owner_principal_type=owner and owner[0],
        owner_principal_name=owner and owner[1],
        renewers=tuple(
            CreatableRenewers(principal_type=renewer_type, principal_name=name) for name in renewers
        ),
        max_lifetime=interval(lifetime_ms),
    )


def issue(node, access, **options):
    response = node.call(creating(**options), access=access)
    assert response.error_code is ErrorCode.none
    return response


def renew(node, access, mac, period_ms=-1):
    request = RenewDelegationTokenRequest(hmac=mac, renew_period=interval(period_ms))
    response = node.call(request, access=access)
    return response.error_code, ms(response.expiry_timestamp)


def expire(node, access, mac, period_ms=-1):
    request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period=interval(period_ms))
    response = node.call(request, access=access)
    return response.error_code, ms(response.expiry_timestamp)


def describe(node, access, *owners, of_all=True, listener=CLIENT):
    asked = tuple(
        DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
    )
    request = DescribeDelegationTokenRequest(owners=None if of_all and not owners else asked)
    response = node.call(request, listener, access)
    return response.error_code, [each.token_id for each in response.tokens]


def test_a_token_is_a_record_and_its_hmac_is_in_no_metadata():
    node = issuer()
    node.clock.advance(5_000)
    response = issue(node, user("alice"), renewers=("bob",))
    expected = hmac.digest(SECRET.encode(), response.token_id.encode(), hashlib.sha512)
    assert response.hmac == expected
    record = node.controller.image.state.delegation_tokens.get(response.token_id)
    assert record == DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=("User:bob",),
        issue_timestamp=5_000,
        max_timestamp=5_000 + 10 * HOUR_MS,
        expiration_timestamp=5_000 + 2 * HOUR_MS,
        token_id=response.token_id,
    )
    assert len(response.token_id) == 22
    assert (response.principal_name, response.token_requester_principal_name) == ("alice",) * 2
    times = (response.issue_timestamp, response.expiry_timestamp, response.max_timestamp)
    assert [ms(time) for time in times] == [5_000, 5_000 + 2 * HOUR_MS, 5_000 + 10 * HOUR_MS]
    appended = [record for batch in node.raft.log for record in batch.records]
    assert not any(response.hmac in record or SECRET.encode() in record for record in appended)


@pytest.mark.parametrize(
    ("asked_ms", "lifetime_ms", "valid_ms"),
    [
        (-1, 10 * HOUR_MS, 2 * HOUR_MS),
        (0, 10 * HOUR_MS, 2 * HOUR_MS),
        (HOUR_MS, HOUR_MS, HOUR_MS),
        (3 * HOUR_MS, 3 * HOUR_MS, 2 * HOUR_MS),
        (99 * HOUR_MS, 10 * HOUR_MS, 2 * HOUR_MS),
    ],
)
def test_a_token_lives_no_longer_than_asked_for_and_allowed(asked_ms, lifetime_ms, valid_ms):
    response = issue(issuer(), user("alice"), lifetime_ms=asked_ms)
    assert ms(response.max_timestamp) == lifetime_ms
    assert ms(response.expiry_timestamp) == valid_ms


def test_a_token_for_ever_ends_with_the_calendar_in_the_answer_alone():
    for_ever = replace(SECURED, tokens=TokenSettings(SECRET, 2**63 - 1, 2**63 - 1))
    node = issuer(for_ever)
    node.clock.advance(1)
    response = issue(node, user("alice"))
    assert response.max_timestamp.year == 9999
    record = node.controller.image.state.delegation_tokens.get(response.token_id)
    assert record.max_timestamp == record.expiration_timestamp == 2**63 - 1


def test_without_a_secret_key_there_are_no_tokens():
    node = issuer(replace(SECURED, tokens=TokenSettings()))
    disabled = ErrorCode.delegation_token_auth_disabled
    response = node.call(creating(), access=user("alice"))
    assert (response.error_code, response.hmac, ms(response.max_timestamp)) == (disabled, b"", 0)
    assert renew(node, user("alice"), b"x") == (disabled, 0)
    assert expire(node, user("alice"), b"x") == (disabled, 0)
    assert describe(node, user("alice")) == (disabled, [])
    assert held(node) == []


def test_only_users_can_be_renewers():
    node = issuer()
    request = creating(renewers=("staff",), renewer_type="Group")
    invalid = ErrorCode.invalid_principal_type
    assert node.call(request, access=user("alice")).error_code is invalid
    refused = node.apis.tokens.refused_by_broker(CLIENT, request, user("alice"))
    assert (refused.error_code, ms(refused.max_timestamp)) == (invalid, -1)
    assert held(node) == []


def test_owner_and_renewers_renew_a_token_within_its_longest_life():
    node = issuer()
    mac = issue(node, user("alice"), renewers=("bob",)).hmac
    node.clock.advance(HOUR_MS)
    assert renew(node, user("alice"), mac) == (ErrorCode.none, 3 * HOUR_MS)
    assert renew(node, user("bob"), mac, HOUR_MS) == (ErrorCode.none, 2 * HOUR_MS)
    assert renew(node, user("carol"), mac) == (MISMATCH, 0)
    assert renew(node, user("alice"), b"x") == (ErrorCode.delegation_token_not_found, 0)
    for _ in range(8):
        node.clock.advance(HOUR_MS)
        error, ends_ms = renew(node, user("alice"), mac)
        assert error is ErrorCode.none
    assert ends_ms == 10 * HOUR_MS
    (record,) = [node.controller.image.state.delegation_tokens.get(each) for each in held(node)]
    assert record.expiration_timestamp == record.max_timestamp == 10 * HOUR_MS


def test_whoever_asked_for_another_does_not_renew_it():
    node = issuer()
    mac = issue(node, user("bob"), owner=("User", "alice")).hmac
    assert renew(node, user("bob"), mac)[0] is MISMATCH
    assert renew(node, user("alice"), mac)[0] is ErrorCode.none


def test_a_token_is_ended_at_once_or_in_a_while():
    node = issuer()
    mac = issue(node, user("alice"), renewers=("bob",)).hmac
    assert expire(node, user("carol"), mac) == (MISMATCH, 0)
    assert expire(node, user("bob"), mac, 500) == (ErrorCode.none, 500)
    assert expire(node, user("bob"), mac, 99 * HOUR_MS) == (ErrorCode.none, 10 * HOUR_MS)
    node.clock.advance(7)
    assert expire(node, user("alice"), mac) == (ErrorCode.none, 7)
    assert held(node) == []
    assert expire(node, user("alice"), mac)[0] is ErrorCode.delegation_token_not_found


def test_what_has_expired_can_only_be_removed():
    node = issuer()
    expired = ErrorCode.delegation_token_expired
    mac = issue(node, user("alice"), lifetime_ms=100).hmac
    node.clock.advance(100)
    assert renew(node, user("alice"), mac)[0] is ErrorCode.none
    node.clock.advance(1)
    assert renew(node, user("alice"), mac) == (expired, 0)
    assert renew(node, user("carol"), mac) == (expired, 0)
    assert expire(node, user("alice"), mac, 5) == (expired, 0)
    assert expire(node, user("carol"), mac, 5) == (MISMATCH, 0)
    assert expire(node, user("alice"), mac)[0] is ErrorCode.none


def test_a_token_that_a_leader_of_ours_issues_is_swept_too():
    node = issuer(delegation_token_expiry_check_interval_ms=INTERVAL_MS)
    issue(node, user("alice"), lifetime_ms=1_500)
    pass_time(node, 1_000)
    issue(node, user("alice"))
    assert len(held(node)) == 2
    pass_time(node, 1_000)
    assert len(held(node)) == 1


def test_owner_requester_and_renewers_see_a_token():
    node = issuer()
    first = issue(node, user("alice"), renewers=("bob",)).token_id
    second = issue(node, user("carol"), owner=("User", "dave")).token_id
    blind = authorizer_of([])

    def seen(name, *owners, of_all=True):
        error, found = describe(node, Access(blind, Origin("User", name)), *owners, of_all=of_all)
        assert error is ErrorCode.none
        return found

    assert [seen(name) for name in ("alice", "bob")] == [[first], [first]]
    assert [seen(name) for name in ("carol", "dave")] == [[second], [second]]
    assert seen("erin") == []
    assert describe(node, user("erin")) == (ErrorCode.none, [first, second])
    assert describe(node, user("erin"), "bob") == (ErrorCode.none, [first])
    assert describe(node, user("erin"), "bob", "carol") == (ErrorCode.none, [first, second])
    assert describe(node, user("erin"), of_all=False) == (ErrorCode.none, [])


def test_with_the_right_on_a_token_or_on_its_owner_others_see_it_too():
    node = issuer()
    first, second = (issue(node, user(name)).token_id for name in ("alice", "bob"))
    authorizer = authorizer_of(
        [
            entry(f"User:carol DESCRIBE token:{second}", 1),
            entry("User:dave DESCRIBE_TOKENS user:User:alice", 2),
        ]
    )
    seen = [
        describe(node, Access(authorizer, Origin("User", name)))[1] for name in ("carol", "dave")
    ]
    assert seen == [[second], [first]]


@pytest.mark.parametrize("forwarded", [False, True])
def test_a_token_for_another_owner_needs_the_right_on_that_user(forwarded):
    node = issuer()
    entries = [entry("User:bob CREATE_TOKENS user:User:alice")]
    access = Access(authorizer_of(entries), Origin("User", "bob", is_forwarded=forwarded))
    response = issue(node, access, owner=("User", "alice"))
    assert (response.principal_name, response.token_requester_principal_name) == ("alice", "bob")
    request = creating(owner=("User", "carol"))
    refused = [
        node.call(request, access=access),
        node.apis.tokens.refused_by_broker(CLIENT, request, access),
    ]
    error = ErrorCode.delegation_token_authorization_failed
    assert [(each.error_code, each.principal_name) for each in refused] == [(error, "carol")] * 2
    assert issue(node, access, owner=("User", "bob")).principal_name == "bob"
    assert issue(node, access, owner=("User", "")).principal_name == "bob"


def test_controllers_describe_no_tokens():
    error = ErrorCode.unknown_server_error
    assert describe(issuer(), user("alice"), listener=CONTROLLER) == (error, [])


@pytest.mark.parametrize(
    ("protocol", "origin", "allowed"),
    [
        (SecurityProtocol.PLAINTEXT, Origin(principal_name="alice"), False),
        (SecurityProtocol.PLAINTEXT, Origin(principal_name="alice", is_forwarded=True), True),
        (SecurityProtocol.SSL, ANONYMOUS, False),
        (SecurityProtocol.SSL, replace(ANONYMOUS, is_forwarded=True), True),
        (SecurityProtocol.SSL, Origin(principal_name="CN=alice"), True),
        (
            SecurityProtocol.SASL_SSL,
            Origin(principal_name="alice", token_authenticated=True),
            False,
        ),
        (
            SecurityProtocol.PLAINTEXT,
            Origin(principal_name="alice", token_authenticated=True, is_forwarded=True),
            False,
        ),
        (SecurityProtocol.SASL_PLAINTEXT, Origin(principal_name="alice"), True),
    ],
)
def test_a_token_is_for_those_who_proved_themselves_without_one(protocol, origin, allowed):
    node = issuer(replace(SECURED, protocols=dict.fromkeys((CLIENT, CONTROLLER), protocol)))
    access = Access(None, origin)
    errors = {
        node.call(creating(), access=access).error_code,
        renew(node, access, b"x")[0],
        expire(node, access, b"x")[0],
        describe(node, access)[0],
    }
    not_found = ErrorCode.delegation_token_not_found
    assert errors == ({ErrorCode.none, not_found} if allowed else {NOT_ALLOWED})
    refused = node.apis.tokens.refused_by_broker(CLIENT, creating(), access)
    assert (refused is None) is allowed
    if not allowed:
        assert renew(node, access, b"x") == (NOT_ALLOWED, -1)
        assert ms(refused.expiry_timestamp) == -1


def test_before_the_entries_are_loaded_another_owner_cannot_be_asked_for():
    node = issuer()
    early = StandardAuthorizer(
        frozenset(), lambda *_, **__: None, allow_everyone_if_no_acl_found=True
    )
    access = Access(early, Origin("User", "bob"))
    response = node.call(creating(owner=("User", "alice")), access=access)
    assert response.error_code is ErrorCode.unknown_server_error
    assert describe(node, access) == (ErrorCode.none, [])
    issue(node, user("alice"))
    assert describe(node, access) == (ErrorCode.unknown_server_error, [])
    assert node.call(creating(), access=access).error_code is ErrorCode.none

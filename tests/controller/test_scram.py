"""AlterUserScramCredentials and DescribeUserScramCredentials, after ScramControlManager."""

import hashlib

import pytest

from cluster.node.controller.records.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from cluster.node.controller.replay import replay
from cluster.node.controller.scram_control import credential_of
from cluster.node.controller.state import ReplayError, committed_state
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramUserName,
)
from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import ScramClientExchange, ScramServer
from tests.controller.fakes import CLIENT, Node, active

SHA_256, SHA_512 = 1, 2
SALT = b"0123456789abcdef"


def upsert(name, password="secret", mechanism=SHA_512, iterations=4096):
    algorithm = {SHA_256: "sha256"}.get(mechanism, "sha512")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, max(iterations, 1))
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(name, mechanism=SHA_512):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def altering(*items):
    return AlterUserScramCredentialsRequest(
        deletions=tuple(item for item in items if isinstance(item, ScramCredentialDeletion)),
        upsertions=tuple(item for item in items if isinstance(item, ScramCredentialUpsertion)),
    )


def outcomes(node, *items):
    results = node.call(altering(*items)).results
    assert len({result.user for result in results}) == len(results)
    return {result.user: result.error_code for result in results}


def described(node, *users, every_user=False):
    names = None if every_user else tuple(ScramUserName(name=user) for user in users)
    reply = node.call(DescribeUserScramCredentialsRequest(users=names), CLIENT)
    return {
        result.user: (
            result.error_code,
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in reply.results
    }


@pytest.mark.parametrize(
    ("number", "name"), [(SHA_256, "SCRAM-SHA-256"), (SHA_512, "SCRAM-SHA-512")]
)
def test_what_is_kept_of_a_password_proves_it(number, name):
    node = active()
    assert outcomes(node, upsert("bob", "builder", number)) == {"bob": ErrorCode.none}
    kept = credential_of(node.controller.image.state, name, "bob")
    server = ScramServer(name, {"bob": kept}.get)
    client = ScramClientExchange(name, Credentials("bob", "builder"))
    token = server.answer(client.first())
    assert client.next(server.answer(client.next(token))) is None
    assert server.user == "bob"


def test_the_salted_password_itself_is_not_kept():
    node = active()
    outcomes(node, upsert("bob"))
    (record,) = [value for batch in node.raft.log[2:] for value in batch.records]
    assert upsert("bob").salted_password not in record


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (upsert(""), ErrorCode.unacceptable_credential),
        (upsert("x", mechanism=0), ErrorCode.unsupported_sasl_mechanism),
        (upsert("x", mechanism=3), ErrorCode.unsupported_sasl_mechanism),
        (upsert("x", iterations=4095), ErrorCode.unacceptable_credential),
        (upsert("x", iterations=16385), ErrorCode.unacceptable_credential),
        (delete(""), ErrorCode.unacceptable_credential),
        (delete("x", 3), ErrorCode.unsupported_sasl_mechanism),
        (delete("x"), ErrorCode.resource_not_found),
    ],
)
def test_what_is_wrong_is_reported_and_changes_nothing(item, error):
    node = active()
    before = len(node.raft.log)
    assert outcomes(node, item) == {item.name: error}
    assert len(node.raft.log) == before


def test_a_user_that_is_named_twice_stays_as_it_is_and_others_change():
    node = active()
    outcomes(node, upsert("a"), upsert("b"))
    got = outcomes(node, delete("a"), upsert("a", "other"), upsert("b", "x"), upsert("c"))
    assert got == {
        "a": ErrorCode.duplicate_resource,
        "b": ErrorCode.none,
        "c": ErrorCode.none,
    }
    again = outcomes(node, upsert("d", mechanism=SHA_256), upsert("d", mechanism=SHA_512))
    assert again == {"d": ErrorCode.duplicate_resource}
    assert set(described(node, every_user=True)) == {"a", "b", "c"}


def test_all_users_of_a_request_are_one_batch():
    node = active()
    outcomes(node, upsert("a"))
    before = len(node.raft.log)
    outcomes(node, delete("a"), upsert("b"), upsert("c"))
    assert [len(batch.records) for batch in node.raft.log[before:]] == [3]


def test_the_users_asked_for_are_described():
    node = active()
    outcomes(node, upsert("a", mechanism=SHA_512, iterations=5000))
    outcomes(node, upsert("a", mechanism=SHA_256, iterations=4096), upsert("b"))
    both = [(SHA_256, 4096), (SHA_512, 5000)]
    assert described(node, "a") == {"a": (ErrorCode.none, both)}
    every_user = {"a": (ErrorCode.none, both), "b": (ErrorCode.none, [(SHA_512, 4096)])}
    assert described(node, every_user=True) == every_user == described(node)
    assert described(node, "x", "b", "b") == {
        "x": (ErrorCode.resource_not_found, []),
        "b": (ErrorCode.duplicate_resource, []),
    }


def test_what_was_deleted_is_gone():
    node = active()
    outcomes(node, upsert("a"))
    assert outcomes(node, delete("a")) == {"a": ErrorCode.none}
    assert credential_of(node.controller.image.state, "SCRAM-SHA-512", "a") is None
    assert outcomes(node, delete("a")) == {"a": ErrorCode.resource_not_found}


def test_a_node_that_is_not_active_refuses_every_user():
    assert outcomes(Node(), upsert("a"), delete("b")) == {
        "a": ErrorCode.not_controller,
        "b": ErrorCode.not_controller,
    }


def test_the_removal_of_what_is_not_there_ends_the_replica():
    with pytest.raises(ReplayError, match="unknown SCRAM credential"):
        replay(committed_state(), RemoveUserScramCredentialRecord(name="a", mechanism=1))


def test_keys_stay_out_of_representations():
    record = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"ssss", stored_key=b"kkkk", server_key=b"vvvv", iterations=1
    )
    assert not {"ssss", "kkkk", "vvvv"} & set(repr(record).replace("'", " ").split())

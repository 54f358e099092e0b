"""SCRAM users in the metadata, as a formatted folder begins with them."""

import pytest

from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.scram_users import credential_of, user_record
from cluster.node.controller.metadata.state import ReplayError, committed_state
from cluster.node.controller.records.kinds import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import ScramClientExchange, ScramServer


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("iterations", [4096, 16384])
def test_what_is_kept_of_a_password_proves_it(name, iterations):
    state = committed_state()
    record = user_record(f"{name}=[name=bob,iterations={iterations},password=buil=der]")
    assert record.iterations == iterations
    replay(state, record)
    server = ScramServer(name, {"bob": credential_of(state, name, "bob")}.get)
    client = ScramClientExchange(name, Credentials("bob", "buil=der"))
    token = server.answer(client.first())
    assert client.next(server.answer(client.next(token))) is None
    assert server.user == "bob"


def test_the_users_of_one_mechanism_are_not_those_of_another():
    state = committed_state()
    replay(state, user_record("SCRAM-SHA-256=[name=bob,password=x]"))
    assert credential_of(state, "SCRAM-SHA-512", "bob") is None
    replay(state, RemoveUserScramCredentialRecord(name="bob", mechanism=1))
    assert credential_of(state, "SCRAM-SHA-256", "bob") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-256=name=a,password=secret",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=,password=secret]",
        "SCRAM-SHA-256=[name=a,password=secret,salt=x]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=16385]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=x]",
        "SCRAM-SHA-256=[name=a,password=secret\a]",
    ],
)
def test_what_is_no_user_is_refused_without_its_password(text):
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as refused:
        user_record(text)
    assert "secret" not in str(refused.value)


def test_the_removal_of_what_is_not_there_ends_the_replica():
    with pytest.raises(ReplayError, match="unknown SCRAM credential"):
        replay(committed_state(), RemoveUserScramCredentialRecord(name="a", mechanism=1))


def test_keys_stay_out_of_representations():
    record = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"ssss", stored_key=b"kkkk", server_key=b"vvvv", iterations=1
    )
    assert not {"ssss", "kkkk", "vvvv"} & set(repr(record).replace("'", " ").split())

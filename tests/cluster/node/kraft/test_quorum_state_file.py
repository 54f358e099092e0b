"""The quorum-state file: Kafka's bytes. What crashes leave of it is in test_restart_matrix.py."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.kraft.quorum.quorum_state_store import (
    ElectionState,
    QuorumStateError,
    decode,
    encode,
)
from tests.cluster.node.kraft.bench import FILE, Bench

DIRECTORY = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def test_version_0_is_kafkas_json():
    content = encode(ElectionState(7, 2, ReplicaKey(3)), (1, 2, 3), version=0)
    assert content == (
        b'{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )


def test_version_1_is_kafkas_json():
    content = encode(ElectionState(7, -1, ReplicaKey(3, DIRECTORY)), (1, 2, 3), version=1)
    assert content == (
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":3,'
        b'"votedDirectoryId":"ASNFZ4mrze8BI0VniavN7w","data_version":1}'
    )


def test_no_vote_is_minus_one():
    assert decode(encode(ElectionState(7, 2), (1, 2), version=0)) == ElectionState(7, 2)
    assert b'"votedId":-1' in encode(ElectionState(7, 2), (1, 2), version=0)
    assert b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"' in encode(ElectionState(7), (1,), 1)


ids = st.integers(0, 2**31 - 1)
keys = st.none() | st.builds(ReplicaKey, ids, st.uuids())
states = st.builds(ElectionState, ids, ids | st.just(-1), keys)


@given(states)
def test_version_1_keeps_everything(state):
    assert decode(encode(state, (1, 2, 3), version=1)) == state


@given(states)
def test_version_0_keeps_all_but_the_directory(state):
    voted = None if state.voted_key is None else ReplicaKey(state.voted_key.id, NO_DIRECTORY)
    expected = ElectionState(state.epoch, state.leader_id, voted)
    assert decode(encode(state, (1, 2, 3), version=0)) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 80,
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"null",
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1}',
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":2}',
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":true}',
        b'{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":"2","votedId":-1,"data_version":0}',
        b'{"leaderId":-2,"leaderEpoch":2,"votedId":-1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":2,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":2,"votedId":3,"data_version":1}',
        b'{"leaderId":1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"AA","data_version":1}',
    ],
)
def test_what_is_not_a_quorum_state_is_an_error(content):
    with pytest.raises(QuorumStateError):
        decode(content)


@given(st.integers(0, 200), st.sampled_from([0, 1]))
def test_a_truncated_file_is_an_error(size, version):
    content = encode(ElectionState(7, -1, ReplicaKey(3, DIRECTORY)), (1, 2, 3), version)
    with pytest.raises(QuorumStateError):
        decode(content[: min(size, len(content) - 1)])


def test_a_failed_disk_never_reports_a_vote_as_durable():
    bench = Bench()
    bench.disk.fail(OSError(5, "I/O error"))
    done = []
    bench.store.write(b"{}", lambda: done.append(True))
    bench.scheduler.run_for(100)
    assert done == []
    assert bench.failures
    assert not bench.disk.exists(FILE)

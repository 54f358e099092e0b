"""The target `partition-leader`: the node that it means, and its refusal where there is none."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from cluster.client.caller import CallFailed, Peer
from cluster.node.ports import Endpoint, Failure
from harness.run.nemesis import partition_leader
from nemeses.base import ParameterError, Refusal
from nemeses.targets import check_target, choose

NODES = ("n1", "n2", "n3")


class Place:
    nodes = NODES

    def endpoint(self, node: str, listener: str) -> Endpoint:
        assert listener == "CLIENT"
        return Endpoint(int(node[1:]), "host", 9092)


class Brokers:
    """Answers per node id: partition leaders of one topic, or a failure."""

    def __init__(self, **answers: tuple[int, ...] | None) -> None:
        self._answers = answers

    async def ask(self, peer: Peer, message: object, read):
        leaders = self._answers[f"n{peer.endpoint.node_id}"]
        if leaders is None:
            raise CallFailed(Failure.TIMED_OUT)
        partitions = [SimpleNamespace(leader_id=leader) for leader in leaders]
        return read(SimpleNamespace(topics=[SimpleNamespace(partitions=partitions)]))


def found(**answers: tuple[int, ...] | None) -> str | None:
    return asyncio.run(partition_leader(Place(), Brokers(**answers)))


def test_it_is_the_node_that_leads_most_partitions():
    assert found(n1=(3, 2, 3), n2=(), n3=()) == "n3"
    assert found(n1=(2, 1), n2=(), n3=()) == "n1", "of equals the first"


def test_a_node_that_does_not_answer_or_knows_of_none_is_passed_over():
    assert found(n1=None, n2=(), n3=(2,)) == "n2"
    assert found(n1=(-1,), n2=None, n3=(1,)) == "n1"


def test_without_partitions_the_target_is_no_node_and_the_fault_is_refused():
    assert found(n1=(), n2=(-1,), n3=None) is None

    class View:
        backend = Place()
        controllers = NODES
        random = Random(1)

        async def partition_leader(self) -> str | None:
            return None

    with pytest.raises(Refusal, match="no topic partition has a leader"):
        asyncio.run(choose(View(), "partition-leader", {}))


def test_the_target_is_known_to_plans():
    check_target("partition-leader", NODES)
    with pytest.raises(ParameterError, match="did you mean 'partition-leader'"):
        check_target("partition-leaders", NODES)

"""Replicas go where Kafka's own placer puts them (tests/data/kafka/Placements.java)."""

import json
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cluster.node.controller.topics.placement import UsableBroker, place_replicas
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import (
    CLIENT,
    creatable,
    create,
    describe_cluster,
    metadata,
)

TABLE = Path(__file__).parents[3] / "data/kafka/placements-4.3.1.jsonl"


class Zeros:
    def randrange(self, start, stop):
        assert start < stop
        return start


def test_every_case_of_the_table_is_placed_as_by_kafka():
    cases = [json.loads(line) for line in TABLE.read_text().splitlines()]
    assert len(cases) == 400
    for case in cases:
        brokers = [UsableBroker(*fields) for fields in case["brokers"]]
        placed = place_replicas(Zeros(), brokers, len(case["placed"]), case["factor"])
        assert [list(replicas) for replicas in placed] == case["placed"], case


BROKERS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), max_size=8)


@given(BROKERS, st.integers(1, 8), st.integers(1, 20), st.integers(0, 2**32))
def test_replicas_are_distinct_and_spread_over_the_racks_and_the_leader_is_alive(
    rest, factor, count, seed
):
    brokers = [UsableBroker(0, "a")]
    brokers += [UsableBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(rest, 1)]
    factor = min(factor, len(brokers))
    by_id = {broker.id: broker for broker in brokers}
    for replicas in place_replicas(random.Random(seed), brokers, count, factor):
        assert len(set(replicas)) == factor
        assert not by_id[replicas[0]].fenced
        racks = {by_id[replica].rack for replica in replicas}
        assert len(racks) == min(factor, len({broker.rack for broker in brokers}))


def racked(**settings):
    brokers = Brokers(**settings)
    for broker in range(1, 7):
        brokers.join(broker, rack=f"r{broker % 3}")
    return brokers


def created_on(brokers, partitions, factor):
    (result,) = brokers.node.call(create(creatable("t", partitions, factor))).topics
    assert result.error_code is ErrorCode.none, result
    placed = [brokers.partition(result.topic_id, i).replicas for i in range(partitions)]
    return [tuple(replica % 3 for replica in replicas) for replicas in placed]


def test_topics_are_spread_over_the_racks_that_brokers_register_with():
    for racks in created_on(racked(), 12, 3):
        assert sorted(racks) == [0, 1, 2]


def test_clients_learn_the_racks():
    brokers = racked()
    for request in (metadata(), describe_cluster()):
        answer = brokers.node.call(request, CLIENT)
        assert [broker.rack for broker in answer.brokers] == [f"r{i % 3}" for i in range(1, 7)]


def test_a_broker_in_a_controlled_shutdown_gets_no_replicas():
    brokers = Brokers(1, 2, 3)
    brokers.topic(3)
    brokers.beat(3, shut_down=True)
    (result,) = brokers.node.call(create(creatable("u", 1, 3))).topics
    assert result.error_code is ErrorCode.invalid_replication_factor
    assert result.error_message.endswith("because only 2 broker(s) are registered.")


def test_fenced_brokers_alone_get_no_replicas():
    brokers = Brokers()
    brokers.register(1)
    (result,) = brokers.node.call(create(creatable("t", 1, 1))).topics
    assert result.error_code is ErrorCode.invalid_replication_factor
    assert "brokers are currently fenced" in result.error_message


def test_leaders_go_round_the_racks():
    brokers = [UsableBroker(i, f"r{i % 3}") for i in range(6)]
    placed = place_replicas(random.Random(5), brokers, 6, 3)
    assert sorted(replicas[0] for replicas in placed) == list(range(6))
    for one, two, three in (placed[:3], placed[3:]):
        assert {one[0] % 3, two[0] % 3, three[0] % 3} == {0, 1, 2}

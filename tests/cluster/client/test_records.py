"""Stock clients lose, repeat and reorder nothing while the leaders of their partitions change."""

from pathlib import Path

import pytest

from tests.cluster.client.record_clients import Place
from tests.cluster.client.records import Outcome, judged, run
from tests.kafka_release import release

RECORDS = 2_000
RATE = 500


def judgement(outcomes):
    """What must not be, by producer, consumer and partition."""
    return {
        (found.producer, found.consumer, found.partition): (
            found.lost,
            found.duplicated,
            found.out_of_order,
        )
        for outcome in outcomes
        for found in outcome.verdicts
        if not found.is_right
    }


def check(outcomes, clients):
    assert judgement(outcomes) == {}
    assert [(found.producer, found.acknowledged) for found in outcomes] == [
        (client, RECORDS) for client in clients
    ]
    for outcome in outcomes:
        read = {v.consumer: v.consumed for v in outcome.verdicts if v.partition is None}
        assert read == dict.fromkeys(clients, RECORDS)
        assert len(outcome.changes) == 1


@pytest.mark.cluster
def test_records_survive_a_change_of_leaders(tmp_path: Path):
    clients = ["kafka-python", "confluent-kafka", "kcat"]
    check(run(tmp_path, clients, RECORDS, 1, RATE), clients)


@pytest.mark.cluster
def test_records_of_kafkas_own_tools_survive_a_change_of_leaders(tmp_path: Path):
    check(run(tmp_path, ["java"], RECORDS, 1, RATE, release()), ["java"])


def places(*found):
    return [Place(*place) for place in found]


@pytest.mark.parametrize(
    ("acks", "read", "expected"),
    [
        ([], [(0, 0, 0), (0, 1, 1), (1, 0, 2)], {}),
        ([], [(0, 0, 0), (1, 0, 2)], {None: (1, 0, 0)}),
        ([], [(0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 0, 2)], {None: (0, 1, 0), 0: (0, 1, 0)}),
        ([], [(0, 0, 0), (0, 0, 0), (0, 1, 1), (1, 0, 2)], {None: (0, 1, 0), 0: (0, 1, 0)}),
        ([], [(0, 0, 1), (0, 1, 0), (1, 0, 2)], {0: (0, 0, 1)}),
        ([(0, 1, 1)], [(0, 0, 0), (1, 0, 1), (1, 1, 2)], {0: (1, 0, 0)}),
    ],
    ids=["right", "lost", "appended-twice", "read-twice", "reordered", "not-where-acknowledged"],
)
def test_what_is_wrong_is_found(acks, read, expected):
    outcome = Outcome("kcat", 3, 3, [])
    judged(outcome, "kcat", set(places(*acks)), places(*read))
    found = judgement([outcome])
    assert found == {("kcat", "kcat", partition): counts for partition, counts in expected.items()}

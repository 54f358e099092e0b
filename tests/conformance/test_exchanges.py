"""A controller of ours answers raw requests as Apache Kafka does, field by field.

The table has what Kafka 4.3.1 answered (`tests/data/kafka`); where ours answers otherwise, a
difference is named with its reason (`tests/conformance/exchanges/table.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.exchanges.cases import SITUATIONS, cases
from tests.conformance.exchanges.nodes import exchange
from tests.conformance.exchanges.table import DIFFERENCES, differing, load
from tests.kafka_release import VERSION, release

KAFKAS = load(VERSION)


def test_the_table_has_an_answer_to_every_request():
    for situation in SITUATIONS:
        names = [case.name for case in cases(situation)]
        assert len(set(names)) == len(names)
        assert list(KAFKAS[situation]) == names
    assert sum(map(len, KAFKAS.values())) >= 400


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("exchanges")
    return {
        name: exchange("kraft", situation, folder / name, {"version": VERSION})
        for name, situation in SITUATIONS.items()
    }


@pytest.mark.cluster
@pytest.mark.parametrize("situation", SITUATIONS)
def test_ours_answers_as_kafka_but_for_named_differences(ours, situation: str):
    unnamed = [
        f"{case}: {field}: ours {mine!r}, Kafka's {theirs!r}"
        for case, answer in ours[situation].items()
        for field, mine, theirs in differing(answer, KAFKAS[situation][case])
        if not any(known.covers(f"{situation}: {case}", field) for known in DIFFERENCES)
    ]
    assert not unnamed, "\n".join(unnamed)


@pytest.mark.cluster
def test_every_named_difference_is_there(ours):
    found = [
        (f"{situation}: {case}", field)
        for situation, answers in ours.items()
        for case, answer in answers.items()
        for field, _, _ in differing(answer, KAFKAS[situation][case])
    ]
    for known in DIFFERENCES:
        assert any(known.covers(case, field) for case, field in found), known.why


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize("situation", SITUATIONS)
def test_kafka_still_answers_as_it_did(tmp_path: Path, situation: str):
    release()
    answers = exchange("apache-kafka", SITUATIONS[situation], tmp_path / "n1", {"version": VERSION})
    assert answers == KAFKAS[situation]

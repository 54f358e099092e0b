"""A node of ours says of configurations what Apache Kafka says, key by key and error by error.

The table has what Kafka 4.3.1 answered (`tests/data/kafka`); where ours answers otherwise, a
difference is named with its reason.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.node.controller.configs import definitions
from tests.conformance.configs.cases import cases
from tests.conformance.configs.definitions import DATA, described, jdk
from tests.conformance.configs.exchange import exchange, load
from tests.conformance.exchanges.table import Difference, differing
from tests.kafka_release import VERSION, release

KAFKAS = load(VERSION)
STATIC = 4
DIFFERENCES = (
    Difference("A topic that is only validated gets no id.", "create .*", r"topics\.topic_id"),
    Difference(
        "A controller of Kafka takes the last of two changes of a key; ours refuses both, as "
        "brokers do.",
        "(name )?twice at the controller",
    ),
    Difference(
        "Cordoned log directories (KIP-1066) are not there.",
        ".* cordoned.log.dirs='x' at the controller",
    ),
    Difference(
        "Ours names what is wrong without the class that found it.",
        r".* (num\.io\.threads|log\.cleaner\.threads|metric\.reporters|"
        r"max\.connections\.per\.ip\.overrides)=.* at the client",
        r"responses\.error_message",
    ),
    Difference(
        "The files of our nodes set log.index.interval.bytes, so that plans may change it.",
        "create .*",
        r"topics\.configs\.index\.interval\.bytes\.config_source",
    ),
    Difference(
        "A key that Kafka does not define is shown with its value.",
        "describe (all brokers|broker 1) then at .*",
        r"results\.configs\.nonsense\..*",
    ),
)


def named(case: str, field: str) -> bool:
    return any(known.covers(case, field) for known in DIFFERENCES)


def without_files(ours: Any, kafkas: Any) -> None:
    """Leave out of both what their files decide: values and sources of keys that either sets."""
    for mine, theirs in zip(ours["results"], kafkas["results"], strict=True):
        for key in set(mine["configs"]) & set(theirs["configs"]):
            entries = mine["configs"][key], theirs["configs"][key]
            if any(entry["config_source"] == STATIC for entry in entries):
                for entry in entries:
                    for field in ("value", "config_source", "synonyms"):
                        entry.pop(field)


def differences(ours: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    for case, kafkas in load(VERSION).items():
        mine = copy.deepcopy(ours[case])
        if case.startswith("describe") and isinstance(kafkas, dict):
            without_files(mine, kafkas)
        for field, one, other in differing(mine, kafkas):
            yield case, field, one, other


def test_the_table_has_an_answer_to_every_request():
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    assert list(KAFKAS) == names


def test_topics_have_33_configurations_and_brokers_340():
    assert len(KAFKAS["describe t at the client"]["results"][0]["configs"]) == 33
    assert len(KAFKAS["describe broker 1 at the client"]["results"][0]["configs"]) == 340


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory):
    return exchange("kraft", tmp_path_factory.mktemp("configs") / "n1", {"version": VERSION})


@pytest.mark.cluster
def test_ours_answers_as_kafka_but_for_named_differences(ours):
    unnamed = [
        f"{case}: {field}: ours {mine!r}, Kafka's {theirs!r}"
        for case, field, mine, theirs in differences(ours)
        if not named(case, field)
    ]
    assert not unnamed, "\n".join(unnamed)


@pytest.mark.cluster
def test_every_named_difference_is_there(ours):
    found = [(case, field) for case, field, _, _ in differences(ours)]
    for known in DIFFERENCES:
        assert any(known.covers(case, field) for case, field in found), known.why


@pytest.mark.nightly
@pytest.mark.cluster
def test_kafka_still_answers_as_it_did(tmp_path):
    release()
    assert exchange("apache-kafka", tmp_path / "n1", {"version": VERSION}) == KAFKAS


@pytest.mark.cluster
def test_the_definitions_are_those_of_kafkas_classes():
    release()
    if jdk() is None:
        pytest.skip("there is no JDK")
    assert definitions.VERSION == VERSION
    assert described(VERSION) == DATA.read_text(encoding="ascii")

"""What other clients do at Kafka they do at our node (`python -m tests.cluster.client.others`)."""

import os
from pathlib import Path

import pytest

from benchmarks import page
from tests.cluster.client.others.clusters import Cluster, Ours
from tests.cluster.client.others.outcomes import (
    ASIDES,
    Outcome,
    load,
    run,
    store,
    stored_file,
    worse,
)
from tests.cluster.client.others.table import render
from tests.cluster.client.others.tool_chains import UnavailableError, programs
from tests.kafka_release import VERSION, release

ASIDE = next(iter(ASIDES))


def works(operation: str, seen: str = "") -> Outcome:
    return Outcome("client 1.0", operation, works=True, seen=seen)


def fails(operation: str, seen: str = "REFUSED") -> Outcome:
    return Outcome("client 1.0", operation, works=False, seen=seen)


@pytest.mark.parametrize(
    ("kafkas", "ours", "found"),
    [
        (works("a"), [works("a")], []),
        (works("a"), [fails("a", "NO")], ["client: a: NO"]),
        (works("a", "1"), [works("a", "2")], ["client: a: '2', at Kafka '1'"]),
        (works("a"), [works("b")], ["client: a: no outcome"]),
        (works("a"), [], []),
        (fails("a"), [fails("a", "OTHER")], []),
        (fails("a"), [works("a")], []),
        (works(ASIDE), [fails(ASIDE)], []),
    ],
)
def test_worse_is_what_works_at_kafka_and_not_alike_at_ours(
    kafkas: Outcome, ours: list[Outcome], found: list[str]
):
    assert worse([kafkas], ours) == found


def test_another_version_of_a_client_is_the_same_client():
    newer = Outcome("client 2.0", "a", works=False, seen="NO")
    assert worse([works("a")], [newer]) == ["client: a: NO"]


def test_the_table_tells_works_neither_aside_and_ours_from_each_other():
    kafkas = [works("a"), fails("b", "NO | WAY"), works(ASIDE), works("c"), works("d"), fails("e")]
    ours = [works("a"), fails("b", "NO"), fails(ASIDE), fails("c", "x" * 99), works("e")]
    table = render(kafkas, ours)
    for row in (
        "| operation | client 1.0 |",
        "| a | works |",
        "| b | neither: NO \\| WAY |",
        f"| {ASIDE} | aside: {ASIDES[ASIDE]} |",
        f"| c | **ours: {'x' * 60} ...** |",
        "| d | not run |",
        "| e | ours alone; Kafka: REFUSED |",
    ):
        assert f"{row}\n" in table


def test_outcomes_are_stored_as_they_are(tmp_path: Path):
    outcomes = [works("a", 'é "1"'), fails("b")]
    store(tmp_path / "stored", outcomes)
    assert load(tmp_path / "stored") == outcomes


def test_the_page_has_a_column_for_each_client_that_was_run_at_kafka():
    table = page.section("clients")
    stored = load(stored_file(VERSION))
    clients = {each.client for each in stored}
    assert clients == {f"Java clients {VERSION}", f"Kafka's tools {VERSION}"}
    for client in clients:
        assert client in table
    assert "**ours:" not in table
    assert "not run" not in table


@pytest.mark.cluster
@pytest.mark.parametrize(
    "clients",
    [("admin",), pytest.param(("admin", "tools"), marks=pytest.mark.nightly)],
    ids=["admin", "tools"],
)
def test_clients_do_at_our_brokers_what_they_do_at_kafkas(tmp_path: Path, clients: tuple[str, ...]):
    """Kafka's tools send what its Java clients send, each from a JVM of its own: by night.

    They find what the clients before them left.
    """
    version = release()
    try:
        built = programs(Path("build") / "others", version)
    except UnavailableError as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))
    said: list[str] = []
    with Cluster(Ours(), tmp_path) as cluster:
        chosen = [program for program in built if program.client in clients]
        ours = [outcome for program in chosen for outcome in run(program, cluster, said.append)]
        assert cluster.ended() == []
    assert len({outcome.key[0] for outcome in ours}) == len(clients), said
    found = worse(load(stored_file(version)), ours)
    assert not found, "\n".join([*found, *said])

"""What a KRaft node is configured with."""

from pathlib import PurePosixPath

import pytest
from kio.schema.api_versions.v0 import ApiVersionsRequest
from kio.serial import entity_reader

from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kinds import SettingError
from cluster.systems.kraft import API_VERSIONS_PING, KraftSystem, cluster_id_of

pytestmark = pytest.mark.slow


def placement(run_id: str = "run-1") -> Placement:
    return Placement(
        name="n1",
        node_id=1,
        run_id=run_id,
        folder=PurePosixPath("/runs/r/nodes/n1"),
        interpreter="/usr/bin/python3",
        client=Endpoint(1, "127.0.0.1", 11001),
        controller=Endpoint(1, "127.0.0.1", 11002),
        voters=(Endpoint(1, "127.0.0.1", 11002), Endpoint(2, "127.0.0.1", 11004)),
        brokers=(Endpoint(1, "127.0.0.1", 11001), Endpoint(2, "127.0.0.1", 11003)),
        routes=(Endpoint(2, "127.0.0.1", 19002),),
        broker_routes=(Endpoint(2, "127.0.0.1", 19003),),
    )


def properties(system: KraftSystem) -> dict[str, str]:
    lines = system.files(placement())["server.properties"].splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_server_properties_name_listeners_voters_routes_and_folders():
    rendered = properties(KraftSystem())
    assert rendered["node.id"] == "1"
    assert rendered["process.roles"] == "controller,broker"
    assert rendered["listeners"] == "CLIENT://127.0.0.1:11001,CONTROLLER://127.0.0.1:11002"
    assert rendered["controller.quorum.voters"] == "1@127.0.0.1:11002,2@127.0.0.1:11004"
    assert rendered["kraftprobe.brokers"] == "1@127.0.0.1:11001,2@127.0.0.1:11003"
    assert rendered["kraftprobe.routes"] == "2=127.0.0.1:19002"
    assert rendered["kraftprobe.broker.routes"] == "2=127.0.0.1:19003"
    assert rendered["metadata.log.dir"] == "/runs/r/nodes/n1/metadata"
    assert rendered["kraftprobe.trace.file"] == "/runs/r/nodes/n1/trace.jsonl"


def test_a_plans_setting_replaces_the_default():
    system = KraftSystem({"controller.quorum.fetch.timeout.ms": 700})
    assert properties(system)["controller.quorum.fetch.timeout.ms"] == "700"
    assert properties(system)["controller.quorum.election.timeout.ms"] == "1000"


def test_an_unknown_setting_is_refused_with_the_nearest_name():
    with pytest.raises(
        SettingError, match=r"did you mean 'controller\.quorum\.fetch\.timeout\.ms'"
    ):
        KraftSystem({"controller.quorum.fetch.timeout": 700})


@pytest.mark.parametrize("value", [True, -1, 1.5, "700"])
def test_a_setting_must_be_a_whole_number(value: object):
    with pytest.raises(SettingError, match="a whole number"):
        KraftSystem({"controller.quorum.fetch.timeout.ms": value})


def test_a_mutant_is_another_program_and_not_a_property():
    system = KraftSystem(mutant="M15")
    config = str(placement().folder / "server.properties")
    assert system.command(placement())[2:] == ("cluster.mutants", "M15", "--config", config)
    assert "M15" not in system.files(placement())["server.properties"]
    assert KraftSystem().command(placement())[2:] == ("cluster.node", "--config", config)


def test_cluster_ids_are_kafka_uuids_that_differ_from_run_to_run():
    ids = {cluster_id_of(f"run-{number}") for number in range(500)}
    assert len(ids) == 500
    assert all(len(id_) == 22 and not id_.startswith("-") for id_ in ids)


def test_the_ping_is_a_whole_api_versions_request():
    frame = API_VERSIONS_PING
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(ApiVersionsRequest.__header_schema__)(frame, 4)
    assert (header.request_api_key, header.request_api_version) == (18, 0)
    assert header.client_id is None
    assert 4 + size == len(frame), "the request itself has no fields in this version"

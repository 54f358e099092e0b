"""A campaign against nodes behind TLS and SASL: keys, clients, faults and checks."""

import asyncio
import ssl
import uuid
from pathlib import PurePosixPath

import pytest

from checkers.verdict import Status
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.localhost import write_files
from cluster.client.admin_client import Client
from cluster.client.caller import Peer
from cluster.node.config import parse_config
from cluster.node.part_configs import controller_registration, lifecycle_config
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.messages import ApiVersionsRequest
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from cluster.node.security.tls import PLAINTEXT
from cluster.schemas import Schema
from cluster.systems.authority import Authority
from cluster.systems.base import Placement
from cluster.systems.kinds import SettingError
from cluster.systems.kraft import API_VERSIONS_PING, KraftSystem
from cluster.systems.secured import RunSecurity, SecuritySettings, conceal
from harness.evidence import node_disks
from harness.plan.document import from_document
from harness.plan.stored_document import plan_document
from harness.plan.system_request import system_of
from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.conduct import perform

SECURITY = Schema(SecuritySettings, SettingError)
PLAN = {
    "campaign": "secured",
    "seed": 5,
    "duration_s": 8,
    "rate_per_s": 60,
    "concurrency": 8,
    "security": {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-256"},
    "schedule": [{"at_s": 1, "fault": "kill", "parameters": {"targets": "leader"}, "for_s": 2}],
}


def placement(folder="/run/n1", host="127.0.0.1"):
    return Placement(
        name="n1",
        node_id=1,
        run_id="r",
        folder=PurePosixPath(folder),
        interpreter="python3",
        client=Endpoint(1, host, 9001),
        controller=Endpoint(1, host, 9002),
        voters=(Endpoint(1, host, 9002),),
        brokers=(Endpoint(1, host, 9001),),
        routes=(),
    )


def secured(**table):
    return RunSecurity(SECURITY.read(table), "r")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"protokol": "SSL"}, "unknown key 'protokol'; did you mean 'protocol'"),
        ({"protocol": "SSLL"}, "protocol: unknown protocol 'SSLL'; did you mean 'SSL'"),
        ({"protocol": 3}, "unknown protocol '3'"),
        ({"protocol": "SSL", "mechanism": "PLAIN"}, "mechanism: SSL asks for none"),
        ({"protocol": "SASL_SSL", "mechanism": "SCRAM"}, "unknown mechanism 'SCRAM'"),
    ],
)
def test_what_is_wrong_with_security_is_reported(table, message):
    with pytest.raises(SettingError) as caught:
        SECURITY.read(table)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"protocol": "SSL"},
        {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"},
        {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512"},
    ],
)
def test_settings_are_stored_as_they_are_read(table):
    assert SECURITY.read(table).to_json() == table
    assert SECURITY.read({"protocol": "SASL_SSL"}).mechanism == "SCRAM-SHA-512"


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_what_is_rendered_is_what_the_node_reads(protocol, tmp_path):
    system = KraftSystem(security=secured(protocol=protocol))
    for name, content in system.files(placement(str(tmp_path))).items():
        (tmp_path / name).write_text(content)
    config = parse_config((tmp_path / "server.properties").read_text(), "test")
    assert {settings.protocol.name for settings in config.security.values()} == {protocol}
    broker = lifecycle_config(config, (uuid.UUID(int=7),)).registration
    for register in (broker, controller_registration(config)):
        assert [listener.security_protocol for listener in register.listeners] == [
            config.security["CLIENT"].protocol.value
        ]


def test_passwords_and_keys_differ_from_run_to_run_and_are_in_no_plan():
    first, second = (
        KraftSystem(security=secured(protocol="SASL_SSL")).files(placement()) for _ in range(2)
    )
    assert all(first[name] != second[name] for name in first)
    security = SECURITY.read({"protocol": "SASL_SSL"})
    assert set(security.to_json()) == {"protocol", "mechanism"}


def test_no_secret_is_readable_by_others_or_left_once_the_nodes_have_ended(tmp_path):
    security = secured(protocol="SASL_SSL")
    files = KraftSystem(security=security).files(placement(str(tmp_path)))
    write_files("n1", tmp_path, {name: text.encode() for name, text in files.items()})
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    password = security.client().credentials.password
    assert password in (tmp_path / "server.properties").read_text()
    conceal(tmp_path)
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(left) == {"server.properties", "truststore.pem"}
    assert not any(password in text or "PRIVATE KEY" in text for text in left.values())
    assert left["server.properties"].count('"[hidden]"') == 6
    assert left["server.properties"].count("\n") == files["server.properties"].count("\n")


def test_a_run_without_security_is_as_it_was():
    assert KraftSystem().ping == API_VERSIONS_PING
    assert KraftSystem().client_security is PLAINTEXT
    assert list(KraftSystem().files(placement())) == ["server.properties"]


@pytest.mark.parametrize(("host", "believed"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_a_certificate_is_for_the_hosts_that_it_names(host, believed, tmp_path):
    authority = Authority("r")
    store = tmp_path / "key.pem"
    store.write_text(authority.key_store("n1", ["127.0.0.1", "node.example"]))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(store)
    client_side = ssl.create_default_context(cadata=authority.certificate)
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does by itself from 3.13 on
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)

    def handshake():
        for _ in range(4):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return client.getpeercert()["subject"][0][0][1]

    if believed:
        assert handshake() == "n1"
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
            handshake()


def test_the_simulated_world_has_no_tls():
    with pytest.raises(ValueError, match="without TLS"):
        from_document(PLAN | {"backend": "sim"})


@pytest.mark.cluster
def test_a_secured_campaign_passes(tmp_path):
    plan = from_document(PLAN)
    store = RunStore.create(tmp_path, plan_document(plan, "run-secured", "kraftprobe run"))
    system = system_of(plan, "run-secured")
    perform(plan, store, lambda: LocalBackend(system, store.folder, plan.nodes, "run-secured"))
    node_disks.conceal(store, plan.node_names)
    kept = [path for path in store.folder.rglob("*") if path.is_file()]
    secrets = (b"PRIVATE KEY", system.client_security.credentials.password.encode())
    assert not [path for path in kept for secret in secrets if secret in path.read_bytes()]
    results = judge(store)
    found = {check.checker: (check.status, check.summary) for check in results.checks}
    # A starved machine serves too few operations for PASS; each of them is judged alike.
    assert {status for status, _ in found.values()} <= {Status.PASS, Status.UNDER_EXERCISED}
    assert {"log-agreement", "invariants", "exercised", "linearizable"} <= set(found)


@pytest.mark.cluster
def test_a_client_with_no_keys_or_those_of_another_run_is_kept_out(tmp_path):
    """Nor does a harness of another run trust the nodes."""
    system = KraftSystem(security=secured(protocol="SASL_SSL"))
    other = KraftSystem(security=secured(protocol="SASL_SSL"))

    async def work():
        backend = LocalBackend(system, tmp_path, 1, "run-other")
        networks = [TcpNetwork(), TcpNetwork(security=other.client_security)]
        clock = LoopClock(asyncio.get_running_loop())
        try:
            await backend.up()
            outcomes = []
            for listener in ("CLIENT", "CONTROLLER"):
                for network in networks:
                    client = Client(network, clock)
                    peer = Peer(backend.endpoint("n1", listener), 2_000)
                    outcomes.append(await client.create_topic(peer, "t"))
            insider = Client(backend.client_network(), clock)
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            return outcomes, await insider.ask(
                Peer(backend.endpoint("n1", "CLIENT"), 60_000),
                request,
                lambda answer: {key.api_key for key in answer.api_keys},
            )
        finally:
            for network in networks:
                network.close()
            await backend.down()

    outcomes, known = asyncio.run(work())
    assert {(outcome.type, outcome.error) for outcome in outcomes} == {("fail", "not-sent")}
    assert ApiKey.CREATE_TOPICS in known

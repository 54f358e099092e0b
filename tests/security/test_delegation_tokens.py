"""Kafka's own client with delegation tokens, at a broker and a controller of either kind."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.node.config_values import STANDARD_AUTHORIZER
from tests.clients.nodes import free_ports, wait_until_listens
from tests.clients.others.clusters import Kafka, Kind, Ours
from tests.clients.others.tool_chains import UnavailableError, compiled
from tests.kafka_release import release

pytestmark = pytest.mark.cluster
SOURCE = Path(__file__).with_name("DelegationTokens.java")
SECRET = "the nodes share this"
MODULES = "org.apache.kafka.common.security"
USERS = " ".join(f'user_{name}="of {name}"' for name in ("root", "alice", "bob", "carol"))
SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:node;User:root",
    "delegation.token.secret.key": SECRET,
}
BROKER = {
    "inter.broker.listener.name": "CLIENT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        f"{MODULES}.plain.PlainLoginModule required "
        f'username="node" password="n" user_node="n" {USERS};'
    ),
    **{
        f"listener.name.client.scram-sha-{bits}.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        )
        for bits in (256, 512)
    },
}
BY_ALICE = "User:alice by User:alice renewers [{}] hmac 64 id 22"
BY_BOB = "User:alice by User:bob renewers [] hmac 64 id 22"
BOBS = [BY_ALICE.format("User:bob"), BY_BOB]
ALL = [BY_ALICE.format("User:bob"), *[BY_ALICE.format("")] * 2, BY_BOB]
MISMATCH = "DelegationTokenOwnerMismatchException"
NOT_FOUND = "DelegationTokenNotFoundException"
EXPIRED = "DelegationTokenExpiredException"
NOT_ALLOWED = "UnsupportedByAuthenticationException"


def shown(tokens: list[str]) -> str:
    return f"[{', '.join(tokens)}]"


def uses(mechanism: str) -> dict[str, str]:
    return {
        f"{mechanism}: alice's right": "may create",
        f"{mechanism}: not alice's": "TopicAuthorizationException",
        **{
            f"{mechanism}: {what}": NOT_ALLOWED
            for what in ["issues", "renews", "expires", "describes"]
        },
        f"{mechanism}: a guess": "SaslAuthenticationException",
        f"{mechanism}: no token": "SaslAuthenticationException",
    }


OUTCOMES = {
    "issued": BY_ALICE.format("User:bob"),
    "its hmac is that of its id": "true",
    "for ever": "86400000 of 604800000 ms",
    "by default": "86400000 of 604800000 ms",
    "for another, with the right": BY_BOB,
    "for another, without": "DelegationTokenAuthorizationException",
    "renewed by a group": "InvalidPrincipalTypeException",
    "alice sees": shown(ALL),
    "bob sees": shown(BOBS),
    "carol sees": "[]",
    "root sees": shown(ALL),
    "root asks for bob's": shown(BOBS),
    "root asks for carol's": "[]",
    "root asks for nobody's": "[]",
    "carol sees with the right": shown(ALL),
    "renewed by a renewer": "true",
    "renewed for less": "true",
    "renewed by another": MISMATCH,
    "renewed that never was": NOT_FOUND,
    **uses("SCRAM-SHA-256"),
    **uses("SCRAM-SHA-512"),
    "ended by another": MISMATCH,
    "ends sooner": "true",
    "ends at once": "true",
    "renewed when it is gone": NOT_FOUND,
    "ended when it is gone": NOT_FOUND,
    "used when it is gone": "SaslAuthenticationException",
    "described when it has expired": "4",
    "renewed when it has expired": EXPIRED,
    "prolonged when it has expired": EXPIRED,
    "used when it has expired": "TimeoutException",
    "ended when it has expired": "true",
}


@contextlib.contextmanager
def nodes(kind: Kind, folder: Path) -> Iterator[str]:
    """A controller and a broker; yields where the broker listens."""
    controller, client = free_ports(2)
    processes = []
    with contextlib.ExitStack() as ended:
        for node, role, listener, port in (
            (1, "controller", "CONTROLLER", controller),
            (2, "broker", "CLIENT", client),
        ):
            place = folder / f"n{node}"
            place.mkdir()
            properties = {
                "process.roles": role,
                "node.id": node,
                "listeners": f"{listener}://127.0.0.1:{port}",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "log.dirs": place / "data",
                **SETTINGS,
                **(BROKER if role == "broker" else {}),
                **kind.properties(place),
            }
            config = place / "server.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            prepared = kind.prepare(config)
            if prepared:
                subprocess.run(prepared, check=True, stdout=subprocess.DEVNULL)
            output = ended.enter_context((place / "output").open("ab"))
            process = subprocess.Popen(kind.command(config), stdout=output, stderr=output)
            ended.callback(process.wait)
            ended.callback(process.kill)
            processes.append((process, port, place / "output"))
        for each in processes:
            wait_until_listens(*each)
        yield f"127.0.0.1:{client}"


@pytest.mark.parametrize("kind", ["ours", "apache-kafka"])
def test_tokens_are_issued_used_renewed_and_ended_as_at_kafka(kind: str, tmp_path: Path):
    version = release()
    try:
        java = compiled(tmp_path, version, [SOURCE])
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with nodes(Ours() if kind == "ours" else Kafka(version), tmp_path) as brokers:
        done = subprocess.run(
            [*java, "DelegationTokens", brokers, SECRET],
            check=False,
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    assert dict(line.split(" -> ") for line in done.stdout.splitlines()) == OUTCOMES

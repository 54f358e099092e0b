"""A broker of Apache Kafka enforces the entries that our controllers keep, for its own clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from cluster.node.config_values import STANDARD_AUTHORIZER
from cluster.systems.kafka.installation import find
from tests.clients.nodes import TIMEOUT_S, eventually
from tests.clients.real_brokers import Brokers, Controllers
from tests.kafka_release import release

pytestmark = pytest.mark.cluster
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ACCESS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:broker;User:alice",
}
"""The controller listener asks for no proof: to it brokers are ANONYMOUS."""
BROKER = {
    **ACCESS,
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        f'{LOGIN} required username="broker" password="b" '
        'user_broker="b" user_alice="a" user_bob="c";'
    ),
}


def options(brokers: Brokers, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": brokers.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def created(client: AdminClient, topic: str) -> str:
    """OK, or the name of the error."""
    (future,) = client.create_topics([NewTopic(topic, 1, 1)]).values()
    try:
        future.result(TIMEOUT_S)
    except KafkaException as refused:
        return refused.args[0].name()
    return "OK"


def produced(brokers: Brokers, topic: str) -> str:
    """What becomes of a record of bob's: OK, or the name of the error."""
    outcomes: list[str] = []
    producer = Producer(options(brokers, "bob", "c"))
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: outcomes.append(error.name() if error else "OK")
    )
    producer.flush(TIMEOUT_S)
    (outcome,) = outcomes
    return outcome


def allow(client: AdminClient, operation: AclOperation, topic: str) -> None:
    entry = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    (future,) = client.create_acls([entry]).values()
    future.result(TIMEOUT_S)


def test_entries_made_through_it_are_obeyed_by_our_controllers_and_by_itself(tmp_path: Path):
    installation = find({"version": release()})
    with (
        Controllers(tmp_path / "controllers", 1, **ACCESS) as controllers,
        Brokers(tmp_path / "brokers", controllers, 1, installation, BROKER) as brokers,
    ):
        alice = AdminClient(options(brokers, "alice", "a"))
        bob = AdminClient(options(brokers, "bob", "c"))
        eventually(lambda: created(alice, "alices"), "OK")
        refused = "TOPIC_AUTHORIZATION_FAILED"
        assert created(bob, "bobs") == refused, "our controller knows whose envelope it is"
        assert produced(brokers, "alices") == refused
        allow(alice, AclOperation.CREATE, "bobs")
        allow(alice, AclOperation.WRITE, "alices")
        assert created(bob, "bobs") == "OK"
        eventually(lambda: produced(brokers, "alices"), "OK")

"""Stock clients at a quorum of three with an authorizer, whose users SASL proves."""

import contextlib
import warnings

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from cluster.node.config_values import STANDARD_AUTHORIZER
from tests.clients.nodes import Nodes, eventually
from tests.security.authority import secured
from tests.security.test_stock_clients import PATIENT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as PyResourceType
    from kafka.errors import ClusterAuthorizationFailedError

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
TIMEOUT_S = 120
ANY_ACL = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
BOBS = AclBinding(
    ResourceType.TOPIC,
    "bobs-",
    ResourcePatternType.PREFIXED,
    "User:bob",
    "*",
    AclOperation.CREATE,
    AclPermissionType.ALLOW,
)


ABOUT_BOBS = ACLFilter(
    principal=None,
    host=None,
    operation=ACLOperation.ANY,
    permission_type=ACLPermissionType.ANY,
    resource_pattern=ResourcePatternFilter(
        PyResourceType.TOPIC, "bobs-7", ACLResourcePatternType.MATCH
    ),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    settings = {
        key: str(value).replace("user_alice", 'user_bob="builder" user_alice')
        for key, value in secured("SASL_PLAINTEXT", None).items()
    }
    settings |= {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:alice",
    }
    with Nodes(tmp_path_factory.mktemp("guarded"), **PATIENT, **settings) as nodes:
        nodes.wait_until_registered()
        yield nodes


def options(nodes, user, password):
    return {
        "bootstrap.servers": nodes.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.fixture(scope="module")
def alice(nodes):
    return AdminClient(options(nodes, "alice", "wonderland"))


@pytest.fixture(scope="module")
def bob(nodes):
    return AdminClient(options(nodes, "bob", "builder"))


def result(futures):
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def refusal(make):
    """The name of the error that ends a request."""
    with pytest.raises(KafkaException) as raised:
        make()
    return raised.value.args[0].name()


def create(client, topic):
    return result(client.create_topics([NewTopic(topic, 1, 1)]))


def described(client):
    return client.describe_acls(ANY_ACL).result(TIMEOUT_S)


def test_librdkafka_creates_describes_and_deletes_an_entry_that_lets_a_user_create_topics(
    alice, bob
):
    assert refusal(lambda: create(bob, "bobs-1")) == "TOPIC_AUTHORIZATION_FAILED"
    assert result(alice.create_acls([BOBS])) is None
    assert create(bob, "bobs-1") is None
    assert refusal(lambda: create(bob, "others-1")) == "TOPIC_AUTHORIZATION_FAILED"
    eventually(lambda: described(alice), [BOBS])
    assert result(alice.delete_acls([ANY_ACL])) == [BOBS]
    assert refusal(lambda: create(bob, "bobs-2")) == "TOPIC_AUTHORIZATION_FAILED"
    eventually(lambda: described(alice), [])


@contextlib.contextmanager
def kafka_python(nodes, user, password):
    client = KafkaAdminClient(
        bootstrap_servers=nodes.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=password,
    )
    with contextlib.closing(client):
        yield client


def test_entries_need_the_rights_to_alter_and_describe_the_cluster(nodes, bob):
    refused = "CLUSTER_AUTHORIZATION_FAILED"
    assert refusal(lambda: result(bob.create_acls([BOBS]))) == refused
    assert refusal(lambda: result(bob.delete_acls([ANY_ACL]))) == refused
    # librdkafka passes the error of a description by.
    with (
        kafka_python(nodes, "bob", "builder") as client,
        pytest.raises(ClusterAuthorizationFailedError, match="User:bob does not have DESCRIBE"),
    ):
        client.describe_acls(ABOUT_BOBS)


def test_kafka_python_describes_what_librdkafka_created(nodes, alice):
    assert result(alice.create_acls([BOBS])) is None
    with kafka_python(nodes, "alice", "wonderland") as client:
        found = []
        eventually(lambda: found.append(client.describe_acls(ABOUT_BOBS)) or found[-1][0])
        ((acl,), error) = found[-1]
    assert error.errno == 0
    assert (acl.principal, acl.host) == ("User:bob", "*")
    assert (acl.operation, acl.permission_type) == (ACLOperation.CREATE, ACLPermissionType.ALLOW)
    assert acl.resource_pattern.resource_name == "bobs-"
    assert result(alice.delete_acls([ANY_ACL])) == [BOBS]


def test_a_refusal_is_said_once_by_the_node_that_refuses(nodes, bob):
    for topic in ("mine", "mine"):
        assert refusal(lambda topic=topic: create(bob, topic)) == "TOPIC_AUTHORIZATION_FAILED"
    lines = [line for node in nodes.client_ports for line in nodes.said(node)]
    said = [line for line in lines if "'mine'" in line]
    assert [line.partition(": ")[2] for line in said] == [
        "'User:bob' is denied CREATE on TOPIC 'mine': no entry allows it"
    ]

"""Nodes with an authorizer: what they serve to a principal, directly and through a broker."""

import pytest

from cluster.backends.sim import world
from cluster.node.broker.config_admin import preprocess
from cluster.node.config_values import STANDARD_AUTHORIZER
from cluster.node.controller.access.codes import AclOperation
from cluster.node.controller.access.rights import Access
from cluster.node.controller.cluster_info import ClusterInfo
from cluster.node.controller.failed import failed_response
from cluster.node.controller.guard import BROKER_OPERATIONS, CLUSTER_OPERATIONS, cluster_refusal
from cluster.node.controller.state import committed_state
from cluster.node.envelope import FORWARDABLE, contains, seal, unseal_response
from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.kraft.messages import NO_DIRECTORY, VoteRequest
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import DATA_APIS, LISTENER_APIS, SERVED, ApiKey, ListenerType
from cluster.node.protocol.codec import Request, api_key_of, read_response, write_response
from cluster.node.protocol.data_messages import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from cluster.node.protocol.origin import ANONYMOUS, Origin
from tests.clients.test_every_api import FOR_CONTROLLERS, SAMPLES
from tests.controller.entries import Published, authorizer_of, entry
from tests.controller.fakes import alter, create, describe
from tests.controller.test_acls import FILTER, creation
from tests.sim.quorums import Quorum

ALICE = Origin("User", "alice", "192.0.2.7", "admin-1")
REFUSED = ErrorCode.cluster_authorization_failed
DESCRIBE = m.DescribeAclsRequest(**FILTER)


@pytest.fixture
def settings(monkeypatch):
    """What is put into the files of all nodes; nodes of the simulated world are ANONYMOUS."""
    added = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    parse = world.parse_config

    def with_settings(text, source):
        return parse(text + "".join(f"{k}={v}\n" for k, v in added.items()), source)

    monkeypatch.setattr(world, "parse_config", with_settings)
    return added


def ask(quorum, name, listener, message, origin=ANONYMOUS):
    replies = []
    quorum.node(name).handle(listener, message, replies.append, origin)
    assert quorum.scheduler.run_until(lambda: replies, 40_000)
    return replies[0]


def registered(quorum):
    """Return the leader, once its brokers take topics."""
    leader = quorum.elect()

    def has_brokers():
        brokers = quorum.node(leader).controller.image.state.brokers
        return len(brokers) == 3 and not any(brokers.get(n).fenced for n in (1, 2, 3))

    assert quorum.scheduler.run_until(has_brokers, 40_000)
    return leader


def create_acls(*texts):
    return m.CreateAclsRequest(creations=tuple(map(creation, texts)))


def grant(quorum, *texts):
    """Have the super user create entries, and all nodes learn of them."""
    leader = quorum.elect()
    results = ask(quorum, leader, "CONTROLLER", create_acls(*texts)).results
    assert [result.error_code for result in results] == [ErrorCode.none] * len(texts)
    end = quorum.node(leader).controller.image.offset

    def learnt():
        return all(quorum.node(name).controller.image.offset >= end for name in quorum.running())

    assert quorum.scheduler.run_until(learnt, 40_000)


def followers(quorum):
    leader = quorum.elect()
    return [name for name in quorum.world.names if name != leader]


def errors_of(reply):
    rows = reply.topics if hasattr(reply, "topics") else reply.results
    return [row.error_code for row in rows]


@pytest.mark.parametrize("wire", [False, True])
def test_a_client_is_authorized_as_itself_whichever_broker_it_asks(settings, wire):
    assert settings
    quorum = Quorum(3, wire=wire)
    asked = [registered(quorum), followers(quorum)[0]]
    for name in asked:
        assert errors_of(ask(quorum, name, "CLIENT", create("t"), ALICE)) == [
            ErrorCode.topic_authorization_failed
        ]
    grant(quorum, "User:alice CREATE topic:t... from 192.0.2.7")
    for number, name in enumerate(asked):
        topic = create(f"t{number}")
        assert errors_of(ask(quorum, name, "CLIENT", topic, ALICE)) == [ErrorCode.none]
        elsewhere = Origin("User", "alice", "192.0.2.8")
        assert errors_of(ask(quorum, name, "CLIENT", create("t9"), elsewhere)) == [
            ErrorCode.topic_authorization_failed
        ]


def test_entries_are_created_and_described_through_any_broker(settings):
    assert settings
    quorum = Quorum(3)
    follower = followers(quorum)[0]
    assert errors_of(ask(quorum, follower, "CLIENT", create_acls("User:a ALL topic:t"), ALICE)) == [
        REFUSED
    ]
    assert ask(quorum, follower, "CLIENT", DESCRIBE, ALICE).error_code is REFUSED
    grant(quorum, "User:alice ALTER cluster")
    created = ask(quorum, follower, "CLIENT", create_acls("User:a ALL topic:t"), ALICE)
    assert errors_of(created) == [ErrorCode.none]
    end = quorum.node(quorum.elect()).controller.image.offset
    assert quorum.scheduler.run_until(
        lambda: quorum.node(follower).controller.image.offset >= end, 40_000
    )
    described = ask(quorum, follower, "CLIENT", DESCRIBE, ALICE)
    assert [resource.resource_name for resource in described.resources] == ["kafka-cluster", "t"]


def test_an_envelope_needs_cluster_action_whatever_is_in_it(settings):
    assert settings
    quorum = Quorum(3)
    leader = registered(quorum)
    sealed = seal(create("t"), ANONYMOUS)
    reply = ask(quorum, leader, "CONTROLLER", sealed, ALICE)
    assert (reply.error_code, reply.response_data) == (REFUSED, None)
    grant(quorum, "User:alice CLUSTER_ACTION cluster")
    reply = ask(quorum, leader, "CONTROLLER", sealed, ALICE)
    assert errors_of(unseal_response(create("t"), reply)) == [ErrorCode.none]
    reply = ask(quorum, leader, "CONTROLLER", seal(create("u"), ALICE), ALICE)
    assert errors_of(unseal_response(create("u"), reply)) == [ErrorCode.topic_authorization_failed]


def test_a_stranger_cannot_move_a_quorum(settings):
    assert settings
    quorum = Quorum(3)
    leader = quorum.elect()
    epoch = quorum.node(leader).raft.state.epoch
    vote = VoteRequest(None, epoch + 5, 9, NO_DIRECTORY, -1, NO_DIRECTORY, epoch + 5, 10**6, False)
    reply = ask(quorum, leader, "CONTROLLER", vote, ALICE)
    assert (reply.top_level_error, reply.vote_granted) == (REFUSED, False)
    begin = raft.BeginQuorumEpochRequest(None, -1, NO_DIRECTORY, 9, epoch + 5, None)
    assert ask(quorum, leader, "CONTROLLER", begin, ALICE).top_level_error is REFUSED
    quorum.run(5_000)
    assert (quorum.elect(), quorum.node(leader).raft.state.epoch) == (leader, epoch)
    denied = [
        fields for _, _, event, fields, _ in quorum.world.nodes[leader].trace if event == "denied"
    ]
    assert [fields["operation"] for fields in denied] == ["CLUSTER_ACTION"] * 2


def test_a_quorum_of_super_users_comes_back_with_its_entries(settings):
    assert settings
    quorum = Quorum(3)
    grant(quorum, "User:alice CREATE cluster")
    for name in quorum.world.names:
        quorum.world.kill(name)
    for name in quorum.world.names:
        quorum.world.start(name)
    leader = registered(quorum)
    assert errors_of(ask(quorum, leader, "CLIENT", create("t"), ALICE)) == [ErrorCode.none]


def test_nodes_that_are_no_super_users_elect_nobody_and_are_said_to_be_refused(settings):
    settings["super.users"] = "User:admin"
    quorum = Quorum(3)
    assert not quorum.scheduler.run_until(lambda: quorum.leader() is not None, 20_000)
    for node in quorum.world.nodes.values():
        denied = [fields for _, _, event, fields, _ in node.trace if event == "denied"]
        assert {(f["principal"], f["operation"], f["reason"]) for f in denied} == {
            ("User:ANONYMOUS", "CLUSTER_ACTION", "the access control entries are not loaded yet")
        }


def test_what_a_broker_answers_itself_it_authorizes(settings):
    assert settings
    quorum = Quorum(3)
    name = registered(quorum)
    assert ask(quorum, name, "CLIENT", SAMPLES[ApiKey.DESCRIBE_LOG_DIRS], ALICE).error_code is (
        REFUSED
    )
    of_cluster = describe(resource=(4, "1"))
    (row,) = ask(quorum, name, "CLIENT", of_cluster, ALICE).results
    assert row.error_code is REFUSED
    grant(quorum, "User:alice DESCRIBE_CONFIGS cluster", "User:alice DESCRIBE cluster")
    assert ask(quorum, name, "CLIENT", SAMPLES[ApiKey.DESCRIBE_LOG_DIRS], ALICE).error_code is (
        ErrorCode.none
    )
    (row,) = ask(quorum, name, "CLIENT", of_cluster, ALICE).results
    assert row.error_code is not REFUSED


def test_metadata_are_shown_to_everybody(settings):
    assert settings
    quorum = Quorum(3)
    name = registered(quorum)
    assert errors_of(ask(quorum, name, "CLIENT", create("t"))) == [ErrorCode.none]
    request = m.MetadataRequest(topics=None, include_topic_authorized_operations=True)
    (topic,) = ask(quorum, name, "CLIENT", request, ALICE).topics
    assert (topic.name, topic.topic_authorized_operations) == ("t", 0)
    (topic,) = ask(quorum, name, "CLIENT", request).topics
    assert topic.topic_authorized_operations == 0b1101_1111_1000


IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
GUARDED = [
    FOR_CONTROLLERS if key is ApiKey.DESCRIBE_CLUSTER else sample
    for key, sample in SAMPLES.items()
    if type(sample) in CLUSTER_OPERATIONS and key is not ApiKey.ENVELOPE
]


OF_BROKERS = [
    SAMPLES[ApiKey.DESCRIBE_ACLS],
    SAMPLES[ApiKey.LIST_CONFIG_RESOURCES],
    SAMPLES[ApiKey.DESCRIBE_LOG_DIRS],
    AlterReplicaLogDirsRequest(
        dirs=(
            AlterReplicaLogDir(
                path="/d", topics=(AlterReplicaLogDirTopic(name="t", partitions=(0,)),)
            ),
        )
    ),
]
ALL_GUARDED = [
    *((request, CLUSTER_OPERATIONS) for request in GUARDED),
    *((request, BROKER_OPERATIONS) for request in OF_BROKERS),
]
OF_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""Their rights are the owner's and the renewers', or on a token and on its owner."""
OPEN_TO_ALL = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def test_every_request_of_controllers_asks_for_a_right():
    by_resource = {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
    asked = {api_key_of(request) for request in GUARDED} | {ApiKey.ENVELOPE}
    served = {ApiKey(key) for key in LISTENER_APIS[ListenerType.CONTROLLER]}
    assert asked | by_resource | OF_TOKENS | OPEN_TO_ALL == served


def test_every_request_of_brokers_asks_for_a_right_but_those_of_the_data_path():
    forwarded = {ApiKey(key) for key in FORWARDABLE}
    data_path = {
        *DATA_APIS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_PRODUCERS,
    }
    asked = {api_key_of(request) for request in OF_BROKERS} | {ApiKey.DESCRIBE_CONFIGS}
    served = {ApiKey(key) for key in LISTENER_APIS[ListenerType.BROKER]}
    assert asked | forwarded | data_path | OF_TOKENS | OPEN_TO_ALL == served


@pytest.mark.parametrize(
    ("request_", "operations"), ALL_GUARDED, ids=lambda value: type(value).__name__
)
def test_a_request_without_its_right_is_refused_whole(request_, operations):
    operation = operations[type(request_)]
    implying = IMPLYING.get(operation, ())
    others = [
        entry(f"User:alice {other.name} cluster", number)
        for number, other in enumerate(AclOperation)
        if other > AclOperation.ALL and other not in {operation, *implying}
    ]
    access = Access(authorizer_of(others), ALICE)
    refusal = cluster_refusal(request_, access, operations)
    assert refusal.error is REFUSED
    assert refusal.message == (
        f"User:alice does not have {operation.name} on the cluster, which this request needs."
    )
    may = Access(authorizer_of([entry(f"User:alice {operation.name} cluster")]), ALICE)
    assert cluster_refusal(request_, may, operations) is None
    not_loaded = Access(Published().authorizer, ALICE)
    assert cluster_refusal(request_, not_loaded, operations).error is ErrorCode.unknown_server_error


@pytest.mark.parametrize(
    ("request_", "operations"), ALL_GUARDED, ids=lambda value: type(value).__name__
)
def test_a_refusal_has_a_form_on_the_wire(request_, operations):
    assert type(request_) in operations
    key = api_key_of(request_)
    version = SERVED[key].highest
    response = failed_response(request_, REFUSED, "no")
    frame = write_response(Request(key, version, 7, "", request_), response)
    assert contains(read_response(frame[4:], key, version), REFUSED)


def test_loggers_of_a_broker_are_altered_where_an_entry_allows_it():
    cluster = ClusterInfo(cluster_id="c", node_id=1, brokers=(), controllers=())
    request = alter("cluster.node", "DEBUG", resource=(8, "1"))

    def altered(*entries):
        replies = []
        access = Access(authorizer_of([entry(f"User:alice {text}") for text in entries]), ALICE)
        assert preprocess(request, replies.append, committed_state(), cluster, access) is None
        return replies[0].responses[0].error_code

    assert altered() is REFUSED
    assert altered("ALTER_CONFIGS cluster") is not REFUSED

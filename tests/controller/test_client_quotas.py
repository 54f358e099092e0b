"""AlterClientQuotas and DescribeClientQuotas, after ClientQuotaControlManager and ClientQuotasImage."""

import pytest

from cluster.node.controller.image_writer import image_records, read_image
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.security import ClientQuotaRecord, QuotaEntity
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)
from tests.controller.fakes import CLIENT, Node, active

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(entity, remove=(), **values):
    ops = [AlterClientQuotasOp(key=key, value=float(v), remove=False) for key, v in values.items()]
    ops += [AlterClientQuotasOp(key=key, value=0.0, remove=True) for key in remove]
    return AlterClientQuotasRequestEntry(
        entity=tuple(
            AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ),
        ops=tuple(ops),
    )


def altered(node, *entries, validate_only=False):
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return [(e.error_code, e.error_message) for e in node.call(request).entries]


def described(node, *components, strict=False):
    """Quotas by entity, as any node's image has them; the error and its message if refused."""
    request = DescribeClientQuotasRequest(
        components=tuple(
            DescribeClientQuotasComponent(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ),
        strict=strict,
    )
    reply = node.call(request, CLIENT)
    if reply.entries is None:
        return reply.error_code, reply.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in found.entity): {
            value.key: value.value for value in found.values
        }
        for found in reply.entries
    }


OK = (ErrorCode.none, None)


def refused(message):
    return (ErrorCode.invalid_request, message)


def test_quotas_are_set_changed_and_removed():
    node = active()
    alice = {"user": "alice"}
    assert altered(node, entry(alice, producer_byte_rate=1024, request_percentage=12.5)) == [OK]
    assert altered(node, entry(alice, ["request_percentage"], producer_byte_rate=2048)) == [OK]
    assert described(node) == {(("user", "alice"),): {"producer_byte_rate": 2048.0}}
    assert altered(node, entry(alice, ["producer_byte_rate", "consumer_byte_rate"])) == [OK]
    assert described(node) == {}


def test_only_what_changes_is_written():
    node = active()
    altered(node, entry({"client-id": "a", "user": "b"}, consumer_byte_rate=5))
    end = node.raft.end_offset
    assert altered(node, entry({"user": "b", "client-id": "a"}, consumer_byte_rate=5)) == [OK]
    assert altered(node, entry({"user": "b"}, ["consumer_byte_rate"])) == [OK]
    assert node.raft.end_offset == end


def test_validate_only_changes_nothing():
    node = active()
    assert altered(node, entry({"user": "b"}, consumer_byte_rate=5), validate_only=True) == [OK]
    assert described(node) == {}


def test_one_entitys_error_leaves_the_others():
    node = active()
    outcomes = altered(
        node,
        entry({"user": "a"}, consumer_byte_rate=5, producer_byte_rate=-1),
        entry({"user": "b"}, consumer_byte_rate=7),
    )
    assert outcomes == [refused("Quota producer_byte_rate must be greater than 0"), OK]
    assert described(node) == {(("user", "b"),): {"consumer_byte_rate": 7.0}}


def test_an_entity_that_is_named_again_is_refused_and_yet_altered_once():
    node = active()
    outcomes = altered(
        node,
        entry({"user": "a"}, consumer_byte_rate=5),
        entry({"user": "a"}, consumer_byte_rate=6),
    )
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"
    assert outcomes == [refused(message)]
    assert described(node) == {(("user", "a"),): {"consumer_byte_rate": 5.0}}


def test_a_key_that_is_named_twice_is_refused():
    node = active()
    twice = entry({"user": None}, ["consumer_byte_rate"], consumer_byte_rate=6)
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"
    assert altered(node, twice) == [refused(message)]
    assert described(node) == {}


COMBINED = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        ({}, {"consumer_byte_rate": 1}, "Invalid empty client quota entity"),
        ({"group": "a"}, {}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"client-id": ""}, {}, "Empty client-id not supported"),
        ({"ip": "1.2.3.4", "user": "a"}, {}, COMBINED),
        ({"ip": "1.2.3.4.5"}, {}, "1.2.3.4.5 is not a valid IP or resolvable host."),
        ({"ip": "no host"}, {}, "no host is not a valid IP or resolvable host."),
        ({"user": "a"}, {"nonsense": 1}, "Invalid configuration key nonsense"),
        (
            {"user": "a"},
            {"connection_creation_rate": 1},
            "Invalid configuration key connection_creation_rate",
        ),
        (
            {"ip": None},
            {"producer_byte_rate": 1},
            "Invalid configuration key producer_byte_rate",
        ),
        (
            {"user": "a"},
            {"controller_mutation_rate": 0},
            "Quota controller_mutation_rate must be greater than 0",
        ),
        (
            {"user": "a"},
            {"producer_byte_rate": 1.5},
            "producer_byte_rate cannot be a fractional value.",
        ),
        (
            {"user": "a"},
            {"producer_byte_rate": 1e19},
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            {"ip": None},
            {"connection_creation_rate": 2**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_with_its_words(entity, values, message):
    node = active()
    assert altered(node, entry(entity, **values)) == [refused(message)]
    assert described(node) == {}


@pytest.mark.parametrize("ip", ["10.0.0.1", "::1", "localhost", "broker-1.example", None])
def test_addresses_and_their_default_have_quotas(ip):
    node = active()
    assert altered(node, entry({"ip": ip}, connection_creation_rate=10)) == [OK]
    assert described(node, ("ip", SPECIFIED, None)) == {
        (("ip", ip),): {"connection_creation_rate": 10.0}
    }


def rate(value):
    return {"consumer_byte_rate": value}


@pytest.fixture
def three():
    node = active()
    altered(
        node,
        entry({"user": "a"}, consumer_byte_rate=1),
        entry({"user": None}, consumer_byte_rate=2),
        entry({"user": "a", "client-id": "c"}, consumer_byte_rate=3),
    )
    return node


def test_a_filter_selects_by_name_by_default_and_by_type(three):
    named, default = (("user", "a"),), (("user", None),)
    both = (("client-id", "c"), ("user", "a"))
    assert described(three, ("user", EXACT, "a")) == {named: rate(1), both: rate(3)}
    assert described(three, ("user", EXACT, "a"), strict=True) == {named: rate(1)}
    assert described(three, ("user", DEFAULT, None)) == {default: rate(2)}
    assert described(three, ("user", SPECIFIED, None), strict=True) == {
        named: rate(1),
        default: rate(2),
    }
    assert described(three, ("client-id", SPECIFIED, None)) == {both: rate(3)}
    assert described(three, ("client-id", EXACT, "x")) == {}
    assert len(described(three)) == 3
    assert described(three, strict=True) == {}


MIXED = (
    "Invalid entity filter component combination. IP filter component should not be used with user "
    "or clientId filter component."
)


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", EXACT, "a")], ErrorCode.invalid_request, "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", DEFAULT, None)],
            ErrorCode.invalid_request,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", EXACT, "a")], ErrorCode.unsupported_version, "Unsupported entity type group"),
        (
            [("user", EXACT, None)],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", SPECIFIED, "a")],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("user", DEFAULT, "a")],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        ([("user", 3, None)], ErrorCode.invalid_request, "Unknown match type 3"),
        (
            [("ip", DEFAULT, None), ("user", DEFAULT, None)],
            ErrorCode.invalid_request,
            MIXED,
        ),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(three, components, error, message):
    assert described(three, *components) == (error, message)


def test_a_snapshot_has_the_quotas(three):
    state = three.controller.image.state
    again = read_image(encode_record(record) for record in image_records(state))
    assert list(again.client_quotas.keys()) == list(state.client_quotas.keys())
    entity = (QuotaEntity(entity_type="user", entity_name="a"),)
    assert ClientQuotaRecord(entity=entity, key="consumer_byte_rate", value=1.0) in list(
        image_records(state)
    )


def test_who_is_not_active_refuses_every_entity():
    node = Node()
    answer = altered(node, entry({"user": "a"}, consumer_byte_rate=1), entry({"user": "b"}))
    assert [error for error, _ in answer] == [ErrorCode.not_controller] * 2

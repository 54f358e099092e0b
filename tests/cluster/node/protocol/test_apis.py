"""What a listener lists is what it serves, and what it does not serve ends the connection."""

import struct

import pytest

from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType
from cluster.node.protocol.server import ListenerService
from cluster.node.wire.bounds import MalformedError
from tests.conformance.exchanges import wire

NOT_SERVED = {
    "DescribeAcls": 29,
    "CreateAcls": 30,
    "DeleteAcls": 31,
    "AlterConfigs": 33,
    "CreateDelegationToken": 38,
    "RenewDelegationToken": 39,
    "ExpireDelegationToken": 40,
    "DescribeDelegationToken": 41,
    "DescribeClientQuotas": 48,
    "AlterClientQuotas": 49,
    "DescribeUserScramCredentials": 50,
    "AlterUserScramCredentials": 51,
}


def service(type_):
    return ListenerService("L", type_, None)


def frame(key, version):
    return struct.pack(">hhih", key, version, 9, 4) + b"test" + bytes(20)


@pytest.mark.parametrize("type_", list(ListenerType))
def test_api_versions_lists_what_is_served_and_nothing_else(type_):
    frames = []
    service(type_).serve(frame(ApiKey.API_VERSIONS, 0), frames.append)
    answer = wire.read(frames[0][4:], ApiKey.API_VERSIONS, 0)
    assert answer["error_code"] == "none"
    listed = {api["api_key"] for api in answer["api_keys"]}
    assert listed == set(LISTENER_APIS[type_])
    assert not listed & set(NOT_SERVED.values())


@pytest.mark.parametrize("type_", list(ListenerType))
@pytest.mark.parametrize("key", NOT_SERVED.values(), ids=NOT_SERVED)
def test_what_is_not_listed_ends_the_connection_as_at_kafka(type_, key):
    frames = []
    with pytest.raises(MalformedError):
        service(type_).serve(frame(key, 1), frames.append)
    assert frames == []

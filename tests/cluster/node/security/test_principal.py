"""A client's principal: the user that SASL proved, the subject of its certificate, ANONYMOUS."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID as Oid

from cluster.node.kraft.messages import DescribeQuorumResponse
from cluster.node.ports import Failure
from cluster.node.security.principal import distinguished_name
from cluster.node.security.tls import client_security
from tests.cluster.node.runtime.test_server import Echo, run, until
from tests.cluster.node.security.authority import Authority
from tests.cluster.node.security.test_tls_listeners import a_server, ask, security_of


def name(*parts):
    """Of attributes in the order in which a certificate holds them."""
    return x509.Name(
        x509.RelativeDistinguishedName(
            [x509.NameAttribute(oid, value) for oid, value in part.items()]
        )
        for part in parts
    )


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name({Oid.COUNTRY_NAME: "DE"}, {Oid.COMMON_NAME: "n1"}), "CN=n1,C=DE"),
        (name({Oid.COMMON_NAME: "a,b"}, {Oid.ORGANIZATION_NAME: "#x+y"}), r"O=\#x\+y,CN=a\,b"),
        (name({Oid.DOMAIN_COMPONENT: "com"}, {Oid.USER_ID: "u"}), "UID=u,DC=com"),
        (name({Oid.COMMON_NAME: "  a b "}), r"CN=\ \ a b\ "),
        (name({Oid.COMMON_NAME: "  "}), r"CN=\ \ "),
        (name({Oid.COMMON_NAME: "ä=\0"}), "CN=ä\\=\\00"),
        (name({Oid.TITLE: "mr"}), "2.5.4.12=#0c026d72"),
        (name({Oid.EMAIL_ADDRESS: "a@b"}), "1.2.840.113549.1.9.1=#1603614062"),
        (name({Oid.COMMON_NAME: "y", Oid.ORGANIZATIONAL_UNIT_NAME: "x"}), "CN=y+OU=x"),
    ],
)
def test_a_subject_is_written_as_by_java(subject, text):
    """The texts are Java's, of X500Principal(bytes).getName()."""
    assert distinguished_name(subject) == text


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


pytestmark = pytest.mark.usefixtures("patient_network")
FAILURES = set(Failure)


class Asked(Echo):
    """Keeps the principals of its requests."""

    def __init__(self):
        self.principals = []

    def handle(self, listener, message, reply, origin):
        self.principals.append(f"{origin.principal_type}:{origin.principal_name}")
        super().handle(listener, message, reply, origin)


def principal(authority, protocol, client_auth):
    """Return the principal of a client with a certificate."""
    security = security_of(protocol, authority, **{"ssl.client.auth": client_auth})
    keys = authority.key_store("client", common_name="alice", organization_name="a,b")
    own = client_security(
        security_of(
            protocol, authority, **{"ssl.keystore.location": keys, "ssl.client.auth": "none"}
        )
    )
    handler = Asked()

    async def scenario():
        async with a_server(security, handler) as (_, port):
            assert isinstance(await ask(own, port), DescribeQuorumResponse)

    run(scenario)
    (found,) = handler.principals
    return found


def test_the_certificates_subject_is_the_principal_where_one_is_asked_for(authority):
    found = principal(authority, "SSL", "required")
    assert found.startswith("User:CN=alice,OU=")
    assert found.endswith(r",O=a\,b")
    assert principal(authority, "SSL", "none") == "User:ANONYMOUS"


def test_a_client_whose_certificate_cannot_be_read_is_hung_up_on(authority, monkeypatch):
    """OpenSSL trusts it; with no principal to go by it is not served, not even as ANONYMOUS."""

    def unreadable(_certificate):
        raise ValueError("not DER")

    monkeypatch.setattr("cluster.node.runtime.serving.subject_of", unreadable)
    security = security_of("SSL", authority, **{"ssl.client.auth": "required"})
    handler = Asked()

    async def scenario():
        async with a_server(security, handler) as (server, port):
            assert await ask(client_security(security), port) in FAILURES
            await until(lambda: not server.connections)

    run(scenario)
    assert handler.principals == []


def test_the_user_of_sasl_counts_more_than_a_certificate(authority):
    assert principal(authority, "SASL_SSL", "required") == "User:node"

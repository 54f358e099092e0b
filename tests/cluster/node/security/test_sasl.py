"""The exchange, without sockets: tokens in, tokens out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.protocol.apis import ApiKey, ListenerType, Origin
from cluster.node.protocol.codec import read_response, write_request
from cluster.node.protocol.messages import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from cluster.node.protocol.server import ListenerService
from cluster.node.security.authentication import Authenticator, SaslSession
from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import (
    SCRAM_BYTES_MAX,
    PlainServer,
    SaslError,
    ScramClientExchange,
    ScramServer,
    client_exchange,
    scram_credential,
)
from cluster.node.security.settings import MECHANISMS, SaslSettings
from cluster.node.wire.bounds import MalformedError

USERS = {"alice": "wonderland", "bob": "töpfer"}
AUTHENTICATOR = Authenticator(
    SaslSettings(MECHANISMS, dict.fromkeys(MECHANISMS, USERS), None, None, 1000)
)


class Answers:
    def handle(self, listener, message, reply, origin=None):
        self.origin = origin
        reply(DescribeQuorumResponse(ErrorCode.none, 1, 3, 17))


class Connection:
    """One client's connection to a session, as frames."""

    def __init__(self):
        self.answers = Answers()
        self.service = ListenerService("CLIENT", ListenerType.CONTROLLER, self.answers)
        self.session = SaslSession(self.service, AUTHENTICATOR)

    def ask(self, message, key, version):
        given = []
        self.session.serve(write_request(message, version, 5, "test")[4:], given.append)
        (frame,) = given
        return read_response(frame[4:], key, version)

    def versions(self):
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        return self.ask(request, ApiKey.API_VERSIONS, 3)

    def handshake(self, mechanism):
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE, 1)

    def frames(self, frame):
        given = []
        self.session.serve(frame, given.append)
        return given

    def token(self, token, version=2):
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.ask(request, ApiKey.SASL_AUTHENTICATE, version)

    def quorum(self):
        return self.ask(DescribeQuorumRequest(), ApiKey.DESCRIBE_QUORUM, 2)

    def authenticate(self, mechanism, user, password):
        assert self.handshake(mechanism).error_code is ErrorCode.none
        exchange = client_exchange(mechanism, Credentials(user, password))
        token = exchange.first()
        while token is not None:
            answer = self.token(token)
            if answer.error_code is not ErrorCode.none:
                return answer.error_code
            token = exchange.next(answer.auth_bytes)
        return ErrorCode.none


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", USERS)
def test_a_client_that_knows_the_password_is_served(mechanism, user):
    connection = Connection()
    connection.versions()
    assert connection.authenticate(mechanism, user, USERS[user]) is ErrorCode.none
    assert connection.session.authenticated
    assert connection.quorum().leader_id == 1


def prove_with_bare_tokens(connection, mechanism, password):
    """Authenticate as before KIP-152; returns what the server hung up with, or its last token."""
    request = SaslHandshakeRequest(mechanism=mechanism)
    assert connection.ask(request, ApiKey.SASL_HANDSHAKE, 0).error_code is ErrorCode.none
    exchange = client_exchange(mechanism, Credentials("alice", password))
    token = exchange.first()
    while token is not None:
        (frame,) = connection.frames(token)
        if frame is None:
            return None
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        token = exchange.next(frame[4:])
    return frame[4:]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_after_version_0_of_the_handshake_tokens_are_bare(mechanism):
    connection = Connection()
    assert prove_with_bare_tokens(connection, mechanism, "wonderland") is not None
    assert connection.session.authenticated
    assert connection.quorum().leader_id == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_bare_token_that_proves_nothing_is_hung_up_on(mechanism):
    connection = Connection()
    assert prove_with_bare_tokens(connection, mechanism, "wonder") is None
    assert connection.session.over
    assert not connection.session.authenticated


def test_what_the_metadata_keep_of_a_user_counts_more_than_the_configuration():
    kept = {("SCRAM-SHA-256", "alice"): scram_credential("SCRAM-SHA-256", "changed")}
    kept["SCRAM-SHA-256", "carol"] = scram_credential("SCRAM-SHA-256", "new here")
    settings = SaslSettings(MECHANISMS, dict.fromkeys(MECHANISMS, USERS), None, None, 1000)
    authenticator = Authenticator(settings, lambda *key: kept.get(key))

    def outcome(user, password, mechanism="SCRAM-SHA-256"):
        connection = Connection()
        connection.session = SaslSession(connection.service, authenticator)
        return connection.authenticate(mechanism, user, password)

    failed = ErrorCode.sasl_authentication_failed
    assert outcome("alice", "changed") is ErrorCode.none
    assert outcome("alice", "wonderland") is failed
    assert outcome("alice", "wonderland", "SCRAM-SHA-512") is ErrorCode.none
    assert outcome("carol", "new here") is ErrorCode.none
    assert outcome("carol", "new here", "SCRAM-SHA-512") is failed
    del kept["SCRAM-SHA-256", "alice"]
    assert outcome("alice", "wonderland") is ErrorCode.none


def test_the_node_learns_the_principal():
    connection = Connection()
    connection.authenticate("SCRAM-SHA-512", "alice", "wonderland")
    connection.quorum()
    assert connection.answers.origin == Origin("User", "alice", "", "test")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wonderlan"), ("alice", "töpfer"), ("nobody", "x")]
)
def test_a_client_that_does_not_is_refused_and_hung_up_on(mechanism, user, password):
    connection = Connection()
    error = connection.authenticate(mechanism, user, password)
    assert error is ErrorCode.sasl_authentication_failed
    assert connection.session.over
    assert not connection.session.authenticated


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are():
    connection = Connection()
    answer = connection.handshake("GSSAPI")
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == MECHANISMS
    assert connection.session.over


def test_nothing_is_served_before_the_proof():
    for steps in ([], ["versions"], ["handshake"]):
        connection = Connection()
        if "versions" in steps:
            connection.versions()
        if "handshake" in steps:
            connection.handshake("PLAIN")
        with pytest.raises(MalformedError):
            connection.quorum()


def test_a_token_before_its_mechanism_and_a_second_mechanism_end_the_connection():
    with pytest.raises(MalformedError):
        Connection().token(b"\0alice\0wonderland")
    connection = Connection()
    connection.handshake("PLAIN")
    with pytest.raises(MalformedError):
        connection.handshake("SCRAM-SHA-512")


def test_frames_are_short_before_the_proof_only():
    connection = Connection()
    assert connection.session.max_frame_bytes == 1000
    connection.authenticate("PLAIN", "alice", "wonderland")
    assert connection.session.max_frame_bytes is None


def test_sasl_after_the_proof_or_where_none_is_asked_for_is_an_illegal_state():
    connection = Connection()
    connection.authenticate("PLAIN", "alice", "wonderland")
    assert connection.handshake("PLAIN").error_code is ErrorCode.illegal_sasl_state
    assert connection.token(b"").error_code is ErrorCode.illegal_sasl_state
    assert connection.quorum().leader_id == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_version_of_authenticate_is_served(version):
    connection = Connection()
    connection.handshake("PLAIN")
    assert connection.token(b"\0alice\0wonderland", version).error_code is ErrorCode.none


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice",
        b"\0\0",
        b"\0alice\0",
        b"\0nobody\0",
        b"root\0alice\0wonderland",
        b"\0alice\0wonderland\0",
        b"\0alice\0\xff",
    ],
)
def test_plain_refuses(token):
    with pytest.raises(SaslError):
        PlainServer(USERS).answer(token)


def test_a_server_that_does_not_know_the_password_is_not_trusted():
    client = ScramClientExchange("SCRAM-SHA-256", Credentials("alice", "wonderland"))
    impostor = ScramServer(
        "SCRAM-SHA-256", {"alice": scram_credential("SCRAM-SHA-256", "looking glass")}.get
    )
    proof = client.next(impostor.answer(client.first()))
    with pytest.raises(SaslError):
        impostor.answer(proof)
    with pytest.raises(SaslError):
        client.next(b"v=c2lnbmF0dXJl")


def test_a_server_that_asks_for_too_many_iterations_is_not_obeyed():
    client = ScramClientExchange("SCRAM-SHA-256", Credentials("alice", "wonderland"))
    nonce = client.first().decode().rpartition("r=")[2]
    with pytest.raises(SaslError, match="iterations"):
        client.next(f"r={nonce}x,s=QUJDREVGR0hJSktMTU5PUA==,i=1000000".encode())


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_scram_looks_at_no_message_that_would_keep_a_node_busy(more, is_read):
    """Before any proof, half a megabyte of a name took 3.5 s on the node's one thread."""
    client = ScramClientExchange("SCRAM-SHA-256", Credentials("alice", "wonderland"))
    first = client.first() + b",x="
    server = AUTHENTICATOR.begin("SCRAM-SHA-256")
    answer = b"r=%sz,s=QUJDREVGR0hJSktMTU5PUA==,i=4096,x=" % first[:-3].rpartition(b"r=")[2]
    for side, message in ((server.answer, first), (client.next, answer)):
        long = message.ljust(SCRAM_BYTES_MAX + more, b"x")
        if is_read:
            side(long)
        else:
            with pytest.raises(SaslError):
                side(long)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.text("nyp,=arscvi0A\0", max_size=40), max_size=3))
def test_no_token_breaks_a_server(tokens):
    for mechanism in MECHANISMS:
        exchange = AUTHENTICATOR.begin(mechanism)
        for token in tokens:
            try:
                exchange.answer(token if isinstance(token, bytes) else token.encode())
            except SaslError:
                break
        assert exchange.user is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text("nyp,=arscvi0A\0", max_size=40).map(str.encode))
def test_no_token_breaks_or_convinces_a_client(token):
    client = ScramClientExchange("SCRAM-SHA-256", Credentials("alice", "wonderland"))
    client.first()
    with pytest.raises(SaslError):
        client.next(token)


# --- extensions ---


class ExtendedClient(ScramClientExchange):
    """A client whose first message has extensions, such as Java's with a delegation token."""

    def __init__(self, extensions):
        super().__init__("SCRAM-SHA-256", Credentials("alice", "wonderland"))
        self.extensions = extensions

    def first(self):
        first = super().first() + self.extensions.encode()
        self._client.client_first_bare += self.extensions
        return first


def use(connection, client):
    assert connection.handshake("SCRAM-SHA-256").error_code is ErrorCode.none
    token = client.first()
    while token is not None:
        answer = connection.token(token)
        if answer.error_code is not ErrorCode.none:
            return answer.error_code
        token = client.next(answer.auth_bytes)
    return ErrorCode.none


@pytest.mark.parametrize("extensions", [",tokenauth=false", ",other=x", ",other=x,tokenauth=no"])
def test_a_user_may_send_extensions(extensions):
    connection = Connection()
    assert use(connection, ExtendedClient(extensions)) is ErrorCode.none
    connection.quorum()
    assert connection.answers.origin.principal_name == "alice"


@pytest.mark.parametrize("extensions", [",tokenauth=true", ",x=y,tokenauth=TRUE", ",tokenauth"])
def test_a_delegation_token_is_no_user(extensions):
    refused = use(Connection(), ExtendedClient(extensions))
    assert refused is ErrorCode.sasl_authentication_failed


def test_extensions_are_part_of_what_is_proved():
    client = ExtendedClient(",other=true,x=y")
    first = client.first()
    client._client.client_first_bare = client._client.client_first_bare.removesuffix(",x=y")
    connection = Connection()
    connection.handshake("SCRAM-SHA-256")
    proof = client.next(connection.token(first).auth_bytes)
    assert connection.token(proof).error_code is ErrorCode.sasl_authentication_failed

"""Servers and networks of ours on real sockets, with peers that misbehave."""

import asyncio
import os
import socket
import ssl
import struct
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization

from cluster.node.config import parse_config
from cluster.node.kraft.messages import DescribeQuorumRequest
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol.apis import ListenerType
from cluster.node.protocol.codec import write_request
from cluster.node.protocol.server import ListenerService
from cluster.node.runtime.network import TcpNetwork
from cluster.node.runtime.server import Binding, ServerLimits, TcpServer
from cluster.node.security.authentication import Authenticator
from cluster.node.security.jaas import Credentials
from cluster.node.security.settings import SecuritySettingsError
from cluster.node.security.tls import client_context, client_security, server_context
from tests.cluster.node.runtime.test_network import ask as ask_over
from tests.cluster.node.runtime.test_server import ANSWER, Caller, Echo, run, until
from tests.cluster.node.security.authority import Authority, secured
from tests.cluster.node.test_config import MINIMAL
from tests.play import play

pytestmark = pytest.mark.usefixtures("patient_network")
HANDSHAKE_MS = 1_500.0
"""Enough for a handshake on a busy machine, and how long the tests wait for one that does not come."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


def security_of(protocol, authority, mechanism="PLAIN", **more):
    settings = {**MINIMAL, **secured(protocol, authority, mechanism), **more}
    text = "".join(f"{k}={v}\n" for k, v in settings.items() if v is not None)
    return parse_config(text, "f").security["CONTROLLER"]


@asynccontextmanager
async def a_server(security, handler=None, **limits):
    server = TcpServer(ServerLimits(**limits))
    binding = Binding(
        ListenerService("CONTROLLER", ListenerType.CONTROLLER, handler or Echo()),
        "127.0.0.1",
        0,
        security.tls and server_context(security.tls),
        security.sasl and Authenticator(security.sasl),
    )
    (port,) = await server.bind([binding])
    await server.serve()
    try:
        yield server, port
    finally:
        server.close()
        await until(lambda: not server.connections)
        assert server.buffered_bytes == 0


async def ask(security, port):
    network = TcpNetwork(security=security)
    try:
        return await ask_over(network, Endpoint(1, "127.0.0.1", port))
    finally:
        network.close()


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
@play(run)
async def test_a_peer_with_the_same_settings_is_served(*, authority, protocol, mechanism):
    security = security_of(protocol, authority, mechanism)
    async with a_server(security) as (server, port):
        assert await ask(client_security(security), port) == ANSWER
        await until(lambda: not server.connections)
        assert server.authentication_failures == 0


@play(run)
async def test_a_wrong_password_was_not_sent(*, authority):
    security = security_of("SASL_SSL", authority, "SCRAM-SHA-256")
    wrong = replace(client_security(security), credentials=Credentials("node", "guessed"))
    async with a_server(security) as (server, port):
        assert await ask(wrong, port) is Failure.NOT_SENT
        await until(lambda: server.authentication_failures == 1)


@play(run)
async def test_a_certificate_of_another_authority_was_not_sent(*, authority, tmp_path):
    security = security_of("SSL", authority)
    other = client_security(security_of("SSL", Authority(tmp_path)))
    async with a_server(security) as (server, port):
        assert await ask(other, port) is Failure.NOT_SENT
        await until(lambda: server.authentication_failures > 0)


@play(run)
async def test_a_certificate_for_another_host_was_not_sent_unless_names_do_not_matter(*, authority):
    elsewhere = {"ssl.keystore.location": authority.key_store("elsewhere", "elsewhere.test")}
    strict = security_of("SSL", authority, **elsewhere)
    lax = security_of(
        "SSL", authority, **elsewhere, **{"ssl.endpoint.identification.algorithm": ""}
    )
    async with a_server(strict) as (_, port):
        assert await ask(client_security(strict), port) is Failure.NOT_SENT
        assert await ask(client_security(lax), port) == ANSWER


@play(run)
async def test_a_proxy_in_the_link_does_not_change_the_expected_certificate(*, authority):
    security = security_of("SSL", authority)
    async with a_server(security) as (_, port):
        network = TcpNetwork({1: ("127.0.0.1", port)}, security=client_security(security))
        for host, expected in (("localhost", ANSWER), ("elsewhere.test", Failure.NOT_SENT)):
            assert await ask_over(network, Endpoint(1, host, 1)) == expected
        network.close()


@pytest.mark.parametrize("client_auth", ["requested", "required"])
@play(run)
async def test_a_client_without_a_certificate_is_served_only_where_none_is_required(
    *, authority, client_auth
):
    security = security_of("SSL", authority, **{"ssl.client.auth": client_auth})
    ours = client_security(security)
    anonymous = replace(ours, tls=client_context(replace(security.tls, key_store=None)))
    async with a_server(security) as (_, port):
        assert await ask(ours, port) == ANSWER
        expected = ANSWER if client_auth == "requested" else Failure.NOT_SENT
        assert await ask(anonymous, port) == expected


def test_a_key_may_be_encrypted(authority, tmp_path):
    pem = authority.key_store("encrypted").read_bytes()
    key = serialization.load_pem_private_key(pem, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    path = tmp_path / "encrypted.pem"
    path.write_bytes(key + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    own = {"ssl.keystore.location": path, "ssl.key.password": "word"}
    security = security_of("SSL", authority, **own)

    async def body():
        async with a_server(security) as (_, port):
            assert await ask(client_security(security), port) == ANSWER

    run(body)
    wrong = security_of("SSL", authority, **{**own, "ssl.key.password": "other"})
    with pytest.raises(SecuritySettingsError, match=r"^ssl.keystore: "):
        server_context(wrong.tls)


@pytest.mark.parametrize("content", [None, "", "no PEM"])
def test_a_file_that_cannot_be_used_is_one_line(authority, tmp_path, content):
    path = tmp_path / "x.pem"
    if content is not None:
        path.write_text(content)
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        security = security_of("SSL", authority, **{key: path})
        with pytest.raises(SecuritySettingsError) as raised:
            client_security(security)
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)


# --- peers that misbehave ---


async def plain_socket(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def is_hung_up(reader):
    try:
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("sent", ["nothing", "half a hello", "garbage"])
@play(run)
async def test_a_peer_that_stops_mid_handshake_is_disconnected_and_stalls_no_other(
    *, authority, sent
):
    security = security_of("SSL", authority)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = client_context(security.tls).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    start = {"nothing": b"", "half a hello": outgoing.read(100), "garbage": os.urandom(3000)}[sent]
    async with a_server(security, handshake_timeout_ms=HANDSHAKE_MS) as (server, port):
        reader, writer = await plain_socket(port)
        writer.write(start)
        assert await ask(client_security(security), port) == ANSWER
        assert await is_hung_up(reader)
        writer.transport.abort()
        await until(lambda: not server.connections)
        assert server.authentication_failures == 1


@play(run)
async def test_a_peer_that_never_authenticates_is_hung_up_on(*, authority):
    security = security_of("SASL_PLAINTEXT", authority)
    async with a_server(security, handshake_timeout_ms=HANDSHAKE_MS) as (_, port):
        reader, writer = await plain_socket(port)
        assert await ask(client_security(security), port) == ANSWER
        assert await is_hung_up(reader)
        writer.transport.abort()


@play(run)
async def test_a_peer_that_authenticated_may_take_its_time(*, authority):
    security = security_of("SASL_SSL", authority)
    async with a_server(security, handshake_timeout_ms=HANDSHAKE_MS) as (server, port):
        network = TcpNetwork(security=client_security(security))
        for wait_ms in (0, 1.2 * HANDSHAKE_MS):
            await asyncio.sleep(wait_ms / 1000)
            assert await ask_over(network, Endpoint(1, "127.0.0.1", port)) == ANSWER
        assert server.authentication_failures == 0
        assert len(server.connections) == 1
        network.close()


@play(run)
async def test_a_long_frame_before_the_proof_is_not_even_collected(*, authority):
    security = security_of("SASL_PLAINTEXT", authority)
    async with a_server(security) as (server, port):
        reader, writer = await plain_socket(port)
        writer.write(struct.pack(">i", 524_289))
        assert await is_hung_up(reader)
        assert server.buffered_bytes == 0
        writer.transport.abort()


@pytest.mark.slow
@play(run)
async def test_a_tls_peer_that_never_reads_is_not_served_without_bound(*, authority):
    security = security_of("SSL", authority)
    async with a_server(security) as (server, port):
        context = client_context(security.tls)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.transport.pause_reading()
        request = write_request(DescribeQuorumRequest(), 2, 1, "greedy" * 1000)
        writer.write(request * 3000)
        held = -1
        while held != server.buffered_bytes:  # until all buffers between us are full
            held = server.buffered_bytes
            answer = await ask(client_security(security), port)
            assert answer == ANSWER
            await asyncio.sleep(0.05)
        assert server.buffered_bytes < 3_000_000
        writer.transport.abort()


@play(run)
async def test_hundreds_of_connections_take_no_peers_place(*, authority):
    """Each listener has places of its own, and each address only so many of them."""
    security = security_of("SSL", authority)
    server = TcpServer(ServerLimits(max_connections=500, max_connections_per_ip=50))
    service = ListenerService("X", ListenerType.CONTROLLER, Echo())
    tls = server_context(security.tls)
    bindings = [Binding(service, "127.0.0.1", 0), Binding(service, "127.0.0.1", 0, tls)]
    crowded, quiet = await server.bind(bindings)
    await server.serve()
    crowd = [(await plain_socket(crowded))[1] for _ in range(300)]
    try:
        await until(lambda: server.quotas[0].refused == 250)
        assert len(server.connections) == 50
        assert await ask(client_security(security), quiet) == ANSWER
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.setblocking(False)
            await asyncio.get_running_loop().sock_connect(other, ("127.0.0.1", crowded))
            reader, writer = await asyncio.open_connection(sock=other)
            caller = Caller(reader, writer)
            caller.send(3)
            assert await caller.correlation_id() == 3
            writer.transport.abort()
    finally:
        for connection in crowd:
            connection.transport.abort()
    await until(lambda: not server.connections)
    server.close()


@play(run)
async def test_a_peer_that_trickles_is_hung_up_on_though_it_is_never_silent(*, authority):
    security = security_of("SASL_PLAINTEXT", authority)
    trickled = 0

    async def trickle(writer):
        nonlocal trickled
        writer.write(struct.pack(">i", 1_000))
        while not writer.transport.is_closing():
            writer.write(b"\0")
            trickled += 1
            await asyncio.sleep(0.02)

    async with a_server(replace(security, sasl=None), max_idle_ms=300) as (_, port):
        reader, writer = await plain_socket(port)
        trickling = asyncio.create_task(trickle(writer))
        assert await is_hung_up(reader)
        assert 0 < trickled < 1_000
        writer.transport.abort()
        await trickling

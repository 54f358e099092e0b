import pytest

from cluster.node.config import ConfigError, parse_config
from cluster.node.security.jaas import Credentials, JaasError, parse_jaas
from cluster.node.security.settings import ClientAuth, ListenerSecurity, SecurityProtocol
from tests.cluster.node.test_config import MINIMAL

TLS = {
    "listener.security.protocol.map": "CLIENT:SSL,CONTROLLER:PLAINTEXT",
    "ssl.keystore.location": "/keys/node.pem",
}
SASL = {
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": "a.b.PlainLoginModule required "
    'username="node" password="n" user_node="n" user_alice="w";',
}


def parsed(settings):
    text = "".join(f"{k}={v}\n" for k, v in {**MINIMAL, **settings}.items() if v is not None)
    return parse_config(text, "f").security


def error(settings):
    with pytest.raises(ConfigError) as raised:
        parsed(settings)
    message = str(raised.value)
    assert message.startswith("f: ")
    assert "\n" not in message
    return message.removeprefix("f: ")


def test_listeners_are_plaintext_unless_configured_otherwise():
    plain = ListenerSecurity(SecurityProtocol.PLAINTEXT)
    assert parsed({}) == {"CLIENT": plain, "CONTROLLER": plain}


def test_a_listener_that_is_named_after_a_protocol_uses_it():
    listeners = "SSL://h:1,CONTROLLER://h:2"
    security = parsed({"listeners": listeners, "ssl.keystore.location": "/k"})
    assert security["SSL"].protocol is SecurityProtocol.SSL


def test_the_protocols_ids_are_kafkas():
    assert [protocol.value for protocol in SecurityProtocol] == [0, 1, 2, 3]
    names = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    assert [protocol.name for protocol in SecurityProtocol] == names


def test_tls_has_kafkas_defaults():
    tls = parsed(TLS)["CLIENT"].tls
    assert str(tls.key_store) == "/keys/node.pem"
    assert tls.trust_store is None
    assert tls.client_auth is ClientAuth.NONE
    assert tls.protocols == ("TLSv1.2", "TLSv1.3")
    assert tls.verifies_host_name


def test_a_listeners_own_key_counts_more():
    own = {"listener.name.client.ssl.keystore.location": "/keys/client.pem"}
    assert str(parsed({**TLS, **own})["CLIENT"].tls.key_store) == "/keys/client.pem"


@pytest.mark.parametrize(
    ("key", "expected"),
    [("ssl.client.auth", "NONE"), ("listener.name.controller.ssl.client.auth", "REQUIRED")],
)
def test_beside_sasl_a_certificate_is_asked_for_by_the_listeners_own_key_alone(key, expected):
    protocols = {"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:SASL_SSL"}
    files = {"ssl.keystore.location": "/keys/node.pem", "ssl.truststore.location": "/trust.pem"}
    security = parsed({**SASL, **protocols, **files, key: "required"})
    assert security["CONTROLLER"].tls.client_auth is ClientAuth[expected]


def test_sasl_knows_its_users_and_its_own():
    sasl = parsed(SASL)["CONTROLLER"].sasl
    assert sasl.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert sasl.users == {"PLAIN": {"alice": "w", "node": "n"}, "SCRAM-SHA-512": {}}
    assert (sasl.client_mechanism, sasl.own) == ("PLAIN", Credentials("node", "n"))
    assert sasl.max_receive_bytes == 524_288


def test_passwords_are_not_shown():
    security = parsed({**SASL, "ssl.key.password": "secret"})
    assert "alice" not in repr(security)
    assert "'n'" not in repr(security)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location: is missing"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type: unknown value 'JKS'"),
        ({"ssl.client.auth": "always"}, "ssl.client.auth: unknown value 'always'"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth: required needs ssl.truststore"),
        ({"ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols: unknown value 'TLSv1'"),
        ({"ssl.principal.mapping.rules": "RULE:a/b/"}, "ssl.principal.mapping.rules: unknown"),
        (
            {"listener.security.protocol.map": "CLIENT:TLS"},
            "listener.security.protocol.map: unknown security protocol 'TLS'",
        ),
        (
            {"listener.security.protocol.map": "CLIENT"},
            "listener.security.protocol.map: expected LISTENER:PROTOCOL",
        ),
        (
            {"listener.name.cleint.ssl.client.auth": "none"},
            "listener.name.cleint.ssl.client.auth: unknown listener 'cleint'; did you mean",
        ),
    ],
)
def test_what_is_wrong_with_tls_is_reported_with_its_key(change, message):
    assert error({**TLS, **change}).startswith(message)


JAAS = "listener.name.controller.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sasl.enabled.mechanisms": None}, "sasl.enabled.mechanisms: is missing"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms: unknown value 'GSSAPI'"),
        (
            {"sasl.mechanism.controller.protocol": None},
            "sasl.mechanism.controller.protocol: is missing",
        ),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-512"},
            "sasl.mechanism.controller.protocol: SCRAM-SHA-512 needs username and password",
        ),
        ({JAAS: "PlainLoginModule required"}, f"{JAAS}: must end with a semicolon"),
        ({JAAS: "x.ScramLoginModule required;"}, f"{JAAS}: PLAIN needs a PlainLoginModule"),
        ({"sasl.server.max.receive.size": "0"}, "sasl.server.max.receive.size: expected"),
    ],
)
def test_what_is_wrong_with_sasl_is_reported_with_its_key(change, message):
    assert error({**SASL, **change}).startswith(message)


def test_an_unknown_security_key_is_an_unknown_key():
    assert "did you mean 'ssl.keystore.location'" in error({"ssl.keystore.locaton": "/x"})
    assert "unknown key" in error({"listener.name.client.ssl.nothing": "x"})


def test_a_jaas_line_quotes_and_escapes():
    line = parse_jaas(r'P required user_a="a \"b\" \\ ;=" user_b=plain ;')
    assert line.users == {"a": r'a "b" \ ;=', "b": "plain"}
    assert line.own is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        ";",
        "P;",
        "P maybe;",
        "P required; Q required;",
        'P required username="secret";',
        'P required user_a="secret" user_a="secret";',
        'P required user_a="secret',
        'P required user_a="";',
        'P required username="" password="secret";',
    ],
)
def test_a_line_that_is_not_jaas_is_refused_without_being_shown(line):
    with pytest.raises(JaasError) as raised:
        parse_jaas(line)
    assert "secret" not in str(raised.value)

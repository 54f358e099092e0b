import socket
import uuid
from pathlib import Path

import pytest

from cluster.node.config import ConfigError, load_config, parse_config
from cluster.node.config_values import ListenerAddress
from cluster.node.part_configs import lifecycle_config, replica_config
from cluster.node.ports import Endpoint
from cluster.node.runtime.server import with_own_host

DIRECTORY = uuid.UUID(int=5, version=4)

MINIMAL = {
    "process.roles": "controller,broker",
    "node.id": "2",
    "cluster.id": "c",
    "listeners": "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "3@h3:9093,2@h2:9093",
    "metadata.log.dir": "/data/metadata",
}
BROKER_ONLY = {"process__roles": "broker", "node__id": "4", "listeners": "CLIENT://h:9092"}


def text(**changes):
    properties = {**MINIMAL, **{k.replace("__", "."): v for k, v in changes.items()}}
    return "".join(f"{k}={v}\n" for k, v in properties.items() if v is not None)


def error(**changes):
    with pytest.raises(ConfigError) as raised:
        parse_config(text(**changes), "server.properties")
    message = str(raised.value)
    assert message.startswith("server.properties: ")
    assert "\n" not in message
    return message


def test_what_is_given_is_read():
    config = parse_config(text(), "f")
    assert config.process_roles == {"controller", "broker"}
    assert (config.node_id, config.cluster_id) == (2, "c")
    assert config.listeners == (
        ListenerAddress("CLIENT", "127.0.0.1", 9092),
        ListenerAddress("CONTROLLER", "127.0.0.1", 9093),
    )
    assert config.controller_quorum_voters == (Endpoint(2, "h2", 9093), Endpoint(3, "h3", 9093))
    assert config.metadata_log_dir == Path("/data/metadata")


def test_what_is_not_given_has_kafkas_default():
    config = parse_config(text(), "f")
    assert config.advertised_listeners == config.listeners
    assert config.controller_quorum_election_timeout_ms == 1000
    assert config.controller_quorum_fetch_timeout_ms == 2000
    assert config.controller_quorum_election_backoff_max_ms == 1000
    assert config.controller_quorum_append_linger_ms == 25
    assert config.controller_quorum_request_timeout_ms == 2000
    assert config.controller_quorum_retry_backoff_ms == 20
    assert config.controller_quorum_fetch_max_bytes == 1048576
    assert config.metadata_log_segment_bytes == 1 << 30
    assert config.metadata_max_idle_interval_ms == 500
    assert config.kraftprobe_routes == {}
    assert config.kraftprobe_brokers == ()
    assert config.kraftprobe_trace_file is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metadata__max__retention__bytes", -1),
        ("metadata__max__retention__ms", -1),
        ("metadata__log__max__record__bytes__between__snapshots", 2**63 - 1),
        ("metadata__log__max__snapshot__interval__ms", 2**63 - 1),
    ],
)
def test_what_kafka_takes_for_no_bound_is_taken(key, value):
    assert getattr(parse_config(text(**{key: value}), "f"), key.replace("__", "_")) == value


def test_other_nodes_are_given_kafkas_time_outs_to_answer_a_broker():
    default = replica_config(parse_config(text(), "f"))
    assert (default.request_timeout_ms, default.controller_timeout_ms) == (30_000, 30_000)
    timeouts = {"replica__socket__timeout__ms": 2_000, "controller__socket__timeout__ms": 3_000}
    given = replica_config(parse_config(text(**timeouts), "f"))
    assert (given.request_timeout_ms, given.controller_timeout_ms) == (2_000, 3_000)


def test_comments_blank_lines_and_space_are_allowed():
    config = parse_config("# a comment\n\n  ! another\n" + text().replace("=", " = "), "f")
    assert config == parse_config(text(), "f")


def test_a_node_may_be_a_broker_only_or_a_controller_only():
    broker = parse_config(text(**BROKER_ONLY), "f")
    assert broker.process_roles == {"broker"}
    assert broker.advertised_endpoint(controller=False) == Endpoint(4, "h", 9092)
    assert broker.advertised_endpoint(controller=True) is None
    controller = parse_config(
        text(process__roles="controller", listeners="CONTROLLER://h:9093"), "f"
    )
    assert controller.advertised_endpoint(controller=False) is None


def test_advertised_listeners_are_where_a_node_is_reached():
    advertised = "CLIENT://outside:19092,CONTROLLER://inside:19093"
    config = parse_config(text(advertised__listeners=advertised), "f")
    assert config.advertised_endpoint(controller=False) == Endpoint(2, "outside", 19092)
    assert config.advertised_endpoint(controller=True) == Endpoint(2, "inside", 19093)


def test_routes_and_brokers_are_read_by_node_id():
    config = parse_config(
        text(kraftprobe__routes="3=p:19003,1=p:19001", kraftprobe__brokers="2@b:2,1@a:1"), "f"
    )
    assert config.kraftprobe_routes == {3: ("p", 19003), 1: ("p", 19001)}
    assert config.kraftprobe_brokers == (Endpoint(1, "a", 1), Endpoint(2, "b", 2))


def test_an_ipv6_address_is_written_in_brackets():
    listeners = "CLIENT://[::1]:9092,CONTROLLER://[::1]:9093"
    assert parse_config(text(listeners=listeners), "f").listeners[0].host == "::1"


OPTIONAL = {"controller.quorum.voters", "cluster.id", "metadata.log.dir"}


@pytest.mark.parametrize("key", [key for key in MINIMAL if key not in OPTIONAL])
def test_a_missing_key_is_named(key):
    assert error(**{key.replace(".", "__"): None}) == f"server.properties: {key} is missing"


def test_without_static_voters_bootstrap_servers_are_required():
    message = error(controller__quorum__voters=None)
    assert message == (
        "server.properties: neither controller.quorum.bootstrap.servers nor "
        "controller.quorum.voters is given"
    )
    servers = {"controller__quorum__bootstrap__servers": "a:1,b:2"}
    config = parse_config(text(controller__quorum__voters=None, **servers), "f")
    assert config.controller_quorum_voters == ()
    assert config.controller_quorum_bootstrap_servers == (
        Endpoint(-2, "a", 1),
        Endpoint(-3, "b", 2),
    )


def test_an_unknown_key_is_reported_with_the_nearest():
    message = error(controller__quorum__election__timeout="1")
    assert "line 8: unknown key 'controller.quorum.election.timeout'" in message
    assert "did you mean 'controller.quorum.election.timeout.ms'?" in message


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("node.id", "one", "expected a whole number, at least 0, not 'one'"),
        ("node.id", "-1", "not '-1'"),
        ("node.id", "1_0", "not '1_0'"),
        ("node.id", "٣", "expected a whole number"),
        ("node.id", "2147483648", "expected a whole number"),
        ("node.id", "9" * 5000, "expected a whole number"),
        ("node.id", "", "not ''"),
        ("cluster.id", "", "must not be empty"),
        ("process.roles", "controler", "did you mean 'controller'?"),
        ("process.roles", "broker,broker", "a role is named twice"),
        ("listeners", "127.0.0.1:9092", "expected NAME://host:port"),
        ("listeners", "CLIENT://127.0.0.1", "expected host:port"),
        ("listeners", "CLIENT://h:0", "1 to 65535"),
        ("listeners", "CLIENT://:x", "1 to 65535"),
        ("controller.quorum.voters", "2@:9093", "expected host:port"),
        ("broker.rack", "", "must not be empty"),
        ("num.partitions", "0", "at least 1"),
        ("default.replication.factor", "32768", "1 to 32767"),
        ("metadata.log.segment.ms", "0", "1 to"),
        ("log.dirs", "/a,,/b", "comma-separated"),
        ("listeners", "CLIENT://h:65536", "1 to 65535"),
        ("listeners", "CONTROLLER://h:1,CONTROLLER://h:2", "used twice"),
        ("listeners", "CLIENT://h:1,,CONTROLLER://h:2", "comma-separated"),
        ("controller.quorum.voters", "h:9093", "expected id@host:port"),
        ("controller.quorum.voters", "2@h:1,2@h:2", "node 2 is listed twice"),
        ("controller.quorum.fetch.timeout.ms", "0", "at least 1"),
        ("kraftprobe.routes", "3@h:1", "expected id=host:port"),
        ("metadata.log.dir", "", "must not be empty"),
    ],
)
def test_a_bad_value_is_reported_with_its_key(key, value, expected):
    message = error(**{key.replace(".", "__"): value})
    assert message.startswith(f"server.properties: {key}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"controller__listener__names": "CONTROL"}, "did you mean 'CONTROLLER'?"),
        ({"advertised__listeners": "OTHER://h:1"}, "unknown listener 'OTHER'"),
        ({"listeners": "CONTROLLER://h:1"}, "a broker needs a listener"),
        ({"process__roles": "controller"}, "without the role broker"),
        ({"node__id": "9"}, "node.id 9 is not among them"),
        ({"process__roles": "broker"}, "without the role controller CONTROLLER must not be"),
        ({**BROKER_ONLY, "node__id": "2"}, "node.id 2 is one of them, but no controller"),
        ({**BROKER_ONLY, "kraftprobe__registration": "false"}, "a broker only must register"),
        ({**BROKER_ONLY, "listeners": "CONTROLLER://h:1"}, "CONTROLLER must not be among them"),
        (
            {
                "listener__security__protocol__map": "CLIENT:SASL_PLAINTEXT",
                "sasl__enabled__mechanisms": "PLAIN",
            },
            "sasl.mechanism.inter.broker.protocol: is missing, brokers ask each other for records",
        ),
    ],
)
def test_values_that_contradict_each_other_are_reported(changes, expected):
    assert expected in error(**changes)


SHARED = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
PROTOCOLS = (
    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
)
SHIPPED = {
    "controller.properties": {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "CONTROLLER://:9093",
        "advertised.listeners": "CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "/tmp/kraft-controller-logs",
    },
    "broker.properties": {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://localhost:9092",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": PROTOCOLS,
        "log.dirs": "/tmp/kraft-broker-logs",
    },
    "server.properties": {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": PROTOCOLS,
        "log.dirs": "/tmp/kraft-combined-logs",
    },
}
"""The settings of the files in Kafka's config folder."""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_files_that_kafka_ships_are_taken(name):
    lines = "".join(f"{key}={value}\n" for key, value in (SHIPPED[name] | SHARED).items())
    config = parse_config(lines, name)
    assert config.cluster_id == ""
    assert str(config.metadata_log_dir) == SHIPPED[name]["log.dirs"]
    assert config.advertised_listeners[-1].host == "localhost"
    ours = {"socket.request.max.bytes", "num.partitions", "log.retention.check.interval.ms"}
    of_logs = {"log.segment.bytes", "log.retention.hours"}
    named = set(SHARED) - ours - of_logs
    assert set(config.without_effect) == named


def test_settings_of_all_logs_have_an_effect_and_must_be_right():
    config = parse_config(text(min__insync__replicas="2", log__roll__ms="9"), "f")
    assert (config.min_insync_replicas, config.without_effect) == (2, ())
    assert "expected a whole number" in error(min__insync__replicas="two")
    assert error(log__roll__ms="soon") == (
        "server.properties: Invalid value soon for configuration log.roll.ms: "
        "Not a number of type LONG"
    )


def test_a_controller_alone_may_name_the_listener_that_brokers_use_and_has_none():
    given = SHIPPED["controller.properties"] | {"inter.broker.listener.name": "PLAINTEXT"}
    config = parse_config("".join(f"{key}={value}\n" for key, value in given.items()), "it")
    assert config.inter_broker_listener_name == ""


def test_a_listener_without_a_host_is_bound_everywhere_and_found_by_the_name_of_the_machine():
    listeners = "CLIENT://:9092,CONTROLLER://:9093"
    config = parse_config(text(listeners=listeners, advertised__listeners="CLIENT://out:1"), "f")
    assert [listener.host for listener in config.listeners] == ["", ""]
    assert config.advertised_listeners == (
        ListenerAddress("CLIENT", "out", 1),
        ListenerAddress("CONTROLLER", "", 9093),
    )
    found = with_own_host(config)
    assert found.advertised_endpoint(controller=False) == Endpoint(2, "out", 1)
    assert found.advertised_endpoint(controller=True) == Endpoint(2, socket.getfqdn(), 9093)
    assert with_own_host(found) is found


@pytest.mark.parametrize(
    ("changes", "metadata", "data"),
    [
        ({"log__dirs": "/a, /b"}, "/a", ["/a", "/b"]),
        ({"log__dir": "/a"}, "/a", ["/a"]),
        ({"log__dir": "/x", "log__dirs": "/a"}, "/a", ["/a"]),
        ({"log__dirs": "/a,/b", "metadata__log__dir": "/m"}, "/m", ["/a", "/b"]),
        ({"log__dirs": "/a,/m", "metadata__log__dir": "/m"}, "/m", ["/a", "/m"]),
        ({"metadata__log__dir": "/m"}, "/m", ["/m"]),
    ],
)
def test_the_metadata_are_in_the_first_folder_unless_they_have_one_of_their_own(
    changes, metadata, data
):
    config = parse_config(text(**{"metadata__log__dir": None, **changes}), "f")
    assert str(config.metadata_log_dir) == metadata
    assert [str(folder) for folder in config.log_dirs] == data
    assert config.without_effect == ()


def test_a_folder_that_is_named_twice_is_refused():
    assert error(log__dirs="/a,/b,/a").endswith("is named twice")


def test_without_any_folder_it_is_said_what_is_missing():
    message = error(metadata__log__dir=None)
    assert message == "server.properties: neither metadata.log.dir nor log.dirs is given"


def test_what_shapes_topics_and_places_them_is_read():
    config = parse_config(
        text(broker__rack="r1", num__partitions="3", default__replication__factor="2"), "f"
    )
    assert lifecycle_config(config, (DIRECTORY,)).registration.rack == config.broker_rack == "r1"
    assert (config.num_partitions, config.default_replication_factor) == (3, 2)
    defaults = parse_config(text(), "f")
    assert (defaults.broker_rack, defaults.num_partitions) == (None, 1)
    assert defaults.default_replication_factor == 1
    assert defaults.metadata_log_segment_ms == 7 * 24 * 3_600_000
    assert defaults.kraftprobe_forwarding_hold is True


@pytest.mark.parametrize(
    "key",
    [
        "ssl.cipher.suites",
        "sasl.jaas.config",
        "config.providers",
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "delegation.token.secret.key",
        "max.connections.per.ip.overrides",
    ],
)
def test_what_would_keep_somebody_out_is_not_ignored(key):
    message = error(**{key.replace(".", "__"): "x"})
    assert message == (
        f"server.properties: line 8: {key} would not be obeyed: this node does not have it; "
        "remove the line to go without"
    )


def test_brokers_do_not_ask_each_other_in_plain_what_the_file_has_encrypted():
    message = error(security__inter__broker__protocol="SSL")
    assert message == (
        "server.properties: security.inter.broker.protocol: is SSL, but brokers ask each other on "
        "CLIENT, which is PLAINTEXT: give inter.broker.listener.name instead"
    )
    assert parse_config(text(security__inter__broker__protocol="PLAINTEXT"), "f")


def test_an_unknown_key_may_be_near_one_of_kafkas():
    message = error(log__retention__hour="1")
    assert message.endswith("unknown key 'log.retention.hour'; did you mean 'log.retention.hours'?")


def test_a_key_given_twice_and_a_line_without_a_value_are_reported():
    for extra, expected in (
        ("node.id=3", "node.id is given twice"),
        ("node.id", "expected key=value"),
    ):
        with pytest.raises(ConfigError, match=f"^f: line 8: .*{expected}"):
            parse_config(text() + extra, "f")


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="none: No such file"):
        load_config(tmp_path / "none")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    with pytest.raises(ConfigError, match=r"binary: .* UTF-8"):
        load_config(tmp_path / "binary")


def test_the_broker_role_has_kafkas_defaults_and_registers_unless_configured_not_to():
    config = parse_config(text(), "f")
    assert config.broker_heartbeat_interval_ms == 2_000
    assert config.broker_session_timeout_ms == 9_000
    assert config.initial_broker_registration_timeout_ms == 60_000
    assert config.kraftprobe_registration is True
    config = parse_config(text(**{"kraftprobe.registration": "false"}), "f")
    assert config.kraftprobe_registration is False
    with pytest.raises(ConfigError, match=r"kraftprobe.registration: .* true or false"):
        parse_config(text(**{"kraftprobe.registration": "yes"}), "f")

"""What a plan may ask of Apache Kafka, what it promises, and what can be known of its nodes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cluster.client.admin_client import CLIENT_METRICS_RESOURCE
from cluster.names import unknown
from cluster.node.errors import ErrorCode
from cluster.node.security.settings import PLAIN
from cluster.systems.base import Listeners
from cluster.systems.cells import LIST_PREFIX, Cell, list_cell
from cluster.systems.image import MEANING, versions_of
from cluster.systems.image import OPTION as IMAGE
from cluster.systems.kafka.installation import (
    HOME_IN_IMAGE,
    RELEASES,
    check_release,
    checked_version,
    find_each,
    home_in_image,
    releases_of,
)
from cluster.systems.kafka.kafka_system import NAME, SESSION_TIMEOUT, KafkaLayout, KafkaSystem
from cluster.systems.kafka.output_traces import TRACED
from cluster.systems.kafka.roles import COMBINED, Roles
from cluster.systems.kafka.roles import OPTION as ROLES
from cluster.systems.kinds import SettingError, SystemKind, SystemRequest
from cluster.systems.kraft import FETCH_TIMEOUT

QUORUMS: Final = ("dynamic", "static")
FEATURES: Final = "features"
_FEATURE: Final = re.compile(r"[a-z][a-z.]{0,80}=\d{1,4}")
OPTIONS: Mapping[str, str] = {
    "home": f"folder of an unpacked release; in an image {HOME_IN_IMAGE}, unless given",
    "version": "a release that was fetched (kraftprobe kafka fetch)",
    RELEASES: "releases that fault upgrade goes through: versions, or folders as of home",
    "quorum": "dynamic (KIP-853, the default) or static voters",
    FEATURES: "features that folders are formatted with, NAME=LEVEL,...; else the release's own",
    ROLES: "controller, broker or combined of n1,n2,...; the last is that of the rest (combined)",
    IMAGE: f"{MEANING}; it holds Java and an unpacked release",
}
_TIMEOUTS: Final = frozenset({FETCH_TIMEOUT, SESSION_TIMEOUT})
"""Those that the checks count with."""
_OWN: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
"""Keys that say where and what a node is: the run decides them."""
_LOSING: Final = frozenset(
    {
        "log.cleanup.policy",
        "log.retention.bytes",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "offsets.retention.minutes",
        "unclean.leader.election.enable",
    }
)
"""Keys that let brokers lose or delete what they acknowledged: checks take that for lost."""
_OF_SECURITY: Final = ("listener.name.", "sasl.", "ssl.keystore.", "ssl.truststore.")
"""Where keys begin that a plan's `security` decides."""
_KEY: Final = re.compile(r"[a-z][a-z0-9_.-]*", re.IGNORECASE)

_PROCESSES: Final = frozenset({"kill", "stop", "pause", "restart", "upgrade", "role-change"})
_LINKS: Final = frozenset(
    {"address-change", "partition", "loss", "delay", "reorder", "duplicate", "bandwidth"}
)

_DISKS: Final = frozenset(
    {"disk-error", "disk-full", "disk-slow", "disk-stall", "disk-wipe", "power-loss", "torn-write"}
)
"""Those under which it promises to lose nothing: it takes a file whose bytes have changed, or that
has become shorter, for one that was being written."""

_CLOCKS: Final = frozenset({"clock-drift", "clock-jump", "clock-skew", "clock-strobe"})
_QUORUM: Final = frozenset({"voters", "finalize"})
_ANYWHERE: Final = _PROCESSES | _DISKS | _CLOCKS | _QUORUM
_HOSTS: Final = _ANYWHERE | _LINKS


def _check(request: SystemRequest) -> None:
    """Raise SettingError for settings and options that it does not take."""
    for key, value in request.node_settings.items():
        if not _KEY.fullmatch(key):
            raise SettingError(f"node_settings: {key!r} is no name of a configuration key")
        if (reason := _refusal_of(key)) is not None:
            raise SettingError(f"node_settings.{key}: {reason}")
        if not isinstance(value, str | int):
            raise SettingError(f"node_settings.{key} must be a text, a whole number or a flag")
        if len(str(value).splitlines()) > 1:
            raise SettingError(f"node_settings.{key} must be one line")
        if key in _TIMEOUTS and not str(value).isdecimal():
            raise SettingError(f"node_settings.{key} must be a whole number, not {value!r}")
    _quorum(request)
    _features(request)
    named = releases_of(request.options) if RELEASES in request.options else ()
    if "version" in request.options:
        named = (checked_version(request.options["version"]),)
    for version in (name for name in named if os.sep not in name):
        check_release(version, dynamic=is_dynamic(request))
    if IMAGE in request.options:
        home_in_image(request.options)


def _refusal_of(key: str) -> str | None:
    """Return why a plan may not set a key of Kafka's; None: it may."""
    if key in _OWN:
        return "the run decides it"
    if key in _LOSING:
        return "checks expect that records are kept"
    return "the run's security decides it" if key.startswith(_OF_SECURITY) else None


def _quorum(request: SystemRequest) -> str:
    quorum = request.options.get("quorum", QUORUMS[0])
    if quorum not in QUORUMS:
        raise SettingError(f"system_options.quorum: {unknown('quorum', quorum, QUORUMS)}")
    return quorum


def _features(request: SystemRequest) -> tuple[str, ...]:
    given = request.options.get(FEATURES)
    features = () if given is None else tuple(part.strip() for part in given.split(","))
    for feature in features:
        if not _FEATURE.fullmatch(feature):
            raise SettingError(f"system_options.{FEATURES}: {feature!r} is no NAME=LEVEL")
    return features


def is_dynamic(request: SystemRequest) -> bool:
    """Whether voters are in the log from the start (KIP-853). Raises SettingError."""
    return _quorum(request) == "dynamic"


def _roles(request: SystemRequest) -> Roles:
    return Roles(request.options.get(ROLES, COMBINED))


def _listeners(request: SystemRequest, nodes: int) -> tuple[Listeners, ...]:
    return _roles(request).of_all(nodes)


def _create(request: SystemRequest) -> KafkaSystem:
    settings: dict[str, Any] = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in request.node_settings.items()
    }
    found, dynamic = find_each(request.options, request.image), is_dynamic(request)
    for each in found:
        check_release(each.version, dynamic=dynamic)
    return KafkaSystem(
        found[0],
        settings,
        dynamic=dynamic,
        roles=_roles(request),
        features=_features(request),
        later=found[1:],
        security=request.security,
    )


def _versions(request: SystemRequest) -> Mapping[str, str]:
    version = ", to ".join(each.version for each in find_each(request.options, request.image))
    return {NAME: version} if request.image is None else versions_of(request.image, NAME, version)


def _java(request: SystemRequest) -> tuple[str, ...]:
    """Return how clients of the first release are compiled and run. Raises SettingError."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=None if home is None else f"{home}{os.sep}bin")
    if compiler is None:
        raise SettingError(
            "workload_options.client: Kafka's own clients are compiled as the run begins: put the "
            "javac of a JDK on the PATH, or set JAVA_HOME"
        )
    program = Path(compiler).resolve().parent / "java"
    return (str(program), "-cp", find_each(request.options)[0].class_path)


def _cell(name: str) -> Cell:
    """Return where a value of this name is shown by every broker.

    Of a subscription of clients' metrics any value is kept. (An unknown key of a known resource is
    stored, and shown without its value.)
    """
    if name.startswith(LIST_PREFIX):
        return list_cell(name)
    return Cell((CLIENT_METRICS_RESOURCE, name), "metrics")


KIND = SystemKind(
    name=NAME,
    title="Apache Kafka: nodes of a release (--kafka-version) or of a build of yours",
    layout=KafkaLayout(),
    check=_check,
    create=_create,
    versions=_versions,
    cell=_cell,
    listeners=_listeners,
    options=OPTIONS,
    backends=frozenset({"local", "netns", "docker"}),
    has_coordinators=True,
    java=_java,
    reads_at="CLIENT",
    reads_lag=True,
    # Its nodes dial each other's own addresses (KIP-853): no proxy of `local` stands between them.
    faults={"local": _ANYWHERE, "netns": _HOSTS, "docker": _HOSTS},
    # Those of SCRAM are in the metadata, which no controller has before it has spoken to others.
    mechanisms=frozenset({PLAIN}),
    traced=TRACED,
    scripted={},
    # A controller that renounces answers so what it has appended (QuorumController.renounce).
    indefinite=frozenset({ErrorCode.not_controller}),
)

"""The raft module of a released Apache Kafka by itself: KafkaRaftClient, in the simulated world.

Log, state file and network are this repository's; everything between them is the release's own
bytes. It is no metadata quorum: no controller reads the log, which holds what clients append.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.names import unknown
from cluster.systems.kafka.installation import raft_libraries, raft_version
from cluster.systems.kinds import SettingError, SystemKind, SystemRequest
from cluster.systems.kraft import FETCH_TIMEOUT, KraftLayout, KraftSystem

NAME: Final = "kafka-raft"
OWN: Final = "kraft"
"""Stands for this repository's raft module among the releases of a quorum."""
VERSION: Final = "version"
QUORUM: Final = "quorum"
STATIC, DYNAMIC = "static", "dynamic"
RELEASES: Final = ("3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
"""Those whose interface is known."""
REQUEST_TIMEOUT: Final = "controller.quorum.request.timeout.ms"

SETTINGS: Final[Mapping[str, int]] = {
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 1000,
    FETCH_TIMEOUT: 2000,
    "controller.quorum.append.linger.ms": 25,
    REQUEST_TIMEOUT: 2000,
    "controller.quorum.retry.backoff.ms": 20,
}
"""Settings that a plan may change, with Kafka's own values."""
_OF_THE_LOG: Final[Mapping[str, str]] = {
    "metadata.log.segment.bytes": "internal.metadata.log.segment.bytes",
    "metadata.max.retention.bytes": "metadata.max.retention.bytes",
    "controller.quorum.fetch.snapshot.max.bytes": "sim.snapshot.piece.bytes",
}
"""Settings of the log, which is not Kafka's -> what it calls them; Kafka cleans each minute."""
TRACED: Final = frozenset(
    {
        "start",
        "start.check_quorum_timeout_ms",
        "recovered",
        "state",
        "voters",
        "voters.led",
        "voter-change",
        "vote",
        "epoch-start",
        "append",
        "flush",
        "truncate",
        "truncate-fully",
        "log-start",
        "fetch",
        "hw",
        "claim",
        "renounce",
        "snapshot",
        "ack",
    }
)
"""The events of docs/evidence.md that can be known of it (`cluster.backends.sim.kafka.trace`)."""
FAULTS: Final = frozenset(
    {
        *("kill", "stop", "pause", "restart"),
        *("partition", "loss", "delay", "reorder", "hold"),
        *("clock-drift", "clock-jump", "clock-skew", "clock-strobe", "timer-rate"),
        *("disk-stall", "disk-slow", "disk-error", "disk-full", "power-loss", "torn-write"),
        *("voters", "resign", "snapshot"),
    }
)
"""Without `duplicate`, as TCP repeats no request and Kafka relies on that; without damage to files
and `disk-wipe`, as log and state file are not Kafka's, and without `limit`, as no node is a process
of its own."""


def config_of(node_settings: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the configuration of a node. Raises SettingError."""
    config = {key: str(value) for key, value in SETTINGS.items()}
    for key, value in node_settings.items():
        if key not in SETTINGS and key not in _OF_THE_LOG:
            known = unknown("node setting", key, (*SETTINGS, *_OF_THE_LOG))
            raise SettingError(f"node_settings: {known}")
        if type(value) is not int or not 0 <= value < 2**31:
            raise SettingError(f"node_settings.{key} must be a whole number, 0 to 2147483647")
        config[_OF_THE_LOG.get(key, key)] = str(value)
    return config


def runs_of(request: SystemRequest) -> tuple[str, ...]:
    """Return what n1, n2, ... run: releases, folders of builds, or `OWN`. Raises SettingError."""
    if VERSION not in request.options:
        raise SettingError(f"system {NAME}: no release is named; give --kafka-version V")
    runs = tuple(part.strip() for part in request.options[VERSION].split(","))
    return tuple(run if run == OWN else _release(run) for run in runs)


def _release(run: str) -> str:
    version = raft_version(run)
    if version.rpartition(".")[0] not in RELEASES:
        raise SettingError(
            f"system {NAME}: Apache Kafka {version} has another interface; "
            f"give a release of {RELEASES[0]} to {RELEASES[-1]}"
        )
    return run


def node_runs(runs: Sequence[str], nodes: int) -> tuple[str, ...]:
    """Return what each of so many nodes runs: the last stands for all further nodes as well."""
    return tuple(runs[min(number, len(runs) - 1)] for number in range(nodes))


def _check(request: SystemRequest) -> None:
    runs_of(request)
    config_of(request.node_settings)
    quorum = request.options.get(QUORUM, STATIC)
    if quorum not in (STATIC, DYNAMIC):
        known = unknown("quorum", quorum, (STATIC, DYNAMIC))
        raise SettingError(f"system_options.{QUORUM}: {known}")


class KafkaRaftSystem(KraftSystem):
    """Stands for the nodes of the simulated world, which nothing starts as processes."""

    name = NAME


def _create(request: SystemRequest) -> KafkaRaftSystem:
    _check(request)
    return KafkaRaftSystem()


def _versions(request: SystemRequest) -> Mapping[str, str]:
    return {NAME: ",".join(map(_build, runs_of(request)))}


def _build(run: str) -> str:
    """Name a release by its version, a folder also by a digest of the jar files that are run."""
    if os.sep not in run:
        return run
    digest = hashlib.sha256()
    for jar in raft_libraries(run) or ():
        digest.update(hashlib.sha256(jar.read_bytes()).digest())
    return f"{raft_version(run)}, jars {digest.hexdigest()[:16]}"


KIND = SystemKind(
    name=NAME,
    title="Apache Kafka's raft module by itself, a release's (--kafka-version), simulated",
    layout=KraftLayout(),
    check=_check,
    create=_create,
    versions=_versions,
    made_of="its raft module on Kraftprobe's own log, state file and network",
    metadata_quorum=False,
    describes_quorum=True,
    options={
        VERSION: "releases of n1, n2, ..., or folders of builds, the last for the rest; "
        f"{OWN}: this repository's raft",
        QUORUM: "static voters (the default), or dynamic (KIP-853)",
    },
    backends=frozenset({"sim"}),
    simulated=True,
    workloads=frozenset({"appends"}),
    scripted={},
    traced=TRACED,
    faults={"sim": FAULTS},
)

"""One quorum of nodes of both kinds: Apache Kafka's and this repository's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from cluster.names import unknown
from cluster.node.controller.metadata.feature_levels import (
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    METADATA_VERSION_MIN,
    OFFERED,
    RELEASES,
)
from cluster.systems import kraft
from cluster.systems.base import Layout, Listeners, Placement, System, TraceReader
from cluster.systems.image import OPTION as IMAGE
from cluster.systems.kafka import kind as kafka
from cluster.systems.kafka.installation import RELEASES as UPGRADE
from cluster.systems.kafka.kafka_system import LOGGING, START_FILE, start_file, starting
from cluster.systems.kafka.roles import OPTION as ROLES
from cluster.systems.kinds import SettingError, SystemRequest, everywhere
from cluster.systems.kraft import NODE_SETTINGS, KraftLayout, KraftSystem

NAME: Final = "mixed"
KINDS: Final = "kinds"
_PARTS: Final = {kind.name: kind for kind in (kraft.KIND, kafka.KIND)}
_KAFKAS_ALONE: Final = frozenset({kafka.FEATURES, IMAGE, ROLES, UPGRADE})
_LEVELS: Final = {**RELEASES, "4.4": 33}
"""Release -> the metadata.version that it begins a cluster with."""
_DEFAULT: Final = f"{kraft.KIND.name},{kafka.KIND.name}"


class MixedLayout(KraftLayout):
    """See `cluster.systems.base.Layout`: the metadata's folders of both kinds are the same.

    Only where a node runs, or once its files are stored, is it known of which kind it is.
    """

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        return _layout_of(folder).log_dirs(folder)

    def trace_source(self, folder: PurePath) -> PurePath:
        return _layout_of(folder).trace_source(folder)

    def trace_reader(self, folder: PurePath) -> TraceReader | None:
        return _layout_of(folder).trace_reader(folder)


def _layout_of(folder: PurePath) -> Layout:
    kind = kafka.KIND if Path(folder, LOGGING).exists() else kraft.KIND
    return kind.layout


class DynamicKraftSystem(KraftSystem):
    """Our node in a quorum that begins with its voters in the log, which takes a format."""

    def files(self, node: Placement) -> Mapping[str, str]:
        """Render how the folder is formatted and the node started beside what it always has."""
        servers = node.voters or node.bootstrap
        rendered = super().files(replace(node, voters=(), bootstrap=servers))
        config = str(node.folder / "server.properties")
        format_command = (node.interpreter, "-m", "cluster.node.format", "--config", config)
        data, run = str(self.data_folder(node.folder)), super().command(node)
        return {**rendered, START_FILE: start_file(node, data, format_command, run, dynamic=True)}

    def command(self, node: Placement) -> tuple[str, ...]:
        return starting(node)


class MixedSystem(MixedLayout, System):
    """Runs each node by the system of its kind."""

    name = NAME
    ready_listeners: Listeners = ("CONTROLLER",)

    def __init__(self, kinds: tuple[str, ...], systems: Mapping[str, System]) -> None:
        """`kinds`: those of n1, n2, ...; the last stands for all further nodes as well."""
        self._kinds = kinds
        self._systems = systems
        each = systems.values()
        first = next(iter(each))
        self.reads = tuple({folder: None for system in each for folder in system.reads})
        self.mapped = tuple({suffix: None for system in each for suffix in system.mapped})
        self.ping, self.client_security = first.ping, first.client_security
        self.stop_timeout_s = max(system.stop_timeout_s for system in each)
        self.stop_codes = frozenset(code for system in each for code in system.stop_codes)
        self.ready_timeout_s = max(system.ready_timeout_s for system in each)

    def files(self, node: Placement) -> Mapping[str, str]:
        return self._of(node).files(node)

    def command(self, node: Placement) -> tuple[str, ...]:
        return self._of(node).command(node)

    def environment(self, node: Placement) -> Mapping[str, str]:
        return self._of(node).environment(node)

    def _of(self, node: Placement) -> System:
        return self._systems[_kind_of(self._kinds, node.node_id)]


def _kind_of(kinds: tuple[str, ...], node_id: int) -> str:
    return kinds[min(node_id, len(kinds)) - 1]


def _whole_traces(request: SystemRequest, nodes: int) -> tuple[bool, ...]:
    """Say which nodes trace everything: those of this repository."""
    kinds = _kinds(request)
    return tuple(_PARTS[_kind_of(kinds, node_id)].traced is None for node_id in range(1, nodes + 1))


def _kinds(request: SystemRequest) -> tuple[str, ...]:
    named = tuple(part.strip() for part in request.options.get(KINDS, _DEFAULT).split(","))
    for name in named:
        if name not in _PARTS:
            raise SettingError(f"system_options.{KINDS}: {unknown('kind', name, _PARTS)}")
    return named


def _requests(request: SystemRequest) -> dict[str, SystemRequest]:
    """Return what each kind is asked for: Kafka takes every key, ours those that it knows."""
    settings = request.node_settings
    # Kafka's controllers answer NOT_CONTROLLER to appended writes, too: no second attempt.
    ours = {kraft.FORWARDING_HOLD: 0}
    ours |= {key: value for key, value in settings.items() if key in NODE_SETTINGS}
    kafkas = {key: value for key, value in settings.items() if key not in kraft.OURS}
    options = {key: value for key, value in request.options.items() if key != KINDS}
    return {
        kraft.KIND.name: SystemRequest(ours, {}, None, request.security),
        kafka.KIND.name: SystemRequest(kafkas, options, None, request.security),
    }


def _check(request: SystemRequest) -> None:
    _kinds(request)
    for name, own in _requests(request).items():
        _PARTS[name].check(own)


def _check_levels(version: str) -> None:
    """Refuse a release that begins a cluster at a metadata.version which our node does not have.

    Our node would end at the first record of it, which looks like a violation. Raises SettingError.
    """
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is None:
        return  # a build that names no version: nothing is known of it
    release = f"{parts[1]}.{parts[2]}"
    level = _LEVELS.get(release)
    if level in OFFERED[METADATA_VERSION]:
        return
    newest = max(_LEVELS, key=_LEVELS.__getitem__)
    later = tuple(map(int, parts.groups())) > tuple(map(int, newest.split(".")))
    said = level or (f"above {_LEVELS[newest]}" if later else f"below {METADATA_VERSION_MIN}")
    known = f"{METADATA_VERSION_MIN} to {METADATA_VERSION_LEVEL}"
    raise SettingError(
        f"system mixed: Apache Kafka {release} begins at {METADATA_VERSION} {said}, and the nodes "
        f"of this repository have {known} (Kafka {min(RELEASES)} to {max(RELEASES)}): give one of "
        "these releases"
    )


def _create(request: SystemRequest) -> MixedSystem:
    kinds, requests = _kinds(request), _requests(request)
    if set(kinds) == set(_PARTS):
        _check_levels(kafka.KIND.versions(requests[kafka.KIND.name])[kafka.KIND.name])
    systems = {name: _PARTS[name].create(requests[name]) for name in dict.fromkeys(kinds)}
    if kraft.KIND.name in systems and kafka.is_dynamic(request):
        own = requests[kraft.KIND.name]
        systems[kraft.KIND.name] = DynamicKraftSystem(own.node_settings, None, own.security)
    return MixedSystem(kinds, systems)


def _versions(request: SystemRequest) -> Mapping[str, str]:
    requests = _requests(request)
    each = (_PARTS[name].versions(requests[name]) for name in dict.fromkeys(_kinds(request)))
    return {name: version for found in each for name, version in found.items()}


def _listeners(request: SystemRequest, nodes: int) -> tuple[Listeners, ...]:
    count = len(_kinds(request))
    if count > nodes:
        raise SettingError(
            f"system_options.{KINDS}: {count} kinds are more than {nodes} nodes; "
            f"give --nodes {count}"
        )
    return everywhere(request, nodes)


KIND = replace(
    kafka.KIND,
    name=NAME,
    title="one quorum of both: nodes of Apache Kafka and of this repository",
    layout=MixedLayout(),
    has_coordinators=False,
    check=_check,
    create=_create,
    versions=_versions,
    listeners=_listeners,
    whole_traces=_whole_traces,
    options={
        **{key: says for key, says in kafka.OPTIONS.items() if key not in _KAFKAS_ALONE},
        KINDS: f"kinds of n1, n2, ...; the last is that of the rest ({_DEFAULT})",
    },
)

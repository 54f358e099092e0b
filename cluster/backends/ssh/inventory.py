"""The inventory: which hosts backend `ssh` may use, and how each is reached. A TOML file.

    known_hosts = "~/.ssh/known_hosts"    # where their keys must be; this is the default
    accept_new_host_keys = false          # true: a key that is not known yet is believed and kept
    reconnect_s = 20                      # how long a lost connection may stay away
    grace_s = 60                          # after so long without a harness a host cleans itself up

    [defaults]                            # any key of a host, for all of them
    user = "root"

    [[hosts]]
    address = "192.0.2.11"

| key of a host | meaning | default |
|---|---|---|
| `address` | name or address that ssh connects to | required |
| `port` | of sshd | 22 |
| `user` | who logs in | who runs Kraftprobe |
| `key` | private key file; without one the agent's keys and ~/.ssh are tried | none |
| `peer_address` | IP address at which hosts and harness reach its nodes | `address`, looked up |
| `sudo` | run everything there as root through `sudo -n` | false |
| `python` | its interpreter: version, machine, C library as the harness's | `python3` |
| `workdir` | folder of its own there, made if missing; absolute | `/var/tmp/kraftprobe` |
| `client_port`, `controller_port` | where nodes listen | 9092, 9093 |
| `agent_port`, `shaper_port` | where the helpers beside them listen | 9094, 9095 |

The first host is n1, the second n2, and so on; hosts beyond the plan's nodes are left alone.
"""

from __future__ import annotations

import getpass
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path, PurePosixPath
from typing import Any

from cluster.backends.terms import BackendError
from cluster.names import unknown
from cluster.values import valueclass

_FILE_BYTES_MAX = 1_000_000
_TOP = ("known_hosts", "accept_new_host_keys", "reconnect_s", "grace_s", "defaults", "hosts")

HOSTS_FILE = "hosts.json"
"""In the folder of a run that has something on hosts: its inventory."""


@valueclass
class HostEntry:
    """One host; see the module for its fields."""

    address: str
    port: int
    user: str
    key: str | None
    peer_address: str | None
    sudo: bool
    python: str
    workdir: str
    client_port: int
    controller_port: int
    agent_port: int
    shaper_port: int

    @property
    def where(self) -> str:
        """For a person."""
        return f"{self.user}@{self.address}:{self.port}"


@valueclass
class Inventory:
    """All hosts, in the order of nodes."""

    hosts: tuple[HostEntry, ...]
    known_hosts: str
    accept_new_host_keys: bool
    reconnect_s: float = 20.0
    grace_s: float = 60.0

    def to_json(self) -> dict[str, Any]:
        """Render it, for the run folder: `cleanup` finds the hosts again."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str) -> Inventory:
        """Read what `to_json` rendered. Raises BackendError."""
        try:
            document = json.loads(text)
            hosts = tuple(HostEntry(**host) for host in document["hosts"])
            return cls(**{**document, "hosts": hosts})
        except (ValueError, TypeError, KeyError) as error:
            raise BackendError(f"this is no stored inventory: {error!r}") from error


def read_inventory(path: Path) -> Inventory:
    """Read and check an inventory. Raises BackendError with one line that names file and key."""
    try:
        with path.open("rb") as file:
            document = tomllib.loads(file.read(_FILE_BYTES_MAX).decode())
    except OSError as error:
        raise BackendError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:200]
        raise BackendError(f"{path}: cannot be read as an inventory: {told}") from error
    try:
        return _inventory(document, path.absolute().parent)
    except _WrongError as error:
        raise BackendError(f"{path}: {error}") from error


class _WrongError(ValueError):
    """One line without the file's name."""


def _inventory(document: Mapping[str, Any], folder: Path) -> Inventory:
    for key in document:
        if key in _TYPES:
            raise _WrongError(f"{key} is a host's: put it below [defaults] or [[hosts]]")
        if key not in _TOP:
            raise _WrongError(unknown("key", key, _TOP))
    defaults = document.get("defaults", {})
    rows = document.get("hosts")
    if not isinstance(defaults, dict):
        raise _WrongError("defaults must be a table")
    _check_keys("defaults", defaults)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise _WrongError("hosts must be one or more tables: [[hosts]]")
    hosts = tuple(_host(n, {**defaults, **row}, folder) for n, row in enumerate(rows, 1))
    known_hosts = document.get("known_hosts", "~/.ssh/known_hosts")
    accept = document.get("accept_new_host_keys", False)
    if not isinstance(known_hosts, str) or not isinstance(accept, bool):
        raise _WrongError("known_hosts must be a path and accept_new_host_keys true or false")
    reconnect_s, grace_s = (
        _seconds(key, document.get(key, default))
        for key, default in (("reconnect_s", 20), ("grace_s", 60))
    )
    if grace_s <= reconnect_s:
        raise _WrongError("grace_s must be longer than reconnect_s")
    return Inventory(hosts, _path(known_hosts, folder), accept, reconnect_s, grace_s)


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise _WrongError(f"{key} must be seconds, from 0 to 3600, not {value!r}")
    return float(value)


_TYPES: Mapping[str, tuple[type, Any]] = {
    "address": (str, None),
    "port": (int, 22),
    "user": (str, None),
    "key": (str, None),
    "peer_address": (str, None),
    "sudo": (bool, False),
    "python": (str, "python3"),
    "workdir": (str, "/var/tmp/kraftprobe"),  # noqa: S108  (made with mode 700, owner checked)
    "client_port": (int, 9092),
    "controller_port": (int, 9093),
    "agent_port": (int, 9094),
    "shaper_port": (int, 9095),
}
assert {field.name for field in fields(HostEntry)} == set(_TYPES), "every field is described"


def _check_keys(where: str, table: Mapping[str, Any]) -> None:
    """Refuse keys that are not a host's."""
    for key in table:
        if key in _TOP:
            raise _WrongError(
                f"{where}: {key} is not a host's: put it at the top of the file, before the first "
                "[defaults] or [[hosts]]"
            )
        if key not in _TYPES:
            raise _WrongError(f"{where}: {unknown('key', key, _TYPES)}")


def _host(number: int, row: Mapping[str, Any], folder: Path) -> HostEntry:
    _check_keys(f"host {number}", row)
    values = {key: row.get(key, default) for key, (_, default) in _TYPES.items()}
    for key, (type_, _) in _TYPES.items():
        if key in row and type(row[key]) is not type_:
            raise _WrongError(f"host {number}: {key} cannot be {row[key]!r}")
        if key.endswith("port") and not 1 <= values[key] <= 65535:
            raise _WrongError(f"host {number}: {key} must be from 1 to 65535, not {values[key]}")
    if not values["address"]:
        raise _WrongError(f"host {number} has no address")
    values["user"] = values["user"] or getpass.getuser()
    if values["key"] is not None:
        values["key"] = _path(values["key"], folder)
    workdir = PurePosixPath(values["workdir"])
    if not workdir.is_absolute() or len(workdir.parts) < 3 or ".." in workdir.parts:
        raise _WrongError(f"host {number}: workdir must be absolute, two folders deep or more")
    return HostEntry(**values)


def _path(text: str, folder: Path) -> str:
    """Resolve a path of an inventory: relative ones beside it."""
    try:
        return str(folder / Path(text).expanduser())
    except RuntimeError as error:  # ~name of somebody whom this machine does not know
        raise _WrongError(f"{text!r}: this machine has no such home") from error

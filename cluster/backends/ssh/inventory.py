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
| `user` | user that logs in | user that runs Kraftprobe |
| `key` | private key file; without one the agent's keys and ~/.ssh are tried | none |
| `peer_address` | IP address at which hosts and harness reach its nodes | `address`, looked up |
| `sudo` | run everything there as root through `sudo -n` | false |
| `python` | its interpreter: version, machine, C library as the harness's | `python3` |
| `workdir` | folder of its own there, made if missing; absolute | `/var/tmp/kraftprobe` |
| `client_port`, `controller_port` | where nodes listen | 9092, 9093 |
| `agent_port` | UDP, where the agents beside them measure links | 9094 |

The first host is n1, the second n2, and so on; hosts beyond the plan's nodes are left alone.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo

from cluster.backends.terms import BackendError
from cluster.documents import parse_json, read_document
from cluster.schemas import Flag, Place, Schema, Text, where_of
from cluster.values import valueclass

HOSTS_FILE = "hosts.json"
"""In the folder of a run that has something on hosts: its inventory."""


def _own_name() -> str:
    """Name the user that runs this. Raises BackendError for one whom this machine does not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise BackendError("user: who runs this has no name here: give one") from None


def _beside(text: str, info: ValidationInfo[Path]) -> str:
    """Resolve a path of an inventory: relative ones beside it, in the folder of the context."""
    try:
        return str(info.context / Path(text).expanduser())
    except RuntimeError as error:  # ~name of a user unknown to this machine
        raise ValueError(f"{text!r}: this machine has no such home") from error


def _deep(text: str) -> str:
    workdir = PurePosixPath(text)
    if not workdir.is_absolute() or len(workdir.parts) < 3 or ".." in workdir.parts:
        raise ValueError(f"must be absolute, two folders deep or more, not {text!r}")
    return text


FilePath = Annotated[str, AfterValidator(_beside)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Seconds = Annotated[float, Field(strict=True, ge=0.001, le=3600)]


@valueclass(kw_only=True)
class HostEntry:
    """One host; see the module for its fields."""

    address: Annotated[str, Field(min_length=1, description="a name or an address")]
    port: Port = 22
    user: Text = field(default_factory=_own_name)
    key: FilePath | None = None
    peer_address: Text | None = None
    sudo: Flag = False
    python: Text = "python3"
    workdir: Annotated[str, AfterValidator(_deep)] = "/var/tmp/kraftprobe"  # noqa: S108  (mode 700)
    client_port: Port = 9092
    controller_port: Port = 9093
    agent_port: Port = 9094

    @property
    def where(self) -> str:
        """For a person."""
        return f"{self.user}@{self.address}:{self.port}"


@valueclass(kw_only=True)
class Inventory:
    """All hosts, in the order of nodes."""

    hosts: Annotated[
        tuple[HostEntry, ...], Field(min_length=1, description="one or more tables: [[hosts]]")
    ]
    known_hosts: Annotated[FilePath, Field(validate_default=True)] = "~/.ssh/known_hosts"
    accept_new_host_keys: Flag = False
    reconnect_s: Seconds = 20.0
    grace_s: Seconds = 60.0

    def to_json(self) -> dict[str, Any]:
        """Render it, for the run folder: `cleanup` finds the hosts again."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str) -> Inventory:
        """Read what `to_json` rendered. Raises BackendError."""
        try:
            return _INVENTORY.read(parse_json(text), context=Path("/"))
        except (ValueError, RecursionError, BackendError) as error:
            raise BackendError(f"this is no stored inventory: {error}") from error


_HOST = Schema(HostEntry, BackendError)
_INVENTORY = Schema(Inventory, BackendError)
_OF_HOST = frozenset(item.name for item in fields(HostEntry))
_OF_ALL = frozenset(item.name for item in fields(Inventory)) | {"defaults"}


def read_inventory(path: Path) -> Inventory:
    """Read and check an inventory. Raises BackendError with one line that names file and key."""
    document = read_document(path, "an inventory", BackendError)
    try:
        return inventory_of(document, path.absolute().parent)
    except BackendError as error:
        raise BackendError(f"{path}: {error}") from error


def inventory_of(document: Mapping[str, Any], folder: Path) -> Inventory:
    """Check the document of an inventory in `folder`. Raises BackendError."""
    top = dict(document)
    defaults, rows = top.pop("defaults", {}), document.get("hosts", [])
    _refuse(top, _OF_HOST, (), "is a host's: put it below [defaults] or [[hosts]]")
    _refuse(defaults, _OF_ALL, ("defaults",), _AT_TOP)
    # Address and user are needed of hosts, and not of what holds for all of them.
    some = {"address": "any", "user": "any", **defaults} if isinstance(defaults, dict) else defaults
    _HOST.read(some, place=("defaults",), context=folder)
    if isinstance(rows, list):
        for number, row in enumerate(rows):
            _refuse(row, _OF_ALL, ("hosts", number), _AT_TOP)
        top["hosts"] = [{**defaults, **row} if isinstance(row, dict) else row for row in rows]
    inventory = _INVENTORY.read(top, context=folder)
    if inventory.grace_s <= inventory.reconnect_s:
        raise BackendError("grace_s must be longer than reconnect_s")
    return inventory


_AT_TOP = "is not a host's: put it at the top of the file, before the first [defaults] or [[hosts]]"


def _refuse(table: object, keys: frozenset[str], place: Place, why: str) -> None:
    """Refuse keys that belong elsewhere."""
    for key in table if isinstance(table, dict) else ():
        if key in keys:
            raise BackendError(f"{where_of((*place, key))} {why}")

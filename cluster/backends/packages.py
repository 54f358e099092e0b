"""The command that installs what is missing, for the package manager that this machine has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

_MANAGERS: Mapping[str, str] = {
    "apt": "apt install",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S",
}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "dnf": {"docker.io": "moby-engine", "iproute2": "iproute", "iptables": "iptables-nft"},
    "apk": {"docker.io": "docker", "openssh-server": "openssh"},
    "pacman": {"docker.io": "docker", "iptables": "iptables-nft", "openssh-server": "openssh"},
}
"""Where a manager's name of a package is not Debian's."""


def install(*packages: str) -> str:
    """Spell a whole command that can be copied; the packages by Debian's names.

    Where no known manager is found, Debian's: the names say what to look for.
    """
    manager = next((manager for manager in _MANAGERS if shutil.which(manager) is not None), "apt")
    names = (_NAMES.get(manager, {}).get(package, package) for package in packages)
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}{_MANAGERS[manager]} {' '.join(dict.fromkeys(names))}"

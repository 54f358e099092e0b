"""What of a machine a campaign may leave behind, read with the system's own tools.

Nothing here asks the toolkit: what it forgot it would not name either.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LISTS = {
    "network namespace": ("ip", "netns", "list"),
    "link": ("ip", "-o", "link", "show"),
    "address": ("ip", "-o", "address", "show"),
    "iptables rule": ("iptables-save",),
    "nftables rule": ("nft", "--stateless", "list", "ruleset"),
    "traffic rule": ("tc", "qdisc", "show"),
    "loop device": ("losetup", "--noheadings", "--output", "NAME,BACK-FILE"),
    "container": ("docker", "ps", "--all", "--quiet", "--no-trunc"),
    "network of the engine": ("docker", "network", "ls", "--quiet", "--no-trunc"),
    "volume of the engine": ("docker", "volume", "ls", "--quiet"),
}
_COUNTERS = ("[", "#")
"""How the lines of iptables-save begin that count packets or give the time."""


def what_is_there() -> frozenset[tuple[str, str]]:
    """Return (kind, name) of every process of ours, mount, link, rule, container, folder."""
    return frozenset((*_processes(), *_mounts(), *_folders(), *_listed()))


def _listed() -> Iterator[tuple[str, str]]:
    for kind, command in _LISTS.items():
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        for line in done.stdout.splitlines():
            # A chain of iptables-save has its counters behind it.
            name = line.partition(" [")[0] if line.startswith(":") else line.strip()
            if name and not line.startswith(_COUNTERS):
                yield kind, name


def _processes() -> Iterator[tuple[str, str]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended, or is of another user's
        ours = b"KRAFTPROBE_RUN=" in environment or "-m cluster." in command
        if ours:
            yield "process", f"{entry.name} {command.strip()}"


def _mounts() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, place, *_ = line.split()
        yield "mount", f"{device} on {place}"


def _folders() -> Iterator[tuple[str, str]]:
    for path in Path(tempfile.gettempdir()).iterdir():
        yield "temporary file", str(path)

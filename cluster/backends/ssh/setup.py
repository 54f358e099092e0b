"""What is asked of a host before anything is put there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import paramiko

from cluster.backends.agent import cleaning
from cluster.backends.ssh import bundle, preflight
from cluster.backends.ssh.connection import execute
from cluster.backends.ssh.inventory import HostEntry
from cluster.backends.terms import BackendError

PREFLIGHT = Path(preflight.__file__).read_text(encoding="utf-8")
CLEANING = Path(cleaning.__file__).read_text(encoding="utf-8")


def check_host(client: paramiko.SSHClient, entry: HostEntry, host: str) -> dict[str, Any]:
    """Look at a host: {"bundle": is it there, "controller", "machine"}.

    "controller" is the harness's address as seen there; "machine" is what no other network has.
    Raises BackendError when it cannot run nodes.
    """
    code = str(Path(entry.workdir, "bundles", bundle.digest()))
    sudo = ("sudo", "-n", "--") if entry.sudo else ()
    asked = (*sudo, *shlex.split(entry.python), "-I", "-S", "-c", PREFLIGHT, "look", code)
    # sshd says where the harness comes from; sudo would not hand the variable on.
    done = execute(client, f'{shlex.join(asked)} "$SSH_CONNECTION"')
    if done.exit_code != 0:
        reason = done.complaint(-1)
        raise BackendError(f"{host}: {reason}{_sudo_remedy(entry, reason)}")
    found: dict[str, Any] = json.loads(done.stdout)
    wanted = list(bundle.requirement())
    if found["runs"] != wanted:
        raise BackendError(
            f"{host}: {entry.python} is Python {' '.join(found['runs'])}; nodes need "
            f"{' '.join(wanted)}, as the harness has: name another `python`"
        )
    if not found["nft"]:
        raise BackendError(f"{host}: nft not found; there: apt install nftables")
    if not found["controller"]:
        raise BackendError(f"{host}: sshd does not say where the harness comes from")
    return found


def _sudo_remedy(entry: HostEntry, reason: str) -> str:
    """Say what lets sudo work there, when it is sudo that refuses."""
    if not entry.sudo or "sudo:" not in reason:
        return ""
    if "not found" in reason:
        return "; there: apt install sudo"
    rule = f"{entry.user} ALL=(root) NOPASSWD: ALL"
    return f"; there, as root: echo '{rule}' > /etc/sudoers.d/kraftprobe"

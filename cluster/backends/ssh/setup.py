"""What is asked of a host before anything is put there, and the programs that put it there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import paramiko

from cluster.backends.ssh import agent, bundle
from cluster.backends.ssh.connection import execute
from cluster.backends.ssh.inventory import HostEntry
from cluster.backends.terms import BackendError

PREFLIGHT = """
import json, os, platform, subprocess, sys

def own_folder(path):
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.geteuid() or os.stat(path).st_mode & 0o022:
        sys.exit(path + " belongs to somebody else or can be written by others")

if sys.argv[1] == "make":
    workdir, folder, code, run, grace_s = sys.argv[2:]
    own_folder(workdir)
    try:
        os.makedirs(os.path.join(folder, "bin"), mode=0o700)
    except FileExistsError:
        sys.exit(folder + " is another host's of this run: hosts that share their files need a "
                 "workdir each")
    os.symlink(code, os.path.join(folder, "code"))
    for name, text in json.load(sys.stdin).items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o700)
    agent = os.path.join(folder, "agent.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", agent, "serve", folder, run, grace_s])
else:
    ip = ["ip", "-o", "address", "show"]
    try:
        shown = subprocess.run(ip, stdout=subprocess.PIPE).stdout.decode().splitlines()
    except OSError:
        shown = []
    version = "%d.%d" % sys.version_info[:2]
    print(json.dumps({
        "runs": [version, platform.machine(), platform.libc_ver()[0]],
        "bundle": os.path.exists(os.path.join(sys.argv[2], ".complete")),
        "nft": any(os.path.exists(os.path.join(d, "nft"))
                   for d in os.get_exec_path() + ["/usr/sbin", "/sbin"]),
        "interface": next((one.split()[1] for one in shown if " %s/" % sys.argv[3] in one), None),
        "controller": (sys.argv[4].split() or [""])[0],
        "machine": [open("/proc/sys/kernel/random/boot_id").read().strip(),
                    os.readlink("/proc/self/ns/net")],
    }))
"""
UNPACK = """
import io, os, shutil, sys, tarfile, tempfile

target = sys.argv[1]
os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
place = tempfile.mkdtemp(dir=os.path.dirname(target))
with tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())) as archive:
    archive.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
open(os.path.join(place, ".complete"), "w").close()
try:
    os.rename(place, target)
except OSError:
    shutil.rmtree(place)
    if not os.path.exists(os.path.join(target, ".complete")):
        raise
"""


def check_host(client: paramiko.SSHClient, entry: HostEntry, who: str, peer: str) -> dict[str, Any]:
    """Look at a host: {"bundle": is it there, "interface": name or None, "controller", "machine"}.

    "controller" is the harness's address as seen there; "machine" is what no other network has.
    Raises BackendError when it cannot run nodes.
    """
    code = str(Path(entry.workdir, "bundles", bundle.digest()))
    sudo = ("sudo", "-n", "--") if entry.sudo else ()
    asked = (*sudo, *shlex.split(entry.python), "-I", "-S", "-c", PREFLIGHT, "look", code, peer)
    # sshd tells where the harness comes from; sudo would not hand the variable on.
    done = execute(client, f'{shlex.join(asked)} "$SSH_CONNECTION"')
    if done.exit_code != 0:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        reason = told[-1] if told else "its python does not run"
        raise BackendError(f"{who}: {reason}{_sudo_remedy(entry, reason)}")
    found: dict[str, Any] = json.loads(done.stdout)
    wanted = list(bundle.requirement())
    if found["runs"] != wanted:
        raise BackendError(
            f"{who}: {entry.python} is Python {' '.join(found['runs'])}; nodes need "
            f"{' '.join(wanted)}, as the harness has: name another `python`"
        )
    if not found["nft"]:
        raise BackendError(f"{who}: nft not found; there: apt install nftables")
    if not found["controller"]:
        raise BackendError(f"{who}: sshd does not tell where the harness comes from")
    return found


def _sudo_remedy(entry: HostEntry, reason: str) -> str:
    """Say what lets sudo work there, when it is sudo that refuses."""
    if not entry.sudo or "sudo:" not in reason:
        return ""
    if "not found" in reason:
        return "; there: apt install sudo"
    rule = f"{entry.user} ALL=(root) NOPASSWD: ALL"
    return f"; there, as root: echo '{rule}' > /etc/sudoers.d/kraftprobe"


def agent_program() -> str:
    """Read the agent's source."""
    return Path(agent.__file__).read_text()

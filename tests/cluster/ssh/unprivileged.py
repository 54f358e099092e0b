"""A user without privilege on the laboratory's hosts, with or without sudo there.

The user exists for one more sshd a host alone, on port 2200: in a mount namespace of its own the files
that name users and what sudo lets them do are covered by copies. The machine's own are never touched.
"""

import contextlib
import shutil
from pathlib import Path

from tests.cluster.ssh.lab import which

USER = "kraftprobe-test"
PORT = 2200
ALLOWED = f"{USER} ALL=(root) NOPASSWD: ALL\n"
_NUMBER = 64123
_COVER = """
set -e
for name in passwd group shadow sudoers; do
    mount --bind "$1/etc/$name" "/etc/$name"
done
shift
exec "$@"
"""


def why_no_sudo():
    """Why no user can be given sudo here; empty when that is possible."""
    return "" if which("sudo") else "sudo not found: apt install sudo"


@contextlib.contextmanager
def user_of_hosts(lab, rule):
    """Let USER in on every host of the lab at PORT, with this line of sudoers; an inventory's keys."""
    sshds = []
    known = lab.known_hosts.read_text()
    try:
        for node in lab.nodes:
            sshds.append(_start(lab, node, rule))
        for node in lab.nodes:
            lab.wait_for_port(node, PORT, lab.folder / node / "unprivileged")
        keys = [
            f"[{lab.hosts[node].address}]:{PORT} {(lab.folder / node / 'host_key.pub').read_text()}"
            for node in lab.nodes
        ]
        lab.known_hosts.write_text(known + "".join(keys))
        yield {"user": USER, "port": PORT, "sudo": True}
    finally:
        lab.known_hosts.write_text(known)
        for sshd in sshds:
            sshd.kill()
            sshd.wait()


def _start(lab, node, rule):
    folder = lab.folder / node / "unprivileged"
    _write_etc(folder / "etc", rule)
    config = folder / "sshd_config"
    # sshd reads a user's keys as that user, which cannot look into the lab's folder; a command can.
    config.write_text(
        f"Port {PORT}\nListenAddress {lab.hosts[node].address}\n"
        f"HostKey {lab.folder / node}/host_key\nAuthorizedKeysFile none\n"
        f"AuthorizedKeysCommand {which('cat')} {lab.key}.pub\nAuthorizedKeysCommandUser root\n"
        "UsePAM no\nPidFile none\nPasswordAuthentication no\nMaxStartups 50\n"
    )
    cover = ("unshare", "--mount", "sh", "-c", _COVER, "cover", str(folder))
    return lab.serve_ssh(node, config, *cover)


def _write_etc(etc, rule):
    etc.mkdir(parents=True, exist_ok=True)
    lines = {
        "passwd": f"{USER}:x:{_NUMBER}:{_NUMBER}::/:/bin/sh\n",
        "group": f"{USER}:x:{_NUMBER}:\n",
        "shadow": f"{USER}:*:19000:0:99999:7:::\n",
    }
    for name, line in lines.items():
        original = Path("/etc") / name
        shutil.copy2(original, etc / name)
        (etc / name).write_text(original.read_text().rstrip("\n") + "\n" + line)
    (etc / "sudoers").unlink(missing_ok=True)
    (etc / "sudoers").write_text(f"Defaults !syslog\nroot ALL=(ALL:ALL) ALL\n{rule}")
    (etc / "sudoers").chmod(0o440)

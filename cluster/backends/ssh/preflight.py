"""`look CODE SSH_CONNECTION`: report what a host has; `make ...`: make a run's folder there.

Sent as source to a Python that may be too old for nodes, which is then what it reports. `make
WORKDIR FOLDER CODE RUN GRACE_S PYTHON` writes its stdin to PYTHON, and runs the host's agent by it.
"""

import json
import os
import platform
import sys


def look(code: str, connection: str) -> None:
    """Print what `cluster.backends.ssh.setup.check_host` asks for."""
    folders = [*os.get_exec_path(), "/usr/sbin", "/sbin"]
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot_id = file.read().strip()
    found = {
        "runs": ["%d.%d" % sys.version_info[:2], platform.machine(), platform.libc_ver()[0]],
        "bundle": os.path.exists(os.path.join(code, ".complete")),
        "nft": any(os.path.exists(os.path.join(folder, "nft")) for folder in folders),
        "controller": (connection.split() or [""])[0],
        "machine": [boot_id, os.readlink("/proc/self/ns/net")],
    }
    print(json.dumps(found))


def make(workdir: str, folder: str, code: str, run: str, grace_s: str, python: str) -> None:
    """Make the folder of a run, and become its agent."""
    own_folder(workdir)
    try:
        os.makedirs(os.path.dirname(python), mode=0o700)
    except FileExistsError:
        text = "%s is another host's of this run: hosts that share their files need a workdir each"
        sys.exit(text % folder)
    os.symlink(code, os.path.join(folder, "code"))
    with open(python, "w") as file:
        file.write(sys.stdin.read())
    os.chmod(python, 0o700)
    words = [python, "-P", "-S", "-m", "cluster.backends.agent", "serve", folder, run, grace_s]
    # Labels show in /proc only if the process began with them.
    os.execve(python, words, dict(os.environ, KRAFTPROBE_RUN=run))


def own_folder(path: str) -> None:
    """Make a folder, or end where it is not this user's alone to write."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.geteuid() or os.stat(path).st_mode & 0o022:
        sys.exit("%s belongs to another user or can be written by others" % path)


if __name__ == "__main__":
    (make if sys.argv[1] == "make" else look)(*sys.argv[2:])

"""`look CODE SSH_CONNECTION`: report what a host has; `unpack` and `make`: bring what it lacks.

Sent as source to a Python that may be too old for nodes, which is then what it reports. `unpack
CODE` unpacks a bundle from its stdin. `make WORKDIR FOLDER CODE RUN GRACE_S PYTHON` makes a run's
folder, writes its stdin to PYTHON, and runs the host's agent by it.
"""

import io
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile


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


def unpack(code: str) -> None:
    """Unpack beside and rename: a folder that is found is complete."""
    os.makedirs(os.path.dirname(code), mode=0o700, exist_ok=True)
    place = tempfile.mkdtemp(dir=os.path.dirname(code))
    with tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)  # before filters; we alone wrote it
    with open(os.path.join(place, ".complete"), "w"):
        pass
    try:
        os.rename(place, code)
    except OSError:
        shutil.rmtree(place)
        if not os.path.exists(os.path.join(code, ".complete")):
            raise


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
    globals()[sys.argv[1]](*sys.argv[2:])

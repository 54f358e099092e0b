"""`python - FOLDER RUN`, sent as this source: take away all that a run has on this host.

Ends every process of the run, the agent included, takes the run's packet filter and
mounts away and removes FOLDER. Nothing else is touched. Idempotent; needs the standard library
alone, since what the agent runs from may be gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

RUN_LABEL = "KRAFTPROBE_RUN"
SUPPORT_LABEL = "KRAFTPROBE_SUPPORT"
TABLE = "/proc/self/mountinfo"


def find_processes(folder: str, run: str, *, support: bool) -> list[int]:
    """The run's other live processes, by label, else folder; `support`: what nodes lean on."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in (os.getpid(), os.getppid()):
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                labels = file.read().split(b"\0")
            place = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        leant_on = f"{SUPPORT_LABEL}=1".encode() in labels
        titled = not any(b"=" in label for label in labels)
        own = titled and (place + "/").startswith(os.path.realpath(folder) + "/")
        if (own or f"{RUN_LABEL}={run}".encode() in labels) and leant_on == support:
            found.append(int(name))
    return found


def kill_all(folder: str, run: str, *, support: bool) -> None:
    """Kill the run's processes on this host, and wait for their end; see `find_processes`."""
    own = os.readlink("/proc/self/ns/net")
    for _ in range(100):
        found = find_processes(folder, run, support=support)
        alive = [pid for pid in found if shares_network(pid, own)]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def clean(folder: str, run: str, *, keep: bool = False) -> None:
    """See the module. `keep`: leave the files, which may be evidence still to be fetched."""
    # A node that still ran would see its disk fail, and end itself for a reason that is no fault.
    kill_all(folder, run, support=False)
    for point in reversed(mounts_below(folder)):
        for command in (["umount", "-l"], ["fusermount3", "-uz"]):  # the other one needs no root
            if point in mounts_below(folder) and shutil.which(command[0]):
                subprocess.run([*command, point], capture_output=True)
    kill_all(folder, run, support=True)
    unfilter(run)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def unfilter(run: str) -> None:
    """Take the run's packet filters away, as `linkrules` and `shaping` name them."""
    table = "kraftprobe_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in run)[:200]
    if shutil.which("nft"):
        listed = subprocess.run(["nft", "list", "tables", "inet"], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            name = line.split()[-1]
            if name == table or name.startswith(table + "_shape_"):
                subprocess.run(["nft", "delete", "table", "inet", name], capture_output=True)
    chain = f"kraftprobe_{hashlib.sha256(run.encode()).hexdigest()[:12]}"
    for tool in ("iptables", "ip6tables"):
        if shutil.which(tool):
            for words in (["-D", "OUTPUT", "-j", chain], ["-F", chain], ["-X", chain]):
                subprocess.run([tool, "-w", "-t", "mangle", *words], capture_output=True)


def shares_network(pid: int, own: str) -> bool:
    """Whether a process is of this host: hosts that are namespaces share one process table."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == own
    except OSError:
        return False


def mounts_below(folder: str) -> list[str]:
    """Mount points below the folder, outer ones first."""
    whole = os.path.realpath(folder) + "/"
    with open(TABLE, errors="surrogateescape") as file:
        points = {line.split()[4].replace("\\040", " ") for line in file}
    return sorted(point for point in points if (point + "/").startswith(whole))


if __name__ == "__main__":
    clean(*sys.argv[1:])

"""A laboratory of hosts behind real sshd: one network namespace each, and one for the harness.

The namespaces are made by backend netns's own provider; here each holds an sshd with a host key of
its own. Programs that are to reach the hosts are run in the hub's namespace, at 10.0.0.254.
"""

import asyncio
import getpass
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster.backends.netns.netns_hosts import NetnsProvider

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from harness.cli import main; main()"
HOST_PYTHON = getattr(sys, "_base_executable", sys.executable)
"""The interpreter below the virtual environment: what it can import, a bundle brought."""


def why_not():
    """Why no laboratory can be built here; empty when it can."""
    if os.geteuid() != 0:
        return "hosts behind sshd need root"
    missing = [tool for tool in ("sshd", "ssh-keygen", "nft", "ip") if which(tool) is None]
    return f"{', '.join(missing)} not found: apt install openssh-server nftables iproute2" * bool(
        missing
    )


def which(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Lab:
    """Hosts n1, n2, ... with an sshd on port 22."""

    def __init__(self, folder, count):
        self.folder = folder
        self.nodes = tuple(f"n{number}" for number in range(1, count + 1))
        self.key = folder / "key"
        self.known_hosts = folder / "known_hosts"
        self.sshds = {}
        self._loop = asyncio.new_event_loop()
        self._provider = NetnsProvider(folder / "netns", f"lab-{folder.name}")

    def __enter__(self):
        Path("/run/sshd").mkdir(exist_ok=True)
        keygen(self.key)
        self.hosts = self._loop.run_until_complete(self._provider.create(self.nodes))
        for node in self.nodes:
            (self.folder / node).mkdir()
            keygen(self.folder / node / "host_key")
            self.start_sshd(node)
        self.know(*self.nodes)
        return self

    def __exit__(self, *_):
        for sshd in self.sshds.values():
            sshd.kill()
            sshd.wait()
        self._loop.run_until_complete(self._provider.tear_down())
        self._loop.close()

    def start_sshd(self, node):
        folder = self.folder / node
        config = folder / "sshd_config"
        config.write_text(
            f"Port 22\nListenAddress {self.hosts[node].address}\nHostKey {folder}/host_key\n"
            f"AuthorizedKeysFile {self.key}.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 50\n"
        )
        self.sshds[node] = self.serve_ssh(node, config)
        self.wait_for_port(node, 22, folder)

    def serve_ssh(self, node, config, *covered_by):
        """Start an sshd in a host, by its own file; its output is beside that."""
        command = (*covered_by, which("sshd"), "-D", "-e", "-f", str(config))
        with (config.parent / "sshd.log").open("ab") as log:
            return subprocess.Popen(
                (*self._provider.entering(self.hosts[node].holder), *command),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def cut_connections(self, node):
        """End every ssh connection to a host; its sshd goes on listening."""
        pids = subprocess.run(
            ("ps", "-o", "pid=", "--ppid", str(self.sshds[node].pid)),
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        for pid in pids:
            os.kill(int(pid), 9)
        return len(pids)

    def stop_sshd(self, node):
        os.kill(
            self.sshds[node].pid, signal.SIGSTOP
        )  # or it takes up a client that connects again at once
        self.cut_connections(node)
        self.sshds[node].kill()
        self.sshds[node].wait()

    def know(self, *nodes):
        """Let the harness's known_hosts hold just these hosts' keys."""
        lines = [
            f"{self.hosts[node].address} {(self.folder / node / 'host_key.pub').read_text()}"
            for node in nodes
        ]
        self.known_hosts.write_text("".join(lines))

    def inventory(self, name="hosts.toml", *, nodes=None, top="", **changes):
        """Write an inventory of these hosts."""
        text = f'known_hosts = "{self.known_hosts}"\n{top}\n[defaults]\n'
        values = {"user": getpass.getuser(), "key": str(self.key), "python": HOST_PYTHON}
        values |= changes
        text += "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
        for node in nodes or self.nodes:
            text += f'[[hosts]]\naddress = "{self.hosts[node].address}"\n'
            text += f'workdir = "{self.folder}/{node}/work"\n'
        path = self.folder / name
        path.write_text(text)
        return path

    def inside(self, *command):
        """The command, to be run where the hosts can be reached."""
        return (*self._provider._inside_hub(), *map(str, command))

    def kraftprobe(self, *arguments):
        command = self.inside(sys.executable, "-c", PROGRAM, *arguments)
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on(self, node, *command):
        """Run a command on a host; its standard output."""
        inside = self._provider.entering(self.hosts[node].holder)
        return subprocess.run(
            (*inside, *command), capture_output=True, text=True, check=False
        ).stdout

    def traces(self):
        """What is on the hosts that only a run makes: packet filters, run folders, processes."""
        found = []
        for node in self.nodes:
            found += [f"{node}: {without_empty(self.on(node, 'nft', 'list', 'ruleset'))}".strip()]
            runs = self.folder / node / "work/runs"
            found += [str(path) for path in runs.iterdir()] if runs.exists() else []
        found += self.labelled()
        return [line for line in found if line.strip().rstrip(":") not in self.nodes]

    def labelled(self):
        """Live processes of runs in the hosts' own working folders."""
        return [
            process for node in self.nodes for process in labelled_processes(self.folder / node)
        ]

    def wait_for_port(self, node, port, folder):
        deadline, address = time.monotonic() + 600, self.hosts[node].address
        probe = f"import socket; socket.create_connection(('{address}', {port}), 1)"
        while subprocess.run(
            self.inside(sys.executable, "-c", probe), capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < deadline, (folder / "sshd.log").read_text()
            time.sleep(0.05)


def without_empty(rules):
    """Rules without the built-in chains that iptables leaves empty, and which let everything pass.

    It makes them at its first use and keeps them; ours do not differ from the host's own.
    """
    chain = r"\tchain [A-Z]+ \{\n\t\ttype \w+ hook \w+ priority \w+; policy accept;\n\t\}\n"
    return re.sub(rf"table ip mangle \{{\n(?:{chain}\n?)+\}}\n", "", rules)


def labelled_processes(folder):
    """Live processes with a run's label with a working folder in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            labelled = b"KRAFTPROBE_RUN=" in (entry / "environ").read_bytes()
            where = (entry / "cwd").readlink()
        except OSError:
            continue
        if labelled and where.is_relative_to(folder):
            found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()!r}")
    return found


def keygen(path):
    subprocess.run(
        (which("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)), check=True
    )


def toml(value):
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')

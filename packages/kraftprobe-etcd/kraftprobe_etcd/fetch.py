"""`kraftprobe-etcd fetch`: bring etcd as Debian 12 has it, without installing it."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from cluster.systems.kafka.installation import cache_folder

VERSION = "3.4.23"
PACKAGES = {
    "etcd-server_3.4.23-4+b4_amd64.deb": (
        "3a9445d4560ad6de1c375756b2a17d97713df44cbd20a658c871fe108af7ef5d"
    )
}
"""File of the package -> SHA-256."""


def program():
    """Locate etcd: where `fetch` puts it, else that of the PATH; None: there is none."""
    fetched = cache_folder().with_name("etcd") / VERSION / "etcd"
    found = fetched if fetched.is_file() else shutil.which("etcd")
    return None if found is None else Path(found)


@click.group()
def main():
    """Bring etcd, to be put under test."""


@main.command()
def fetch():
    """Fetch etcd 3.4.23 of Debian 12 (amd64), check its digest, and print where it is."""
    with tempfile.TemporaryDirectory() as folder:
        _run("apt-get", "download", "etcd-server", cwd=folder)
        package = next(Path(folder).glob("etcd-server_*.deb"))
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        if PACKAGES.get(package.name) != digest:
            raise click.UsageError(
                f"{package.name} with SHA-256 {digest} is not the file that was expected; install "
                "etcd yourself: what is on the PATH is used as well"
            )
        _run("dpkg", "-x", package.name, "root", cwd=folder)
        home = cache_folder().with_name("etcd") / VERSION
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(folder) / "root/usr/bin/etcd", home / "etcd")
    click.echo(home)


def _run(*command, cwd):
    if shutil.which(command[0]) is None:
        raise click.UsageError(f"there is no {command[0]} here: install etcd, so that PATH has it")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise click.UsageError(f"{command[0]}: {line}")

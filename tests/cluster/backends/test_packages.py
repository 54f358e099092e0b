"""What is missing is named with a whole command for the package manager that is there."""

import pytest

from cluster.backends import packages
from cluster.backends.machine.disks import fuse_remedy

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt", "sudo apt install nftables iproute2 docker.io"),
        ("dnf", "sudo dnf install nftables iproute moby-engine"),
        ("apk", "sudo apk add nftables iproute2 docker"),
        ("pacman", "sudo pacman -S nftables iproute2 docker"),
        ("none", "sudo apt install nftables iproute2 docker.io"),
    ],
)
def test_the_command_fits_the_distribution(
    monkeypatch: pytest.MonkeyPatch, manager: str, command: str
):
    monkeypatch.setattr(packages.shutil, "which", lambda name: name if name == manager else None)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    assert packages.install("nftables", "iproute2", "docker.io", "nftables") == command


def test_root_needs_no_sudo(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name: name if name == "apt" else None)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)
    assert packages.install("nftables") == "apt install nftables"


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("n1: OSError: Unable to find libfuse", "install fuse3"),
        ("n1: fuse: failed to exec fusermount3: No such file or directory", "install fuse3"),
        ("n1: fuse: failed to open /dev/fuse: Permission denied", "sudo chmod 666 /dev/fuse"),
        ("fusermount3: fuse device not found, try 'modprobe fuse' first", "sudo modprobe fuse"),
        ("n1: fusermount3: could not determine username", ""),
        ("n1: fuse: device not found, try 'modprobe fuse' first", "sudo modprobe fuse"),
        ("n1: ModuleNotFoundError: No module named 'mfusepy'", "pip install mfusepy"),
        ("n1: mount: Operation not permitted", "--cap-add SYS_ADMIN --device /dev/fuse"),
        ("n1: what nobody has seen", ""),
    ],
)
def test_a_filesystem_that_does_not_mount_names_its_remedy(reason: str, remedy: str):
    command = fuse_remedy(reason)
    assert command.endswith(remedy)
    assert bool(command) == bool(remedy)

"""Files that a node maps into memory, on the filesystem that fails on order."""

import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.backends.machine.mounts import mount_label, mounts, state_folder, unmount
from cluster.backends.processes.records import own_identity

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
    ),
]


@pytest.fixture
def folder(tmp_path: Path):
    folder = tmp_path / "data"
    folder.mkdir()
    state = state_folder(folder)
    program = [sys.executable, "-m", "cluster.backends.machine.faultfs"]
    label = mount_label("mapped", own_identity(), "n1")
    subprocess.run([*program, str(folder), str(state), label, "posix", ".index"], check=True)
    [mount] = [mount for mount in mounts() if mount.folder == folder]
    try:
        yield folder
        assert ask(folder, "end").keys() == {"hits", "dirty_bytes", "tearable"}
        assert not state.exists(), "nothing is left beside the folder, whoever holds the mount"
    finally:
        assert unmount(mount)


def ask(folder: Path, verb: str, **more: object) -> dict[str, object]:
    code = "import json, sys; from cluster.backends.machine.inside import disks; "
    code += "print(json.dumps(disks.ask(sys.argv[1], json.loads(sys.argv[2]))))"
    request = json.dumps({"verb": verb, **more})
    asked = [sys.executable, "-c", code, str(state_folder(folder)), request]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def write_mapped(path: Path, content: bytes, *, sync: bool) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[: len(content)] = content
        if sync:
            mapped.flush()


def test_a_power_loss_takes_what_was_mapped_and_not_synced(folder: Path):
    path = folder / "a.index"
    path.write_bytes(bytes(4096))
    with path.open("rb") as file:
        subprocess.run(["sync", "-d", str(path)], check=True)
        assert file.read(1) == b"\0"
    subprocess.run(["sync", str(folder)], check=True)
    write_mapped(path, b"kept", sync=True)
    write_mapped(path, b"lost", sync=False)
    assert path.read_bytes()[:4] == b"lost"
    assert ask(folder, "power-loss")["files"] == 1
    assert path.read_bytes()[:4] == b"kept"


def test_a_file_of_another_name_cannot_be_mapped(folder: Path):
    path = folder / "a.log"
    path.write_bytes(bytes(4096))
    with pytest.raises(OSError, match="No such device"):
        write_mapped(path, b"mapped", sync=False)


def test_a_stalled_disk_does_not_hold_who_unmaps(folder: Path):
    path = folder / "a.index"
    path.write_bytes(bytes(4096))
    ask(folder, "set", fault="stall")
    write_mapped(path, b"there", sync=False)
    assert path.read_bytes()[:5] == b"there"


def test_a_stall_is_measured_while_an_fsync_of_the_folder_holds_its_lock(folder: Path):
    ask(folder, "set", fault="stall")
    with subprocess.Popen(["sync", str(folder)]) as syncing:
        while ask(folder, "status")["hits"] != {"stall": 1}:
            assert syncing.poll() is None, "the stall holds it"
        code = "import sys; from cluster.backends.machine.inside import disks; "
        code += "print(disks.measure(sys.argv[1], 0.5))"
        measure = [sys.executable, "-c", code, str(folder)]
        stalled = subprocess.run(measure, check=True, capture_output=True, text=True).stdout
        assert stalled.strip() == "{'write_ms': None, 'fsync_ms': None, 'error': None}"
        ask(folder, "clear", fault="stall")
    assert syncing.returncode == 0


def test_a_folder_gets_another_name_and_its_files_lose_what_they_had_to_lose(folder: Path):
    (folder / "wal.tmp").mkdir()
    (folder / "wal.tmp" / "0.wal").write_bytes(b"lost")
    (folder / "wal.tmp").rename(folder / "wal")
    assert (folder / "wal" / "0.wal").read_bytes() == b"lost"
    ask(folder, "power-loss")
    assert [path.name for path in folder.iterdir()] == ["wal"]
    assert list((folder / "wal").iterdir()) == []


@pytest.mark.parametrize("synced", [os.O_SYNC, os.O_DSYNC])
def test_a_write_to_a_file_that_was_opened_for_synced_writes_is_durable(folder: Path, synced: int):
    path = folder / "log"
    path.write_bytes(b"synced")
    for place in (path, folder):
        descriptor = os.open(place, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    for flags, data in ((synced, b", as well"), (0, b", lost")):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags)
        os.write(descriptor, data)
        os.close(descriptor)
    ask(folder, "power-loss")
    assert path.read_bytes() == b"synced, as well"

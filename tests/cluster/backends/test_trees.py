"""Archives of node folders, unpacked on every promised Python."""

import io
import tarfile
import warnings

import pytest

from cluster.backends.base import BackendError
from cluster.backends.localhost import unpack

pytestmark = pytest.mark.slow

FILTERS = ["with a filter"] if hasattr(tarfile, "data_filter") else []


@pytest.fixture(params=[*FILTERS, "before 3.11.4"])
def python(request, monkeypatch):
    """Both ways to unpack: with the filter that 3.11.4 brought, and without it."""
    if request.param in FILTERS:
        return
    extract = tarfile.TarFile.extractall

    def without_filter(archive, path=".", members=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            extract(archive, path, members)

    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", without_filter)


def packed(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc"
            data = b"data" if kind == tarfile.REGTYPE else b""
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.usefixtures("python")
def test_files_and_folders_are_unpacked(tmp_path):
    unpack(packed(("n1", tarfile.DIRTYPE), ("n1/log", tarfile.REGTYPE)), tmp_path)
    assert (tmp_path / "n1" / "log").read_bytes() == b"data"


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    "member",
    [("../outside", tarfile.REGTYPE), ("link", tarfile.SYMTYPE), ("fifo", tarfile.FIFOTYPE)],
    ids=lambda member: member[0],
)
def test_what_would_leave_the_folder_is_refused(tmp_path, member):
    (tmp_path / "in").mkdir()
    with pytest.raises(BackendError, match="cannot be unpacked"):
        unpack(packed(member), tmp_path / "in")
    assert list(tmp_path.rglob("*")) == [tmp_path / "in"]

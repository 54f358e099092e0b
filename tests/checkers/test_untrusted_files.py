"""Files that nobody vouches for are opened only where they are plain, and within bounds."""

import os
import socket

import pytest

from checkers.history.untrusted import RefusedFileError, open_plain, read_lines, read_plain


def test_a_plain_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a\nbc")
    assert read_plain(path, bytes_max=4) == b"a\nbc"
    assert list(read_lines(path, bytes_max=4, line_bytes_max=2)) == [b"a\n", b"bc"]
    for read in (read_plain, open_plain):
        with pytest.raises(RefusedFileError, match="more than the 3 bytes"):
            read(path, bytes_max=3)
    with pytest.raises(RefusedFileError, match="a line of more than 1 bytes"):
        list(read_lines(path, bytes_max=4, line_bytes_max=1))


def test_a_sparse_file_is_refused_by_its_size(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RefusedFileError, match="more than the"):
        read_plain(path, bytes_max=1 << 20)


def test_a_file_that_grows_is_refused_at_its_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a\n")
    lines = read_lines(path, bytes_max=3, line_bytes_max=9)
    assert next(lines) == b"a\n"
    with path.open("ab") as file:
        file.write(b"b\nc\n")
    with pytest.raises(RefusedFileError, match="more than the 3 bytes"):
        list(lines)


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path, monkeypatch):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    for path, kind in ((pipe, "a pipe"), (link, "a device"), ("/dev/zero", "a device")):
        with pytest.raises(RefusedFileError, match=kind):
            read_plain(path, bytes_max=1 << 20)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(RefusedFileError, match="a socket"):
            read_plain("socket", bytes_max=1 << 20)
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path, bytes_max=1 << 20)


def test_a_link_is_followed_only_where_it_may_be(tmp_path):
    (tmp_path / "file").write_bytes(b"a")
    link = tmp_path / "link"
    link.symlink_to("file")
    assert read_plain(link, bytes_max=1) == b"a"
    with pytest.raises(RefusedFileError, match="a symbolic link"):
        read_plain(link, bytes_max=1, follow=False)

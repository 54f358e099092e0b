"""What is not a plain file, or too large, is refused before it is read."""

import os
import socket

import pytest

from extensions.plain_files import (
    HOLES_BYTES_MAX,
    RefusedFileError,
    no_repeats,
    open_plain,
    read_lines,
    read_plain,
)


def refused(read, *arguments, **options):
    with pytest.raises((RefusedFileError, IsADirectoryError)):
        list(read(*arguments, **options))
    return True


@pytest.fixture(params=["a pipe", "a device", "a socket", "a folder", "a link to a pipe"])
def odd(request, tmp_path, monkeypatch):
    """A path to something that must not be waited for, nor read to its end."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd"
    if request.param == "a pipe":
        os.mkfifo(path)
    elif request.param == "a device":
        path.symlink_to("/dev/zero")
    elif request.param == "a socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("odd")
    elif request.param == "a folder":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    return path


READERS = (open_plain, read_lines, lambda path: read_plain(path, bytes_max=9))


@pytest.mark.parametrize("read", READERS)
def test_what_is_no_plain_file_is_refused_without_waiting(odd, read):
    assert refused(read, odd)


def test_a_link_is_followed_only_where_it_may_be(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_plain(tmp_path / "link", bytes_max=9) == b"x"
    assert refused(read_plain, tmp_path / "link", bytes_max=9, follow=False)


@pytest.mark.parametrize("begins", [b"", b"x"])
def test_a_file_of_holes_is_refused(tmp_path, begins):
    path = tmp_path / "holes"
    with path.open("wb") as file:
        file.write(begins)
        file.truncate(20 << 30)
    assert refused(open_plain, path)


def test_an_index_file_that_a_broker_left_is_read(tmp_path):
    path = tmp_path / "00000000000000000000.index"
    with path.open("wb") as file:
        file.truncate(10 << 20)
    assert read_plain(path, bytes_max=HOLES_BYTES_MAX) == bytes(10 << 20)


def test_a_file_up_to_the_bound_is_read_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"123456789")
    assert read_plain(path, bytes_max=9) == b"123456789"
    assert refused(read_plain, path, bytes_max=8)
    assert refused(open_plain, path, bytes_max=8)


def test_a_file_without_a_size_is_bounded_as_well():
    assert read_plain("/proc/self/stat", bytes_max=1 << 12)
    assert refused(read_plain, "/proc/self/stat", bytes_max=3)


def test_a_file_that_grows_is_refused_at_its_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a\n")
    lines = read_lines(path, bytes_max=3, line_bytes_max=9)
    assert next(lines) == b"a\n"
    with path.open("ab") as file:
        file.write(b"b\nc\n")
    assert refused(lambda: lines)


def test_a_line_up_to_the_bound_is_read_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"12345678\n1234")
    assert list(read_lines(path, line_bytes_max=9)) == [b"12345678\n", b"1234"]
    assert refused(read_lines, path, line_bytes_max=8)


def test_a_key_given_twice_is_no_object():
    assert no_repeats([("a", 1), ("b", 1)]) == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="'a' is repeated"):
        no_repeats([("a", 1), ("b", 1), ("a", 1)])

"""What is not a plain file, or too large, is refused before it is read."""

import errno
import os
import socket

import pytest

from extensions.plain_files import (
    HOLES_BYTES_MAX,
    blocks_of,
    lines_of,
    no_repeats,
    open_plain,
    read_plain,
)


def refused(read, *arguments, **options):
    with pytest.raises(OSError) as caught:
        list(read(*arguments, **options))
    return caught.value.errno


@pytest.fixture(params=["a pipe", "a device", "a socket", "a folder", "a link to a pipe"])
def odd(request, tmp_path):
    """A path to something that must not be waited for, nor read to its end."""
    path = tmp_path / "odd"
    if request.param == "a pipe":
        os.mkfifo(path)
    elif request.param == "a device":
        path.symlink_to("/dev/zero")
    elif request.param == "a socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    elif request.param == "a folder":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    return path


@pytest.mark.parametrize(
    "read", [open_plain, lines_of, lambda p: read_plain(p, 9), lambda p: blocks_of(p, 9)]
)
def test_what_is_no_plain_file_is_refused(odd, read):
    assert refused(read, odd) in (errno.EINVAL, errno.EISDIR)


def test_a_link_is_refused_where_none_is_wanted(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_plain(tmp_path / "link", 9) == b"x"
    assert refused(read_plain, tmp_path / "link", 9, follow=False) == errno.EINVAL


def test_a_file_of_holes_is_refused(tmp_path):
    path = tmp_path / "holes"
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(20 << 30)
    assert refused(open_plain, path) == errno.EFBIG


def test_an_index_file_that_a_broker_left_is_read(tmp_path):
    path = tmp_path / "00000000000000000000.index"
    with path.open("wb") as file:
        file.truncate(10 << 20)
    assert read_plain(path, HOLES_BYTES_MAX) == bytes(10 << 20)


def test_a_file_up_to_the_bound_is_read_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"123456789")
    assert read_plain(path, 9) == b"123456789"
    assert refused(read_plain, path, 8) == errno.EFBIG


def test_a_file_without_a_size_is_bounded_as_well():
    assert read_plain("/proc/self/stat", 1 << 12)
    assert refused(read_plain, "/proc/self/stat", 3) == errno.EFBIG


def test_a_line_up_to_the_bound_is_read_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"12345678\n1234")
    assert list(lines_of(path, line_bytes_max=9)) == [b"12345678\n", b"1234"]
    assert list(blocks_of(path, 2, line_bytes_max=9)) == [b"12345678\n", b"1234"]
    assert refused(lines_of, path, line_bytes_max=8) == errno.EFBIG
    assert refused(blocks_of, path, 1, line_bytes_max=6) == errno.EFBIG


def test_a_key_given_twice_is_no_object():
    assert no_repeats([("a", 1), ("b", 1)]) == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="'a' is repeated"):
        no_repeats([("a", 1), ("b", 1), ("a", 1)])

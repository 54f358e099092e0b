"""Reading a node's files from outside."""

import pytest

from cluster.backends.machine.inside import damage

pytestmark = pytest.mark.slow


def test_a_file_that_goes_while_files_are_listed_is_not_listed(tmp_path):
    (tmp_path / "kept").write_bytes(b"12345")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there when looked at
    assert damage.files(str(tmp_path)) == {"kept": 5}

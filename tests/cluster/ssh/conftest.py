import pytest

from tests.cluster.ssh.lab import Lab, why_not


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Three hosts behind sshd; tests give back what they stop or change."""
    if reason := why_not():
        pytest.skip(reason)
    with Lab(tmp_path_factory.mktemp("lab"), 3) as built:
        yield built

import pytest

from tests.cluster.client.nodes import Nodes


@pytest.fixture(scope="session")
def nodes(tmp_path_factory):
    """Three live nodes for the whole session."""
    with Nodes(tmp_path_factory.mktemp("nodes")) as running:
        running.wait_until_registered()
        yield running

import gc

import pytest

from tests.cluster.client.nodes import STEADY, Nodes


@pytest.fixture(scope="session")
def nodes(tmp_path_factory):
    """Three live nodes for the whole session."""
    with Nodes(tmp_path_factory.mktemp("nodes"), **STEADY) as running:
        running.wait_until_registered()
        yield running


@pytest.fixture(scope="module", autouse=True)
def collect_sockets():
    """Let the sockets that kafka-python leaves be collected here, and in no test that forbids it.

    `filterwarnings` in pyproject.toml lets them be; a test of Hypothesis failed by them all the same.
    """
    yield
    gc.collect()

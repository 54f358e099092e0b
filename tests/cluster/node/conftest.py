import pytest

from cluster.node.runtime import network


@pytest.fixture
def patient_network(monkeypatch):
    """Let connections take the time that a busy machine needs for them."""
    monkeypatch.setattr(network, "SETUP_TIMEOUT_MS", 300_000.0)

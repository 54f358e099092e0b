import pytest

from checkers.invariants.watcher import INVARIANTS


@pytest.fixture
def of_the_quorum_alone(monkeypatch):
    """Leave what evidence owes itself to test_trace_evidence: these runs hold what they need only."""
    kinds = {kind.name: kind for kind in INVARIANTS if not kind.unstored}
    monkeypatch.setattr("checkers.invariants.stored._JUDGED", kinds)


@pytest.fixture(scope="module")
def small_files_by_arrow_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("checkers.history.files.SMALL_BYTES", -1)
        yield

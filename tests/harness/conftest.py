import pytest

from results.judge.pipeline import judge
from tests.results.factory import make_run


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Two judged runs of one campaign: the second one fails."""
    root = tmp_path_factory.mktemp("two")
    for name, stale_reads in (("a", 0), ("b", 3)):
        judge(make_run(root, duration_s=20, rate_per_s=20, run=name, stale_reads=stale_reads))
    return root / "synthetic"

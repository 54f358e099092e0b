"""Plans of simulated worlds for tests."""

from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.plan.plan import Plan


def sim_plan(**fields):
    """A small world with a thin stream of operations."""
    plain = {
        "backend": "sim",
        "duration_s": 20.0,
        "concurrency": 5,
        "rate_per_s": 20.0,
        "faults": (),
    }
    return Plan(**{**plain, **fields})


def read_plan(path):
    return from_document(read_document(path))

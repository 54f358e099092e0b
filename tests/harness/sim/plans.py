"""Plans of simulated worlds for tests, and scripts: schedules of steps that show a mutant."""

import re
from pathlib import Path

from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.plan.plan import Plan
from harness.sim.runner import run

_FOLDER = Path(__file__).parent
_CODE = re.compile(r"\w\(\w+=|UUID\(|\(-?\d+, -?\d+|[( ]-1\b")
"""What a repr, or a sentinel of the code, looks like."""


def _plans_of(folder):
    """Files of plans by name, without what all of them share."""
    return {path.stem: path for path in sorted(folder.iterdir()) if path.stem != "shared"}


SCRIPTS = _plans_of(_FOLDER / "scripts")
REGRESSIONS = _plans_of(_FOLDER / "regressions")


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


def completed(path):
    """A plan's document, completed with what all in its folder share."""
    own, shared = read_document(path), read_document(path.with_name("shared.toml"))
    both = {key: {**shared[key], **own.get(key, {})} for key in ("node_settings", "world")}
    return {**shared, **own, **both}


def script(name):
    return completed(SCRIPTS[name])


def read_script(name):
    return from_document(script(name))


def found(plan, wanted):
    """Run a mutant's plan: the first property of it that it breaks. Each is explained in words."""
    result = run(plan, frozenset({wanted}))[1]
    for violation in result.violations:
        assert _CODE.search(violation.explanation) is None, violation.explanation
    assert result.verdict == "FAIL"
    return result.property

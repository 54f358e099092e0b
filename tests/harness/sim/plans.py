"""Plans of simulated worlds for tests, and scripts: schedules of steps that show a mutant."""

from pathlib import Path

from harness.campaigns import read_document
from harness.plan.document import from_document
from harness.plan.plan import Plan

_FOLDER = Path(__file__).parent / "scripts"
_SHARED = read_document(_FOLDER / "shared.toml")
SCRIPTS = {path.stem: path for path in sorted(_FOLDER.iterdir()) if path.stem != "shared"}


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


def script(name):
    """A script's document, completed with what all of them share."""
    own = read_document(SCRIPTS[name])
    both = {key: {**_SHARED[key], **own.get(key, {})} for key in ("node_settings", "world")}
    return {**_SHARED, **own, **both}


def read_script(name):
    return from_document(script(name))

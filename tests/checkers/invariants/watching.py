"""What a watcher finds in a sequence of events, and in short worlds that are written down."""

from checkers.invariants.watcher import INVARIANTS, LIVE, Watcher
from harness.plan.document import from_document
from harness.sim.runner import run

QUIET = {
    "version": 1,
    "backend": "sim",
    "nodes": 3,
    "seed": 1,
    "concurrency": 2,
    "faults": [],
    "without_faults": True,
}
"""A world in which nothing happens but what is added to it."""


def broken_by(*events, among=INVARIANTS, sight=None):
    """Names of the invariants that events (node, name, fields) break, as often as they do."""
    watcher = Watcher(sight, among=among)
    for event in events:
        watcher.take(*event)
    return [violation.property for violation in watcher.violations]


def broken(event, **fields):
    """Names of the invariants that one event of a simulated world breaks."""
    return broken_by(("n1", event, fields), among=LIVE)


def found_in(document, mutant, found=None):
    """The first property that is violated in a world of a node: this one, or any where it is None."""
    wanted = None if found is None else frozenset({found})
    return run(from_document({**document, "mutant": mutant}), wanted)[1].property

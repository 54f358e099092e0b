"""What a watcher finds in a sequence of events."""

from checkers.invariants.watcher import INVARIANTS, Watcher


def broken_by(*events, among=INVARIANTS, sight=None):
    """Names of the invariants that events (node, name, fields) break, as often as they do."""
    watcher = Watcher(sight, among=among)
    for event in events:
        watcher.take(*event)
    return [violation.property for violation in watcher.violations]

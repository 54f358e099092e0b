"""The index of partitions, found again from scratch: the oracle of the one that is kept."""

from cluster.node.controller.metadata.registrations import partitions
from cluster.node.controller.metadata.state import partition_marks


def searched(state):
    """Every mark, with the partitions that bear it."""
    found = {}
    for key, partition in partitions(state):
        for mark in partition_marks(partition):
            found.setdefault(mark, set()).add(key)
    return found


def check_index(state, *others):
    """The index knows of every mark what a search through all partitions finds, and no more.

    `others`: states with marks that must be gone here, if no partition bears them.
    """
    found = searched(state)
    marks = {mark for known in (state, *others) for mark in searched(known)}
    for mark in marks | {1, 2, 3, "leaderless", "imbalanced", "reassigning"}:
        marked = state.partitions.keys_with(mark)
        assert len(set(marked)) == len(marked)
        assert set(marked) == found.get(mark, set()), mark

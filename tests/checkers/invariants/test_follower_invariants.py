"""Each invariant of a leader and its followers: hand-made looks, and the closest right ones."""

from dataclasses import replace

import pytest

import checkers.invariants
from checkers.invariants.followers import FOLLOWERS, Lead
from checkers.invariants.watcher import Watcher

LEAD = Lead(
    name="t-0",
    leader_epoch=4,
    counted=frozenset({2}),
    heard=frozenset({2}),
    has_epoch=True,
)


def broken(*looks):
    watcher = Watcher(among=FOLLOWERS)
    for lead in looks:
        watcher.take("n1", "led", {"lead": lead})
    return [violation.property for violation in watcher.violations]


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([LEAD], []),
        ([replace(LEAD, heard=frozenset())], ["counted-by-fetch"]),
        ([replace(LEAD, heard=frozenset(), counted=frozenset())], []),
        ([replace(LEAD, has_epoch=False)], ["own-epoch-known"]),
    ],
    ids=[
        "a follower fetched and is counted",
        "it has not fetched since",
        "it has not, and counts for nothing",
        "its log lacks its epoch",
    ],
)
def test_a_leader_goes_by_what_it_was_asked(looks, found):
    assert broken(*looks) == found


def test_every_invariant_of_followers_stands_in_the_table():
    names = [invariant.name for invariant in FOLLOWERS]
    assert [name for name in names if f"| {name} |" not in str(checkers.invariants.__doc__)] == []

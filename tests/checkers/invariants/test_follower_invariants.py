"""Each invariant of a leader and its followers: hand-made looks, and the closest right ones."""

from dataclasses import replace

import pytest

import checkers.invariants
from checkers.invariants.followers import FOLLOWERS, Lead
from checkers.invariants.watcher import Watcher

LEAD = Lead(
    key="t-0",
    name="t-0",
    incarnation=0,
    leader_epoch=4,
    partition_epoch=7,
    isr=(1, 2),
    end_offset=12,
    high_watermark=10,
    due=10,
    counted=frozenset({2}),
    heard=frozenset({2}),
    proposed=frozenset(),
    has_epoch=True,
)
BEHIND = replace(LEAD, due=12)


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
        ([replace(LEAD, proposed=frozenset({2}))], []),
        ([replace(LEAD, proposed=frozenset({2, 3}))], ["proposal-kept"]),
        ([replace(LEAD, proposed=frozenset({3}), isr=(1, 2, 3))], []),
        ([replace(LEAD, has_epoch=False)], ["own-epoch-known"]),
    ],
    ids=[
        "a follower fetched and is counted",
        "it has not fetched since",
        "it has not, and counts for nothing",
        "a shrink counts when it is known to be committed",
        "an expansion counts from when it is asked for",
        "which it does",
        "its log lacks its epoch",
    ],
)
def test_a_leader_goes_by_what_it_was_asked_and_has_asked(looks, found):
    assert broken(*looks) == found


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([BEHIND], []),
        ([BEHIND, BEHIND], ["committed-once-held"]),
        ([BEHIND, replace(BEHIND, end_offset=13)], []),
        ([BEHIND, replace(BEHIND, partition_epoch=8)], []),
        ([BEHIND, replace(LEAD, high_watermark=12, due=12)], []),
        ([BEHIND, replace(BEHIND, key="t-1")], []),
    ],
    ids=[
        "it may be about to move",
        "it stays",
        "records were appended in between",
        "the ISR has changed in between",
        "it moves",
        "another partition",
    ],
)
def test_what_all_have_is_committed_by_the_next_look(looks, found):
    assert broken(*looks) == found


@pytest.mark.parametrize(("asked", "found"), [(7, []), (6, ["isr-of-its-epoch"])])
def test_an_isr_is_changed_by_a_request_of_its_partition_epoch(asked, found):
    watcher = Watcher(among=FOLLOWERS)
    fields = {"name": "t-0", "partition_epoch": asked, "known_epoch": 7}
    watcher.take("n1", "isr-changed", fields)
    assert [violation.property for violation in watcher.violations] == found


def test_every_invariant_of_followers_stands_in_the_table():
    names = [invariant.name for invariant in FOLLOWERS]
    assert [name for name in names if f"| {name} |" not in str(checkers.invariants.__doc__)] == []

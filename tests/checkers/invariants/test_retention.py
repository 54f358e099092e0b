"""What retention deletes: the rule broken, and the closest right deletions; worlds of both."""

import pytest

from tests.checkers.invariants import watching
from tests.checkers.invariants.watching import QUIET, found_in

KEPT = "retention-kept"


def broken(event, **fields):
    facts = {"name": "t-0", "path": "t-0/0.log", "kept_bytes": -1, "kept_ms": -1, "left_bytes": 300}
    return watching.broken(event, **{**facts, "age_ms": 5_000, **fields})


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, [KEPT]),
        ({"kept_ms": 5_000}, [KEPT]),
        ({"kept_ms": 4_999}, []),
        ({"kept_bytes": 301}, [KEPT]),
        ({"kept_bytes": 300}, []),
        ({"kept_bytes": 0, "left_bytes": 0}, []),
        ({"kept_bytes": 301, "kept_ms": 4_999}, []),
        ({"kept_ms": 5_000, "age_ms": None}, []),
    ],
    ids=[
        *("kept for ever", "as old as is kept", "older", "too little is left", "enough is left"),
        *("nothing is kept", "one of two is enough", "nobody knows how old"),
    ],
)
def test_a_leader_deletes_what_is_old_or_more_than_is_kept(fields, found):
    assert broken("segment-deleted", **fields) == found


@pytest.mark.parametrize(("for_ms", "found"), [(2_001.0, [KEPT]), (2_000.0, [])])
def test_what_is_due_goes_at_the_next_check(for_ms, found):
    assert broken("segment-due", kept_ms=1, for_ms=for_ms, interval_ms=1_000) == found


def steps_at(at_ms, **configs):
    fill = {"kind": "op", "f": "fill-topic", "key": "r0-0", "value": 3}
    return {
        "at_ms": at_ms,
        "steps": [
            fill,
            *(
                {
                    "kind": "op",
                    "f": "configure-topic",
                    "key": "r0-0",
                    "value": {"name": name.replace("_", "."), "value": str(value)},
                }
                for name, value in configs.items()
            ),
            {**fill, "after_ms": 200},
        ],
    }


def document(**configs):
    return {
        **QUIET,
        "duration_s": 14,
        "rate_per_s": 5,
        "workload": "log",
        "node_settings": {
            "kraftprobe.registration": 1,
            "log.retention.check.interval.ms": 1_000,
            "log.index.interval.bytes": 100,
        },
        "schedule": [
            steps_at(at_ms, segment_ms=300, **configs) for at_ms in range(1_000, 9_000, 700)
        ],
    }


BY_SIZE = document(retention_bytes=400, file_delete_delay_ms=500)
BY_TIME = document(retention_ms=2_000)
SLOWED = {
    **BY_TIME,
    "schedule": [
        *BY_TIME["schedule"],
        {
            "at_ms": 2_500,
            "steps": [{"kind": "timer-rate", "targets": "node:n2", "rate": 0.1, "for_ms": 1_500}],
        },
    ],
}
"""A timer that a broker sets at a slow clock comes late by the right one."""
_LOG = "X:log.data.data_log:DataLog."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "mutant", "found"),
    [
        (BY_SIZE, f"{_LOG}delete_old_segments:sum:0", KEPT),
        (BY_SIZE, f"{_LOG}delete_old_segments:never:1", KEPT),
        (BY_SIZE, f"{_LOG}delete_old_segments:left-out:1", KEPT),
        (BY_TIME, f"{_LOG}_is_expired:sum:0", KEPT),
        (BY_TIME, f"{_LOG}delete_old_segments:never:2", KEPT),
        (BY_TIME, "X:log.data.data_files:DataFiles._delete_first:sum:0", "node-died"),
        (BY_SIZE, None, None),
        (BY_TIME, None, None),
        (SLOWED, None, None),
    ],
)
def test_worlds_find_wrong_deletions_and_accuse_no_correct_node(plan, mutant, found):
    assert found_in(plan, mutant, found) == found

"""What logs have on their disks: each invariant broken, and the closest right looks."""

import pytest

from checkers.invariants.folders import FOLDERS
from checkers.partition_logs.columns import CONFIGURE
from harness.plan.document import from_document
from harness.sim.runner import run_plan
from tests.checkers.invariants.test_upkeep_invariants import SENDS, with_steps
from tests.checkers.invariants.watching import broken_by


def broken(event, **fields):
    return broken_by(("n1", event, fields), among=FOLDERS)


@pytest.mark.parametrize(
    ("is_open", "lacks", "found"),
    [
        (False, [], ["directory-opened"]),
        (True, ["t-0"], ["directory-opened"]),
        (True, [], []),
    ],
)
def test_a_broker_has_opened_each_log_of_a_directory_that_it_uses(is_open, lacks, found):
    assert broken("directory-used", log_dir="/d", is_open=is_open, lacks=lacks) == found


@pytest.mark.parametrize(
    ("saved", "found"),
    [
        ([(0, 0), (2, 7)], []),
        ([(0, 0)], ["epochs-saved"]),
        (None, ["epochs-saved"]),
    ],
)
def test_the_leader_epochs_of_a_log_are_in_its_file(saved, found):
    assert broken("epochs-seen", name="t-0", known=[(0, 0), (2, 7)], saved=saved) == found


@pytest.mark.parametrize(("durable_end", "found"), [(6, ["point-durable"]), (7, []), (8, [])])
def test_what_lies_below_a_recovery_point_is_durable(durable_end, found):
    assert broken("point-seen", name="t-0", point=7, durable_end=durable_end) == found


@pytest.mark.parametrize(
    ("indexed_ms", "found"), [(8, ["times-indexed"]), (9, []), (-1, ["times-indexed"])]
)
def test_the_time_index_of_a_rolled_segment_ends_with_its_largest_timestamp(indexed_ms, found):
    assert broken("times-seen", path="/d/0.log", latest_ms=9, indexed_ms=indexed_ms) == found


QUICK = {
    **SENDS,
    "duration_s": 14,
    "rate_per_s": 10,
    "world": {"power_loss": "written"},
    "workload_options": {"partitions": 6},
    "node_settings": {
        **SENDS["node_settings"],
        "broker.session.timeout.ms": 1000,
        "broker.heartbeat.interval.ms": 100,
    },
}
KILLED = with_steps(QUICK, 8_000, {"kind": "kill", "targets": "node:n1", "for_ms": 500})
LOST_AT_START = with_steps(
    QUICK,
    8_000,
    {"kind": "kill", "targets": "node:n1", "for_ms": 500},
    {
        "kind": "log-dir-loss",
        "targets": "node:n1",
        "until": {"at": "node:n1", "event": "broker-state", "where": {"state": "fenced"}},
        "within_ms": 3_000,
        "for_ms": 5_000,
    },
)
"""A disk goes before the logs on it are opened: the broker goes on without, as it must."""
STOPPED = with_steps(
    {**QUICK, "workload_options": {"partitions": 1, "topics": 1}},
    5_000,
    {"kind": "log-dir-move", "targets": "node:n1"},
    {"kind": "stop", "targets": "node:n1", "after_ms": 3_000, "for_ms": 500},
)
"""The only log of n1 lies on another disk than its metadata."""
ROLLED = with_steps(
    {**QUICK, "workload_options": {"partitions": 1, "topics": 1}},
    3_000,
    {
        "kind": "op",
        "f": CONFIGURE,
        "key": "d0-0",
        "value": {"name": "segment.ms", "value": "900"},
    },
    {"kind": "kill", "targets": "node:n1", "after_ms": 6_000, "for_ms": 500},
)
"""Recovery finds several segments."""
_RECOVERY = "X:log.data.data_recovery:_Opening"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "mutant", "found"),
    [
        (
            LOST_AT_START,
            "X:log.data.log_directory:LogDirectory.open:left-out:1",
            "directory-opened",
        ),
        (KILLED, "X:log.storage.epoch_cache:LeaderEpochCache.encode:left-out:0", "epochs-saved"),
        (KILLED, f"{_RECOVERY}.open:always:8", "point-durable"),
        (STOPPED, f"{_RECOVERY}._check_order:relation:0", "directory-lost"),
        (ROLLED, "X:log.data.data_files:DataFiles._roll:left-out:0", "times-indexed"),
        (ROLLED, f"{_RECOVERY}._scan_all:negation:1", "times-indexed"),
        (LOST_AT_START, None, None),
        (KILLED, None, None),
        (STOPPED, None, None),
        (ROLLED, None, None),
    ],
)
def test_worlds_find_what_is_not_on_a_disk_and_accuse_no_correct_node(document, mutant, found):
    assert run_plan(from_document({**document, "mutant": mutant})).property == found

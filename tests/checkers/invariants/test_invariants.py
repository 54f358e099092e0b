"""Each invariant is broken by a hand-made sequence of events, and not by its correct neighbour."""

import pytest

import checkers.invariants
from checkers.invariants.commits import LeaderCompleteness, MajorityDurable
from checkers.invariants.elections import PreElected
from checkers.invariants.electorate import ANY
from checkers.invariants.sight import Election
from checkers.invariants.snapshots import SnapshotCommitted, snapshot_made
from checkers.invariants.voters import (
    CommittedVoters,
    Described,
    LeadsAsVoter,
    NewVoterHoldsLog,
    VotersKnown,
    changes_taken,
)
from checkers.invariants.watcher import INVARIANTS, Watcher
from tests.checkers.invariants.watching import broken_by

VOTERS = {"1": "a", "2": "b", "3": "c"}


def start(node, directory=None):
    return node, "start", {"directory_id": directory or VOTERS[node[1:]]}


def voters(node, ids="123", offset=-1):
    return node, "voters", {"voters": {i: VOTERS.get(i, "d") for i in ids}, "offset": offset}


def change(node, ids, epoch=1, offset=9):
    fields = {"epoch": epoch, "offset": offset, "voters": {i: VOTERS.get(i, "d") for i in ids}}
    return node, "voter-change", fields


def state(node, epoch, name="Follower", leader=-1, voted=-1):
    return node, "state", {"state": name, "epoch": epoch, "leader_id": leader, "voted_id": voted}


def refused(node, epoch, reason, claimed=-1):
    fields = {"epoch": epoch, "leader_id": 1, "claimed_epoch": epoch, "claimed_id": claimed}
    return node, "contradiction", {**fields, "message": "FetchResponse", "reason": reason}


def vote(node, epoch, candidate, *, granted=True):
    fields = {"epoch": epoch, "candidate_id": candidate, "granted": granted, "pre_vote": False}
    return node, "vote", fields


def pre_vote(node, candidate, *, granted=True):
    _, _, fields = vote(node, 2, candidate, granted=granted)
    return node, "vote", {**fields, "pre_vote": True}


def fetched(node, base, last, epoch=2):
    _, _, fields = append(node, base, last, epoch)
    return node, "append", {**fields, "role": "follower"}


def epoch_start(node, epoch, offset):
    return node, "epoch-start", {"epoch": epoch, "offset": offset}


def append(node, base, last, epoch=1):
    return node, "append", {"base_offset": base, "last_offset": last, "epoch": epoch}


def flush(node, end):
    return node, "flush", {"end_offset": end}


def truncate(node, end, epoch=1):
    return node, "truncate", {"end_offset": end, "epoch": epoch}


def recovered(node, end, start_offset=0, last_epoch=1):
    fields = {"start_offset": start_offset, "end_offset": end, "last_epoch": last_epoch}
    return node, "recovered", fields


def hw(node, offset, epoch=1, replicas=None):
    if replicas is None:
        return node, "hw", {"epoch": epoch, "offset": offset, "role": "follower"}
    return node, "hw", {"epoch": epoch, "offset": offset, "role": "leader", "replicas": replicas}


def fetch(node, offset, durable):
    return node, "fetch", {"offset": offset, "durable_end_offset": durable}


def snapshot(node, offset, epoch=1):
    return node, "snapshot", {"offset": offset, "epoch": epoch}


def led(node, base):
    _, _, fields = append(node, base, base)
    return node, "append", {**fields, "role": "leader"}


def commit(node, base):
    return node, "commit", {"base_offset": base, "last_offset": base, "latency_ms": 1.0}


ALONE = [start("n1"), voters("n1", "1"), vote("n1", 1, 1)]
LEADS = [*ALONE, state("n1", 1, "Leader", leader=1), led("n1", 0), led("n1", 1)]
LEADS_AGAIN = [
    *(state("n1", 1, "Resigned", leader=1), vote("n1", 2, 1)),
    state("n1", 2, "Leader", leader=1),
]
REMOVED = ("n1", "voters", {"offset": 2, "voters": {"2": "b", "3": "c"}})
ALL_HAVE = {"1": 5, "2": 5, "3": 5}
QUORUM = [start("n1"), start("n2"), start("n3"), voters("n1"), voters("n2"), voters("n3")]
COMMITTED = [append("n1", 0, 4), hw("n1", 5)]

CASES = {
    "monotonic-epoch": (
        [start("n1"), state("n1", 3), start("n1"), state("n1", 2)],
        [start("n1"), state("n1", 3), start("n1", "new disk"), state("n1", 2)],
    ),
    "election-safety": (
        [state("n1", 2, leader=1), state("n2", 2, leader=3)],
        [state("n1", 2, leader=1), state("n2", 3, leader=3)],
    ),
    "one-vote": (
        [start("n1"), vote("n1", 2, 2), start("n1"), state("n1", 2, voted=3)],
        [start("n1"), vote("n1", 2, 2), vote("n1", 2, 3, granted=False), vote("n1", 3, 3)],
    ),
    "stable-leadership": (
        [*QUORUM, state("n2", 2, leader=1), fetched("n2", 0, 0), pre_vote("n2", 3)],
        [*QUORUM, state("n2", 2, leader=1), fetched("n2", 0, 0), pre_vote("n2", 3, granted=False)],
    ),
    "elected-by-majority": (
        [*QUORUM, state("n1", 2, "Candidate", voted=1), state("n1", 2, "Leader", leader=1)],
        [
            *QUORUM,
            state("n1", 2, "Candidate", voted=1),
            vote("n2", 2, 1),
            state("n1", 2, "Leader", leader=1),
        ],
    ),
    "one-voter-change": (
        [*QUORUM, *COMMITTED, change("n1", "1245")],
        [*QUORUM, *COMMITTED, change("n1", "1234")],
    ),
    "change-after-commit": (
        [*QUORUM, *COMMITTED, epoch_start("n1", 2, 5), change("n1", "12", epoch=2)],
        [
            *QUORUM,
            *COMMITTED,
            epoch_start("n1", 2, 5),
            append("n1", 5, 5),
            hw("n1", 6),
            change("n1", "12", epoch=2),
        ],
    ),
    "committed-voters": (
        [start("n1"), voters("n1", offset=3), append("n1", 0, 4), hw("n1", 5), voters("n1")],
        [start("n1"), voters("n1", offset=3), append("n1", 0, 4), hw("n1", 3), voters("n1")],
    ),
    "recovery": (
        [start("n1"), append("n1", 0, 4), flush("n1", 5), start("n1"), recovered("n1", 3)],
        [start("n1"), append("n1", 0, 4), flush("n1", 3), start("n1"), recovered("n1", 3)],
    ),
    "log-matching": (
        [append("n1", 0, 0), append("n1", 2, 2), append("n2", 0, 0)],
        [append("n1", 0, 0), append("n1", 1, 1), append("n2", 0, 0)],
    ),
    "committed-prefix": (
        [*QUORUM, *COMMITTED, hw("n1", 3)],
        [*QUORUM, *COMMITTED, append("n1", 5, 5), hw("n1", 6)],
    ),
    "committed-truncated": (
        [start("n1"), *COMMITTED, truncate("n1", 4)],
        [start("n1"), *COMMITTED, append("n1", 5, 6), truncate("n1", 5)],
    ),
    "majority-durable": (
        [*QUORUM, append("n1", 0, 4), flush("n1", 5), hw("n1", 5, replicas=ALL_HAVE)],
        [
            *QUORUM,
            append("n1", 0, 4),
            flush("n1", 5),
            append("n2", 0, 4),
            flush("n2", 5),
            hw("n1", 5, replicas=ALL_HAVE),
        ],
    ),
    "majority-counted": (
        [append("n1", 0, 4), hw("n1", 5, replicas={"1": 5, "2": 4, "3": 0})],
        [append("n1", 0, 4), hw("n1", 4, replicas={"1": 5, "2": 4, "3": 0})],
    ),
    "monotonic-high-watermark": (
        [
            append("n2", 0, 4),
            hw("n2", 4, epoch=2, replicas=ALL_HAVE),
            append("n1", 0, 4),
            hw("n1", 5, replicas=ALL_HAVE),
        ],
        [
            append("n2", 0, 4),
            hw("n2", 5, epoch=2, replicas=ALL_HAVE),
            append("n1", 0, 4),
            hw("n1", 4, replicas=ALL_HAVE),
        ],
    ),
    "no-contradiction": ([*QUORUM, refused("n2", 1, "high watermark 3 below 4")], QUORUM),
    "leader-completeness": (
        [append("n1", 0, 4), hw("n1", 5, replicas=ALL_HAVE), epoch_start("n2", 2, 4)],
        [append("n1", 0, 4), hw("n1", 5, replicas=ALL_HAVE), epoch_start("n2", 2, 5)],
    ),
    "durable-fetch": ([fetch("n2", 5, 4)], [fetch("n2", 4, 4)]),
    "snapshot-committed": ([*COMMITTED, snapshot("n1", 6)], [*COMMITTED, snapshot("n1", 5)]),
    "own-commit": (
        [*LEADS, commit("n1", 0), *LEADS_AGAIN, commit("n1", 1)],
        [*LEADS, commit("n1", 0), *LEADS_AGAIN, led("n1", 2), commit("n1", 2), commit("n2", 1)],
    ),
    "leads-as-voter": (
        [*LEADS, led("n1", 2), REMOVED, hw("n1", 3), led("n1", 3)],
        [*LEADS, led("n1", 2), REMOVED, hw("n1", 2), led("n1", 3)],
    ),
    "claim-after-replay": (
        [epoch_start("n1", 2, 5), ("n1", "claim", {"epoch": 2, "offset": 4})],
        [epoch_start("n1", 2, 5), ("n1", "claim", {"epoch": 2, "offset": 5})],
    ),
    "ack-committed": (
        [*COMMITTED, ("n1", "ack", {"offset": 5, "high_watermark": 6})],
        [*COMMITTED, ("n1", "ack", {"offset": 4, "high_watermark": 5})],
    ),
    "read-confirmed": (
        [("n1", "read", {"offset": 4, "confirmed": False})],
        [("n1", "read", {"offset": 4, "confirmed": True})],
    ),
}


class Disks:
    """What tests show of nodes: a Sight of closed logs and given files."""

    def __init__(self, file=None, **snapshots):
        self.file = file
        self.snapshots = snapshots

    def is_open(self, node):
        return False

    def durable_end(self, node):
        return None

    def quorum_state(self, node):
        return self.file

    def snapshot(self, node, offset, epoch):
        return self.snapshots[node]


VOTE = [recovered("n1", 0), vote("n1", 2, 3)]
TWO_SNAPSHOTS = [snapshot("n1", 0), snapshot("n2", 0)]
SEEN_CASES = {
    "durable-vote": (VOTE, Disks(Election(2, -1, -1)), Disks(Election(2, -1, 3))),
    "snapshot-durable": (TWO_SNAPSHOTS, Disks(n1="it is torn", n2=1), Disks(n1=1, n2=1)),
    "snapshot-agreement": (TWO_SNAPSHOTS, Disks(n1=1, n2=2), Disks(n1=1, n2=1)),
}


def test_a_leader_of_no_voters_has_no_majority_of_them():
    assert "elected-by-majority" in broken(LEADS[:1] + LEADS[2:])


def broken(events, sight=None):
    return set(broken_by(*events, sight=sight))


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_an_invariant_is_reported_and_its_neighbour_is_not(name):
    violated, correct = CASES[name]
    assert name in broken(violated)
    assert broken(correct) == set()


@pytest.mark.parametrize("name", SEEN_CASES)
def test_what_is_on_a_disk_is_judged_where_it_is_seen(name):
    events, wrong, right = SEEN_CASES[name]
    assert broken(events, wrong) == {name}
    assert broken(events, right) == set()
    assert broken(events) == set()


def test_a_prevote_is_on_no_disk():
    assert broken([pre_vote("n1", 3)], Disks(Election(2, -1, -1))) == set()


def test_every_invariant_has_a_case():
    assert sorted(invariant.name for invariant in INVARIANTS) == sorted({*CASES, *SEEN_CASES})


def test_every_invariant_stands_in_the_table():
    document = str(checkers.invariants.__doc__)
    assert [kind.name for kind in INVARIANTS if f"| {kind.name} |" not in document] == []


def test_a_second_leader_that_a_message_names_is_one_whether_it_is_believed_or_not():
    events = [*QUORUM, state("n3", 5, leader=1), refused("n3", 5, "led by 1", claimed=2)]
    assert broken(events) == {"election-safety", "no-contradiction"}
    before = [*QUORUM, refused("n3", 5, "led by 1", claimed=1)]
    assert broken(before) == {"no-contradiction"}


@pytest.mark.parametrize(("first", "found"), [(3, {"leads-as-voter"}), (2, set())])
def test_a_removed_leader_commits_nothing_after_its_removal(first, found):
    marks = hw("n1", first, replicas={}), hw("n1", 4, replicas={})
    events = *LEADS, led("n1", 2), REMOVED, *marks
    assert set(broken_by(*events, among=[LeadsAsVoter])) == found


@pytest.mark.parametrize(("start", "found"), [(2, ["leads-as-voter"]), (3, [])])
def test_where_a_truncation_may_bring_voters_back_a_removal_counts_in_its_epoch(start, found):
    watcher = Watcher(among=[LeadsAsVoter])
    watcher.quorum.follows_logs = False
    marks = hw("n1", 4, replicas={}), hw("n1", 5, replicas={})
    leads = state("n1", 1, "Leader", leader=1), epoch_start("n1", 1, start)
    for event in (*ALONE, *leads, REMOVED, *marks):
        watcher.take(*event)
    assert [violation.property for violation in watcher.violations] == found


def test_a_removal_that_was_cut_off_does_not_count():
    watcher = Watcher(among=[LeadsAsVoter])
    watcher.quorum.follows_logs = False
    leads = state("n1", 2, "Leader", leader=1), epoch_start("n1", 2, 2)
    marks = hw("n1", 4, 2, replicas={}), hw("n1", 5, 2, replicas={})
    for event in (*ALONE, REMOVED, truncate("n1", 1), *leads, *marks):
        watcher.take(*event)
    assert watcher.violations == []


@pytest.mark.parametrize(("start_offset", "found"), [(4, {"leader-completeness"}), (5, set())])
def test_only_a_later_epoch_begins_above_what_an_old_leader_commits(start_offset, found):
    """It commits after the later one has begun; the one before it began far below."""
    begun = [epoch_start("n3", 1, 0), epoch_start("n2", 3, start_offset)]
    events = [*begun, append("n1", 0, 4), hw("n1", 5, epoch=2, replicas=ALL_HAVE)]
    assert set(broken_by(*events, among=[LeaderCompleteness])) == found


def test_what_needs_a_disk_says_so_and_nothing_else_does():
    unstored = {invariant.name for invariant in INVARIANTS if invariant.unstored}
    assert unstored == set(SEEN_CASES)


FOLLOWS = [state("n2", 2, leader=1), fetched("n2", 0, 0)]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*QUORUM, *FOLLOWS, voters("n2"), fetched("n2", 1, 1)], {"stable-leadership"}),
        ([start("n2"), voters("n2", "12"), *FOLLOWS], {"stable-leadership"}),
        ([*QUORUM, state("n2", 2, leader=1)], set()),
        ([*QUORUM, *FOLLOWS, voters("n2")], set()),
        ([*QUORUM, *FOLLOWS, state("n2", 2, "Prospective", leader=1)], set()),
        ([*QUORUM, *FOLLOWS, state("n2", 2, "Prospective"), *FOLLOWS[:1]], set()),
        ([*QUORUM, *FOLLOWS, start("n2")], set()),
        ([start("n2", "new"), voters("n2"), *FOLLOWS], set()),
        ([start("n2"), voters("n2", "13"), *FOLLOWS], set()),
    ],
)
def test_who_may_have_lost_its_leader_may_grant_a_prevote(events, found):
    """The closest is an observer whose time is over: it follows still, and a voter would not."""
    assert broken([*events, pre_vote("n2", 3)]) == found


STANDS = state("n3", 3, "Candidate", voted=3)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*QUORUM, STANDS], {"pre-elected"}),
        ([*QUORUM, pre_vote("n2", 3, granted=False), STANDS], {"pre-elected"}),
        ([*QUORUM, pre_vote("n2", 1), STANDS], {"pre-elected"}),
        ([*QUORUM, vote("n2", 2, 3), STANDS], {"pre-elected"}),
        ([*QUORUM, pre_vote("n2", 3), voters("n3", "12345"), STANDS], {"pre-elected"}),
        ([*QUORUM, pre_vote("n2", 3), STANDS], set()),
        ([*QUORUM, pre_vote("n2", 3), STANDS, start("n3"), STANDS], set()),
        ([start("n3"), voters("n3", "3"), STANDS], set()),
    ],
    ids=[
        "nobody was asked",
        "it was refused",
        "another was granted",
        "a vote is no PreVote",
        "there are more voters now",
        "a majority would vote for it",
        "it is started again as the candidate that it was",
        "it votes alone",
    ],
)
def test_a_node_stands_once_a_majority_would_vote_for_it(events, found):
    assert set(broken_by(*events, among=[PreElected])) == found


def begun(node, offset):
    return node, "truncate-fully", {"start_offset": offset, "epoch": 1}


CHANGES = [*QUORUM, change("n1", "1234"), voters("n1", "1234", offset=9)]
CHANGED = [*CHANGES, hw("n1", 10, replicas=ALL_HAVE)]
LOADED = [voters("n3", "1234", offset=11), hw("n3", 12, replicas=ALL_HAVE)]


def cut(node, end_offset, what="voters"):
    return node, "log-cut", {"in_force": {what: 9}, "end_offset": end_offset}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*CHANGED, hw("n2", 10)], {"voters-known"}),
        ([*CHANGED, begun("n2", 12), hw("n2", 12), hw("n2", 13)], {"voters-known"}),
        ([*CHANGED, hw("n2", 9)], set()),
        ([cut("n2", 9)], {"voters-known"}),
        ([cut("n2", 9, "kraft.version")], {"voters-known"}),
        ([cut("n2", 10)], set()),
        ([*CHANGED, begun("n2", 12), hw("n2", 12)], set()),
        ([*CHANGED, voters("n2", "1234", offset=11), hw("n2", 12)], set()),
        ([*CHANGES, hw("n1", 9, replicas=ALL_HAVE), hw("n2", 10)], set()),
        ([*CHANGES, hw("n1", 10, 2, replicas=ALL_HAVE), hw("n2", 10)], set()),
        ([*CHANGED, voters("n2", "1234", offset=9), *LOADED, hw("n2", 12)], set()),
    ],
    ids=[
        "it missed a change",
        "it missed one in a snapshot",
        "it does not know of it yet",
        "its log, cut where their record was, has it no more",
        "its log, cut where a kraft.version was, has it no more",
        "its log, cut behind their record, has it still",
        "it has yet to read its snapshot",
        "it has them of its snapshot",
        "the change was never committed, and is overwritten",
        "it may have been, in a later epoch",
        "another leads that knows them by its snapshot, which ends later",
    ],
)
def test_voters_are_known_that_are_committed(events, found):
    assert set(broken_by(*events, among=[VotersKnown])) == found


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ({}, []),
        ({"ends": {"n1": 9, "n2": -1, "n3": 4}, "high_watermark": -1}, []),
        ({"ends": {"n1": 0, "n2": -1, "n3": -1}, "high_watermark": -1}, []),
        ({"ends": {"n1": -1, "n2": -1, "n3": -1}, "high_watermark": -1}, ["described"]),
        ({"ends": {"n1": 9, "n2": -2, "n3": 4}}, ["described"]),
        ({"ends": {"n1": 9, "n2": 10, "n3": 4}}, ["described"]),
        ({"high_watermark": 10}, ["described"]),
        ({"following": ["n4"]}, ["described"]),
    ],
    ids=[
        "as it is",
        "nothing is known",
        "nothing is known but itself",
        "it does not know itself",
        "no offset",
        "beyond its log",
        "its mark too",
        "without n4",
    ],
)
def test_a_leader_describes_what_it_may_know(says, found):
    known = {"log_end": 9, "high_watermark": 9, "ends": {"n1": 9, "n2": 9, "n3": 4}}
    description = {**known, "following": ["n3"], **says}
    assert broken_by(("n1", "description", description), among=[Described]) == found


def test_a_wiped_voter_counts_with_what_it_had_fsynced_before():
    """It may have reported that to the leader, which has the voters of before."""
    before = [*QUORUM, append("n1", 0, 4), flush("n1", 5), append("n2", 0, 4), flush("n2", 5)]
    assert broken([*before, start("n2", "new"), hw("n1", 5, replicas=ALL_HAVE)]) == set()


def test_votes_of_a_disk_that_is_gone_do_not_bind_its_successor():
    assert broken([start("n1"), vote("n1", 2, 2), start("n1", "new"), vote("n1", 2, 3)]) == set()


OLD, NEWER = (0, 5, 1, 7), (5, 6, 1, 8)
"""Batches of epoch 1, as of `Batch`; the leader of epoch 2 lacks the second."""


def written(node, *batches):
    fields = {"base_offset": batches[0][0], "last_offset": batches[-1][1] - 1, "epoch": 1}
    return node, "append", fields | {"batches": batches}


@pytest.mark.parametrize(("epoch", "found"), [(2, set()), (3, {"committed-truncated"})])
def test_who_has_not_heard_of_a_commit_may_cut_as_the_leader_before_it_says(epoch, found):
    """The closest that a correct node comes: it follows n2, which is cut off, while n1 commits."""
    events = [
        *(start(node) for node in ("n1", "n2", "n3")),
        written("n1", OLD, NEWER),
        written("n3", OLD, NEWER),
        written("n2", OLD),
        state("n3", 2, leader=2),
        state("n1", 3, "Leader", leader=1),
        hw("n1", 6, epoch=3, replicas={"1": 6, "4": 6, "5": 6}),
        state("n3", epoch, leader=2 if epoch == 2 else 1),
        truncate("n3", 5),
    ]
    assert broken(events) & {"committed-truncated"} == found


class Started(Disks):
    """What tests show of a node whose log is open."""

    def __init__(self, file, *batches):
        super().__init__(file)
        self.held = list(batches)
        self.first = 0

    def is_open(self, node):
        return True

    def durable_end(self, node):
        return 6

    def start_offset(self, node):
        return self.first

    def batches(self, node, offset):
        return [batch for batch in self.held if batch[0] >= offset]


VOTED, LED = Election(2, -1, 3), Election(2, 3, 3)


@pytest.mark.parametrize(
    ("stored", "held", "keeps"),
    [
        (VOTED, VOTED, True),
        (VOTED, Election(2, -1, -1), False),
        (VOTED, Election(2, -1, 1), False),
        (VOTED, None, False),
        (VOTED, Election(1, 1, -1), False),
        (VOTED, Election(2, 1, -1), True),
        (VOTED, Election(3, -1, -1), True),
        (LED, LED, True),
        (LED, Election(2, 3, -1), False),
        (LED, Election(2, 1, 3), False),
        (LED, VOTED, False),
        (Election(2, 3, -1), LED, True),
    ],
)
def test_a_quorum_state_file_is_there_again_after_a_restart(stored, held, keeps):
    sight = Started(stored)
    watcher = Watcher(sight)
    watcher.take(*start("n1"))
    watcher.take(*state("n1", 2, leader=stored.leader_id, voted=stored.voted_id))
    assert watcher.violations == []

    sight.file = held
    for event in (start("n1"), recovered("n1", 0), voters("n1")):
        watcher.take(*event)

    found = [violation.property for violation in watcher.violations]
    assert found == ([] if keeps else ["recovery"])


@pytest.mark.parametrize(("version", "found"), [(0, {"committed-voters"}), (1, set())])
def test_voters_of_a_log_are_in_force_with_its_kraft_version(version, found):
    node, event, fields = voters("n1", offset=3)
    assert broken([start("n1"), (node, event, {**fields, "kraft_version": version})]) == found


@pytest.mark.parametrize(("known", "found"), [(4, {"committed-voters"}), (3, set())])
def test_voters_that_a_log_gave_up_for_a_snapshot_may_never_be_committed(known, found):
    """A leader that was replaced as it upgraded kraft.version (seed 24000130)."""
    held = [start("n1"), voters("n1", offset=3), append("n1", 0, 4), hw("n1", known)]
    events = [*held, begun("n1", 12), hw("n1", 12), voters("n1")]
    assert set(broken_by(*events, among=[CommittedVoters])) == found


@pytest.mark.parametrize(("offset", "found"), [(3, {"committed-voters"}), (-1, set())])
def test_voters_of_a_log_have_directories_and_configured_ones_need_none(offset, found):
    node, event, fields = voters("n1", offset=offset)
    static = {**fields, "voters": {**fields["voters"], "2": ANY}}
    assert broken([start("n1"), (node, event, static)]) == found


def test_another_replica_has_another_quorum_state_file():
    sight = Started(VOTED)
    events = [start("n1"), state("n1", 2, voted=3), start("n1", "new"), recovered("n1", 0)]
    watcher = Watcher(sight)
    for event in events:
        watcher.take(*event)
    sight.file = None
    watcher.take(*voters("n1"))
    assert watcher.violations == []


@pytest.mark.parametrize(("offset", "found"), [(5, set()), (3, {"snapshot-committed"})])
def test_a_snapshot_and_a_log_behind_it_begin_where_a_committed_batch_ends(offset, found):
    committed = [start("n1"), recovered("n1", 6), state("n1", 1, "Resigned"), hw("n1", 5)]
    for events in (
        [snapshot("n1", offset)],
        [start("n2"), recovered("n2", 6, start_offset=offset), state("n2", 1)],
    ):
        sight = Started(None, OLD, NEWER)
        sight.snapshots = {"n1": 1}
        watcher = Watcher(sight, among=[SnapshotCommitted])
        for event in committed:
            watcher.take(*event)
        sight.first, sight.held = offset, [NEWER]
        for event in events:
            watcher.take(*event)
        assert {violation.property for violation in watcher.violations} == found


def test_an_opened_log_has_no_gaps():
    events = [start("n1"), recovered("n1", 6), voters("n1")]
    assert broken(events, Started(None, OLD, NEWER)) == set()
    assert broken(events, Started(None, OLD, (6, 7, 1, 8))) == {"log-matching"}


@pytest.mark.parametrize(("offset", "found"), [(5, set()), (6, {"majority-durable"})])
def test_a_follower_takes_no_more_for_committed_than_leaders_announced(offset, found):
    sight = Started(None, OLD, NEWER)
    events = [*QUORUM]
    for node in ("n1", "n2", "n3"):
        events += [recovered(node, 6), state(node, 1, "Resigned")]
    events += [hw("n1", 5, replicas=ALL_HAVE), hw("n2", offset)]
    assert broken(events, sight) == found


@pytest.mark.parametrize(
    ("other", "found"),
    [(NEWER, set()), ((5, 6, 2, 8), {"majority-durable"}), ((5, 6, 1, 9), {"majority-durable"})],
)
def test_a_voter_has_what_is_committed_if_it_holds_the_leaders_batch(other, found):
    sight = Started(None, OLD, NEWER)
    watcher = Watcher(sight, among=[MajorityDurable])
    for event in [*QUORUM, recovered("n1", 6), state("n1", 1, "Resigned")]:
        watcher.take(*event)
    sight.held = [OLD, other]
    for event in (recovered("n2", 6), state("n2", 1), hw("n1", 6, replicas=ALL_HAVE)):
        watcher.take(*event)
    assert {violation.property for violation in watcher.violations} == found


def test_a_leader_needs_nobody_to_announce_that_nothing_is_committed():
    assert broken([start("n1"), voters("n1"), hw("n1", 0, replicas=ALL_HAVE)]) == set()


@pytest.mark.parametrize(
    ("ids", "last", "found"),
    [("1234", 4, ["new-voter-holds-log"]), ("1234", 5, []), ("12", 4, [])],
    ids=["it lacks the epoch's start", "it has that and no more", "a voter leaves"],
)
def test_a_voter_that_is_added_has_held_the_leaders_log(ids, last, found):
    begin = [*QUORUM, start("n4", "d"), epoch_start("n1", 2, 5), append("n1", 5, 5, epoch=2)]
    events = [*begin, append("n4", 0, last), change("n1", ids, epoch=2)]
    assert broken_by(*events, among=[NewVoterHoldsLog]) == found


@pytest.mark.parametrize(("commits", "found"), [(30, []), (31, ["snapshot-made"])])
def test_a_snapshot_that_is_due_is_made_within_some_commits(commits, found):
    due = ("n1", "snapshot-due", {"commits": commits})
    assert broken_by(due, among=[snapshot_made]) == found


@pytest.mark.parametrize(
    ("error", "may_begin", "found"),
    [
        ("request_timed_out", True, ["changes-taken"]),
        ("voter_not_found", True, ["changes-taken"]),
        ("request_timed_out", False, []),
        ("none", True, []),
        ("not_controller", True, []),
    ],
    ids=["later", "never", "another one is not committed", "taken", "another leads"],
)
def test_a_leader_takes_a_change_that_may_begin(error, may_begin, found):
    answer = {"request": "RemoveVoter", "error": error, "may_begin": may_begin}
    assert broken_by(("n1", "voter-answer", answer), among=[changes_taken]) == found

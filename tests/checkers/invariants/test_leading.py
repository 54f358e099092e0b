"""Rules of leadership that see messages arrive: each with the correct schedule that comes closest."""

import pytest

from checkers.invariants.leading import LEADING
from checkers.invariants.sight import Term
from checkers.invariants.watcher import Watcher
from harness.plan.document import from_document
from harness.sim.runner import run
from tests.checkers.invariants.test_invariants import append, state, voters
from tests.harness.sim.plans import script

TIMEOUT_MS = 150.0
SIGNAL = "SIGTERM, or a request to resign"
LEADS = ("n1", "state", {"state": "Leader", "epoch": 2, "leader_id": 1, "voted_id": 1})


class Host:
    """What tests show of one node: its clock, and whether its disk has work to do."""

    now_ms = 0.0
    disk_is_idle = True
    disk_stops_it = False
    known: Term | None = Term({}, {}, 0)
    is_asked = False

    def is_open(self, node):
        return False

    def durable_end(self, node):
        return None

    def batches(self, node, offset):
        return []

    def monotonic_ms(self, node):
        return self.now_ms

    def waits_for_disk(self, node):
        return self.disk_stops_it

    def is_written(self, node):
        return self.disk_is_idle

    def term(self, node):
        return self.known

    def latest_ready_read(self, node):
        return self.known.released

    def may_resign(self, node):
        return self.is_asked

    def must_resign(self, node):
        return self.is_asked


def judged(*events):
    """Names of the rules that a sequence breaks: (time, node, event, fields), or (time, shown)."""
    host = Host()
    watcher = Watcher(host, among=LEADING)
    for at_ms, *event in events:
        host.now_ms = at_ms
        if isinstance(event[0], Term):
            host.known = event[0]
        elif event[0] == SIGNAL:
            host.is_asked = True
        elif len(event) == 1:
            (host.disk_is_idle,) = event
        else:
            watcher.take(*event)
    return [violation.property for violation in watcher.violations]


def start(at_ms=0.0):
    return at_ms, "n1", "start", {"directory_id": "a", "check_quorum_timeout_ms": TIMEOUT_MS}


def led(at_ms):
    _, _, fields = append("n1", 5, 5, epoch=2)
    return at_ms, "n1", "append", {**fields, "role": "leader"}


def fetch(at_ms, sender, epoch=2):
    return at_ms, "n1", "fetch-arrival", {"sender": sender, "epoch": epoch}


def told(at_ms, epoch, asked_epoch=None):
    return (
        at_ms,
        "n1",
        "epoch-arrival",
        {"sender": "n2", "epoch": epoch, "asked_epoch": asked_epoch},
    )


def quorum_of(ids):
    return (start(), (0.0, *voters("n1", ids)), (0.0, *LEADS))


ENTERED = (0.0, *state("n2", 3, "Leader", leader=2))
OF_THREE, OF_FIVE = quorum_of("123"), quorum_of("12345")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*OF_THREE, fetch(100, "n2"), led(437)], []),
        ([*OF_THREE, fetch(100, "n2"), led(438)], ["led-alone"]),
        ([*OF_THREE, led(337)], []),
        ([*OF_THREE, led(338)], ["led-alone"]),
        ([*OF_THREE, fetch(337, "n2", epoch=1), led(338)], ["led-alone"]),
        ([*OF_THREE, fetch(337, "n4"), led(338)], ["led-alone"]),
        ([*OF_FIVE, fetch(1, "n2"), fetch(149, "n3"), led(298)], []),
        ([*OF_FIVE, fetch(337, "n2"), led(338)], ["led-alone"]),
        ([*OF_FIVE, fetch(1, "n2"), fetch(2, "n3"), fetch(700, "n3"), led(700)], []),
        ([*OF_THREE, fetch(299, "n2"), (299.0, *voters("n1", "23")), led(636)], []),
        ([*OF_THREE, fetch(299, "n2"), (299.0, *voters("n1", "23")), led(637)], ["led-alone"]),
        ([*quorum_of("1"), led(9_000)], []),
        ([*OF_THREE, (200.0, *state("n1", 2, "Resigned", leader=1)), led(9_000)], []),
        ([*OF_THREE, start(200.0), (9_000.0, *LEADS), led(9_001)], []),
    ],
)
def test_a_leader_may_go_on_for_two_time_outs_after_a_majority_fetched(events, found):
    """In a quorum of five: n2 fetches as a period begins, n3 as it ends, and then another begins.

    One that was stopped until 700 ms counts n3, and n2 of before, and then looks at its clock. A
    leader that removes itself needs both of the others from then on.
    """
    assert judged(*events) == found


@pytest.mark.parametrize(("stops", "found"), [(True, []), (False, ["led-alone"])])
def test_a_leader_that_waits_for_its_disk_is_stopped_meanwhile(monkeypatch, stops, found):
    monkeypatch.setattr(Host, "disk_stops_it", stops)
    flushed = (700.0, "n1", "flush", {"end_offset": 6})
    assert judged(*OF_THREE, led(10), flushed, led(701)) == found


@pytest.mark.parametrize("stops", [True, False])
def test_short_syncs_excuse_no_leader(monkeypatch, stops):
    monkeypatch.setattr(Host, "disk_stops_it", stops)
    syncs = [(float(at_ms), "n1", "flush", {"end_offset": 6}) for at_ms in range(30, 700, 30)]
    assert judged(*OF_THREE, led(10), *syncs, led(701)) == ["led-alone"]


FOLLOWS = (0.0, *state("n1", 2, leader=2))


def following(ids, *, every_ms=30, until_ms=240, others=()):
    """Follow a leader, and ask for records from time to time, beside other events."""
    fields = {"epoch": 2, "leader_id": 2, "asked_id": 3, "offset": 5, "durable_end_offset": 5}
    asks = [
        (float(at_ms), "n1", "fetch", fields) for at_ms in range(every_ms, until_ms + 1, every_ms)
    ]
    return [start(), (0.0, *voters("n1", ids)), FOLLOWS, *sorted([*asks, *others], key=_time_of)]


def _time_of(event):
    return event[0]


ANSWER = (20.0, "n1", "leader-answer", {})


def ended(epoch):
    return 20.0, "n1", "epoch-end", {"epoch": epoch}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (following("123"), ["leaves-leader"]),
        (following("123", until_ms=210), []),
        (following("123", others=[ANSWER]), []),
        (following("123", until_ms=270, others=[ANSWER]), ["leaves-leader"]),
        (following("123", others=[ended(2), ended(1)]), []),
        (following("123", others=[ended(1)]), ["leaves-leader"]),
        (following("123", others=[(100.0, *state("n1", 2, "Prospective", leader=2))]), []),
        (following("123", others=[(100.0, *voters("n1", "1234"))]), []),
        (following("123", every_ms=40), []),
        (following("23"), []),
    ],
    ids=[
        "it asks others for records, and not for votes",
        "its time is not over for certain",
        "its leader has answered once",
        "that is too long ago",
        "its leader resigned, and its turn to be elected comes later",
        "another epoch was ended",
        "it has asked for votes",
        "its voters are others since",
        "it may be stopped between two looks",
        "it observes",
    ],
)
def test_a_voter_leaves_a_leader_that_does_not_answer(events, found):
    assert judged(*events) == found


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([told(1, 3), led(2)], ["succession"]),
        ([told(1, 3, asked_epoch=2), led(2)], ["succession"]),
        ([told(1, 3), fetch(2, "n3")], ["succession"]),
        ([(0.5, *state("n1", 2, "Resigned", leader=1)), told(1, 3), fetch(2, "n3")], []),
        ([told(1, 3), (1.0, False), led(2), (3.0, True), (3.0, *state("n1", 3)), led(4)], []),
        ([told(1, 3), (1.0, False), led(2), (3.0, True), led(4)], ["succession"]),
        ([(0.5, *voters("n1", "23")), told(1, 3, asked_epoch=2), led(2)], []),
        ([(0.5, *voters("n1", "23")), told(1, 3), led(2)], ["succession"]),
        ([told(1, 2), led(2)], []),
        ([told(1, 4), led(2)], []),
        ([told(1, 3, asked_epoch=1), led(2)], []),
        ([told(1, 3), start(2.0), led(3)], []),
    ],
)
def test_a_leader_may_go_on_while_it_writes_down_the_later_epoch(events, found):
    """Not in one that no node is in, nor for an answer to what it asked in an earlier term."""
    assert judged(*OF_THREE, ENTERED, *events) == found


def resigns(at_ms):
    return at_ms, *state("n1", 2, "Resigned", leader=1)


def fetches(at_ms, **fetched_ms):
    """It knows when others fetched, as something arrives."""
    return (at_ms, Term(fetched_ms, {}, 0)), fetch(at_ms, "n2")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*OF_THREE, *fetches(1_000, n2=1_000), resigns(1_150)], []),
        ([*OF_THREE, *fetches(1_000, n2=1_000), resigns(1_112)], ["resigned-early"]),
        ([*OF_THREE, *fetches(1_000, n2=1_000, n3=800), resigns(1_112)], ["resigned-early"]),
        ([*OF_FIVE, *fetches(1_000, n2=1_000, n3=850), resigns(1_000)], []),
        ([*OF_FIVE, *fetches(1_000, n2=1_000, n3=950), resigns(1_000)], ["resigned-early"]),
        ([*OF_FIVE, *fetches(1_000, n2=1_000), resigns(1_001)], []),
        ([*quorum_of("1"), resigns(9_000)], ["resigned-early"]),
        ([*quorum_of("1"), (9_000.0, SIGNAL), resigns(9_000)], []),
        (
            [*OF_THREE, *fetches(1_000, n2=1_000), (1_001.0, *voters("n1", "23")), resigns(1_002)],
            [],
        ),
        ([*OF_THREE, start(1_000), resigns(1_001)], []),
        ([*OF_THREE, *fetches(1_000, n2=1_000), (1_001.0, *state("n1", 3))], []),
    ],
)
def test_a_leader_resigns_for_want_of_a_quorum_after_a_whole_time_out_alone(events, found):
    """With five voters the second last counts; a stop, a change of voters and its own start do."""
    assert judged(*events) == found


END_SENT = ("n1", "epoch-end-sent", {"successors": {"n3": 7, "n2": 7}})
RESIGNS = (100.0, *state("n1", 2, "Resigned", leader=1))
ASKED = [fetch(at_ms, "n2") for at_ms in range(110, 140, 10)]
"""It is at work until 38 ms after it resigned, which is more than a quarter of its time-out."""


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*OF_THREE, RESIGNS, *ASKED, fetch(138, "n2")], ["end-told"]),
        ([*OF_THREE, RESIGNS, (100.0, *END_SENT), *ASKED, fetch(138, "n2")], ["end-told"]),
        ([*OF_THREE, RESIGNS, *[(100.0, *END_SENT)] * 2, *ASKED, fetch(138, "n2")], []),
        ([*OF_THREE, RESIGNS, *ASKED, fetch(137, "n2")], []),
        ([*OF_THREE, RESIGNS, fetch(138, "n2")], []),
        ([*OF_THREE, RESIGNS, (101.0, False), *ASKED, fetch(138, "n2")], []),
        ([*OF_THREE, RESIGNS, (105.0, *state("n1", 3)), *ASKED, fetch(138, "n2")], []),
        ([*OF_THREE, start(90.0), RESIGNS, *ASKED, fetch(138, "n2")], []),
        ([*OF_THREE, (99.0, SIGNAL), *ASKED, fetch(148, "n2")], ["end-told"]),
        ([*OF_THREE, (99.0, SIGNAL), *ASKED, fetch(147, "n2")], []),
        ([*OF_THREE, (99.0, SIGNAL), *ASKED, (138.0, False), fetch(148, "n2")], []),
        ([*quorum_of("1"), (99.0, SIGNAL), RESIGNS, *ASKED, fetch(138, "n2")], []),
    ],
    ids=[
        "it tells nobody",
        "it tells one of two",
        "it tells both",
        "it may do so still",
        "it was stopped meanwhile",
        "its disk has work to do",
        "it has heard of a later epoch",
        "it led before it was started",
        "it was asked to, and leads on",
        "it was asked to just now",
        "it was asked to, and its disk has work to do",
        "there are no others",
    ],
)
def test_a_leader_that_resigns_tells_all_voters(events, found):
    assert judged(*events) == found


def test_the_voter_with_the_longest_log_is_to_stand_first():
    shown = {"successors": {"n2": 6, "n3": 7}}
    assert judged(*OF_THREE, RESIGNS, (100.0, "n1", "epoch-end-sent", shown)) == ["end-told"]


def read(confirmed=True):
    fields = {"epoch": 2, "offset": 5, "confirmed": confirmed, "query": True}
    return 10.0, "n1", "read", fields


def confirmed(released, **answers):
    return 5.0, Term({}, answers, released)


LOST = (9.0, *state("n1", 3, "Unattached"))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*OF_THREE, confirmed(7, n2=7, n3=0), read()], []),
        ([*OF_THREE, confirmed(7, n2=6, n3=6), read()], ["read-by-majority"]),
        ([*OF_FIVE, confirmed(7, n2=7, n3=8), read()], []),
        ([*OF_FIVE, confirmed(7, n2=7, n3=6), read()], ["read-by-majority"]),
        ([*quorum_of("1"), confirmed(0), read()], []),
        ([*quorum_of("23"), confirmed(7, n2=7, n3=6), read()], ["read-by-majority"]),
        ([*OF_THREE, confirmed(7, n2=6, n3=6), read(confirmed=False)], []),
        ([*OF_THREE, (1.0, *voters("n1", "23")), confirmed(7, n2=7, n3=6), read()], []),
        ([*OF_THREE, confirmed(1, n2=1), LOST, read()], []),
        ([*OF_THREE, confirmed(1, n2=1), read(), LOST, read()], ["read-by-majority"]),
        ([*OF_THREE, confirmed(1, n2=1), LOST, read(), read()], ["read-by-majority"]),
        ([*OF_THREE, confirmed(1, n2=1), read(), LOST, read(confirmed=False)], []),
        ([*quorum_of("1"), LOST, read()], []),
    ],
)
def test_a_read_is_answered_when_a_majority_has_confirmed_it(events, found):
    """The leader counts if it votes; after a change of voters nothing is said.

    What was confirmed may be answered after the leadership is lost, and no read more.
    """
    assert judged(*events) == found


SCRIPT = script("isolated_leader")
ISOLATED = [
    {
        "kind": "cast",
        "names": {"A": "leader", "B": "follower", "C": "follower"},
        "until": {"established": True},
    },
    {"kind": "partition", "targets": "@A", "shape": "isolate"},
]
ALONE = [*ISOLATED, {"kind": "wait", "after_ms": 6_000}, {"kind": "heal"}]
DEPOSED = [
    *ISOLATED,
    {"kind": "timer-rate", "targets": "@A", "rate": 0.3},
    {"kind": "wait", "until": {"established": True, "epoch": "later"}, "within_ms": 8_000},
    {"kind": "heal", "fault": "partition"},
    {"kind": "wait", "after_ms": 2_000},
    {"kind": "heal"},
]
STOPPED = [
    {"kind": "cast", "names": {"A": "leader"}, "until": {"established": True}},
    {"kind": "stop", "targets": "@A", "for_ms": 6_000},
]
_HANDS_OVER = "X:kraft.raft_client:RaftClient._maybe_complete_shutdown"
_MISTIMED = ["stands-in-time"]
_BACKS_OFF = "X:kraft.inbound:InboundRequests._election_backoff_ms"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "mutant", "found"),
    [
        (ALONE, "M11", ["led-alone"]),
        (ALONE, None, []),
        (DEPOSED, "M07", ["succession"]),
        (DEPOSED, None, []),
        (STOPPED, f"{_HANDS_OVER}:truth:0", ["end-told"]),
        (STOPPED, f"{_HANDS_OVER}:truth:1", ["end-told"]),
        (STOPPED, f"{_BACKS_OFF}:relation:1", _MISTIMED),
        (STOPPED, "X:kraft.inbound:InboundRequests._end_quorum_epoch:left-out:0", _MISTIMED),
        (STOPPED, "X:kraft.outbound:OutboundRequests._take_fetch:left-out:2", _MISTIMED),
        (STOPPED, "X:kraft.outbound:OutboundRequests._send:always:1", ["asks-in-turn"]),
        (ALONE, "X:kraft.request_manager:RequestManager.reset_all:left-out:0", ["asks-in-turn"]),
        (STOPPED, None, []),
    ],
)
def test_worlds_find_who_leads_or_stands_wrongly_and_accuse_no_correct_one(steps, mutant, found):
    document = {
        **SCRIPT,
        "version": 1,
        "rate_per_s": 40,
        "mutant": mutant,
        "node_settings": {"metadata.max.idle.interval.ms": 500},
        "world": {**SCRIPT["world"], "cut_keeps": 0.0},
        "schedule": [{"at_ms": 100, "steps": steps}],
    }
    violations = run(from_document(document), frozenset(found) or None)[1].violations
    assert [violation.property for violation in violations] == found

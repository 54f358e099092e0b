"""Fetch sessions: what is read, what is answered, who is turned away."""

import uuid
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.broker.replication import fetch_sessions
from cluster.node.broker.replication.fetch_sessions import EVICTED_AFTER_MS, FetchSessions
from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.protocol.data_messages import FetchPartition, FetchRequest, FetchResult
from tests.cluster.node.controller.fakes import FakeClock

TOPIC = uuid.UUID(int=7)


def asked(*indexes, session=0, epoch=-1, replica=-1, forgotten=(), topic="t"):
    return FetchRequest(
        replica_id=replica,
        replica_epoch=-1,
        max_wait_ms=0.0,
        min_bytes=1,
        max_bytes=100,
        partitions=tuple(FetchPartition(topic, index, 0, 100) for index in indexes),
        forgotten=tuple((topic, index) for index in forgotten),
        session_id=session,
        session_epoch=epoch,
    )


def result(index, high_watermark=0, **values):
    return FetchResult("t", index, ErrorCode.none, high_watermark, log_start_offset=0, **values)


def answered(response):
    return [row.index for row in response.partitions]


def read(fetching):
    return [partition.index for partition in fetching.partitions]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def sessions(clock, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "SESSIONS_MAX", 2)
    return FetchSessions(clock, Random(1))


def opened(sessions, *indexes, replica=-1):
    fetching = sessions.begin(asked(*indexes, epoch=0, replica=replica))
    return fetching.answer([result(index) for index in indexes]).session_id


def test_without_a_session_all_that_is_named_is_answered(sessions):
    for _ in range(2):
        fetching = sessions.begin(asked(0, 1))
        assert read(fetching) == [0, 1]
        response = fetching.answer([result(0), result(1)])
        assert (answered(response), response.session_id) == ([0, 1], 0)
    assert len(sessions._sessions) == 0


def test_a_session_is_answered_with_news_alone(sessions):
    session = opened(sessions, 0, 1, 2)
    assert session > 0
    fetching = sessions.begin(asked(session=session, epoch=1))
    assert read(fetching) == [0, 1, 2]
    rows = [result(0, 5), result(1), result(2, records=b"x")]
    assert answered(fetching.answer(rows)) == [0, 2]
    fetching = sessions.begin(asked(session=session, epoch=2))
    assert answered(fetching.answer([result(0, 5), result(1), result(2)])) == []


@pytest.mark.parametrize(
    "news",
    [
        {"high_watermark": 1},
        {"log_start_offset": 1},
        {"records": b"x"},
        {"error": ErrorCode.not_leader_or_follower},
        {"diverging": OffsetAndEpoch(1, 1)},
    ],
)
def test_what_news_are(sessions, news):
    session = opened(sessions, 0)
    fetching = sessions.begin(asked(session=session, epoch=1))
    assert not fetching.has_news(result(0))
    assert fetching.has_news(replace(result(0), **news))


def test_an_error_is_news_again_once_it_is_over(sessions):
    session = opened(sessions, 0)
    wrong = replace(result(0), error=ErrorCode.unknown_server_error)
    for epoch, row in ((1, wrong), (2, wrong), (3, result(0))):
        fetching = sessions.begin(asked(session=session, epoch=epoch))
        assert answered(fetching.answer([row])) == [0]
    fetching = sessions.begin(asked(session=session, epoch=4))
    assert answered(fetching.answer([result(0)])) == []


def test_who_got_records_waits_behind_the_others(sessions):
    session = opened(sessions, 0, 1)
    fetching = sessions.begin(asked(session=session, epoch=1))
    fetching.answer([result(0, records=b"x"), result(1)])
    assert read(sessions.begin(asked(session=session, epoch=2))) == [1, 0]


def test_who_is_turned_away(sessions):
    session = opened(sessions, 0)
    wrong = sessions.begin(asked(session=session + 1, epoch=1))
    assert wrong is ErrorCode.fetch_session_id_not_found
    wrong = sessions.begin(asked(session=session, epoch=2))
    assert wrong is ErrorCode.invalid_fetch_session_epoch
    wrong = sessions.begin(asked(1, session=session, epoch=1, topic=Random))
    assert wrong is ErrorCode.fetch_session_topic_id_error


def test_a_session_ends_when_its_fetcher_says_so(sessions):
    session = opened(sessions, 0)
    assert read(sessions.begin(asked(0, session=session, epoch=-1))) == [0]
    assert len(sessions._sessions) == 0
    session = opened(sessions, 0)
    sessions.begin(asked(0, session=session, epoch=0))
    assert len(sessions._sessions) == 1


def test_a_session_that_is_not_used_gives_way(sessions, clock):
    first, second = opened(sessions, 0), opened(sessions, 1)
    assert opened(sessions, 2) == 0
    clock.now_ms = EVICTED_AFTER_MS
    sessions.begin(asked(session=first, epoch=1))
    clock.now_ms += 1
    assert opened(sessions, 2) > 0
    wrong = sessions.begin(asked(session=second, epoch=1))
    assert wrong is ErrorCode.fetch_session_id_not_found


def test_a_follower_takes_the_place_of_a_consumer(sessions):
    first = opened(sessions, 0, replica=4)
    opened(sessions, 1)
    assert opened(sessions, 2, replica=5) > 0
    assert opened(sessions, 2, replica=6) == 0
    assert sessions.begin(asked(session=first, epoch=1)).partitions


def quiet(fetching, *indexes):
    for index in indexes:
        fetching.watch(("t", index), (TOPIC, index), is_quiet=True)


def test_what_is_quiet_is_not_read_again_before_it_has_changed(sessions):
    session = opened(sessions, 0, 1, 2)
    fetching = sessions.begin(asked(session=session, epoch=1))
    quiet(fetching, 0, 1)
    fetching.answer([result(index) for index in (0, 1, 2)])
    assert read(sessions.begin(asked(session=session, epoch=2))) == [2]
    sessions.stir((TOPIC, 1))
    sessions.stir((uuid.UUID(int=8), 0))
    assert read(sessions.begin(asked(session=session, epoch=3))) == [2, 1]
    assert read(sessions.begin(asked(0, session=session, epoch=4))) == [2, 1, 0]


def test_a_fetch_that_waits_is_woken_by_what_it_watches_until_its_answer(sessions):
    session = opened(sessions, 0, 1)
    woken = []
    fetching = sessions.begin(asked(session=session, epoch=1))
    quiet(fetching, 0)
    fetching.wait(woken.append)
    sessions.stir((TOPIC, 0))
    sessions.stir((TOPIC, 1))
    fetching.answer([result(0)])
    sessions.stir((TOPIC, 0))
    assert woken == [("t", 0)]


def test_nothing_is_left_of_fetches_and_sessions_that_are_over(sessions):
    session = opened(sessions, 0, 1)
    late = sessions.begin(asked(session=session, epoch=1))
    quiet(late, 0, 1)
    sessions.begin(asked(session=session, epoch=2, forgotten=(1,)))
    once = sessions.begin(asked(0))
    quiet(once, 0)
    once.answer([result(0)])
    sessions.begin(asked(0, session=session, epoch=-1)).answer([result(0)])
    quiet(late, 0)  # a Fetch that still waits, and is over without its session
    late.answer([result(0)])
    assert (len(sessions._sessions), sessions._watchers, sessions._count) == (0, {}, 0)


def test_sessions_hold_no_more_partitions_than_their_bound(clock, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 4)
    sessions = FetchSessions(clock, Random(1))
    assert opened(sessions, *range(5)) == 0
    consumer = opened(sessions, 0, 1, 2)
    assert opened(sessions, 0, 1) == 0
    assert opened(sessions, 0, 1, replica=4) > 0, "a follower takes a consumer's place"
    gone = sessions.begin(asked(session=consumer, epoch=1))
    assert gone is ErrorCode.fetch_session_id_not_found
    small = opened(sessions, 0)
    assert sessions.begin(asked(1, 2, session=small, epoch=1)) is gone
    assert len(sessions._sessions) == 1


def test_a_high_watermark_that_its_asker_does_not_know_is_news(sessions):
    session = opened(sessions, 0)
    sessions.begin(asked(session=session, epoch=1)).answer([result(0, 5)])
    behind = replace(asked(0, session=session, epoch=2).partitions[0], high_watermark=4)
    request = replace(asked(session=session, epoch=2), partitions=(behind,))
    assert sessions.begin(request).has_news(result(0, 5))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)), st.integers(0, 3)),
        max_size=12,
    )
)
def test_a_fetcher_knows_by_news_what_a_full_fetch_would_show(steps):
    """Whatever comes, goes and moves: what the fetcher has seen is how it is."""
    sessions = FetchSessions(FakeClock(), Random(2))
    marks = dict.fromkeys(range(4), 0)
    known = {0: 0}
    session = opened(sessions, 0)
    for epoch, (named, forgotten, moved) in enumerate(steps, start=1):
        marks[moved] += 1
        added = named - forgotten
        request = asked(*sorted(added), session=session, epoch=epoch, forgotten=sorted(forgotten))
        fetching = sessions.begin(request)
        known = {index: mark for index, mark in known.items() if index not in forgotten}
        wanted = {*known, *added}
        assert set(read(fetching)) == wanted
        rows = [result(index, marks[index]) for index in read(fetching)]
        for row in fetching.answer(rows).partitions:
            known[row.index] = row.high_watermark
        assert known == {index: marks[index] for index in wanted}

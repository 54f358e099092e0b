"""Voters and kraft.version by offset, while the log grows, is truncated and loses its beginning."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.node.kraft.quorum.control_state import LogHistory

STEPS = st.lists(
    st.tuples(st.sampled_from(["record", "other", "truncate", "forget"]), st.integers(0, 6)),
    max_size=40,
)


@given(STEPS)
def test_what_was_forgotten_is_never_missed(steps):
    """Against a history that forgets nothing, for a log that begins behind a snapshot."""
    history: LogHistory[int] = LogHistory()
    entries: list[tuple[int, int]] = []
    start = end = 0
    for number, (what, size) in enumerate(steps):
        if what == "record":
            history.add(end, number)
            entries.append((end, number))
            end += 1
        elif what == "other":
            end += size
        elif what == "truncate":
            end = max(start, end - size)
            history.truncate_new(end)
            entries = [entry for entry in entries if entry[0] < end]
        else:
            start = min(end, start + size)
            history.truncate_old(start)
        assert history.last() == (entries[-1] if entries else None)
        for offset in range(start - 1, end):
            before = [value for known, value in entries if known <= offset]
            assert history.at(offset) == (before[-1] if before else None)


def test_the_voters_just_before_the_beginning_of_the_log_stay_known():
    """A change of voters at the very offset where the log begins may be truncated yet."""
    history: LogHistory[str] = LogHistory()
    history.add(716, "2, 4, 5")
    history.add(729, "2, 4")
    history.truncate_old(729)
    history.truncate_new(729)
    assert history.last() == (716, "2, 4, 5")


def test_only_what_may_still_be_asked_for_is_kept():
    history: LogHistory[int] = LogHistory()
    for offset in range(100):
        history.add(offset, offset)
    history.truncate_old(98)
    assert len(history._entries) == 3

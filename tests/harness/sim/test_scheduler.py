"""The queue of a simulated world: due time, then arrival, whatever stands in a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.sim.scheduler import LONG_MS, Scheduler

DELAYS_MS = (0.0, 1.0, LONG_MS - 1, LONG_MS, 3 * LONG_MS, 10 * LONG_MS)
ASK = st.tuples(st.just("ask"), st.sampled_from(DELAYS_MS))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 40))
PASS = st.tuples(st.just("pass"), st.sampled_from((0.0, 1.0, LONG_MS, 7 * LONG_MS)))


@pytest.mark.slow
@given(st.lists(st.one_of(ASK, ASK, CANCEL, PASS), max_size=80))
def test_callbacks_run_in_order_of_time_and_then_of_arrival(script):
    scheduler, ran, asked = Scheduler(), [], []
    cancelled = set()
    for do, number in script:
        if do == "ask":
            index = len(asked)
            entry = scheduler.call_later(number, lambda i=index: ran.append((scheduler.now_ms, i)))
            asked.append((scheduler.now_ms + number, entry))
        elif do == "cancel" and number < len(asked):
            if number not in {i for _, i in ran}:
                cancelled.add(number)
            asked[number][1].cancel()
        elif do == "pass":
            scheduler.run_for(number)
    scheduler.run_for(100 * LONG_MS)
    expected = sorted((at, i) for i, (at, _) in enumerate(asked) if i not in cancelled)
    assert ran == expected

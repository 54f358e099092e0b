"""Every model against brute force; `python -m tests.checkers.linearizability.differential` does a million."""

import pytest

from tests.checkers.linearizability.differential import judged, kinds, main, stored
from tests.night import drawn


@pytest.mark.slow
@drawn(200, 10_000)
@pytest.mark.parametrize("place", kinds(), ids=" ".join)
def test_no_history_is_judged_otherwise_than_by_brute_force(place, cases):
    complaints, truths = judged(len(cases), cases.start, place)
    assert complaints == []
    assert min(truths["PASS"], truths["FAIL"]) > 5, "only one verdict tests nothing"


@pytest.mark.slow
def test_a_run_that_was_ended_goes_on_where_it_was(tmp_path):
    state = tmp_path / "state.jsonl"
    asked = ["--only", "set", "--processes", "1", "--state", str(state)]
    first = list(main([*asked, "--histories", "400"]))
    assert any(line.startswith("400 histories") for line in first)
    assert len(stored(state)) == 4
    lines = state.read_text().splitlines(keepends=True)
    state.write_text(lines[0] + lines[1][:40])
    assert list(main([*asked, "--histories", "400"]))[:-1] == first[:-1]
    assert len(stored(state)) == 4
    assert state.read_text().startswith(lines[0])
    with pytest.raises(SystemExit):
        list(main(["--only", "sets"]))

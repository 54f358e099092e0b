"""Malformed answers of nodes keep a run from passing, and are no violation by themselves."""

from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status

SECOND = 1_000_000_000


def judged(*events):
    return run_check(CheckSpec("answers"), RunInput(list(events), [], None))


def ended(error, second=2, index=0):
    return Event(index, second * SECOND, 0, EventType.INFO, "read", "k", None, error, "n2")


def test_errors_and_missing_answers_are_no_wrong_answers():
    assert judged(ended(None), ended("not_controller"), ended("timed-out")).status is Status.PASS
    assert judged().status is Status.PASS


def test_an_operation_with_a_wrong_answer_is_found_with_node_and_time():
    result = judged(ended("timed-out"), ended("wrong-answer: answer to X: KeyError: 3"))
    assert result.status is Status.UNKNOWN
    (anomaly,) = result.anomalies
    assert anomaly["explanation"] == "n2 at 2.000 s: answer to X: KeyError: 3"
    assert anomaly["explanation"] in result.summary


def test_wrong_answers_to_the_harness_count_as_well():
    value = {"node": "n3", "explanation": "answer to Y: no"}
    noted = Event(0, SECOND, NEMESIS, EventType.INFO, "wrong-answer", None, value)
    result = judged(noted, ended("wrong-answer", index=1))
    assert [anomaly["explanation"] for anomaly in result.anomalies] == [
        "n3 at 1.000 s: answer to Y: no",
        "n2 at 2.000 s: wrong-answer",
    ]


def test_many_are_counted_and_some_are_shown():
    result = judged(*(ended("wrong-answer: x", index=number) for number in range(100)))
    assert result.statistics["wrong_answers"] == 100
    assert len(result.anomalies) == 20

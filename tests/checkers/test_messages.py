"""What a person reads names times in seconds since the run began, and no sentinel."""

import re

import pytest

from checkers.columnar import judge_columns
from checkers.columns import from_operations
from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.models import CasRegister, Register
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status

_RAW = re.compile(r"\d ns\b|-1\b|9223372036854775807|\d{10,}")


@pytest.mark.parametrize(
    ("time_ns", "shown"),
    [
        (0, "0.000000 s"),
        (10_958_907_123, "10.958907 s"),
        (1_000, "0.000001 s"),
        (7, "0.000000007 s"),
        (-1, "the run's beginning"),
        (INFINITY_NS, "the run's end"),
    ],
)
def test_a_time_is_shown_in_seconds_and_a_bound_in_words(time_ns, shown):
    assert seconds(time_ns) == shown


def operation(index, f, value, begin_s, end_s):
    write = f != "read"
    return Operation(
        index=index,
        process=index,
        f=f,
        key="k",
        input=value if write else None,
        output=value,
        type=EventType.OK,
        invoke_ns=int(begin_s * 1e9),
        complete_ns=int(end_s * 1e9),
    )


INITIAL_AGAIN = [
    operation(0, "write", 1, 1.5, 2.25),
    operation(1, "read", None, 3.5, 4.25),
    operation(2, "read", 1, 5.5, 6.25),
]
"""The initial value, there from before the run on, is read behind the write that replaced it."""


@pytest.mark.parametrize("algorithm", ["zones", "chains", "frontier", "wgl"])
def test_a_violation_names_seconds_whatever_algorithm_finds_it(algorithm):
    model = "cas-register" if algorithm == "chains" else "register"
    spec = CheckSpec("linearizable", {"model": model, "algorithm": algorithm})
    result = run_check(spec, RunInput([], INITIAL_AGAIN, None))
    assert result.status is Status.FAIL
    for text in (result.summary, *(anomaly["explanation"] for anomaly in result.anomalies)):
        assert _RAW.search(text) is None, text
        assert re.search(r"\d\.\d{6} s", text), text


@pytest.mark.parametrize("model", [Register(), CasRegister()])
@pytest.mark.parametrize("algorithm", [None, "frontier", "wgl"])
def test_a_violation_in_columns_names_seconds(model, algorithm):
    columns = from_operations(INITIAL_AGAIN)
    (result,) = judge_columns(columns, model, algorithm=algorithm)
    assert result.status is Status.FAIL
    assert _RAW.search(result.summary) is None, result.summary
    assert re.search(r"\d\.\d{6} s", result.summary), result.summary

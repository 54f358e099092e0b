"""A lone file passes only where something that was written was observed."""

import pytest

from checkers.earned import EARNED, Floor
from checkers.verdict import Status
from harness.commands.judge import _file_check
from results.judge.lone_files import judge_file

WRITES = {
    "register": ("write", "1"),
    "cas-register": ("write", "1"),
    "set": ("add", "1"),
    "counter": ("increment", "1"),
    "queue": ("enqueue", "1"),
    "unordered-queue": ("enqueue", "1"),
    "list-append": ("append", "1"),
    "kv": ("put", '"a"'),
    "set-full": ("add", "1"),
    "transactions-list-append": ("txn", "[[:append :x 1]]"),
    "transactions-rw-register": ("txn", "[[:w :x 1]]"),
}
READS = {
    "queue": ("dequeue", "1"),
    "unordered-queue": ("dequeue", "1"),
    "set": ("read", "[1]"),
    "set-full": ("read", "[1]"),
    "list-append": ("read", "[1]"),
    "kv": ("get", '"a"'),
    "transactions-list-append": ("txn", "[[:r :x [1]]]"),
    "transactions-rw-register": ("txn", "[[:r :x 1]]"),
}


def judged(folder, model, *operations, floor=None):
    """Judge a history of operations one after another: (f, value, how it ended)."""
    path = folder / "history.edn"
    lines = []
    for number, (f, value, end) in enumerate(operations):
        asked = "nil" if f in ("read", "get", "dequeue") else value
        for kind, what in (("invoke", asked), (end, value)):
            lines.append(f"{{:process {number} :type :{kind} :f :{f} :value {what}}}")
    path.write_text("\n".join(lines))
    return judge_file(path, [_file_check({"model": model})], floor=floor)


def lacking(results):
    [earned] = [check for check in results.checks if check.checker == EARNED]
    return [anomaly["kind"] for anomaly in earned.anomalies]


@pytest.mark.parametrize("model", WRITES)
def test_a_file_without_an_observation_is_under_exercised(tmp_path, model):
    results = judged(tmp_path, model, (*WRITES[model], "ok"))
    assert results.status is Status.UNDER_EXERCISED
    assert lacking(results) == ["observations"]


@pytest.mark.parametrize("model", WRITES)
def test_one_observation_of_what_was_written_is_enough(tmp_path, model):
    read = READS.get(model, ("read", "1"))
    results = judged(tmp_path, model, (*WRITES[model], "ok"), (*read, "ok"))
    assert (results.status, lacking(results)) == (Status.PASS, [])


@pytest.mark.parametrize("end", ["fail", "info"])
@pytest.mark.parametrize("model", WRITES)
def test_a_file_in_which_nearly_nothing_was_ok_is_under_exercised(tmp_path, model, end):
    read = (*READS.get(model, ("read", "1")), "ok")
    f, value = WRITES[model]
    down = [(f, value.replace("1", str(n)).replace("a", f"a{n}"), end) for n in range(100, 140)]
    if f == "txn":
        down = [(f, value.replace("1", str(n)), end) for n in range(100, 140)]
    results = judged(tmp_path, model, (*WRITES[model], "ok"), read, *down)
    assert results.status is Status.UNDER_EXERCISED
    assert "service-share" in lacking(results)


@pytest.mark.parametrize("floor", [Floor(ok=3), Floor(reads=2), Floor(keys=2)])
def test_more_may_be_asked_for(tmp_path, floor):
    history = (("write", "1", "ok"), ("read", "1", "ok"))
    assert judged(tmp_path, "register", *history).status is Status.PASS
    assert judged(tmp_path, "register", *history, floor=floor).status is Status.UNDER_EXERCISED


def test_a_read_of_nil_is_no_observation(tmp_path):
    results = judged(tmp_path, "register", ("write", "1", "ok"), ("read", "nil", "ok"))
    assert (results.status, lacking(results)) == (Status.UNDER_EXERCISED, ["observations"])

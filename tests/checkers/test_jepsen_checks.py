"""Sets as Jepsen's set-full judges them: right ones, wrong ones, crashes, and brute force."""

from dataclasses import replace
from random import Random

import pytest

from checkers import Status, check_by
from tests.checkers.histories import FAIL, INFO, OK, op
from tests.checkers.linearizability import oracle
from tests.command_line import kraftprobe

PASS, UNKNOWN, IDLE = Status.PASS, Status.UNKNOWN, Status.UNDER_EXERCISED


def judged(history, name, **options):
    """Status, kinds of anomalies, and what was counted."""
    result = check_by(history, name, options)
    kinds = {anomaly["kind"] for anomaly in result.anomalies}
    return result.status, kinds, result.statistics.get("counts", {})


def in_a_row(*rows):
    """Operations one after another; each row is (f, input, output[, type])."""
    history = []
    for i, (f, given, output, *kind) in enumerate(rows):
        end = None if kind == [INFO] else 10 * i + 5
        more = {"type": kind[0]} if kind else {}
        history.append(op(i, f, (10 * i, end), input=given, output=output, **more))
    return history


def add(value, *kind):
    return ("add", value, None, *kind)


def all_of(*elements):
    return ("read", None, list(elements))


def test_an_element_is_lost_when_later_reads_lack_it():
    status, kinds, counts = judged(in_a_row(add(1), all_of(1), all_of()), "set-full")
    assert (status, kinds, counts["lost"]) == (Status.FAIL, {"lost"}, 1)
    assert judged(in_a_row(add(1), all_of()), "set-full")[1] == {"lost"}
    result = check_by(in_a_row(add(1), all_of(1), all_of()), "set-full")
    (lost,) = result.anomalies
    window = {"known_ns": 5, "last_present": 1, "last_absent": 2, "latency_ns": 6}
    assert {name: lost[name] for name in window} == window


def test_an_element_that_is_seen_late_is_stale_and_only_wrong_if_the_set_is_linearizable():
    history = in_a_row(add(1), all_of(), all_of(1))
    result = check_by(history, "set-full")
    assert result.status is PASS
    assert [note["kind"] for note in result.allowed] == ["stale"]
    assert result.statistics["worst_stale"][0]["latency_ns"] == 6
    assert result.statistics["stable_latencies_ms"]["1"] == 6e-6
    assert judged(history, "set-full", linearizable=True)[1] == {"stale"}


def test_an_element_that_no_read_could_show_was_never_read():
    crashed = in_a_row(add(1), all_of(1), add(2, INFO), all_of(1), add(3))
    status, _, counts = judged(crashed, "set-full")
    assert (status, counts["stable"], counts["never_read"]) == (PASS, 1, 2)
    assert judged(in_a_row(add(1, INFO), all_of()), "set-full")[0] is IDLE


def test_what_nodes_lack_at_the_end_is_said_by_node():
    history = [op(0, "add", (0, 1), input=1), op(1, "add", (2, 3), input=2)]
    history += [op(2, "add", (8, 9), input=3)]  # after every read
    history += [
        replace(op(3 + number, "read", (4 + number, 7), output=shown), node=f"n{number + 1}")
        for number, shown in enumerate([[], [1, 2], [1]])
    ]
    result = check_by(history, "set-full", {"linearizable": True})
    assert result.anomalies[0]["kind"] == "missing-at-node"
    assert result.anomalies[0]["missing"] == {"n1": 2, "n2": 0, "n3": 1}
    said = "n1 lacks 2 acknowledged elements; n3 lacks 1; n2 none. The first: "
    assert said in result.summary
    assert check_by(history[:2], "set-full").statistics["missing_at"] == {}


def test_an_element_twice_in_a_read_is_duplicated():
    history = in_a_row(add(1), all_of(1, 1))
    assert judged(history, "set-full")[1] == {"duplicated"}
    [found] = check_by(history, "set-full").anomalies
    assert found["explanation"].endswith("shows 1 2 times, though it was added once (operation 0)")
    assert set(found["operations"]) == {0, history[1].index}, "what was added is in the proof"


def test_an_element_that_cannot_be_there_is_unexpected():
    for history in ([all_of(2)], [add(2, FAIL), all_of(2)], [all_of(2), add(2)]):
        assert judged(in_a_row(*history), "set-full")[1] == {"unexpected"}
    assert judged(in_a_row(add(1, FAIL), add(1), all_of(1)), "set-full")[0] is PASS


def jepsen_outcome(history, value):
    """The outcome of an element, from the definition: all reads compared with all."""
    reads = [o for o in history if o.f == "read" and o.type is OK]
    adds = [o.complete_ns for o in history if o.f == "add" and o.input == value and o.type is OK]
    known = min([*adds, *(r.complete_ns for r in reads if value in r.output)], default=None)
    late = [r for r in reads if known is not None and r.invoke_ns > known]
    present = [r.invoke_ns for r in reads if value in r.output]
    absent = [r.invoke_ns for r in reads if value not in r.output]
    if present and (not absent or max(absent) <= max(present)):
        return "stable", any(value not in r.output for r in late)
    lost = absent and any(r.invoke_ns == max(absent) for r in late)
    return ("lost" if lost else "never-read"), False


@pytest.mark.slow
def test_set_full_agrees_with_its_definition_and_with_linearizability():
    verdicts = set()
    for case in range(2_000):
        rnd = Random(f"set-{case}")
        history = []
        for index in range(rnd.randint(2, 6)):
            begin = rnd.randint(0, 12)
            end = begin + rnd.randint(0, 4)
            if rnd.random() < 0.5:
                kind = rnd.choice([OK, OK, INFO, FAIL])
                history.append(op(index, "add", (begin, end), input=index, type=kind))
            else:
                shown = [i for i in range(index) if rnd.random() < 0.6]
                history.append(op(index, "read", (begin, end), output=shown))
        history.sort(key=lambda o: (o.invoke_ns, o.index))
        adds = {o.input for o in history if o.f == "add"}
        outcomes = [jepsen_outcome(history, value) for value in adds]
        _, _, counts = judged(history, "set-full")
        assert counts["lost"] == sum(outcome == "lost" for outcome, _ in outcomes), case
        assert counts["never_read"] == sum(outcome == "never-read" for outcome, _ in outcomes)
        assert counts["stale"] == sum(is_stale for _, is_stale in outcomes), case
        status = judged(history, "set-full", linearizable=True)[0]
        right = oracle.is_linearizable([o for o in history if o.type is not FAIL], "set")
        assert (status is not Status.FAIL) == right, case
        verdicts.add(status)
    assert {PASS, Status.FAIL} <= verdicts


# -- files -----------------------------------------------------------------------------------------

SET = (
    '[{"process": 0, "type": "invoke", "f": "add", "value": 1},'
    ' {"process": 0, "type": "ok", "f": "add", "value": 1},'
    ' {"process": 0, "type": "invoke", "f": "read", "value": null},'
    ' {"process": 0, "type": "ok", "f": "read", "value": []},'
    ' {"process": 0, "type": "invoke", "f": "read", "value": null},'
    ' {"process": 0, "type": "ok", "f": "read", "value": [1]}]'
)


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        ([], 0),
        ([":linearizable?=true"], 1),
        (["exactly_twice=true"], 2),
        (["linearizable"], 2),
        (["linearizable=yes"], 2),
    ],
)
def test_files_of_others_are_judged_with_their_options(tmp_path, options, exit_code):
    path = tmp_path / "history.edn"
    path.write_text(SET)
    given = [part for option in options for part in ("--option", option)]
    result = kraftprobe("check", path, "--model", "set-full", *given)
    assert result.exit_code == exit_code, result.output
    if exit_code < 2:
        api = check_by(path, "set-full", {"linearizable": bool(options)})
        assert api.status is (PASS if exit_code == 0 else Status.FAIL)


def test_keys_of_their_own_are_judged_one_by_one(tmp_path):
    rows = []
    for key, first in ((1, "[]"), (2, "[7]")):
        rows += [(kind, "add", 7, key) for kind in ("invoke", "ok")]
        for shown in (first, "[7]"):
            rows += [("invoke", "read", "nil", key), ("ok", "read", shown, key)]
    path = tmp_path / "history.edn"
    path.write_text(
        "".join(
            f"{{:process 0, :type :{kind}, :f :{f}, "
            f":value #jepsen.independent/tuple [{key} {value}]}}\n"
            for kind, f, value, key in rows
        )
    )
    result = check_by(path, "set-full")
    assert (result.status, result.statistics["keys"]) == (PASS, 2)
    assert result.statistics["counts"]["stale"] == 1
    assert [note["key"] for note in result.allowed] == ["1"]
    assert check_by(path, "set-full", {"linearizable": True}).status is Status.FAIL


def test_an_element_that_flutters_is_what_the_reads_that_began_last_say():
    """As in Jepsen's own test: 1 comes back, 0 goes, in two reads at a time; a step is 1 ms."""

    def at(index, f, begin, end, **fields):
        return op(index, f, (begin * 10**6, end * 10**6), **fields)

    history = [
        at(0, "add", 0, 1, input=0),
        at(1, "add", 2, 5, input=1),
        at(2, "read", 3, 4, output=[1]),
        at(3, "read", 6, 9, output=[0]),
        at(4, "read", 7, 8, output=[1]),
    ]
    result = check_by(history, "set-full")
    assert result.status is Status.FAIL
    assert (result.statistics["lost"], result.statistics["stale"]) == (["0"], ["1"])
    assert result.statistics["worst_stale"][0]["known_ns"] == 4 * 10**6
    assert int(result.statistics["stable_latencies_ms"]["0.5"]) == 2
    assert int(result.statistics["lost_latencies_ms"]["0.5"]) == 5

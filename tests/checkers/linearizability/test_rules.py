"""Near-linear rules against brute force and the search, and the offsets of servers against both."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkers import Status, check
from checkers.history import INFINITY_NS
from porcupine_py.models import Counter as CounterModel
from porcupine_py.models import Model, model_named, relevant
from porcupine_py.search import certificate, wgl
from porcupine_py.search.outcome import Budget
from porcupine_py.search.rules import OFFSETS, RULES
from porcupine_py.search.rules.log import LogColumns, judge_columns
from tests.checkers import histories
from tests.checkers.histories import op, random_history
from tests.checkers.invariants.more_worlds import RULED, SEARCHED, paired_history
from tests.checkers.linearizability.oracle import is_linearizable
from tests.night import drawn

histories.WORLDS.update({f"unique {name}": world for name, world in RULED.items()})
histories.WORLDS.update({f"any {name}": world for name, world in SEARCHED.items()})


def draw(rnd, kind):
    """Operations of a world, or of values with random intervals."""
    if kind == "unique queue" and rnd.random() < 0.5:
        return paired_history(rnd)
    operations, right = random_history(rnd, kind, size_max=rnd.randint(1, 7))
    assert not right or is_linearizable(operations, model_of(kind)), "generator and oracle differ"
    return operations


def model_of(kind):
    return kind.split()[1].removeprefix("idle-").removeprefix("decremented-")


def judged(rnd, kind):
    """Judge by the model's rules; each verdict is true and proved. Returns the first one's kind."""
    operations = draw(rnd, kind)
    name = model_of(kind)
    truth = is_linearizable(operations, name)
    model = model_named(name).prepare(operations)
    kept = relevant(operations, model)
    outcomes = [RULES[type(model)].judge(kept, model)] if type(model) in RULES else []
    for outcome in [*outcomes, wgl.search(kept, model, Budget())]:
        if outcome is not None:
            prove(outcome, operations, model, truth)
    found = next((o for o in outcomes if o is not None), None)
    return found and (found.kind if found.status is Status.FAIL else "PASS")


def prove(outcome, operations, model, truth):
    assert (outcome.status is Status.PASS) == truth, (outcome, operations)
    assert outcome.status in (Status.PASS, Status.FAIL)
    if truth:
        certificate.verify_order(operations, model, outcome.linearization)
    else:
        certificate.verify_window(operations, model, outcome.window)


@pytest.mark.slow
@drawn(400, 10_000)
@pytest.mark.parametrize("kind", [f"unique {name}" for name in RULED])
def test_a_rule_agrees_with_brute_force(kind, cases):
    seen = Counter(judged(Random(f"{kind}-{case}"), kind) for case in cases)
    assert seen["PASS"] > len(cases) / 3
    assert seen["PASS"] + seen[None] < len(cases) * 0.95
    if kind == "unique queue":
        assert {"out-of-order", "not-empty", "phantom", "repeated"} <= set(seen)
    else:
        assert seen[None] == 0, "the rule applies to every history of this world"


@drawn(100, 5_000)
@pytest.mark.parametrize("kind", [f"any {name}" for name in SEARCHED])
def test_repeated_values_make_no_rule_wrong(kind, cases):
    seen = Counter(judged(Random(f"{kind}-{case}"), kind) for case in cases)
    assert kind == "any idle-counter" or seen[None] > 0


@drawn(200, 5_000)
@pytest.mark.parametrize("kind", ["register", "cas-register", "kv", "set"])
def test_offsets_pass_only_what_is_right_and_most_of_it(kind, cases):
    passed = right = 0
    for case in cases:
        rnd = Random(f"offsets-{kind}-{case}")
        operations, _ = random_history(rnd, kind, size_max=rnd.randint(1, 7))
        model = model_named(kind).prepare(operations)
        kept = relevant(operations, model)
        truth = wgl.search(kept, model, Budget())
        places = {index: place for place, index in enumerate(truth.linearization)}
        if rnd.random() < 0.2:  # a server that returns nonsense
            places = {index: rnd.randint(0, 9) for index in places}
        returned = [replace(o, offset=places.get(o.index)) for o in operations]
        outcome = OFFSETS.judge(relevant(returned, model), model)
        if outcome is not None:
            prove(outcome, operations, model, True)
            assert truth.status is Status.PASS
        passed += outcome is not None
        right += truth.status is Status.PASS and any(model.has_effect(o) for o in kept)
    assert passed > 0.6 * right


def test_offsets_may_be_wrong_and_then_nothing_is_claimed():
    first = op(0, "write", (0, 1), input=1, output=1, offset=7)
    second = op(1, "write", (2, 3), input=2, output=2, offset=3)
    read = op(2, "read", (4, 5), output=2)
    model = model_named("register")
    assert OFFSETS.judge([first, second, read], model) is None
    assert check([first, second, read], "register").status is Status.PASS


def test_a_window_of_a_set_holds_the_elements_that_matter_only():
    adds = [op(i, "add", (i, i), input=i) for i in range(500)]
    reads = [op(1000, "read", (600, 601), output=list(range(499)))]
    result = check([*adds, *reads], "set")
    assert (result.status, result.algorithm) == (Status.FAIL, "inclusion")
    assert result.anomalies[0]["kind"] == "lost"
    assert result.certificate["window"] == [499, 1000]


def test_a_window_of_a_counter_begins_late():
    adds = [op(i, "add", (i, i), input=1) for i in range(500)]
    reads = [op(1000 + i, "read", (i, i + 1), output=i + 1) for i in range(450)]
    wrong = [op(2000, "read", (480, 481), output=478)]
    result = check([*adds, *reads, *wrong], "counter")
    assert (result.status, result.algorithm) == (Status.FAIL, "counting")
    assert len(result.certificate["window"]) <= 3


def test_an_amount_of_a_counter_must_be_a_number():
    with pytest.raises(ValueError, match="cannot add"):
        check([op(0, "add", (0, 1), input=1.5)], CounterModel())


def columns(count, readers=1):
    """A long log with one reader of everything."""
    times = np.arange(count, dtype=np.int64) * 10
    zeros = np.zeros(readers, dtype=np.int64)
    return LogColumns(
        offset=np.arange(count, dtype=np.int64),
        append_invoke=times,
        append_complete=times + 25,
        read_from=zeros,
        read_invoke=zeros + times[-1] + 30,
        read_complete=zeros + times[-1] + 40,
        read_all=np.ones(readers, dtype=np.bool_),
        first_record=np.arange(readers + 1, dtype=np.int64) * count,
        shown_offset=np.tile(np.arange(count, dtype=np.int64), readers),
        shown_value=np.tile(np.arange(count, dtype=np.int64), readers),
    )


def test_a_long_log_is_judged_as_columns():
    good = judge_columns(columns(100_000))
    assert good.kind is None
    assert len(good.order) == 100_001


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("lost-record", lambda c: shorten(c, 50)),
        ("moved", lambda c: replace(c, shown_value=swap(c.shown_value, 7, 8))),
        ("duplicate-offset", lambda c: replace(c, offset=put(c.offset, 9, 8), **shown(c, 0))),
        ("reordered-read", lambda c: replace(c, shown_offset=swap(c.shown_offset, 7, 8))),
        ("real-time", lambda c: replace(c, offset=swap(c.offset, 7, 90), **shown(c, 0))),
        ("phantom", lambda c: replace(c, shown_value=put(c.shown_value, 3, -1))),
    ],
)
def test_each_fault_of_a_log_has_its_name(kind, change):
    assert judge_columns(change(columns(100))).kind == kind


def test_an_append_without_an_offset_leaves_the_rule_without_verdict():
    records = columns(10)
    unplaced = replace(records, offset=put(records.offset, 4, -1), **shown(records, 0))
    assert judge_columns(unplaced) is None
    lost = replace(unplaced, append_complete=put(records.append_complete, 4, INFINITY_NS))
    assert judge_columns(lost).kind is None


def put(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


def swap(array, left, right):
    return put(put(array, left, array[right]), right, array[left])


def shown(records, count):
    """A reader that gets the first records only, and does not claim that these are all."""
    return {
        "shown_offset": records.shown_offset[:count],
        "shown_value": records.shown_value[:count],
        "first_record": np.array([0, count], dtype=np.int64),
        "read_all": np.zeros(1, dtype=np.bool_),
    }


def shorten(records, place):
    return replace(
        records,
        shown_offset=np.delete(records.shown_offset, place),
        shown_value=np.delete(records.shown_value, place),
        first_record=records.first_record - np.array([0, 1]),
    )


@pytest.mark.parametrize("kind", [f"unique {name}" for name in RULED] + ["any queue"])
def test_replaying_an_order_agrees_with_its_single_steps(kind):
    refused = 0
    for case in range(500):
        rnd = Random(f"replay-{kind}-{case}")
        operations = draw(rnd, kind)
        model = model_named(model_of(kind)).prepare(operations)
        order = relevant(operations, model)
        if rnd.random() < 0.5:
            rnd.shuffle(order)
        stepped = Model.replay(model, order)
        assert model.replay(order) is stepped
        refused += stepped is not None
    assert 10 < refused < 490

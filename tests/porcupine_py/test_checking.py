"""Verdicts on small histories, in both forms, and what bounds and bad models do."""

from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

import pytest

from porcupine_py import (
    PENDING,
    CheckResult,
    Event,
    EventKind,
    HistoryError,
    LimitExceededError,
    Model,
    ModelError,
    NondeterministicModel,
    Operation,
    check_events,
    check_events_timeout,
    check_operations,
    check_operations_timeout,
    check_operations_verbose,
    partition_by,
    partition_event_by,
)
from tests.porcupine_py.models import (
    KEY_VALUE,
    READ,
    REGISTER,
    REGISTER_READS,
    read,
    register_step,
    write,
)

CALL, RETURN = EventKind.CALL, EventKind.RETURN


def test_an_empty_history_is_linearizable():
    assert check_operations(REGISTER, [])
    assert check_events(REGISTER, [])


def test_times_are_any_numbers():
    history = [write(1, -1e300, -5), read(1, 2**63 - 1, float("inf"))]
    assert check_operations(REGISTER, history)
    assert not check_operations(REGISTER, [*history[:1], read(0, 2**63 - 1, 10**30)])


def test_alike_pending_operations_each_happen_once():
    adds = [Operation(i, 1, 0, PENDING, None) for i in range(3)]
    counter = Model(
        init=lambda: 0, step=lambda n, add, output: (True, n + add) if add else (output == n, n)
    )
    assert check_operations(counter, [*adds, Operation(9, 0, 1, 3, 2)])
    assert not check_operations(counter, [*adds, Operation(9, 0, 1, 4, 2)])


def test_inputs_that_are_only_equal_are_not_taken_for_alike():
    """1 equals True, but a model may tell them apart."""
    texts = Model(
        init=str,
        step=lambda s, given, output: (True, f"{given}") if given != 0 else (output == s, s),
    )
    pending = [Operation(0, 1, 0, PENDING, None), Operation(1, True, 0, PENDING, None)]
    for shown in ("1", "True"):
        assert check_operations(texts, [*pending, Operation(2, 0, 1, shown, 2)])


def test_events_are_ordered_by_their_places():
    events = [
        Event(0, CALL, 1, "w"),
        Event(1, CALL, READ, "r"),
        Event(1, RETURN, 0, "r"),
        Event(0, RETURN, None, "w"),
    ]
    assert check_events(REGISTER, events)
    events = [events[0], events[3], events[1], events[2]]
    assert not check_events(REGISTER, events)
    assert check_events_timeout(REGISTER, events, 5) is CheckResult.ILLEGAL


def test_a_call_without_return_is_pending():
    late = [Event(1, CALL, READ, 1), Event(1, RETURN, 7, 1)]
    assert check_events(REGISTER, [Event(0, CALL, 7, 0), *late])
    assert not check_events(REGISTER, [*late, Event(0, CALL, 7, 0)])


def kv(f, key, value, output, call, return_):
    return Operation(0, (f, key, value), call, ("ok", output), return_)


def test_keys_are_judged_one_by_one():
    history = [
        kv("put", "x", "a", None, 0, 1),
        kv("append", "y", "b", None, 2, 3),
        kv("get", "x", None, "a", 4, 5),
        kv("get", "y", None, "b", 4, 5),
    ]
    result, info = check_operations_verbose(KEY_VALUE, history)
    assert result is CheckResult.OK
    assert info.partial_linearizations() == [[[0, 1]], [[0, 1]]]
    assert info.parts[1].operations == (history[1], history[3])
    assert not check_operations(KEY_VALUE, [*history, kv("get", "y", None, "a", 6, 7)])


def test_a_wrong_part_is_found_beside_one_that_never_ends():
    def step(state, given, output):
        key, value = given
        return (True, (*state, value)) if key == "hard" else (output == state, state)

    def history(size):
        hard = [Operation(i, ("hard", i), 0, None, 10) for i in range(size)]
        hard.append(Operation(99, ("hard-read", 0), 20, None, 21))
        wrong = [Operation(0, ("wrong", 0), 30 + i, "no", 31 + i) for i in range(0, 60, 2)]
        return hard + wrong

    model = Model(init=tuple, step=step, partition=partition_by(lambda given: given[0][:4]))
    assert not check_operations(model, history(12))


def permutations_forever():
    """Every order of the writes is another state, and none is the one that is read."""
    model = Model(
        init=tuple,
        step=lambda s, given, output: (output == s, s) if given is READ else (True, (*s, given)),
    )
    return model, [*(write(i, 0, 1, i) for i in range(40)), read("none", 2, 3)]


def test_a_bound_in_memory_is_met():
    model, history = permutations_forever()
    unknown = check_operations_timeout(model, history, 0, memory_limit_mb=2)
    assert unknown is CheckResult.UNKNOWN
    with pytest.raises(LimitExceededError, match="the bound of 2 MB was met"):
        check_operations(model, history, memory_limit_mb=2)


def test_the_clock_is_looked_at_before_each_step(monkeypatch):
    """Steps of a second each: what begins after the bound is not begun."""
    now_s = 100.0

    def slow(state, value, output):
        nonlocal now_s
        now_s += 1
        return register_step(state, value, output)

    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr("porcupine_py.checking.time", clock)
    model = Model(init=lambda: 0, step=slow)
    history = [write(i, i, i) for i in range(9)]
    result, info = check_operations_verbose(model, history, timeout_s=3.5)
    assert (result, info.limit, now_s) == (CheckResult.UNKNOWN, "the bound of 3.5 s was met", 104)
    assert info.partial_linearizations() == [[[0, 1, 2, 3]]]
    assert check_operations_timeout(model, history, 0) is CheckResult.OK


@pytest.mark.parametrize(("timeout_s", "memory_limit_mb"), [(-1, 1), (1, 0), (float("nan"), 1)])
def test_senseless_bounds_are_refused(timeout_s, memory_limit_mb):
    with pytest.raises(ValueError, match="timeout_s must be 0 or above"):
        check_operations_timeout(REGISTER, [], timeout_s, memory_limit_mb=memory_limit_mb)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([write(1, 5, 4)], "operation 0 returns at 4, before its call 5"),
        ([write(1, float("nan"), 4)], "operation 0: nan is not a time"),
        ([write(1, 0, 1), write(1, 0, "1")], "operation 1: '1' is not a time"),
        (["write"], "operation 0 is a str, not an Operation"),
    ],
)
def test_a_history_of_operations_that_is_not_well_formed_is_refused(history, message):
    with pytest.raises(HistoryError, match=message):
        check_operations(REGISTER, history)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Event(0, RETURN, 1, 3)], "event 0: id 3 returns without a call"),
        ([Event(0, CALL, 1, 3)] * 2, "event 1: id 3 is called a second time"),
        (
            [Event(0, CALL, 1, 3), Event(0, RETURN, 1, 3), Event(0, RETURN, 1, 3)],
            "event 2: id 3 returns a second time",
        ),
        (
            [Event(0, CALL, 1, 3), Event(4, RETURN, 1, 3)],
            "event 1: id 3 was called by client 0 and returns to client 4",
        ),
        (["call"], "event 0 is a str, not an Event"),
    ],
)
def test_a_history_of_events_that_is_not_well_formed_is_refused(events, message):
    with pytest.raises(HistoryError, match=message):
        check_events(REGISTER, events)


def test_a_partition_that_loses_an_operation_is_refused():
    losing = Model(init=lambda: 0, step=register_step, partition=lambda history: [history[1:]])
    with pytest.raises(HistoryError, match="leaves out 1 and adds 0 of 2 operations"):
        check_operations(losing, [write(1, 0, 1), read(1, 2, 3)])
    events = Model(
        init=lambda: 0, step=register_step, partition_event=lambda history: [history, history]
    )
    with pytest.raises(HistoryError, match="leaves out 0 and adds 1 of 1 events"):
        check_events(events, [Event(0, CALL, 1, 0)])
    swapping = Model(
        init=lambda: 0, step=register_step, partition=lambda history: [history[:1], history[:1]]
    )
    with pytest.raises(HistoryError, match="leaves out 1 and adds 1 of 2 operations"):
        check_operations(swapping, [write(1, 0, 1), read(2, 2, 3)])
    with pytest.raises(HistoryError, match="id 3 returns without a call"):
        partition_event_by(str)([Event(0, RETURN, 1, 3)])


def test_states_may_be_lists_and_dicts():
    def step(state, given, output):
        return (output == state, state) if given is READ else (True, {**state, given: [given]})

    model = Model(init=dict, step=step)
    history = [write(1, 0, 9), write(2, 0, 9), read({2: [2], 1: [1]}, 10, 11)]
    assert check_operations(model, history)
    assert not check_operations(model, [*history, read({1: [1]}, 12, 13)])


def test_states_may_be_dataclasses_and_are_searched_once_each():
    steps = []

    def step(state, given, output):
        steps.append(given)
        if given is READ:
            return output == state.lines, state
        return True, Log(sorted([*state.lines, given]))

    history = [*(write(i, 0, 1, i) for i in range(7)), read("none", 2, 3)]
    assert not check_operations(Model(init=Log, step=step), history)
    assert len(steps) < 7 * 2**7 + 2**7  # the subsets of seven writes, not their orders


def test_equal_and_hash_decide_which_states_are_the_same():
    steps = []

    def step(state, given, output):
        steps.append(state)
        return (output == len(state), state) if given is READ else (True, [*state, given])

    history = [*(write(i, 0, 1, i) for i in range(6)), read(7, 2, 3)]
    size = Model(init=list, step=step, equal=lambda a, b: len(a) == len(b))
    assert not check_operations(size, history)
    few = len(steps)
    hashed = Model(init=list, step=step, equal=lambda a, b: len(a) == len(b), hash=len)
    assert not check_operations(hashed, history)
    assert len(steps) == 2 * few
    assert not check_operations(Model(init=list, step=step), history)
    assert len(steps) - 2 * few > 10 * few


@dataclass
class Log:
    lines: list = field(default_factory=list)
    name: str = "log"

    def append(self, line):
        self.lines.append(line)


class Plain:
    def __init__(self):
        self.lines = []

    def append(self, line):
        self.lines.append(line)


class Equal(Plain):
    __hash__ = None

    def __eq__(self, other):
        return self.lines == other.lines


class Hashed(Equal):
    def __hash__(self):
        return hash(tuple(self.lines))


class Counting(list):
    size = 0

    def append(self, line):
        self.size += line


@dataclass(frozen=True)
class Frozen:
    held: Equal = field(default_factory=Equal)

    def append(self, line):
        self.held.append(line)


class Slots:
    __slots__ = ("__lines",)

    def __init__(self):
        self.__lines = ()

    def append(self, line):
        self.__lines += (line,)


@pytest.mark.parametrize(
    "init",
    [
        *(list, deque, dict, set, Log, lambda: [[]], Plain, Equal, Hashed, Frozen, Slots, Counting),
        lambda: array("q"),
        lambda: OrderedDict.fromkeys((1, 2)),
    ],
)
def test_a_step_that_changes_its_state_is_refused(init):
    def step(state, given, output):
        if isinstance(state, OrderedDict):
            state.move_to_end(given)
        elif isinstance(state, dict):
            state[given] = given
        elif isinstance(state, set):
            state.add(given)
        elif isinstance(state, list) and state:
            state[0].append(given)
        else:
            state.append(given)
        return True, state

    with pytest.raises(ModelError, match="step changed the state"):
        check_operations(Model(init=init, step=step), [write(1, 0, 1)])


def test_a_state_that_keeps_what_it_has_worked_out_is_not_changed_by_it():
    class State(Plain):
        @cached_property
        def size(self):
            return len(self.lines)

    def step(state, given, output):
        after = State()
        after.lines = [*state.lines, given]
        return state.size == given, after

    assert check_operations(Model(init=State, step=step), [write(0, 0, 1), write(1, 2, 3)])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NondeterministicModel(init=list, step=lambda s, i, o: [s]), "init lists no state"),
        (NondeterministicModel(init=lambda: [0], step=lambda s, i, o: None), "step returned None"),
    ],
)
def test_a_model_that_lists_no_states_is_refused(model, message):
    with pytest.raises(ModelError, match=message):
        check_operations(model.to_model(), [write(1, 0, 1)])


def test_a_step_that_returns_no_pair_is_refused():
    with pytest.raises(ModelError, match=r"step returned True, not \(whether it is legal"):
        check_operations(Model(init=int, step=lambda s, i, o: True), [write(1, 0, 1)])


def test_a_step_with_a_memory_of_its_own_is_refused():
    calls = []

    def step(state, given, output):
        calls.append(given)
        return len(calls) < 3, state

    with pytest.raises(ModelError, match="no pure function"):
        check_operations(Model(init=int, step=step), [write(1, 0, 1), write(2, 2, 3)])


def test_a_read_that_changes_the_state_is_refused():
    model = Model(init=int, step=register_step, read_only=lambda given: True)
    with pytest.raises(ModelError, match="the model calls 5 read-only"):
        check_operations(model, [write(5, 0, 1)])


def test_read_only_operations_spare_the_search():
    history = [read(0, 0, 100, i) for i in range(12)] + [read(1, 101, 102)]
    assert not check_operations(REGISTER_READS, history)
    verdict, info = check_operations_verbose(REGISTER_READS, history)
    assert verdict is CheckResult.ILLEGAL
    assert len(info.parts[0].partials) == 1


def test_what_the_models_functions_raise_reaches_the_caller():
    def step(state, given, output):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        check_operations(Model(init=int, step=step), [write(1, 0, 1)])


LOSSY = NondeterministicModel(
    init=lambda: [0],
    step=lambda state, given, output: (
        ([state] if output == state else [])
        if given is READ
        else ([given] if output == "ok" else [state, given])
    ),
    describe_state=lambda state: f"<{state}>",
)
"""A register that answers "perhaps" to a write which it may have lost."""


def test_a_nondeterministic_model_has_sets_of_states():
    model = LOSSY.to_model()
    _, both = model.step((0,), 1, "perhaps")
    assert sorted(both) == [0, 1]
    assert model.equal((0, 1), (1, 0))
    assert model.hash((0, 1)) == model.hash((1, 0))
    assert not model.equal((0, 1), (0, 2))
    assert not model.equal((0,), (0, 1))
    assert model.state_text((0, 1)) == "{<0>, <1>}"
    twice = NondeterministicModel(init=lambda: [[0], [0]], step=LOSSY.step).to_model()
    assert twice.init() == ([0],)

"""Random small histories get the verdict of brute force, which shares no code with the search."""

from dataclasses import replace
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from porcupine_py import (
    PENDING,
    CheckResult,
    Event,
    EventKind,
    Model,
    NondeterministicModel,
    Operation,
    check_events,
    check_operations,
    check_operations_verbose,
    partition_by,
)
from tests.porcupine_py.models import REGISTER, REGISTER_READS

EXAMPLES = settings(max_examples=300)


def brute_force(model, history):
    """Try every order of every choice of the pending operations."""
    done = [o for o in history if o.return_ is not None]
    pending = [o for o in history if o.return_ is None]
    for chosen in range(1 << len(pending)):
        placed = done + [o for i, o in enumerate(pending) if chosen >> i & 1]
        if any(respects_time(order) and runs(model, order) for order in permutations(placed)):
            return True
    return False


def respects_time(order):
    return not any(
        later.return_ is not None and later.return_ < earlier.call
        for i, earlier in enumerate(order)
        for later in order[i + 1 :]
    )


def runs(model, order):
    state = model.init()
    for operation in order:
        output = PENDING if operation.return_ is None else operation.output
        legal, state = model.step(state, operation.input, output)
        if not legal:
            return False
    return True


def queue_step(state, given, output):
    """A queue whose states are lists; taking from an empty queue answers None."""
    if given != "take":
        return True, [*state, given]
    if output is PENDING:
        return bool(state), state[1:]
    return output == (state[0] if state else None), state[1:]


QUEUE = Model(init=list, step=queue_step)


def bag_steps(state, given, output):
    """A bag: what is taken is any of what is there."""
    if given != "take":
        return [tuple(sorted((*state, given)))]
    kept = [(item, state[:i] + state[i + 1 :]) for i, item in enumerate(state)]
    return [rest for item, rest in kept if output is PENDING or item == output]


BAG = NondeterministicModel(init=lambda: [()], step=bag_steps).to_model()


@st.composite
def histories(draw, operations):
    history = []
    for client in range(draw(st.integers(0, 5))):
        value, output = draw(operations)
        call = draw(st.integers(0, 6))
        return_ = None if draw(st.integers(0, 4)) == 0 else call + draw(st.integers(0, 4))
        history.append(Operation(client, value, call, output, return_))
    return history


VALUES = st.integers(1, 2)
REGISTER_OPERATIONS = st.one_of(
    st.tuples(VALUES, st.none()), st.tuples(st.none(), st.integers(0, 2))
)
QUEUE_OPERATIONS = st.one_of(
    st.tuples(VALUES, st.none()), st.tuples(st.just("take"), st.one_of(st.none(), VALUES))
)


@EXAMPLES
@given(histories(REGISTER_OPERATIONS))
def test_registers_get_the_verdict_of_brute_force(history):
    expected = brute_force(REGISTER, history)
    assert check_operations(REGISTER, history) is expected
    assert check_operations(REGISTER_READS, history) is expected


@EXAMPLES
@given(histories(QUEUE_OPERATIONS))
def test_queues_of_lists_get_the_verdict_of_brute_force(history):
    assert check_operations(QUEUE, history) is brute_force(QUEUE, history)


@EXAMPLES
@given(histories(QUEUE_OPERATIONS))
def test_nondeterministic_bags_get_the_verdict_of_brute_force(history):
    assert check_operations(BAG, history) is brute_force(BAG, history)


LAST = 100
UNKNOWN = "unknown"


def lenient_step(state, given, output):
    """As models for Porcupine are written: an unknown output fits any state."""
    if output == UNKNOWN:
        return True, state[1:] if given == "take" else [*state, given]
    return queue_step(state, given, output)


LENIENT = Model(init=list, step=lenient_step)


@EXAMPLES
@given(histories(QUEUE_OPERATIONS), st.data())
def test_what_returns_at_the_end_gets_the_verdict_of_brute_force(history, data):
    at_the_end = [
        replace(o, return_=LAST, output=data.draw(st.sampled_from([UNKNOWN, o.output])))
        if o.return_ is None or data.draw(st.booleans())
        else o
        for o in history
    ]
    expected = brute_force(LENIENT, at_the_end)
    assert check_operations(LENIENT, at_the_end) is expected
    assert check_events(LENIENT, events_of(at_the_end)) is expected


@given(histories(REGISTER_OPERATIONS), st.randoms(use_true_random=False))
def test_neither_the_order_of_a_history_nor_its_form_changes_the_verdict(history, random):
    expected = check_operations(REGISTER, history)
    shuffled = random.sample(history, len(history))
    assert check_operations(REGISTER, shuffled) is expected
    assert check_events(REGISTER, events_of(shuffled)) is expected


def events_of(history):
    """The events of a history; at one time calls come first, since intervals are closed."""
    places = []
    for name, operation in enumerate(history):
        call = Event(operation.client_id, EventKind.CALL, operation.input, name)
        places.append(((operation.call, 0), call))
        if operation.return_ is not None:
            end = Event(operation.client_id, EventKind.RETURN, operation.output, name)
            places.append(((operation.return_, 1), end))
    return [event for _, event in sorted(places, key=lambda place: place[0])]


KEYED_OPERATIONS = st.tuples(st.sampled_from("ab"), REGISTER_OPERATIONS).map(
    lambda drawn: ((drawn[0], drawn[1][0]), drawn[1][1])
)


@given(histories(KEYED_OPERATIONS))
def test_keys_judged_one_by_one_are_judged_as_if_together(history):
    def step(state, given, output):
        key, value = given
        legal, after = REGISTER.step(state.get(key, 0), value, output)
        return legal, {**state, key: after}

    together = Model(init=dict, step=step)
    apart = Model(init=dict, step=step, partition=partition_by(lambda given: given[0]))
    assert check_operations(apart, history) is check_operations(together, history)


@given(histories(REGISTER_OPERATIONS))
def test_every_partial_linearization_is_right_as_far_as_it_goes(history):
    result, info = check_operations_verbose(REGISTER, history)
    (part,) = info.parts
    orders = [[part.operations[i] for i in order] for order in part.partials]
    for order in orders:
        assert respects_time(order)
        assert runs(REGISTER, order)
        assert len(set(map(id, order))) == len(order)
    placed = {id(operation) for order in orders for operation in order}
    done = {id(operation) for operation in history if operation.return_ is not None}
    assert (result is CheckResult.OK) == (done <= placed and len(orders) <= 1)
